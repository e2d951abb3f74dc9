"""Vectors that do not know the held-out pairs, for a model that was trained on them."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
SAMPLE_STREAM = 503


@dataclass(frozen=True, eq=False)
class FoldIn:
    """How vectors of one side are made from a history and the vectors of the other side."""

    others: float
    reg: float
    to_given: NDArray[np.float64]
    """(D + 1, D) least squares from what `fold_in` gives, and 1, to the given vectors: scale, centre and biases."""
    agreement: float
    """Of top lists with rebuilt and with given vectors: 1 if they are equal, 0 if the mean vector does as well."""

    def rebuild(self, vectors: FloatArray, histories: list[IntArray]) -> NDArray[np.float64]:
        return with_one(fold_in(vectors, histories, self.reg, self.others)) @ self.to_given


def fit_fold_in(given: FloatArray, vectors: FloatArray, log: Interactions, k: int, seed: int) -> FoldIn:
    """The kind of fold-in whose top lists agree best with those of the given vectors of `log`'s users.

    The map is fitted on some users and compared on others; each is folded in from all of their pairs.
    """
    able = np.flatnonzero((log.user_counts > 0) & given.any(axis=1)).astype(np.int32)
    users = np.random.default_rng([seed, SAMPLE_STREAM]).permutation(able)[: FIT_ROWS + COMPARED_ROWS]
    compared, fitted = np.split(users, [min(COMPARED_ROWS, len(users) // 4)])
    own = _top(given[compared], vectors, log.item_ids, k)
    mean = np.tile(given[users].mean(axis=0), (len(compared), 1))
    base = _shared(_top(mean, vectors, log.item_ids, k), own)
    best = None
    for others, times in KINDS:
        reg = ridge(vectors, times)
        known, new = (with_one(fold_in(vectors, histories_of(log, u), reg, others)) for u in (fitted, compared))
        to_given = _map(known, given[fitted].astype(np.float64))
        shared = _shared(_top((new @ to_given).astype(np.float32), vectors, log.item_ids, k), own)
        kind = FoldIn(others, reg, to_given, (shared - base) / (1 - base) if base < 1 else 0.0)
        best = kind if best is None or kind.agreement > best.agreement else best
    assert best is not None
    return best


def rebuild(trial: Trial, vectors: Embeddings, log: Interactions, k: int, seed: int) -> tuple[Trial, float]:
    """The trial with vectors of its own for each part, and how well fold-in reproduces the given vectors.

    From the vectors of the judged items, what their held-out pairs contributed is subtracted: fold-in from all of
    their users less fold-in from those they keep. Then the judged users are folded in, from the items they keep.
    """
    P, Q, by_item = vectors.user_vectors, vectors.item_vectors, transposed(log)
    of_users, of_items = fit_fold_in(P, Q, log, k, seed), fit_fold_in(Q, P, by_item, k, seed)
    parts = []
    for part in trial.parts:
        users, items = (_judged(part, side) for side in ("user_ix", "item_ix"))
        kept, whole = (of_items.rebuild(P, histories_of(known, items)) for known in (transposed(part.seen), by_item))
        new_items, new_users = Q.copy(), P.copy()
        new_items[items] += (kept - whole).astype(np.float32)
        new_users[users] = of_users.rebuild(new_items, histories_of(part.seen, users))
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
