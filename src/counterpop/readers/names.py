"""What items are called."""

from __future__ import annotations

from typing import Any

from counterpop.errors import InputError
from counterpop.interactions import Ids, as_ids
from counterpop.readers.columns import read_columns


def read_names(source: Any, item_ids: Ids, *, item: str = "item", name: str = "name") -> list[str | None]:
    """The name of each item, in the order of `item_ids`; None for items that the table does not name.

    `source` is a file or table with a column of ids and one of names (by default `name`, or else `title`). Rows of
    other items are ignored. An item with two names is an error, and so is a table that names none of the items.

    >>> import polars as pl, numpy as np
    >>> read_names(pl.DataFrame({"item": [7, 5, 9], "title": ["Heat", "Alien", "Up"]}), np.array([5, 6, 7]))
    ['Alien', None, 'Heat']
    """
    table, columns = read_columns(source, {"item": item, "name": name})
    known: dict[Any, str] = {}
    ids = as_ids(columns["item"].to_list(), item_ids, "item").tolist()
    for own, text in zip(ids, columns["name"].to_list(), strict=True):
        if text and known.setdefault(own, text) != text:
            raise InputError(
                f"each item needs one name, but {table.label} calls item {own!r} both {known[own]!r} and "
                f"{text!r}; keep one of the two"
            )
    names = [known.get(own) for own in item_ids.tolist()]
    if not any(names):
        raise InputError(
            f"{table.label} must name items of the log, but holds none of its {len(names):,} ids (such as "
            f"{item_ids[:1].tolist()[0]!r}); pass the column of item ids as item="
        )
    return names
