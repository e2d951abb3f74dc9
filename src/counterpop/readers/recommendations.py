"""Lists of recommendations from any system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray, Interactions, as_ids, places_in_groups
from counterpop.presentation import Shown
from counterpop.readers.columns import each_column
from counterpop.readers.ids import index_ids
from counterpop.readers.tables import Roles

BLOCK_USERS = 1 << 16  # whose lists are sorted at a time


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(Shown):
    """Lists of any system, as positions in a log."""

    lists: IntArray
    """(B, K) items, best first; -1 where a list is shorter."""
    users: IntArray
    """(B,) the user of each list."""
    log: Interactions
    """The log; with `keep_unknown`, it also has the ids it lacked, without interactions."""
    order: Literal["rank", "score", "rows"]
    """What the lists are sorted by."""
    notes: Mapping[str, int]
    """Numbers of users and items that the log lacked, of rows that repeat an item, and of rows beyond k."""


def read_recommendations(
    source: Any,
    log: Interactions,
    *,
    user: str = "user",
    item: str = "item",
    rank: str | None = None,
    score: str | None = None,
    k: int | None = None,
    keep_unknown: bool = False,
) -> Recommendations:
    """The lists of any system: one row for each recommended item, from any source `read_interactions` takes.

    A list is sorted by the column `rank` (1 is best), else by `score` (highest is best), else it keeps the order of
    its rows; columns with these names are found by default. An item that a list repeats keeps its first place. Lists
    are cut off after `k` places, by default not at all; `notes` counts both. Ids that the log lacks are an error;
    `keep_unknown=True` adds them as users and items without interactions.

    >>> log = Interactions(np.array([0, 1]), np.array([0, 1]), np.array(["a", "b"], object), np.array([5, 7]))
    >>> best = pl.DataFrame({"user": ["b", "b", "a"], "item": [7, 5, 7], "score": [0.2, 0.9, 0.4]})
    >>> read = read_recommendations(best, log)
    >>> log.user_ids[read.users].tolist(), read.lists.tolist(), read.order
    (['a', 'b'], [[1, -1], [0, 1]], 'score')
    """
    asked: Roles = {"user": user, "item": item, "rank": rank, "score": score}
    label, by, positions, unknown = "", None, {}, {}
    order: Literal["rank", "score", "rows"] = "rows"
    for label, role, column in each_column(source, asked):  # noqa: B007
        if role in ("user", "item"):
            log, positions[role], unknown[role] = _place(column, log, role, keep_unknown)
        elif by is None:  # the rank comes first, and a score beside it is not needed
            order, by = role, column.to_numpy()
        del column
    rows = _Rows(positions["user"], positions["item"], by, order == "score")
    lists, users, repeated, beyond = _as_lists(rows, k, log, label, ranked=order == "rank")
    notes = {"unknown_users": unknown["user"], "unknown_items": unknown["item"]}
    return Recommendations(lists, users, log, order, notes | {"repeated": repeated, "beyond_k": beyond})


class _Rows(NamedTuple):
    """Rows of lists in any order: user and item positions, and what each list is sorted by."""

    user: IntArray
    item: IntArray
    by: NDArray[np.float64] | None
    falling: bool

    def frame(self, part: slice) -> pl.DataFrame:
        """Some rows, sorted by user and place, each item of a list once."""
        by = np.zeros(part.stop - part.start) if self.by is None else self.by[part]
        rows = pl.DataFrame({"user": self.user[part], "item": self.item[part], "by": -by if self.falling else by})
        return rows.sort("user", "by", maintain_order=True).unique(["user", "item"], keep="first", maintain_order=True)


def _place(
    column: pl.Series, log: Interactions, side: Literal["user", "item"], keep_unknown: bool
) -> tuple[Interactions, IntArray, int]:
    """The log with all of these ids, the position of each row's id in it, and the number of ids that it lacked."""
    ids, ix = index_ids(column)
    known: Ids = getattr(log, f"{side}_ids")
    own = as_ids(ids, known, side)
    missing = own[~np.isin(own, known)]
    if len(missing) and (not keep_unknown or len(missing) == len(own)):
        remedy = f"pass keep_unknown=True (--keep-unknown) to count them as {side}s without interactions"
        raise InputError(
            f"every {side} in the lists must be in the log, but {len(missing)} of {len(own)} are not (first: "
            f"{missing[:1].tolist()[0]!r}); {remedy if len(missing) < len(own) else 'check which columns hold the ids'}"
        )
    if len(missing):
        every = np.unique(np.concatenate([known, missing]))
        moved = np.searchsorted(every, known).astype(np.int32)[getattr(log, f"{side}_ix")]
        log = replace(log, **{f"{side}_ids": every, f"{side}_ix": moved})
        known = every
    return log, np.searchsorted(known, own).astype(np.int32)[ix], len(np.unique(missing))


def _check_ranks(rows: pl.DataFrame, log: Interactions, label: str) -> None:
    """Raises `InputError` if a list, sorted by rank, has two items at one rank."""
    users, ranks = rows["user"].to_numpy(), rows["by"].to_numpy()
    shared = np.flatnonzero((users[1:] == users[:-1]) & (ranks[1:] == ranks[:-1]))
    if len(shared):
        raise InputError(
            f"each rank of a list must occur once, but in {label} user {log.user_ids[users[shared[:1]]].tolist()[0]!r} "
            f"has two items at rank {ranks[shared[0]]:g}; give one list for each user"
        )


def _as_lists(
    rows: _Rows, k: int | None, log: Interactions, label: str, *, ranked: bool
) -> tuple[IntArray, IntArray, int, int]:
    """(B, K) items, (B,) users, and how many rows repeat an item or lie beyond k. Users are sorted in blocks."""
    if (rows.user[1:] < rows.user[:-1]).any():
        order = np.argsort(rows.user, kind="stable")
        rows = _Rows(rows.user[order], rows.item[order], None if rows.by is None else rows.by[order], rows.falling)
        del order
    starts = np.append(np.flatnonzero(np.append(True, rows.user[1:] != rows.user[:-1])), len(rows.user))
    users, longest, kept_rows, repeated = rows.user[starts[:-1]], 0, 0, 0
    lists = np.full((len(users), min(k or int(np.diff(starts).max()), log.n_items)), -1, dtype=np.int32)
    for at in range(0, len(users), BLOCK_USERS):
        block = slice(at, min(at + BLOCK_USERS, len(users)))
        part = slice(int(starts[block.start]), int(starts[block.stop]))
        first = rows.frame(part)
        if ranked:
            _check_ranks(first, log, label)
        sizes = np.unique(first["user"].to_numpy(), return_counts=True)[1]
        place = places_in_groups(sizes)
        kept = place < lists.shape[1]
        row = np.repeat(np.arange(block.start, block.stop), sizes)
        lists[row[kept], place[kept]] = first["item"].to_numpy()[kept]
        longest, kept_rows = max(longest, int(sizes.max())), kept_rows + int(kept.sum())
        repeated += part.stop - part.start - len(first)
    if longest < lists.shape[1]:  # what seemed longer repeats items
        lists = np.ascontiguousarray(lists[:, :longest])
    return lists, users, repeated, len(rows.user) - repeated - kept_rows
