"""Lists of recommendations from any system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray, Interactions, as_ids, places_in_groups
from counterpop.readers.columns import read_columns
from counterpop.readers.ids import index_ids


@dataclass(frozen=True, eq=False)
class Recommendations:
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
    table, columns = read_columns(source, {"user": user, "item": item, "rank": rank, "score": score})
    log, user_ix, unknown_users = _place(columns["user"], log, "user", keep_unknown)
    log, item_ix, unknown_items = _place(columns["item"], log, "item", keep_unknown)
    order: Literal["rank", "score", "rows"] = "rank" if "rank" in columns else "score" if "score" in columns else "rows"
    by = np.zeros(len(user_ix)) if order == "rows" else columns[order].to_numpy()
    rows = pl.DataFrame({"user": user_ix, "item": item_ix, "by": -by if order == "score" else by})
    first = rows.sort("user", "by", maintain_order=True).unique(["user", "item"], keep="first", maintain_order=True)
    if order == "rank":
        _check_ranks(first, log, table.label)
    lists, users = _as_lists(first, k, log.n_items)
    notes = {
        "unknown_users": unknown_users,
        "unknown_items": unknown_items,
        "repeated": len(rows) - len(first),
        "beyond_k": len(first) - int((lists >= 0).sum()),
    }
    return Recommendations(lists, users, log, order, notes)


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


def _as_lists(rows: pl.DataFrame, k: int | None, n_items: int) -> tuple[IntArray, IntArray]:
    """(B, K) items and (B,) users of rows that are sorted by user and place."""
    users, sizes = np.unique(rows["user"].to_numpy(), return_counts=True)
    place = places_in_groups(sizes)
    lists = np.full((len(users), min(k or int(sizes.max()), n_items)), -1, dtype=np.int32)
    kept = place < lists.shape[1]
    lists[np.repeat(np.arange(len(users)), sizes)[kept], place[kept]] = rows["item"].to_numpy()[kept]
    return lists, users
