"""The softmax loss for the CPU: BLAS for the products of a batch, and one kernel for everything between them.

The columns of a batch are its distinct negatives: an item that was drawn three times is one column that counts three
times, so that repeated items cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.exponent import exp32
from counterpop.kernels.threads import stretches
from counterpop.ledger import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE
from counterpop.training.methods.plain.native import ScoresObjective
from counterpop.training.methods.plain.softmax import log_weights
from counterpop.training.native import Recorded, Tables, Together
from counterpop.training.settings import Settings

CHUNK = 256  # rows of a batch at a time: their scores stay in the cache


class Columns(NamedTuple):
    """The distinct items of a batch: C negatives, then the seen items that are not among them."""

    items: IntArray  # (K,)
    draws: FloatArray  # (C,) how often each negative was drawn
    named: FloatArray  # (K,) how often the batch names the item, for L2
    own: IntArray  # (B,) the place of each pair's seen item


class Rows(NamedTuple):
    """Some rows of a table: unit vectors and their lengths, or the vectors as they are and 1."""

    vectors: FloatArray  # (N, D)
    lengths: FloatArray  # (N,)


class Share(NamedTuple):
    """What one thread found for its R rows of a batch."""

    users: Rows
    to_users: FloatArray  # (R, D) the gradient at their vectors
    to_items: FloatArray  # (K, D)
    losses: FloatArray  # (R,)
    pulls: FloatArray  # (R,) the slope of each loss by the score of its seen item
    pushes: FloatArray  # (., C) the slopes by the scores of the negatives, of the rows that the ledger records


class SoftmaxObjective(ScoresObjective):
    """Steps along whole batches."""

    by_batch = True
    scratch = ("_space",)

    def __init__(self, train: Interactions, settings: Settings, threads: int, weights: FloatArray) -> None:
        super().__init__(train, settings, threads, weights)
        self._as_positive, self._as_negative = log_weights(train, settings)
        self._column_of = np.full(train.n_items, -1, np.int32)
        self._space = [np.empty(0, np.float32) for _ in range(threads)]
        self._place = 0  # in the epoch
        assert settings.temperature is not None
        self._scale = np.float32(1 / settings.temperature)

    def begin_epoch(self, epoch: int) -> None:
        self._place = 0

    def step_batch(
        self, together: Together, tables: Tables, batch: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        users, seen, drawn = batch
        shared = self._settings.shared_negatives
        columns = self._columns(seen, drawn[:shared] if shared else seen, 1 if shared else 0)
        Q = gather(tables.items, columns.items, self._settings.normalises)
        cuts = [slice(*cut) for cut in stretches(len(users), self._threads)]
        shares = together(lambda part: self._share(part, cuts[part], tables.users, users, columns, Q))
        self._column_of[columns.items] = -1
        recorded = self._record(users, columns, Q, cuts, shares)
        target, rates = into or tables, (np.float32(lr), self._reg)
        for cut, share in zip(cuts, shares, strict=True):
            move(target.users, users[cut], share.users, share.to_users, np.ones(0, np.float32), rates)
        to_items = sum((share.to_items for share in shares[1:]), start=shares[0].to_items)
        move(target.items, columns.items, Q, to_items, columns.named, rates)
        self._place += len(users)
        return recorded

    def _columns(self, seen: IntArray, negatives: IntArray, counts: int) -> Columns:
        """The columns; `counts` is what L2 counts for each draw of a negative."""
        size = len(seen) + len(negatives)
        items, own, draws = np.empty(size, np.int32), np.empty(len(seen), np.int32), np.zeros(size, np.float32)
        n_columns, n_items = find_columns(seen, negatives, self._column_of, items, own, draws)
        named = np.bincount(own, minlength=n_items).astype(np.float32) + counts * draws[:n_items]
        return Columns(items[:n_items], draws[:n_columns], named, own)

    def _share(self, part: int, cut: slice, table: FloatArray, users: IntArray, columns: Columns, Q: Rows) -> Share:
        """One thread's part of a batch."""
        settings, n_columns, n_rows = self._settings, len(columns.draws), cut.stop - cut.start
        P, own = gather(table, users[cut], settings.normalises), columns.own[cut]
        negatives = Q.vectors[:n_columns]
        bias = self._as_negative[columns.items[:n_columns]] + np.log(columns.draws)
        mine = columns.items[own]
        weights = self._weights[mine] if len(self._weights) else np.ones(n_rows, np.float32)
        about = own, self._as_positive[mine], weights
        if len(self._space[part]) < CHUNK * n_columns:
            self._space[part] = np.empty(2 * CHUNK * n_columns, np.float32)
        to_users, to_items = np.empty_like(P.vectors), np.zeros_like(Q.vectors)
        losses, pulls = np.empty((2, n_rows), np.float32)
        pushes = [np.empty((0, n_columns), np.float32)]
        for first in range(0, n_rows, CHUNK):
            rows = slice(first, min(n_rows, first + CHUNK))
            scores = self._space[part][: (rows.stop - first) * n_columns].reshape(-1, n_columns)
            np.matmul(P.vectors[rows], negatives.T, out=scores)
            chunk = (P.vectors[rows], *(values[rows] for values in about), losses[rows], pulls[rows])
            soften(scores, Q.vectors, bias, self._scale, *chunk)
            np.matmul(scores, negatives, out=to_users[rows])
            to_items[:n_columns] += scores.T @ P.vectors[rows]
            if settings.keeps_ledger:
                pushes.append(scores[self._taken(cut.start + first, len(scores))])
        add_own(to_users, to_items, P.vectors, Q.vectors, own, pulls)
        return Share(P, to_users, to_items, losses, pulls, np.concatenate(pushes))

    def _taken(self, first: int, n_rows: int) -> slice:
        """Which of these rows are recorded: one pair in `ledger_every` of the epoch."""
        return slice(-(self._place + first) % self._settings.ledger_every, n_rows, self._settings.ledger_every)

    def _record(self, users: IntArray, columns: Columns, Q: Rows, cuts: list[slice], shares: list[Share]) -> Recorded:
        """Adds the recorded rows to the ledger, where there is one.

        By count, a pair counts one as a pull and one as a push, which its negatives share.
        """
        total, number = 0.0, 0
        n_columns = len(columns.draws)
        for cut, share in zip(cuts, shares, strict=True):
            taken = self._taken(cut.start, len(share.losses))
            total, number = total + float(share.losses[taken].sum()), number + len(share.losses[taken])
            if not len(share.pushes):
                continue
            p, own, pulls = share.users.vectors[taken], columns.own[cut][taken], share.pulls[taken, None]
            u, i, negatives = users[cut][taken], columns.items[own], columns.items[:n_columns]
            shares_of = np.where(share.pushes > 0, columns.draws, 0)
            shares_of /= np.maximum(shares_of.sum(axis=1, keepdims=True), 1)
            for which, by, push in ((PULL, np.ones_like(pulls), shares_of), (PULL_SLOPE, pulls, share.pushes)):
                pushed = PUSH if which == PULL else PUSH_SLOPE
                add_rows(self._ledger.items, which, i, by * p)
                add_rows(self._ledger.items, pushed, negatives, push.T @ p)
                add_rows(self._ledger.users, which, u, by * Q.vectors[own])
                add_rows(self._ledger.users, pushed, u, push @ Q.vectors[:n_columns])
        return total, number

    def _embeddings(self, tables: Tables, copy: bool) -> Embeddings:
        """With cosines, unit vectors rank."""
        if self._settings.normalises:
            every = (np.arange(len(rows), dtype=np.int32) for rows in tables)
            tables = Tables(*(gather(rows, at, True).vectors for rows, at in zip(tables, every, strict=True)))
        return super()._embeddings(tables, copy)


@njit(nogil=True, cache=True)
def find_columns(seen, negatives, column_of, items, own, draws):
    """Fills in `Columns`; returns the numbers of distinct negatives and of all distinct items.

    column_of (I,): -1 throughout; afterwards the place of each item of the batch.
    """
    n = 0
    for m in range(len(negatives)):
        item = negatives[m]
        if column_of[item] < 0:
            column_of[item] = n
            items[n] = item
            n += 1
        draws[column_of[item]] += 1
    n_columns = n
    for m in range(len(seen)):
        item = seen[m]
        if column_of[item] < 0:
            column_of[item] = n
            items[n] = item
            n += 1
        own[m] = column_of[item]
    return n_columns, n


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def gather(table, rows, normalised):
    dim = table.shape[1]
    vectors, lengths = np.empty((len(rows), dim), np.float32), np.ones(len(rows), np.float32)
    for n in range(len(rows)):
        row = table[rows[n]]
        scale = np.float32(1.0)
        if normalised:
            square = np.float32(1e-12)
            for d in range(dim):
                square += row[d] * row[d]
            lengths[n] = np.sqrt(square)
            scale /= lengths[n]
        for d in range(dim):
            vectors[n, d] = scale * row[d]
    return Rows(vectors, lengths)


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def soften(scores, Q, bias, scale, P, own, own_bias, weights, losses, pulls):
    """Turns the scores (R, C) of negatives into the slopes of the losses by them; fills in losses and pulls (R,).

    bias (C,), own_bias (R,): added to the scaled scores. own (R,): the seen items, no negatives of their own rows.
    """
    n_columns, dim = scores.shape[1], P.shape[1]
    for r in range(len(scores)):
        row = scores[r]
        x = np.float32(0.0)
        for d in range(dim):
            x += P[r, d] * Q[own[r], d]
        x = x * scale + own_bias[r]
        for c in range(n_columns):
            row[c] = row[c] * scale + bias[c]
        if own[r] < n_columns:
            row[own[r]] = np.float32(-1e30)
        top = x
        for c in range(n_columns):
            top = max(top, row[c])
        total = np.float32(0.0)
        for c in range(n_columns):
            row[c] = exp32(row[c] - top)
            total += row[c]
        if own[r] < n_columns:
            row[own[r]] = np.float32(0.0)
        x = exp32(x - top)
        losses[r] = weights[r] * (np.log(x + total) - np.log(x))
        slope = weights[r] * scale / (x + total)
        pulls[r] = slope * total
        for c in range(n_columns):
            row[c] *= slope


@njit(nogil=True, cache=True, fastmath=True)
def add_own(to_users, to_items, P, Q, own, pulls):
    """Adds the gradient of the seen items' scores, whose slopes are -pulls."""
    for r in range(len(P)):
        for d in range(P.shape[1]):
            to_users[r, d] -= pulls[r] * Q[own[r], d]
            to_items[own[r], d] -= pulls[r] * P[r, d]


@njit(nogil=True, cache=True, fastmath=True)
def move(table, rows, at, gradient, named, rates):
    """Takes a step in rows of the table: back through the normalisation, with L2 as often as the row was named."""
    lr, reg = rates
    vectors, lengths = at
    dim = vectors.shape[1]
    for n in range(len(rows)):
        decay = reg * lengths[n] * (named[n] if len(named) else np.float32(1.0))
        along = np.float32(0.0)
        if lengths[n] != 1:
            for d in range(dim):
                along += gradient[n, d] * vectors[n, d]
        for d in range(dim):
            v = vectors[n, d]
            table[rows[n], d] -= lr * ((gradient[n, d] - along * v) / lengths[n] + decay * v)


@njit(nogil=True, cache=True, fastmath=True)
def add_rows(ledger, which, rows, values):
    for n in range(len(rows)):
        for d in range(values.shape[1]):
            ledger[rows[n], which, d] += values[n, d]
