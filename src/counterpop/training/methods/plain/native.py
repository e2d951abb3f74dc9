"""BPR and BCE on inner products for the CPU: one kernel for the step and for the gradient, with the ledger."""

from __future__ import annotations

import numpy as np
from numba import njit

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.drawing import Triples
from counterpop.kernels.memory import aligned
from counterpop.kernels.prefetch import AHEAD, fetch_row, is_far
from counterpop.ledger import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE, Ledger
from counterpop.runs import Model
from counterpop.training.native import Objective, Recorded, Tables
from counterpop.training.settings import Settings


class ScoresObjective(Objective):
    """Plain training, the gradient method and IPS: a loss of two scores, with a ledger if one is kept."""

    def __init__(self, train: Interactions, settings: Settings, threads: int, weights: FloatArray) -> None:
        super().__init__(train, settings, threads)
        self._weights = weights
        rows = (train.n_users, train.n_items) if settings.keeps_ledger else (0, 0)
        self._ledger = Tables(*(aligned((n, 4, settings.dim)) for n in rows))

    def step(
        self, part: int, tables: Tables, triples: Triples, order: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        settings = self._settings
        rates = np.float32(lr), self._reg
        kind = self._bce, settings.normalises
        recorded: Recorded = walk(
            tables, into, triples, order, rates, kind, self._ledger, settings.ledger_every, self._weights
        )
        return recorded

    def model(self, tables: Tables, triples: int, recorded: int, copy: bool) -> Model:
        ledger = None
        if self._settings.keeps_ledger:
            users, items = (np.array(sums) if copy else sums for sums in self._ledger)
            ledger = Ledger(items, users, self._settings.ledger_every, triples, triples / max(1, recorded))
        return Model(self._embeddings(tables, copy), ledger, self._settings.method.dials)


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def slopes(P, A, B, bce, normalised, weight):
    """1/|P| (or 1), both scores, and how hard the loss pulls at the seen item and pushes at the negative.

    `weight` belongs to the seen item: it multiplies the whole loss with BPR, its own part of the loss with BCE.
    """
    one = np.float32(1.0)
    square, s_i, s_j = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for d in range(len(P)):
        square += P[d] * P[d]
        s_i += P[d] * A[d]
        s_j += P[d] * B[d]
    scale = one / np.sqrt(square + np.float32(1e-12)) if normalised else one
    s_i *= scale
    s_j *= scale
    if bce:
        return scale, s_i, s_j, weight / (one + np.exp(s_i)), one / (one + np.exp(-s_j))
    g = weight / (one + np.exp(s_i - s_j))
    return scale, s_i, s_j, g, g


@njit(nogil=True, cache=True)
def loss_of(s_i, s_j, bce, weight):
    """The loss of a triple without L2."""
    if bce:
        return weight * np.logaddexp(0.0, -s_i) + np.logaddexp(0.0, s_j)
    return weight * np.logaddexp(0.0, s_j - s_i)


# NumPy's error model: a diverging model must come back to be reported, not raise a division by zero in here
@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def walk(tables, into, triples, order, rates, kind, ledger, every, weights):
    """Steps along each triple in this order; returns the sum of the recorded losses and their number.

    Loss: -w log sg(s_i - s_j) (BPR) or -w log sg(s_i) - log(1 - sg(s_j)) (BCE), + reg/2 of the three squared rows.
    tables: users (U, D) and items (I, D), changed in place unless `into`, of the same shapes, takes the steps.
    rates: lr, reg. kind: bce, normalised. ledger: (U, 4, D) and (I, 4, D), or no rows; one triple in `every` is
    recorded. weights (I,): of the loss, by the seen item; empty if all are 1.
    """
    dim = tables.users.shape[1]
    one = np.float32(1.0)
    (lr, reg), (bce, normalised) = rates, kind
    loss, recorded = 0.0, 0
    far = is_far(tables.items)
    for m in range(len(order)):
        if far and m + AHEAD < len(order):
            ahead = order[m + AHEAD]
            fetch_row(tables.items, triples.items[ahead])
            fetch_row(tables.items, triples.negatives[ahead])
        at = order[m]
        place = m
        u, i, j = triples.users[at], triples.items[at], triples.negatives[at]
        P, A, B = tables.users[u], tables.items[i], tables.items[j]
        if into is not None:  # known when this is compiled, here and below
            G, H, K = into.users[u], into.items[i], into.items[j]
            place = at  # its place in the epoch: batches and blocks may be short
        weight = weights[i] if len(weights) else one
        scale, s_i, s_j, g_i, g_j = slopes(P, A, B, bce, normalised, weight)
        if place % every == 0:
            recorded += 1
            loss += loss_of(s_i, s_j, bce, weight)
            if len(ledger.items):
                record(ledger.users[u], ledger.items[i], ledger.items[j], P, A, B, scale, g_i, g_j)
        # through the normalisation: (v - (v.p) p) / |P| with v = g_i Q_i - g_j Q_j
        fall = -lr * reg
        back = fall
        if normalised:
            back -= lr * (g_i * s_i - g_j * s_j) * scale * scale
        step_i = lr * g_i * scale
        step_j = lr * g_j * scale
        for d in range(dim):
            p, a, b = P[d], A[d], B[d]
            to_p, to_a, to_b = back * p + step_i * a - step_j * b, fall * a + step_i * p, fall * b - step_j * p
            if into is None:
                P[d], A[d], B[d] = p + to_p, a + to_a, b + to_b
            else:
                G[d] += to_p
                H[d] += to_a
                K[d] += to_b
    return loss, recorded


@njit(nogil=True, cache=True, fastmath=True)
def record(at_u, at_i, at_j, P, A, B, scale, g_i, g_j):
    """Adds one triple to the ledger rows (4, D) of its user and its two items."""
    for d in range(len(P)):
        p = scale * P[d]
        at_i[PULL, d] += p
        at_i[PULL_SLOPE, d] += g_i * p
        at_j[PUSH, d] += p
        at_j[PUSH_SLOPE, d] += g_j * p
        at_u[PULL, d] += A[d]
        at_u[PULL_SLOPE, d] += g_i * A[d]
        at_u[PUSH, d] += B[d]
        at_u[PUSH_SLOPE, d] += g_j * B[d]
