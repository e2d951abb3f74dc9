"""Who interacted with what: outside ids and positions, counts, head and tail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import InputError, UnknownIdError
from counterpop.presentation import Pictured

IntArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]
Ids = NDArray[Any]  # int64, or str objects; sorted, each once
RowIds = Sequence[Any] | Ids | None  # ids of the rows of a matrix, as a caller passes them

BLOCK = 1 << 26  # rows looked at together, where all at once would need several times the memory of the log
HEAD_SHARE = 0.8  # the paper's rule: popular items hold the first 80 % of the interactions


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Pictured):
    """A log as positions: each (user, item) pair once, rows sorted by user and then by item.

    `user_ids[user_ix[n]]` and `item_ids[item_ix[n]]` are the outside ids of row n. Parts of a split share their ids, so
    a position means the same user or item in all of them, even in parts where it has no row.
    """

    user_ix: IntArray
    item_ix: IntArray
    user_ids: Ids
    item_ids: Ids
    time: NDArray[np.float64] | None = None
    """For each row, in the unit of the log; the latest if rows were merged."""
    part: NDArray[np.int8] | None = None
    """For each row, the log's own split: 0 train, 1 train drawn by intervention, 2 validation, 3 test."""
    weight: NDArray[np.float32] | None = None
    """For each row of a held-out part, how much it counts when lists are measured on it; None if all count the same."""
    merged: int = 0
    """Number of rows of the log that repeated a pair and were merged into it."""

    def __post_init__(self) -> None:
        for name in ("user", "item"):
            ix, ids = getattr(self, f"{name}_ix"), getattr(self, f"{name}_ids")
            if len(ix) != len(self.user_ix) or (len(ix) and not 0 <= ix.min() <= ix.max() < len(ids)):
                raise InputError(f"{name}_ix must hold, for each row, a position among the {len(ids)} {name} ids")
        if self.weight is not None and not (np.isfinite(self.weight) & (self.weight > 0)).all():
            raise InputError("the weight of a row must be a finite number above 0; leave out rows that do not count")
        if not all(_in_order(self, start) for start in range(0, len(self), BLOCK)):
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
        """(U,) rows of every user."""
        return count(self.user_ix, self.n_users)

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """(I,) rows of every item: what "popularity" means everywhere in this package."""
        return count(self.item_ix, self.n_items)

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
            weight=None if self.weight is None else self.weight[keep],
            merged=0,
        )

    def user_positions(self, ids: Sequence[Any] | Ids) -> IntArray:
        """Positions of outside user ids; an unknown id raises `UnknownIdError`."""
        return positions(self.user_ids, ids, "user")

    def item_positions(self, ids: Sequence[Any] | Ids) -> IntArray:
        """Positions of outside item ids; an unknown id raises `UnknownIdError`."""
        return positions(self.item_ids, ids, "item")


def count(ix: IntArray, n: int, rows: BoolArray | None = None) -> NDArray[np.int64]:
    """(n,) how often each position occurs, in blocks, because NumPy counts a copy of twice the size."""
    total = np.zeros(n, dtype=np.int64)
    for start in range(0, len(ix), BLOCK):
        block = ix[start : start + BLOCK]
        total += np.bincount(block if rows is None else block[rows[start : start + BLOCK]], minlength=n)
    return total


def _in_order(log: Interactions, start: int) -> bool:
    """Whether the rows of a block and the first one after it rise."""
    stop = start + BLOCK + 1
    keys = log.user_ix[start:stop].astype(np.int64) * log.n_items + log.item_ix[start:stop]
    return bool((keys[1:] > keys[:-1]).all())


def join(*parts: Interactions) -> Interactions:
    """Disjoint parts of one log as one log, without a split column; times are kept if all parts have them."""
    order = np.argsort(np.concatenate([pair_keys(part) for part in parts]), kind="stable")
    users, items = (np.concatenate([getattr(part, name) for part in parts])[order] for name in ("user_ix", "item_ix"))
    times = [part.time for part in parts if part.time is not None]
    time = np.concatenate(times)[order] if len(times) == len(parts) else None
    return Interactions(users, items, parts[0].user_ids, parts[0].item_ids, time)


def places_in_groups(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) the place of every row within its group, for consecutive groups of these sizes.

    >>> places_in_groups(np.array([2, 0, 3]))
    array([0, 1, 0, 1, 2])
    """
    return np.asarray(np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes))


def ranks_of(order: NDArray[np.integer]) -> NDArray[np.int64]:
    """(N,) the rank of each position in an order of all positions: the inverse permutation.

    >>> ranks_of(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def places(ids: Sequence[Any] | Ids, known: Ids, what: str) -> tuple[NDArray[np.intp], BoolArray]:
    """The position of each id among the sorted known ones, meaningful only where the second array says it is one."""
    asked = as_ids(ids, known, what)
    at = np.searchsorted(known, asked)
    here = at < len(known)
    here[here] = known[at[here]] == asked[here]
    return at, here


def pairs_of(log: Interactions, users: NDArray[np.integer]) -> tuple[NDArray[np.intp], IntArray]:
    """The place in `users` and the item of every pair that these users have in the log."""
    row = np.repeat(np.arange(len(users)), log.user_counts[users])
    return row, log.item_ix[rows_of(log, users)]


def rows_of(log: Interactions, users: NDArray[np.integer]) -> NDArray[np.int64]:
    """The rows of these users, one user after another."""
    have = log.user_counts[users]
    return np.repeat(log.user_starts[users], have) + places_in_groups(have)


def separate_treated(log: Interactions, treated: BoolArray) -> Interactions:
    """A log with two copies of every user and item: treated rows go to the second copy of both."""
    shift = treated.astype(np.int32)
    user_ix, item_ix = log.user_ix + shift * log.n_users, log.item_ix + shift * log.n_items
    order = np.lexsort((item_ix, user_ix))
    ids = np.arange(2 * log.n_users), np.arange(2 * log.n_items)
    return Interactions(user_ix[order].astype(np.int32), item_ix[order].astype(np.int32), *ids)


def restrict(log: Interactions, user_ids: Ids, item_ids: Ids) -> Interactions:
    """The rows whose user and item are both among these sorted ids, in the positions of those ids."""
    user_at, user_here = places(log.user_ids, user_ids, "user")
    item_at, item_here = places(log.item_ids, item_ids, "item")
    keep = user_here[log.user_ix] & item_here[log.item_ix]
    users = user_at.astype(np.int32)[log.user_ix[keep]]
    items = item_at.astype(np.int32)[log.item_ix[keep]]
    order = np.lexsort((items, users))
    time = None if log.time is None else log.time[keep][order]
    return Interactions(users[order], items[order], user_ids, item_ids, time)


def pair_keys(log: Interactions) -> NDArray[np.int64]:
    """(N,) one number for each row, the same for a pair in every part of a log."""
    return log.user_ix.astype(np.int64) * log.n_items + log.item_ix


def positions(known: Ids, ids: Sequence[Any] | Ids, what: str) -> IntArray:
    """The position of each id in the sorted `known`; an unknown id raises `UnknownIdError`.

    Ids are compared in the type of the log's ids: as integers or as strings.

    >>> positions(np.array([3, 7, 9]), [9, 3], "item")
    array([2, 0], dtype=int32)
    """
    at, here = places(ids, known, what)
    if not here.all():
        missing = as_ids(ids, known, what)[~here]
        raise UnknownIdError(
            f"every {what} must be in the log, but {len(missing)} of {len(ids)} are not "
            f"(first: {missing[:1].tolist()[0]!r}); leave them out or read a log that holds them"
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
        if not whole:  # int(2.5) is 2, which may well be another id
            raise InputError(f"{what} ids of this log are integers, but {i!r} is not one; correct it")
    return asked


def head(counts: NDArray[np.int64], share: float = HEAD_SHARE) -> BoolArray:
    """A mask of the popular items (or active users).

    Sorted by falling count, the head is the first positions whose running sum stays within `share` of the total, and at
    least one position; ties are broken by position. If all counts are zero, the head is empty.

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
    """How unevenly counts are spread: 0 if all are equal, towards 1 if one holds them all.

    Sum over all pairs |c_i - c_j| / (2 n sum c), for counts of at least 0; NaN if there are none or all are zero.

    >>> gini(np.array([5, 5, 5])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    total = counts.sum()
    if not total:
        return float("nan")
    n = len(counts)
    return float((2 * np.arange(1, n + 1) - n - 1) @ np.sort(counts) / (n * total))
