"""Who touched what: outside ids and positions, counts, head and tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import InputError, UnknownIdError

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Ids = NDArray[Any]  # int64, or str objects; sorted, each once
RowIds = Sequence[Any] | Ids | None  # ids of the rows of a matrix, as a caller passes them

HEAD_SHARE = 0.8  # the paper's rule: popular items hold the first 80 % of the interactions


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """A log as positions: each (user, item) pair once, rows sorted by user and then by item.

    `user_ids[user_ix[n]]` and `item_ids[item_ix[n]]` are the outside ids of row n. Parts of a split share
    their ids, so a position means the same user or item in all of them, also where it has no row.
    """

    user_ix: IntArray
    item_ix: IntArray
    user_ids: Ids
    item_ids: Ids
    time: NDArray[np.float64] | None = None
    """Per row, in the unit of the log; of merged rows the latest."""
    part: NDArray[np.int8] | None = None
    """Per row, the log's own split column: 0 train, 1 train drawn by intervention, 2 validation, 3 test."""
    merged: int = 0
    """How many rows of the log repeated a pair and were merged into it."""

    def __post_init__(self) -> None:
        for name in ("user", "item"):
            ix, ids = getattr(self, f"{name}_ix"), getattr(self, f"{name}_ids")
            if len(ix) != len(self.user_ix) or (len(ix) and not 0 <= ix.min() <= ix.max() < len(ids)):
                raise InputError(f"{name}_ix must hold, for each row, a position among the {len(ids)} {name} ids")
        keys = pair_keys(self)
        if not (keys[1:] > keys[:-1]).all():
            raise InputError("rows must be sorted by user and then by item, each pair once; read_interactions does it")

    def __repr__(self) -> str:
        return f"Interactions({len(self):,} pairs of {self.n_users:,} users and {self.n_items:,} items)"

    def __len__(self) -> int:
        return len(self.user_ix)

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @cached_property
    def user_counts(self) -> NDArray[np.int64]:
        """Rows of every user (U,)."""
        return np.bincount(self.user_ix, minlength=self.n_users)

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """Rows of every item (I,): what "popularity" means everywhere in this package."""
        return np.bincount(self.item_ix, minlength=self.n_items)

    @cached_property
    def user_starts(self) -> NDArray[np.int64]:
        """(U + 1,) where each user's rows begin: `item_ix[user_starts[u]:user_starts[u + 1]]`, sorted."""
        return np.concatenate([[0], np.cumsum(self.user_counts)])

    def rows(self, keep: BoolArray | NDArray[np.intp]) -> Interactions:
        """The kept rows (a mask, or rising positions) with the ids unchanged."""
        return replace(
            self,
            user_ix=self.user_ix[keep],
            item_ix=self.item_ix[keep],
            time=None if self.time is None else self.time[keep],
            part=None if self.part is None else self.part[keep],
            merged=0,
        )

    def user_positions(self, ids: Sequence[Any] | Ids) -> IntArray:
        """Positions of outside user ids; an unknown one raises `UnknownIdError`."""
        return positions(self.user_ids, ids, "user")

    def item_positions(self, ids: Sequence[Any] | Ids) -> IntArray:
        """Positions of outside item ids; an unknown one raises `UnknownIdError`."""
        return positions(self.item_ids, ids, "item")


def join(*parts: Interactions) -> Interactions:
    """The rows of disjoint parts of one log as one log, sorted by user and item; times are kept if all parts have them.

    The split column is dropped.
    """
    order = np.argsort(np.concatenate([pair_keys(part) for part in parts]), kind="stable")
    users, items = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("user_ix", "item_ix"))
    times = [part.time for part in parts if part.time is not None]
    time = np.concatenate(times)[order] if len(times) == len(parts) else None
    return Interactions(users, items, parts[0].user_ids, parts[0].item_ids, time)


def places_in_groups(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) the place of every row within its group, where groups of these sizes follow one another.

    >>> places_in_groups(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.asarray(np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes))


def ranks_of(order: NDArray[np.integer]) -> NDArray[np.int64]:
    """(N,) where each position stands in an order of all positions: the inverse permutation.

    >>> ranks_of(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def places(ids: Ids, known: Ids, what: str) -> tuple[NDArray[np.intp], BoolArray]:
    """Where each id stands among sorted known ones, and whether it is there at all."""
    asked = as_ids(ids, known, what)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return at, np.asarray(known[at] == asked)


def apart(log: Interactions, treated: BoolArray) -> Interactions:
    """A log of twice the users and items: a treated row joins the second of its user and of its item."""
    shift = treated.astype(np.int32)
    user_ix, item_ix = log.user_ix + shift * log.n_users, log.item_ix + shift * log.n_items
    order = np.lexsort((item_ix, user_ix))
    ids = np.arange(2 * log.n_users), np.arange(2 * log.n_items)
    return Interactions(user_ix[order].astype(np.int32), item_ix[order].astype(np.int32), *ids)


def restrict(log: Interactions, user_ids: Ids, item_ids: Ids) -> Interactions:
    """The rows whose user and item are both among these sorted ids, in the positions of those ids."""
    keep = np.ones(len(log), dtype=bool)
    moved = []
    for what, ids, known, ix in (
        ("user", log.user_ids, user_ids, log.user_ix),
        ("item", log.item_ids, item_ids, log.item_ix),
    ):
        at, here = places(ids, known, what)
        keep &= here[ix]
        moved.append(at.astype(np.int32)[ix])
    users, items = (positions[keep] for positions in moved)
    order = np.lexsort((items, users))
    return Interactions(users[order], items[order], user_ids, item_ids)


def pair_keys(log: Interactions) -> NDArray[np.int64]:
    """One number for each row, the same for the same pair in every part of a log."""
    return log.user_ix.astype(np.int64) * log.n_items + log.item_ix


def positions(known: Ids, ids: Sequence[Any] | Ids, what: str) -> IntArray:
    """Where each of `ids` stands in the sorted `known`.

    Ids are compared as the log holds them: as integers, or as strings where the log's ids are strings.

    >>> positions(np.array([3, 7, 9]), [9, 3], "item")
    array([2, 0], dtype=int32)
    """
    asked = as_ids(ids, known, what)
    at = np.searchsorted(known, asked)
    at[at == len(known)] = 0
    missing = np.flatnonzero(known[at] != asked) if len(known) else np.arange(len(asked))
    if len(missing):
        raise UnknownIdError(
            f"every {what} must be in the log, but {len(missing)} of {len(asked)} are not "
            f"(first: {asked[missing[0]]!r}); leave them out or read a log that holds them"
        )
    return at.astype(np.int32)


def as_ids(ids: Sequence[Any] | Ids, known: Ids, what: str) -> Ids:
    """The ids in the type of `known`."""
    if known.dtype == object:
        return np.array([str(i) for i in ids], dtype=object)
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "i":
        return ids.astype(np.int64, copy=False)
    asked = np.empty(len(ids), dtype=np.int64)
    for n, i in enumerate(ids):
        try:
            asked[n] = int(i)
            whole = isinstance(i, str) or asked[n] == i
        except (TypeError, ValueError, OverflowError):
            whole = False
        if not whole:  # int(2.5) is 2, which may well be somebody else
            raise InputError(f"{what} ids of this log are integers, but {i!r} is not one; correct it")
    return asked


def head(counts: NDArray[np.int64], share: float = HEAD_SHARE) -> BoolArray:
    """Which positions are popular (items) or active (users), as a mask.

    Sorted by falling count, the first whose running share of all counts stays within `share`; ties are
    taken in the order of positions. Nothing is popular where there are no counts. Where the first alone
    holds more than the share, it is the head.

    >>> head(np.array([1, 6, 2, 1]))
    array([False,  True,  True, False])
    """
    order = np.argsort(-counts, kind="stable")
    running = np.cumsum(counts[order])
    mask = np.zeros(len(counts), dtype=bool)
    if len(counts) and running[-1]:
        mask[order[running <= share * running[-1]]] = True
        mask[order[0]] = True
    return mask


def gini(counts: NDArray[Any]) -> float:
    """How unevenly counts are spread: 0 where all are equal, towards 1 where one holds them all.

    Sum over all pairs |c_i - c_j| / (2 n sum c), for counts that are not negative; NaN where there are no
    counts or all are zero.

    >>> gini(np.array([5, 5, 5])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    total = counts.sum()
    if not total:
        return float("nan")
    n = len(counts)
    return float((2 * np.arange(1, n + 1) - n - 1) @ np.sort(counts) / (n * total))
