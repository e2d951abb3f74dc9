"""What items are called, and the categories of items or users: any number of columns beside the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray, Interactions, as_ids
from counterpop.readers.columns import open_source, read_columns
from counterpop.readers.tables import Roles


@dataclass(frozen=True, eq=False)
class Category:
    """One column of categories: a genre, a provider, an age group."""

    values: list[str]
    """The categories in alphabetical order."""
    of: IntArray
    """(N,) the position of each id's category in `values`; -1 if it has none."""


@dataclass(frozen=True, eq=False)
class Labels:
    """What a table says about ids, in their order."""

    names: list[str | None]
    """None for an id that the table does not name."""
    categories: Mapping[str, Category]
    """By the name of the column."""


def read_labels(
    source: Any, item_ids: Ids, *, item: str = "item", name: str = "name", categories: Sequence[str] = ()
) -> Labels:
    """The name and the categories of each item, in the order of `item_ids`.

    `source` is a file or table with a column of ids and one of names (by default `name`, or else `title`);
    `categories` are further columns. Rows of other items are ignored. An item with two names or two values in a
    category is an error, and so is a table that names none of the items. A cell such as "Action|Comedy" is one value.

    >>> import polars as pl
    >>> films = pl.DataFrame({"item": [7, 5, 9], "title": ["Heat", "Alien", "Up"], "by": ["Fox", "Fox", None]})
    >>> found = read_labels(films, np.array([5, 6, 7]), categories=["by"])
    >>> found.names, found.categories["by"].values, found.categories["by"].of.tolist()
    (['Alien', None, 'Heat'], ['Fox'], [0, -1, 0])
    """
    label, names, *columns = _read(source, item_ids, "item", item, {"name": name}, categories)
    if not any(names):
        raise InputError(
            f"{label} must name items of the log, but holds none of its {len(names):,} ids (such as "
            f"{item_ids[:1].tolist()[0]!r}); pass the column of item ids as item="
        )
    return Labels(names, {of: as_category(values) for of, values in zip(categories, columns, strict=True)})


def read_names(source: Any, item_ids: Ids, *, item: str = "item", name: str = "name") -> list[str | None]:
    """The name of each item, in the order of `item_ids`, as `read_labels` reads it; None for items without one.

    >>> import polars as pl
    >>> read_names(pl.DataFrame({"item": [7, 5, 9], "title": ["Heat", "Alien", "Up"]}), np.array([5, 6, 7]))
    ['Alien', None, 'Heat']
    """
    return read_labels(source, item_ids, item=item, name=name).names


def read_attributes(
    source: Any, user_ids: Ids, attributes: Sequence[str], *, user: str = "user"
) -> dict[str, Category]:
    """The category of each user, in the order of `user_ids`, for each of these columns of a file or table.

    >>> import polars as pl
    >>> people = pl.DataFrame({"user": ["b", "a"], "age": ["18-34", "35+"]})
    >>> read_attributes(people, np.array(["a", "b"], object), ["age"])["age"].values
    ['18-34', '35+']
    """
    label, *columns = _read(source, user_ids, "user", user, {}, attributes)
    found = {of: as_category(values) for of, values in zip(attributes, columns, strict=True)}
    if all((category.of < 0).all() for category in found.values()):
        raise InputError(
            f"{label} must hold users of the log, but holds none of its {len(user_ids):,} ids (such as "
            f"{user_ids[:1].tolist()[0]!r}); pass the column of user ids as user="
        )
    return found


@dataclass(frozen=True)
class LabelSources:
    """The files or tables to read names, categories and attributes from, for a log that is read later."""

    names: Any = None
    """A table with names of items; None if there is none."""
    item: str = "item"
    name: str = "name"
    categories: Sequence[str] = ()
    attributes: Any = None
    """A table with attributes of users; None if there is none."""
    user: str = "user"
    columns: Sequence[str] = ()
    """The attributes."""

    def read(self, log: Interactions) -> dict[str, Any]:
        """`labels` and `attributes` for `audit`, in the positions of the log."""
        found: dict[str, Any] = {}
        if self.names is not None:
            found["labels"] = read_labels(
                self.names, log.item_ids, item=self.item, name=self.name, categories=self.categories
            )
        if self.attributes is not None:
            found["attributes"] = read_attributes(self.attributes, log.user_ids, self.columns, user=self.user)
        return found


def as_category(values: Sequence[str | None]) -> Category:
    """The values numbered in alphabetical order."""
    known = sorted({value for value in values if value})
    place = {value: n for n, value in enumerate(known)}
    return Category(known, np.array([place.get(value or "", -1) for value in values], dtype=np.int32))


def _read(
    source: Any, ids: Ids, side: Literal["user", "item"], column: str, more: dict[str, str], categories: Sequence[str]
) -> list[Any]:
    """The label of the source, then for each column its values in the order of the ids."""
    roles = more | {f"category {n}": name for n, name in enumerate(categories, 1)}
    asked: Roles = {side: column, **roles}
    table = open_source(source, asked, None)
    columns = read_columns(table, asked)
    own = as_ids(columns[side].to_list(), ids, side).tolist()
    found: list[Any] = [table.label]
    for role, name in roles.items():
        known: dict[Any, str] = {}
        for one, text in zip(own, columns[role].to_list(), strict=True):
            if text and known.setdefault(one, text) != text:
                raise InputError(
                    f"each {side} needs one {role if role in more else name}, but {table.label} gives {side} {one!r} "
                    f"both {known[one]!r} and {text!r}; keep one of the two"
                )
        found.append([known.get(one) for one in ids.tolist()])
    return found
