"""DICE for the CPU: each vector is an interest half and a conformity half."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.drawing import Triples
from counterpop.kernels.threads import without_blas_threads
from counterpop.training.methods.dice import CORRELATIONS, DCOR_ROWS, DICE
from counterpop.training.native import Objective, Recorded, Tables
from counterpop.training.settings import Settings

NONE, L1, L2 = 0, 1, 2  # distance of the two halves


class DICEObjective(Objective):
    """Weight and margin shrink with the epochs; the distance correlation is taken when no thread is running."""

    def __init__(self, train: Interactions, settings: Settings, threads: int, method: DICE) -> None:
        super().__init__(train, settings, threads)
        self._method, self._counts = method, train.item_counts
        self._distance = {"l1": L1, "l2": L2, "dcor": NONE}[method.discrepancy], np.float32(method.penalty)
        self.meetings = CORRELATIONS if method.correlates else 1
        self._generator = settings.generator("method")
        self._known = [np.flatnonzero(counts) for counts in (train.user_counts, train.item_counts)]
        self.begin_epoch(0)

    def begin_epoch(self, epoch: int) -> None:
        self._weight = np.float32(self._method.weight_in(epoch))

    def step(
        self, part: int, tables: Tables, triples: Triples, order: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        rates = np.float32(lr), self._reg, self._weight
        every = self._settings.ledger_every
        recorded: Recorded = walk(tables, into, triples, order, rates, self._counts, *self._distance, every)
        return recorded

    def after_steps(self, tables: Tables, triples: float, lr: float) -> None:
        for table, rows, slope in self._correlation(tables, tables):
            table[rows] -= np.float32(lr * self._method.penalty * triples) * slope

    def after_gradient(self, tables: Tables, gradient: Tables, triples: float, lr: float, step: int) -> None:
        for table, rows, slope in self._correlation(tables, gradient):
            table[rows] += np.float32(self._method.penalty * triples) * slope

    def _correlation(self, tables: Tables, into: Tables) -> Iterator[tuple[FloatArray, NDArray[np.intp], FloatArray]]:
        """For users and items: the table to change, random rows of it, and the slope of their distance correlation."""
        if not self._method.correlates:
            return
        for table, target, known in zip(tables, into, self._known, strict=True):
            rows = np.sort(self._generator.choice(known, min(DCOR_ROWS, len(known)), replace=False))
            x, y = np.split(table[rows], 2, axis=1)
            with without_blas_threads():
                slope = np.concatenate(distance_correlation(x, y)[1:], axis=1)
            yield target, rows, slope


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def slopes(P, A, B, more, weight):
    """The score differences x and y of the two halves, and how hard the loss pulls at both: -dL/dx, -dL/dy."""
    one, half = np.float32(1.0), len(P) // 2
    x, y = np.float32(0.0), np.float32(0.0)
    for d in range(half):
        x += P[d] * (A[d] - B[d])
        y += P[d + half] * (A[d + half] - B[d + half])
    click = one / (one + np.exp(x + y))
    if more:
        return x, y, click + weight / (one + np.exp(x)), click - weight / (one + np.exp(-y))
    return x, y, click, click + weight / (one + np.exp(y))


@njit(nogil=True, cache=True)
def loss_of(x, y, more, weight):
    """The loss of a triple without L2 and without its distances."""
    click = np.logaddexp(0.0, -x - y)
    if more:
        return click + weight * (np.logaddexp(0.0, -x) + np.logaddexp(0.0, y))
    return click + weight * np.logaddexp(0.0, -y)


@njit(nogil=True, cache=True, fastmath=True, inline="always")
def away(difference, kind, push):
    """The slope of push x distance along the first half; along the second it is the opposite."""
    if kind == L1:
        return push if difference > np.float32(0.0) else -push
    if kind == L2:
        return np.float32(2.0) * push * difference
    return np.float32(0.0)


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def walk(tables, into, triples, order, rates, counts, kind, push, every):
    """Steps along each triple, as in `plain.native.walk`.

    Loss, x and y the score differences s_i - s_j of the interest and the conformity halves: -log sg(x + y) + weight x
    [-log sg(x) - log sg(-y) if j is the more popular, else -log sg(y)] - push x the distance of the halves of each of
    the three rows (mean |difference|, or mean square) + reg/2 of the squared rows. rates: lr, reg, weight.
    """
    half = tables.users.shape[1] // 2
    lr, reg, weight = rates
    fall = -lr * reg
    push = lr * push / np.float32(half)
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = triples.users[order[m]], triples.items[order[m]], triples.negatives[order[m]]
        P, A, B = tables.users[u], tables.items[i], tables.items[j]
        if into is not None:
            G, H, K = into.users[u], into.items[i], into.items[j]
        more = counts[j] > counts[i]
        x, y, g_x, g_y = slopes(P, A, B, more, weight)
        if m % every == 0:
            recorded += 1
            loss += loss_of(x, y, more, weight)
        g_x, g_y = lr * g_x, lr * g_y
        for d in range(half):
            p, a, b = P[d], A[d], B[d]
            q, c, e = P[d + half], A[d + half], B[d + half]
            from_p, from_a, from_b = away(p - q, kind, push), away(a - c, kind, push), away(b - e, kind, push)
            to_p, to_q = fall * p + g_x * (a - b) + from_p, fall * q + g_y * (c - e) - from_p
            to_a, to_c = fall * a + g_x * p + from_a, fall * c + g_y * q - from_a
            to_b, to_e = fall * b - g_x * p + from_b, fall * e - g_y * q - from_b
            if into is None:
                P[d], A[d], B[d] = p + to_p, a + to_a, b + to_b
                P[d + half], A[d + half], B[d + half] = q + to_q, c + to_c, e + to_e
            else:
                G[d] += to_p
                H[d] += to_a
                K[d] += to_b
                G[d + half] += to_q
                H[d + half] += to_c
                K[d + half] += to_e
    return loss, recorded


def distance_correlation(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """The distance correlation of paired rows x (N, D) and y (N, E), from 0 to 1, and its slopes along both.

    dcor = sqrt(V_xy) / (V_xx V_yy)^(1/4), with V the mean product of the two doubly centred matrices of
    distances. Memory: eight N x N matrices.
    Source: Szekely, Rizzo and Bakirov, Measuring and testing dependence by correlation of distances, 2007.

    >>> x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    >>> round(distance_correlation(x, 2 * x)[0], 4)
    1.0
    """
    (a, A), (b, B) = _distances(x), _distances(y)
    v_xy, v_xx, v_yy = (max(float(np.mean(product)), 1e-12) for product in (A * B, A * A, B * B))
    value = (v_xy**2 / (v_xx * v_yy)) ** 0.25
    scale = 0.5 * value / len(x) ** 2
    slopes = [
        _along(rows, distances, scale * (other / v_xy - own / v))
        for rows, distances, own, other, v in ((x, a, A, B, v_xx), (y, b, B, A, v_yy))
    ]
    return value, slopes[0], slopes[1]


def _distances(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(N, N) distances, and the same doubly centred."""
    squares = (rows * rows).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0))
    np.fill_diagonal(distances, 0)
    means = distances.mean(axis=1)
    return distances, distances - means[:, None] - means + means.mean()


def _along(rows: FloatArray, distances: FloatArray, slope: FloatArray) -> FloatArray:
    """The slope along the rows from that along their distances: d|x - y| / dx = (x - y) / |x - y|."""
    pull = np.divide(slope, distances, out=np.zeros_like(slope), where=distances > 0)
    slopes: FloatArray = (2 * (pull.sum(axis=1)[:, None] * rows - pull @ rows)).astype(np.float32)
    return slopes
