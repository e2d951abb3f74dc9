"""What items are called, and the categories of items or users: any number of columns beside the ids."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Ids, IntArray, Interactions
from counterpop.presentation import Shown
from counterpop.readers.columns import column_names, open_source, read_columns
from counterpop.readers.tables import Roles

IDS = ("item", "item_id", "id")  # columns of item ids, the first that a table has
MOST_VALUES = 100  # of a column that is read as categories without being asked for
WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, eq=False, repr=False)
class Category(Shown):
    """One column of categories: a genre, a provider, an age group."""

    values: list[str]
    """The categories in alphabetical order."""
    of: IntArray
    """(N,) the position of each id's category in `values`; -1 if it has none."""


@dataclass(frozen=True, eq=False, repr=False)
class Labels(Shown):
    """What a table says about ids, in their order."""

    names: list[str | None]
    """None for an id that the table does not name."""
    categories: Mapping[str, Category]
    """By the name of the column."""
    sentence: str = ""
    """How many ids of the table are unknown, how many items have no name, and what was not read; or nothing."""


def read_labels(
    source: Any,
    item_ids: Ids,
    *,
    item: str | Sequence[str] = IDS,
    name: str = "name",
    categories: Sequence[str] | None = None,
) -> Labels:
    """The name and the categories of each item, in the order of `item_ids`.

    `source` is a file or table with a column of ids (by default the first there is of `item`, `item_id` and `id`) and
    one of names (by default `name`, or else `title`). `categories` are further columns; by default all that have from 2
    to 100 different values. Ids that are not among `item_ids` are counted in `Labels.sentence`. An item with two names
    or two values in a category is an error, and so is a table that names none of the items. A cell such as
    "Action|Comedy" is one value.

    >>> import polars as pl
    >>> films = pl.DataFrame({"id": [7, 5, 9], "title": ["Heat", "Alien", "Up"], "by": ["Fox", "Fox", "Pixar"]})
    >>> found = read_labels(films, np.array([5, 6, 7]))
    >>> found.names, found.categories["by"].values, found.categories["by"].of.tolist()
    (['Alien', None, 'Heat'], ['Fox'], [0, -1, 0])
    """
    there = column_names(source)
    item = item if isinstance(item, str) else next((one for one in item if one in there), item[0])
    asked = categories if categories is not None else [one for one in there if one not in (item, name, "title")]
    read = _read(source, item_ids, "item", item, {"name": name}, asked)
    names = read.values["name"]
    if not any(names):
        raise InputError(
            f"{read.label} must name items of the log, but holds none of its {len(names):,} ids (such as "
            f"{item_ids[:1].tolist()[0]!r}); pass the column of item ids as item= (--names-item)"
        )
    if categories is None:
        asked = [one for one in asked if one not in read.twice and 2 <= read.different[one] <= MOST_VALUES]
    for role in ("name", *asked):
        read.check(role)
    left_out = "" if categories is not None else ", ".join(repr(one) for one in there if one in read.twice)
    return Labels(names, {of: as_category(read.values[of]) for of in asked}, _sentence(read, names, left_out))


def _sentence(read: _Read, names: Sequence[str | None], left_out: str) -> str:
    """What is unknown, unnamed or was not read, in one sentence; nothing if all is well."""
    unnamed = len(names) - sum(map(bool, names))
    told = [
        f"{read.unknown:,} of its {read.ids:,} ids are not in the log" if read.unknown else "",
        f"{unnamed:,} of the log's {len(names):,} items have no name" if unnamed else "",
        f"columns with two values for an item were not read as categories ({left_out})" if left_out else "",
    ]
    return f"{read.label}: {'; '.join(filter(None, told))}" if any(told) else ""


def read_names(source: Any, item_ids: Ids, *, item: str | Sequence[str] = IDS, name: str = "name") -> list[str | None]:
    """The name of each item, in the order of `item_ids`, as `read_labels` reads it; None for items without one.

    >>> import polars as pl
    >>> read_names(pl.DataFrame({"item": [7, 5, 9], "title": ["Heat", "Alien", "Up"]}), np.array([5, 6, 7]))
    ['Alien', None, 'Heat']
    """
    return read_labels(source, item_ids, item=item, name=name, categories=()).names


def read_attributes(
    source: Any, user_ids: Ids, attributes: Sequence[str], *, user: str = "user"
) -> dict[str, Category]:
    """The category of each user, in the order of `user_ids`, for each of these columns of a file or table.

    >>> import polars as pl
    >>> people = pl.DataFrame({"user": ["b", "a"], "age": ["18-34", "35+"]})
    >>> read_attributes(people, np.array(["a", "b"], object), ["age"])["age"].values
    ['18-34', '35+']
    """
    read = _read(source, user_ids, "user", user, {}, attributes)
    for of in attributes:
        read.check(of)
    found = {of: as_category(read.values[of]) for of in attributes}
    if all((category.of < 0).all() for category in found.values()):
        raise InputError(
            f"{read.label} must hold users of the log, but holds none of its {len(user_ids):,} ids (such as "
            f"{user_ids[:1].tolist()[0]!r}); pass the column of user ids as user="
        )
    return found


@dataclass(frozen=True)
class LabelSources:
    """The files or tables to read names, categories and attributes from, for a log that is read later."""

    names: Any = None
    """A table with names of items; None if there is none."""
    item: str | Sequence[str] = IDS
    name: str = "name"
    categories: Sequence[str] | None = None
    """Columns of categories; None for all with from 2 to 100 values."""
    attributes: Any = None
    """A table with attributes of users; None if there is none."""
    user: str = "user"
    columns: Sequence[str] = ()
    """The attributes."""

    def read(self, log: Interactions) -> dict[str, Any]:
        """`labels` and `attributes` for `audit`, in the positions of the log; warns of ids that do not fit."""
        found: dict[str, Any] = {}
        if self.names is not None:
            found["labels"] = read_labels(
                self.names, log.item_ids, item=self.item, name=self.name, categories=self.categories
            )
            if found["labels"].sentence:
                warnings.warn(CounterpopWarning(found["labels"].sentence), stacklevel=3)
        if self.attributes is not None:
            found["attributes"] = read_attributes(self.attributes, log.user_ids, self.columns, user=self.user)
        return found


def as_category(values: Sequence[str | None]) -> Category:
    """The values numbered in alphabetical order."""
    known = sorted({value for value in values if value})
    place = {value: n for n, value in enumerate(known)}
    return Category(known, np.array([place.get(value or "", -1) for value in values], dtype=np.int32))


class _Read(NamedTuple):
    """What a table says: for each column its values in the order of the ids, and what does not fit."""

    label: str
    values: dict[str, list[str | None]]
    different: dict[str, int]
    """Values of each column in the whole table."""
    twice: dict[str, str]
    """The error for each column that gives an id two values."""
    ids: int
    unknown: int

    def check(self, role: str) -> None:
        if role in self.twice:
            raise InputError(self.twice[role])


def _read(
    source: Any, ids: Ids, side: Literal["user", "item"], column: str, more: dict[str, str], categories: Sequence[str]
) -> _Read:
    roles = more | {f"category {n}": name for n, name in enumerate(categories, 1)}
    asked: Roles = {side: column, **roles}
    table = open_source(source, asked, None)
    columns = read_columns(table, asked)
    own = _as_known(columns[side].to_list(), ids)
    there, values, different, twice = {*ids.tolist()}, {}, {}, {}
    for role, name in roles.items():
        called, texts = role if role in more else name, columns[role].to_list()
        known: dict[Any, str] = {}
        for one, text in zip(own, texts, strict=True):
            if text and known.setdefault(one, text) != text and one in there and called not in twice:
                twice[called] = (
                    f"each {side} needs one {called}, but {table.label} gives {side} {one!r} both {known[one]!r} and "
                    f"{text!r}; keep one of the two"
                )
        values[called] = [known.get(one) for one in ids.tolist()]
        different[called] = len({text for text in texts if text})
    return _Read(table.label, values, different, twice, len({*own}), len({*own} - there))


def _as_known(values: Sequence[Any], ids: Ids) -> list[Any]:
    """The ids in the type of the known ones; those that cannot be one of them stay as they are."""
    if ids.dtype == object:
        return [str(value) for value in values]
    return [int(value) if isinstance(value, str) and WHOLE.fullmatch(value) else value for value in values]
