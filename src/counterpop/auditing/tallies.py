"""What every list shows, in blocks: figures of each user, and sums over folds of users that can be added up.

Users are dealt into folds by a hash of their id, so the same user is in the same fold in every audit. Measures are
functions of the sums; measured again without each fold in turn, they show how much they depend on who was there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.interactions import BoolArray, IntArray, Interactions, head, pairs_of, places_in_groups, ranks_of
from counterpop.kernels.threads import core_count
from counterpop.metrics.accuracy import discounts
from counterpop.metrics.popularity import jensen_shannon, popularity_classes
from counterpop.ranking import hash_ids

FOLDS = 40
BLOCK = 1 << 15  # lists at a time: their arrays stay small, however many lists there are
CLASS_COUNT = 3  # top, middle, tail
OF_USERS = (
    "average_popularity",
    "expected_popularity",
    "profile_popularity",
    "highest_popularity",
    "tail_share",
    "expected_tail_share",
    "profile_tail_share",
    "miscalibration",
    "awrf",
)
"""Figures that are means over users."""
Columns = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums over some lists. Those of two groups of lists can be added and subtracted."""

    lists: NDArray[np.int64]
    """Number of lists."""
    exposure: NDArray[np.int64]
    """(I,) number of lists each item is in."""
    attention: NDArray[np.float64]
    """(I,) the same, each place weighted by 1 / log2(1 + rank)."""
    shown: NDArray[np.int64]
    """(2,) places that hold a tail or head item which is not in the user's profile."""
    chosen: NDArray[np.int64]
    """(2,) rows of the users' profiles that hold a tail or head item."""
    found: NDArray[np.int64]
    """(2,) held-out pairs of tail and head items that the lists hold."""
    liked: NDArray[np.int64]
    """(2,) held-out pairs of tail and head items."""
    sums: NDArray[np.float64]
    """(figures,) sums of the figures of `OF_USERS` over the users that are compared, where they are known."""
    known: NDArray[np.int64]
    """(figures,) the number of those users."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Tally)})

    def __sub__(self, other: Tally) -> Tally:
        return Tally(**{f.name: getattr(self, f.name) - getattr(other, f.name) for f in fields(Tally)})


@dataclass(frozen=True, eq=False)
class Counted:
    """All lists: each user's figures, and a tally for each fold."""

    per_user: dict[str, NDArray[np.float64]]
    """(B,) by the names of `OF_USERS`; NaN where a list or a profile is empty."""
    shown: NDArray[np.float64]
    """(B, classes) shares of top, middle and tail items in each list."""
    chosen: NDArray[np.float64]
    """(B, classes) the same of each profile."""
    fresh: NDArray[np.int64]
    """(B,) recommended items that are not in the profile."""
    compared: BoolArray
    """(B,) users who have a list and a profile; all who have a list, if nobody has a profile."""
    folds: NDArray[np.int64]
    """(B,) each user's fold."""
    tallies: list[Tally]
    """One for each fold."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """What the log says about its items."""

    counts: NDArray[np.int64]
    popular: BoolArray
    class_of: NDArray[np.int64]
    parts: NDArray[np.float64]
    """(I, 3) interactions, their square, and interactions of tail items: sums of these give the draw from the log."""
    order: NDArray[np.intp]
    """Items by falling interactions."""
    ranks: NDArray[np.int64]
    mix: NDArray[np.float64]
    """(classes,) shares of the interactions."""

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Catalogue:
        popular, class_of = head(counts), popularity_classes(counts)
        order, number = np.argsort(-counts, kind="stable"), counts.astype(np.float64)
        parts = np.stack([number, number**2, number * ~popular], axis=1)
        mix = np.bincount(class_of, number, CLASS_COUNT) / max(1.0, number.sum())
        return cls(counts, popular, class_of, parts, order, ranks_of(order), mix)


def count_lists(
    lists: IntArray, users: IntArray, log: Interactions, held: Interactions | None, *, repeats: float
) -> Counted:
    """Everything that is counted list by list. See `Counted`.

    If at least `repeats` of the places hold items of the user's profile, the system shows items again, and what the
    log would give is drawn from all items instead of those that are not in the profile.
    """
    catalogue, n_lists = Catalogue.of(log.item_counts), len(users)
    folds = (hash_ids(log.user_ids[users]) >> np.uint64(32)).astype(np.int64) % FOLDS
    per_user = {name: np.full(n_lists, np.nan) for name in OF_USERS}
    mixes = np.full((2, n_lists, CLASS_COUNT), np.nan)
    fresh = np.zeros(n_lists, dtype=np.int64)

    def count_fold(fold: int) -> Tally:
        mine = np.flatnonzero(folds == fold)
        total = _empty(log.n_items)
        for start in range(0, len(mine), BLOCK):
            block = mine[start : start + BLOCK]
            tally, found, mixes[:, block], fresh[block] = _count_block(lists[block], users[block], log, held, catalogue)
            for name, values in found.items():
                per_user[name][block] = values
            total += tally
        return total

    with ThreadPoolExecutor(core_count()) as pool:
        tallies = list(pool.map(count_fold, range(FOLDS)))
    places = sum(int(tally.exposure.sum()) for tally in tallies)
    if places - fresh.sum() >= repeats * places:
        whole = catalogue.parts.sum(axis=0)
        per_user["expected_popularity"][:], per_user["expected_tail_share"][:] = whole[1:] / whole[0]
        per_user["highest_popularity"][:] = catalogue.counts[catalogue.order[: lists.shape[1]]].mean()
    compared = np.isfinite(per_user["miscalibration"])
    if not compared.any():
        compared = np.isfinite(per_user["average_popularity"])
    return Counted(per_user, mixes[0], mixes[1], fresh, compared, folds, _add_means(tallies, per_user, compared, folds))


def total_of(tallies: list[Tally]) -> Tally:
    """The sum of all folds."""
    total = tallies[0]
    for tally in tallies[1:]:
        total = total + tally
    return total


def _empty(n_items: int) -> Tally:
    two, figures = np.zeros(2, np.int64), len(OF_USERS)
    sides = dict.fromkeys(("shown", "chosen", "found", "liked"), two)
    no_items, no_users = (np.zeros(n, np.int64) for n in (n_items, figures))
    return Tally(np.zeros((), np.int64), no_items, np.zeros(n_items), **sides, sums=np.zeros(figures), known=no_users)


def _add_means(
    tallies: list[Tally], per_user: dict[str, NDArray[np.float64]], compared: BoolArray, folds: NDArray[np.int64]
) -> list[Tally]:
    """The tallies with the sums of users' figures, which are known only after all lists were read."""
    sums, known = (np.zeros((FOLDS, len(OF_USERS)), kind) for kind in (np.float64, np.int64))
    for n, name in enumerate(OF_USERS):
        here = compared & np.isfinite(per_user[name])
        sums[:, n] = np.bincount(folds[here], per_user[name][here], FOLDS)
        known[:, n] = np.bincount(folds[here], minlength=FOLDS)
    return [replace(tally, sums=sums[n], known=known[n]) for n, tally in enumerate(tallies)]


def _count_block(
    lists: IntArray, users: IntArray, log: Interactions, held: Interactions | None, catalogue: Catalogue
) -> tuple[Tally, dict[str, Columns], NDArray[np.float64], NDArray[np.int64]]:
    """The tally of some lists, and of each: its figures, the mixes of list and profile, and its fresh items."""
    n_lists, popular, filled = len(lists), catalogue.popular, lists >= 0
    row, item = pairs_of(log, users)
    fresh = filled & ~_find(lists, row, item, log.n_items)
    weights = np.where(filled, discounts(lists.shape[1]), 0.0)
    classes = np.where(filled, catalogue.class_of[lists], CLASS_COUNT)
    shown, seen = (
        _shares(np.stack([(weight * (classes == c)).sum(axis=1) for c in range(CLASS_COUNT)], axis=1))
        for weight in (1.0, weights)
    )
    cell = row * CLASS_COUNT + catalogue.class_of[item]
    chosen = _shares(np.bincount(cell, minlength=n_lists * CLASS_COUNT).reshape(-1, CLASS_COUNT).astype(np.float64))
    whole = catalogue.parts.sum(axis=0)
    left = [total - np.bincount(row, part[item], n_lists) for total, part in zip(whole, catalogue.parts.T, strict=True)]
    size = np.bincount(row, minlength=n_lists)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = {
            "average_popularity": (catalogue.counts[lists] * filled).sum(axis=1) / filled.sum(axis=1),
            "expected_popularity": left[1] / left[0],
            "profile_popularity": np.bincount(row, catalogue.parts[item, 0], n_lists) / size,
            "highest_popularity": _highest(catalogue, row, item, size, lists.shape[1]),
            "tail_share": shown[:, 2],
            "expected_tail_share": left[2] / left[0],
            "profile_tail_share": chosen[:, 2],
            "miscalibration": jensen_shannon(shown, chosen),
            "awrf": 1 - jensen_shannon(seen, catalogue.mix),
        }
    later = np.zeros((2, 0), np.int64) if held is None else np.stack(pairs_of(held, users))
    hits = _find(lists, later[0], later[1], log.n_items) & filled
    of_side = {"shown": lists[fresh], "chosen": item, "found": lists[hits], "liked": later[1]}
    sides: dict[str, Any] = {name: np.bincount(popular[items], minlength=2) for name, items in of_side.items()}
    tally = replace(
        _empty(log.n_items),
        lists=np.array(n_lists),
        exposure=np.bincount(lists[filled], minlength=log.n_items),
        attention=np.asarray(np.bincount(lists[filled], weights[filled], log.n_items), dtype=np.float64),
        **sides,
    )
    return tally, found, np.stack([shown, chosen]), fresh.sum(axis=1)


def _find(lists: IntArray, row: NDArray[np.integer], item: NDArray[np.integer], n_items: int) -> BoolArray:
    """(B, K) whether each place holds an item that its row has among these pairs, which are sorted."""
    known = row.astype(np.int64) * n_items + item
    if not len(known):
        return np.zeros(lists.shape, dtype=bool)
    keys = np.arange(len(lists))[:, None] * n_items + lists
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.asarray((known[at] == keys) & (lists >= 0))


def _highest(catalogue: Catalogue, row: NDArray[np.intp], item: IntArray, size: NDArray[np.intp], k: int) -> Columns:
    """(B,) mean interactions of the k most popular items that are not in each profile."""
    n_lists, ranks = len(size), catalogue.ranks[item]
    near = ranks < k + size[row]  # no other item can be among the first k that remain
    row, ranks = row[near], ranks[near]
    order = np.lexsort((ranks, row))
    row, ranks = row[order], ranks[order]
    # an item is skipped if fewer than k more popular items are not in the profile
    skipped = ranks - places_in_groups(np.bincount(row, minlength=n_lists)) < k
    counts = catalogue.counts[catalogue.order]
    n_skipped = np.bincount(row[skipped], minlength=n_lists)
    of_skipped = np.bincount(row[skipped], counts[ranks[skipped]], n_lists)
    running = np.concatenate([[0], np.cumsum(counts)])
    end = np.minimum(k + n_skipped, len(counts))
    with np.errstate(invalid="ignore"):
        return np.asarray((running[end] - of_skipped) / (end - n_skipped))


def _shares(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that add up to one; NaN for a row of zeros."""
    with np.errstate(invalid="ignore"):
        return np.asarray(numbers / numbers.sum(axis=1, keepdims=True))
