"""Vectors that do not know the held-out pairs, for a model that was trained on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counterpop.debiasing.trials import Part, Trial
from counterpop.embeddings import Embeddings, FloatArray
from counterpop.folding import fold_in, histories_of, ridge, transposed
from counterpop.interactions import Ids, IntArray, Interactions
from counterpop.ranking import rank, tie_order

# Kinds of fold-in to choose from: the weight of all others, and reg in mean squared lengths. ALS, whose confidence c
# is mostly 1 or about 30, is reproduced exactly by a weight of 1/c; BPR, WARP and plain MF best by ridge regression.
KINDS = (0.0, 1.0), (0.0, 10.0), (0.0, 100.0), (0.03, 0.1), (0.03, 10.0), (1.0, 0.1)
FIT_ROWS, COMPARED_ROWS = 2_000, 500  # for the map, and to compare with the given vectors
BLOCK = 4_096  # rows mapped at a time
SAMPLE_STREAM = 503


class Kind(NamedTuple):
    """A kind of fold-in: see `fold_in`."""

    others: float
    reg: float


class Histories(Protocol):
    """What the rows of one side (users or items) have interacted with, wherever the pairs are."""

    @property
    def vectors(self) -> FloatArray:
        """Vectors of the other side: all of them, or a sample that lists are compared on."""

    @property
    def ids(self) -> Ids:
        """Their ids."""

    @property
    def able(self) -> IntArray:
        """Rows that have a history."""

    def fold(self, rows: IntArray, kinds: Sequence[Kind]) -> list[FloatArray]:
        """(B, D) vectors of these rows from their histories, for each kind of fold-in."""

    def only(self, log: Interactions) -> Histories:
        """The same without the pairs that `log`, whose users are these rows, lacks."""


@dataclass(frozen=True, eq=False)
class LogHistories:
    """The histories of a log's users, with the vectors of its items."""

    vectors: FloatArray
    log: Interactions

    @property
    def ids(self) -> Ids:
        return self.log.item_ids

    @property
    def able(self) -> IntArray:
        return np.flatnonzero(self.log.user_counts > 0).astype(np.int32)

    def fold(self, rows: IntArray, kinds: Sequence[Kind]) -> list[FloatArray]:
        histories = histories_of(self.log, rows)
        return [fold_in(self.vectors, histories, reg, others) for others, reg in kinds]

    def only(self, log: Interactions) -> LogHistories:
        return replace(self, log=log)


@dataclass(frozen=True, eq=False)
class FoldIn:
    """How vectors of one side are made from a history and the vectors of the other side."""

    kind: Kind
    to_given: NDArray[np.float64]
    """(D + 1, D) least squares from what `fold_in` gives, and 1, to the given vectors: scale, centre and biases."""
    agreement: float
    """Of top lists with rebuilt and with given vectors: 1 if they are equal, 0 if the mean vector does as well."""

    def rebuild(self, histories: Histories, rows: IntArray) -> FloatArray:
        """(B, D) the vectors of these rows."""
        return self.map(histories.fold(rows, [self.kind])[0])

    def map(self, folded: FloatArray, less: FloatArray | None = None) -> FloatArray:
        """(B, D) folded vectors in the space of the given ones, or the difference to others that are `less`.

        In blocks, because products need twice the memory of the vectors.
        """
        mapped = np.empty_like(folded)
        for start in range(0, len(folded), BLOCK):
            block = slice(start, start + BLOCK)
            product = with_one(folded[block]) @ self.to_given
            mapped[block] = product if less is None else product - with_one(less[block]) @ self.to_given
        return mapped


def fit_fold_in(given: FloatArray, histories: Histories, k: int, seed: int) -> FoldIn:
    """The kind of fold-in whose top lists agree best with those of the given vectors.

    The map is fitted on some users and compared on others; each is folded in from all of their pairs.
    """
    vectors, ids, able = histories.vectors, histories.ids, histories.able
    able = able[given[able].any(axis=1)]
    users = np.random.default_rng([seed, SAMPLE_STREAM]).permutation(able)[: FIT_ROWS + COMPARED_ROWS]
    compared, fitted = np.split(users, [min(COMPARED_ROWS, len(users) // 4)])
    own = _top(given[compared], vectors, ids, k)
    mean = np.tile(given[users].mean(axis=0), (len(compared), 1))
    base = _shared(_top(mean, vectors, ids, k), own)
    kinds = [Kind(others, ridge(vectors, times)) for others, times in KINDS]
    best = None
    for kind, folded in zip(kinds, histories.fold(users, kinds), strict=True):
        new, known = np.split(with_one(folded), [len(compared)])
        to_given = _map(known, given[fitted].astype(np.float64))
        shared = _shared(_top((new @ to_given).astype(np.float32), vectors, ids, k), own)
        one = FoldIn(kind, to_given, (shared - base) / (1 - base) if base < 1 else 0.0)
        best = one if best is None or one.agreement > best.agreement else best
    assert best is not None
    return best


def rebuild(
    trial: Trial, vectors: Embeddings, log: Interactions, k: int, seed: int, by_item: Histories | None = None
) -> tuple[Trial, float]:
    """The trial with vectors of its own for each part, and how well fold-in reproduces the given vectors.

    `by_item` are the histories of the items, if vectors and log hold only some of their users.

    From the vectors of the judged items, what their held-out pairs contributed is subtracted: fold-in from all of
    their users less fold-in from those they keep. Then the judged users are folded in, from the items they keep.
    """
    P, Q = vectors.user_vectors, vectors.item_vectors
    by_item = by_item or LogHistories(P, transposed(log))
    of_users = fit_fold_in(P, LogHistories(Q, log), k, seed)
    of_items = fit_fold_in(Q, by_item, k, seed)
    parts = []
    for part in trial.parts:
        users, items = (_judged(part, side) for side in ("user_ix", "item_ix"))
        known = by_item.only(transposed(part.seen)), by_item
        kept, whole = (histories.fold(items, [of_items.kind])[0] for histories in known)
        new_items, new_users = Q.copy(), P.copy()
        new_items[items] += of_items.map(kept, less=whole)
        new_users[users] = of_users.rebuild(LogHistories(new_items, part.seen), users)
        parts.append(replace(part, vectors=replace(vectors, user_vectors=new_users, item_vectors=new_items)))
    return replace(trial, parts=(parts[0], parts[1])), min(of_users.agreement, of_items.agreement)


def with_one(vectors: FloatArray) -> NDArray[np.float64]:
    """(B, D + 1) the vectors and a column of 1."""
    return np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float64)


def _map(known: NDArray[np.float64], given: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares from one to the other, stretched about the mean until the rows vary as much as the given ones.

    Least squares moves rows towards their mean, which is what users have in common: removing it would seem too cheap.
    """
    least_squares = np.linalg.lstsq(known, given, rcond=None)[0]
    mean = given.mean(axis=0)
    stretch = np.linalg.norm(given - mean) / max(float(np.linalg.norm(known @ least_squares - mean)), 1e-12)
    least_squares *= stretch
    least_squares[-1] += (1 - stretch) * mean
    return np.asarray(least_squares)


def _judged(part: Part, side: str) -> IntArray:
    return np.unique(np.concatenate([getattr(part.tuning, side), getattr(part.test, side)]))


def _top(queries: FloatArray, vectors: FloatArray, ids: Ids, k: int) -> IntArray:
    users = np.arange(len(queries), dtype=np.int32)
    return rank(queries, vectors, k, users=users, seen=[], ties=tie_order(ids))[0]


def _shared(lists: IntArray, others: IntArray) -> float:
    """The mean share of a list that the other list holds too; 0 if there are no lists."""
    pairs = zip(lists.tolist(), others.tolist(), strict=True)
    return sum(len({*a} & {*b}) for a, b in pairs) / max(1, lists.size)
