"""Lists of recommendations for many users, written in parts: a killed command goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.encoding import to_json
from counterpop.errors import InputError
from counterpop.interactions import IntArray
from counterpop.locks import locked
from counterpop.outputs import make_folder, replacing
from counterpop.recommender import Recommender

PART_USERS = 1 << 16
ABOUT = "lists.json"

Titles = Sequence[str | None] | None
"""What items are called, by position; None if there are no names."""

Find = Callable[[IntArray, int], tuple[IntArray, FloatArray]]
"""The items and scores, both (B, K), of users at these positions: see `Recommender.recommend`."""


class Written(NamedTuple):
    """What `write_lists` left in its folder."""

    users: int
    parts: int
    kept: int
    """Parts that an earlier command had written already."""


def lists_table(
    model: Recommender, users: IntArray, items: IntArray, scores: FloatArray, titles: Titles = None
) -> pl.DataFrame:
    """The lists as rows: user, rank from 1, item, title if there are some, score; empty places are left out."""
    row, place = np.nonzero(items >= 0)
    columns = {
        "user": id_values(model.seen.user_ids[users[row]]),
        "rank": place + 1,
        "item": id_values(model.seen.item_ids[items[row, place]]),
        **({"title": [titles[item] for item in items[row, place].tolist()]} if titles else {}),
        "score": scores[row, place],
    }
    return pl.DataFrame(columns)


def id_values(ids: NDArray[np.generic]) -> pl.Series:
    """Ids as a column: integers, or text."""
    return pl.Series(ids.tolist(), dtype=pl.String) if ids.dtype == object else pl.Series(ids)


def write_lists(
    model: Recommender,
    path: str | Path,
    users: IntArray,
    k: int = 20,
    *,
    find: Find | None = None,
    titles: Titles = None,
    how: str = "exact",
    force: bool = False,
    report: Callable[[int], None] = lambda users: None,
) -> Written:
    """Writes the lists of users at these positions into a folder: part-00000.parquet and so on, `PART_USERS` each.

    Each part appears complete or not at all. Parts that are there already are kept if they were made by the same model
    for the same users; otherwise this raises `InputError`, or with `force` starts again. `lists.json` says what the
    folder holds and, at the end, that it is complete. `find` replaces the exact search, and `how` names it.
    `titles` name the items, by position. `report` is called with the number of users that are done.
    """
    folder, number = Path(path), -(-len(users) // PART_USERS)
    about: dict[str, object] = {"kind": "lists", "users": len(users), "k": k, "parts": number, "search": how}
    about["fingerprint"] = _fingerprint(model, users, k, titles)
    with locked(folder):
        _claim(folder, about, force)
        kept = 0
        for part in range(number):
            file, mine = folder / f"part-{part:05}.parquet", users[part * PART_USERS : (part + 1) * PART_USERS]
            if file.exists():
                kept += 1
            else:
                found = (find or model.recommend)(mine, k)
                with replacing(file) as new:
                    lists_table(model, mine, *found, titles).write_parquet(new)
            report(part * PART_USERS + len(mine))
        _describe(folder, about | {"complete": True})
    return Written(len(users), number, kept)


def _claim(folder: Path, about: dict[str, object], force: bool) -> None:
    """Makes the folder ready for these lists; one with anything else in it raises `InputError`."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        try:
            there = json.loads((folder / ABOUT).read_text())
        except (OSError, ValueError):
            there = None
        if not isinstance(there, dict) or there.get("kind") != about["kind"]:
            raise InputError(f"{folder} holds something else, which is not overwritten; choose another folder")
        if force:
            for file in folder.glob("part-*.parquet"):
                file.unlink()
            _describe(folder, about | {"complete": False})
            return
        if {name: there.get(name) for name in about} != about:
            raise InputError(
                f"{folder} holds lists of another model, other users or another k; pass --force to replace them, or "
                "choose another folder"
            )
        return
    make_folder(folder)
    _describe(folder, about | {"complete": False})


def _describe(folder: Path, about: dict[str, object]) -> None:
    with replacing(folder / ABOUT) as new:
        new.write_text(to_json(about, indent=2) + "\n")


def _fingerprint(model: Recommender, users: IntArray, k: int, titles: Titles) -> str:
    """Of everything that decides what the lists hold."""
    made = blake2b(digest_size=16)
    arrays = model.embeddings.user_vectors, model.embeddings.item_vectors, model.seen.user_starts, model.seen.item_ix
    for array in (*arrays, model.item_direction, model.user_direction, users):
        made.update(np.ascontiguousarray(array).data)
    facts = model.item_strength, model.user_strength, model.lean, model.segments, k, PART_USERS
    made.update(repr((*facts, *(titles or ()))).encode())
    return made.hexdigest()
