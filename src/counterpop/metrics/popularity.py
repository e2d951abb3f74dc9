"""What lists expose: which items, and how often. No value of these is good or bad by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from counterpop.interactions import BoolArray, IntArray, head, ranks_of

PerUser = NDArray[np.float64]
HEAD_GROUPS = 4  # the paper's groups: four of 5 % of the items each, then the rest
HEAD_GROUP_SHARE = 0.05
TOP_SHARE = 0.2  # share of the interactions that the most popular class of items holds


def average_popularity(lists: IntArray, counts: NDArray[np.int64]) -> PerUser:
    """(B,) mean train count of the items in each list (ARP); NaN for an empty list.

    >>> average_popularity(np.array([[0, 1], [1, -1]]), np.array([6, 2]))
    array([4., 2.])
    """
    return _mean_in_list(lists, counts.astype(np.float64))


def tail_share(lists: IntArray, head: BoolArray) -> PerUser:
    """(B,) share of each list outside the head, see `interactions.head` (APLT); NaN for an empty list."""
    return _mean_in_list(lists, (~head).astype(np.float64))


def exposure(lists: IntArray, n_items: int) -> NDArray[np.int64]:
    """(I,) number of lists each item is in."""
    return np.bincount(lists[lists >= 0], minlength=n_items)


def coverage(exposed: NDArray[np.int64]) -> float:
    """Share of all items that are in at least one list.

    >>> coverage(np.array([3, 0, 1, 0]))
    0.5
    """
    return float(np.mean(exposed > 0))


def popularity_groups(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(I,) group of each item by falling count: 0 to 3 hold 5 % of the items each, 4 the rest.

    Ties are broken by position; in a small catalogue the last groups are empty.
    """
    size = max(1.0, HEAD_GROUP_SHARE * len(counts))
    ranks = ranks_of(np.argsort(-counts, kind="stable"))
    return np.asarray(np.minimum(ranks // size, HEAD_GROUPS), dtype=np.int64)


def popularity_classes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(I,) class of each item by falling count: 0 top, 1 middle, 2 tail.

    The top items hold the first 20 % of the interactions and the tail items those beyond 80 %, both cut as in
    `interactions.head`: the classes of Abdollahpouri et al. (UMAP 2021).
    """
    return np.where(head(counts, TOP_SHARE), 0, np.where(head(counts), 1, 2))


def places_by_group(
    lists: IntArray, group_of: NDArray[np.int64], n_groups: int, counted: BoolArray
) -> NDArray[np.float64]:
    """(B, groups) how many counted places of each list hold an item of each group."""
    groups = np.where(counted, group_of[lists], n_groups)
    return np.stack([(groups == g).sum(axis=1) for g in range(n_groups)], axis=1).astype(np.float64)


def jensen_shannon(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """(...,) divergence in bits between shares (..., groups): 0 if they are equal, 1 if they have nothing in common.

    The mean of KL(first | m) and KL(second | m), where m is half-way between them; NaN where shares are unknown.

    >>> jensen_shannon(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.5, 0.5]]))
    array([1., 0.])
    """
    half = (first + second) / 2
    return np.asarray((rel_entr(first, half) + rel_entr(second, half)).sum(axis=-1) / (2 * np.log(2)))


def relative_spread(counts: NDArray[np.int64], totals: NDArray[np.int64]) -> float:
    """Standard deviation / mean of the rates counts / totals: 0 if all are equal; NaN if a total or all counts are 0.

    >>> relative_spread(np.array([3, 1]), np.array([4, 4]))
    0.5
    """
    with np.errstate(invalid="ignore"):
        rates = counts / totals
        return float(np.std(rates) / np.mean(rates))


def mean_by_rank(
    values: NDArray[np.float64], counts: NDArray[np.int64], bins: int = 60
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Middle rank and mean value of bins of popularity ranks, which get wider with the rank; NaN values are left out.

    A bin without a value is NaN. This draws a large catalogue with no more points than a small one.
    """
    ranked = values[np.argsort(-counts, kind="stable")]
    starts = np.unique(np.geomspace(1, len(ranked) + 1, bins + 1).astype(np.int64))[:-1] - 1
    known = np.isfinite(ranked)
    number = np.add.reduceat(known, starts, dtype=np.int64)
    middle = np.add.reduceat(np.arange(1.0, len(ranked) + 1), starts) / np.diff([*starts, len(ranked)])
    with np.errstate(invalid="ignore"):
        return middle, np.add.reduceat(np.where(known, ranked, 0.0), starts) / number


def _mean_in_list(lists: IntArray, value: NDArray[np.float64]) -> PerUser:
    filled = lists >= 0
    with np.errstate(invalid="ignore"):
        return np.asarray((value[lists] * filled).sum(axis=1) / filled.sum(axis=1))
