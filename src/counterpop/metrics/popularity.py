"""What lists expose: whose items, how often. None of these is good or bad by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpop.interactions import BoolArray, IntArray, gini

PerUser = NDArray[np.float64]
HEAD_GROUPS = 4  # the paper's groups: four of 5 % of the items each, then the rest
HEAD_GROUP_SHARE = 0.05


def average_popularity(lists: IntArray, counts: NDArray[np.int64]) -> PerUser:
    """(B,) mean train count of the items in each list (ARP); NaN for an empty list.

    >>> average_popularity(np.array([[0, 1], [1, -1]]), np.array([6, 2]))
    array([4., 2.])
    """
    return _mean_in_list(lists, counts.astype(np.float64))


def tail_share(lists: IntArray, head: BoolArray) -> PerUser:
    """(B,) share of each list that is not of the head (see `interactions.head`) (APLT); NaN if empty."""
    return _mean_in_list(lists, (~head).astype(np.float64))


def exposure(lists: IntArray, n_items: int) -> NDArray[np.int64]:
    """(I,) in how many lists each item stands."""
    return np.bincount(lists[lists >= 0], minlength=n_items)


def coverage(exposed: NDArray[np.int64]) -> float:
    """Share of all items that stand in at least one list.

    >>> coverage(np.array([3, 0, 1, 0]))
    0.5
    """
    return float(np.mean(exposed > 0))


def exposure_gini(exposed: NDArray[np.int64]) -> float:
    """Gini of exposure over all items: 0 where all are shown alike, towards 1 where one has all."""
    return gini(exposed)


def popularity_groups(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(I,) group of each item by falling count: 0 to 3 hold 5 % of the items each, 4 the rest.

    Ties are taken in the order of positions; small catalogues leave the last groups empty.
    """
    place = np.empty(len(counts), dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    size = max(1.0, HEAD_GROUP_SHARE * len(counts))
    return np.asarray(np.minimum(place // size, HEAD_GROUPS), dtype=np.int64)


def _mean_in_list(lists: IntArray, value: NDArray[np.float64]) -> PerUser:
    filled = lists >= 0
    with np.errstate(invalid="ignore"):
        return np.asarray((value[lists] * filled).sum(axis=1) / filled.sum(axis=1))
