"""Logs of interactions."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.readers import streams
from counterpop.readers.columns import open_source, read_columns, warn_of_source
from counterpop.readers.ids import index_ids, merge_rows
from counterpop.readers.streams import count_rows, stream_interactions
from counterpop.readers.tables import Header, Roles


def read_interactions(
    source: Any,
    *,
    user: str = "user",
    item: str = "item",
    rating: str | None = None,
    min_rating: float | None = None,
    time: str | Literal[False] | None = None,
    split: str | Literal[False] | None = None,
    header: Header = None,
    scratch: str | Path | None = None,
    report: Callable[[float], None] = lambda share: None,
) -> Interactions:
    """The log as `Interactions`: each (user, item) pair once, with the ids of both sides in rising order.

    `source` is a path, a pandas, polars or Arrow table, or a SciPy matrix (positions become ids, stored zeros are
    ignored, and empty rows and columns keep their position). Files are csv (the first line tells whether commas,
    semicolons or tabs separate columns; semicolons go with decimal commas), tsv, RecBole's .inter, .txt or .jsonl, each
    also as .gz or .zst; .xlsx (the first sheet, with the extra `xlsx`); npz of plain arrays; and parquet: a file, a
    folder, or a pattern such as "logs/*.parquet". Folders called column=value below it, as Spark and Hive write them,
    are columns too.

    - `user`, `item`: the columns of ids. The defaults also find `user_id` and `item_id`.
    - `rating`, `min_rating`: rows rated lower are dropped before anything is counted, so users and items that only
      have such rows do not appear. The rating column is called "rating" unless named. Ratings that are ignored, because
      `min_rating` is not given, are reported by a `CounterpopWarning`.
    - `time`: a column of numbers, dates or ISO 8601 text. Dates become seconds since 1970, in UTC if they have no zone.
      The column `timestamp` of an .inter file is used by default; False ignores it.
    - `split`: the log's own split (0 or train, 1 or intervened, 2 or valid, 3 or test), kept as `part`. A column
      called "split" is used by default; False ignores it.
    - `header`: False if a text file has no column names; its columns are then, by position, user, item, rating, time.
      "lists" if each line of a .txt file is "user item item ...".

    - `scratch`: a folder for the rows of a log of more than 67 million rows of parquet. They are then read in
      stretches, sorted on disk and mapped into memory; the folder must stay as long as the log is used. `report` is
      called with the share that is done.

    By default, a .txt file is read as rows if its first line names the id columns, or if `rating` or `time` is named
    (`time` without `rating` is the third of three columns). Otherwise the evidence decides: lists have one line for
    each user. If all lines have the same number of columns and users repeat, a third column of numbers up to 10, of
    decimals or of one constant is a rating. A warning says what was decided, and an unclear file is an error.

    Integer ids stay integers, and whole floats become integers. All other ids become strings; binary ids of 16 bytes
    are written as UUIDs. In text files, ids are integers only if every one of the column is written as one (or every
    one as 7.0): with 007, +7 or 1e2 among them, all stay text. A repeated pair is kept once, with its latest time and
    its earliest part (train before validation before test); `merged` counts the other rows.

    Unusable input raises `InputError`, which names the row, counted from 1 without the header.

    >>> import polars as pl
    >>> log = read_interactions(pl.DataFrame({"user": ["b", "a", "b"], "item": [7, 5, 7]}))
    >>> log.user_ids[log.user_ix].tolist(), log.item_ids[log.item_ix].tolist(), log.merged
    (['a', 'b'], [5, 7], 1)
    """
    if min_rating is not None and not math.isfinite(min_rating):
        raise InputError(f"min_rating must be a finite number, got {min_rating}")
    if rating is None and min_rating is not None:
        rating = "rating"
    asked: Roles = {"user": user, "item": item, "rating": rating, "time": time, "split": split}
    table = open_source(source, asked, header)
    if scratch is not None and count_rows(table) > streams.MANY_ROWS:
        chosen = {
            role: name for role, name in table.choose(asked).items() if role != "rating" or min_rating is not None
        }
        warn_of_source(table, asked, min_rating)
        return stream_interactions(table, chosen, min_rating, Path(scratch), report)
    columns = read_columns(table, asked, min_rating=min_rating)
    sides = []
    for side, size in zip(("user", "item"), table.shape or (None, None), strict=True):
        ids, ix = index_ids(columns.pop(side), size)
        if len(ids) < 2:
            raise InputError(
                f"a log needs at least two {side}s, but {table.label} holds only {ids[:1].tolist()[0]!r}; "
                f"check which column {side}= names"
            )
        sides.append((ids, ix))
    (user_ids, user_ix), (item_ids, item_ix) = sides
    key: NDArray[np.int64] = user_ix.astype(np.int64)
    key *= len(item_ids)
    key += item_ix
    made = merge_rows(key, len(item_ids), columns)
    return Interactions(*made[:2], user_ids, item_ids, *made[2:], merged=len(key) - len(made[0]))
