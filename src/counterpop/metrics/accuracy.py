"""How well lists find the held-out items. Higher is better for all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpop.interactions import BoolArray, IntArray, Interactions, pair_keys

PerUser = NDArray[np.float64]


def find_hits(lists: IntArray, users: IntArray, held: Interactions) -> BoolArray:
    """(B, K) whether each recommended item is one of the user's held-out items; an empty place never is."""
    keys = users.astype(np.int64)[:, None] * held.n_items + lists
    known = pair_keys(held)  # sorted, because rows are
    if not len(known):
        return np.zeros(lists.shape, dtype=bool)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray((known[at] == keys) & (lists >= 0))


def weigh_hits(hits: BoolArray, lists: IntArray, users: IntArray, held: Interactions) -> tuple[PerUser, PerUser]:
    """(B, K) what each hit counts and (B,) what each user counts, for held-out pairs with weights.

    A user counts as much as the mean of their pairs' weights, and each hit the pair's weight over that mean. So the
    weighted mean of recall over users is the sum of w / n over found pairs, divided by the sum over all pairs, with n
    the number of the user's held-out items. Without weights, users and hits all count 1.
    """
    if held.weight is None:
        return hits.astype(np.float64), np.ones(len(users))
    mean = np.bincount(held.user_ix, held.weight, held.n_users)[users] / held.user_counts[users]
    of_list = users.astype(np.int64)[:, None] * held.n_items + lists
    at = np.searchsorted(pair_keys(held), of_list[hits])
    worth = np.zeros(hits.shape)
    worth[hits] = held.weight[at] / np.repeat(mean, hits.sum(axis=1))
    return worth, mean


def recall(hits: BoolArray | PerUser, n_held: NDArray[np.int64]) -> PerUser:
    """Hits / number of the user's held-out items, even if there are more than k; NaN if there are none.

    >>> recall(np.array([[True, False]]), np.array([4]))
    array([0.25])
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(hits.sum(axis=1) / n_held)


def hit_rate(hits: BoolArray) -> PerUser:
    """1 if the list holds any held-out item, else 0.

    >>> hit_rate(np.array([[False, True], [False, False]]))
    array([1., 0.])
    """
    return np.asarray(hits.any(axis=1), dtype=np.float64)


def ideal_dcg(k: int) -> PerUser:
    """(k + 1,) the DCG of a perfect list by number of held-out items; entry 0 is 0."""
    return np.concatenate([[0.0], np.cumsum(discounts(k))])


def discounts(k: int) -> PerUser:
    """(k,) 1 / log2(rank + 1) for ranks 1 to k."""
    return np.asarray(1.0 / np.log2(np.arange(2, k + 2)))


def ndcg(hits: BoolArray | PerUser, n_held: NDArray[np.int64]) -> PerUser:
    """DCG / ideal DCG with gain 1 and discount 1 / log2(rank + 1), ideal over min(k, held-out items); NaN without any.

    >>> ndcg(np.array([[True, False]]), np.array([1]))
    array([1.])
    """
    k = hits.shape[1]
    with np.errstate(invalid="ignore"):
        return np.asarray((hits @ discounts(k)) / ideal_dcg(k)[np.minimum(n_held, k)])
