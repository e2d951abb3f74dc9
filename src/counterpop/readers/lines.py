"""Text lines: "user item item ..." with one line for each user, or rows such as "user item rating"."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from counterpop.errors import InputError
from counterpop.readers.ids import narrow_ids
from counterpop.readers.tables import SECOND_NAMES, Header, Roles, Table, readable
from counterpop.readers.text import narrow, read_lines

IDS = ("user", "item")
SCALE = 10  # a third column of whole numbers up to this looks like ratings


def open_lines(path: Path, asked: Roles, header: Header) -> Table:
    """A .txt file as lists or as rows: decided by the arguments, by a first line with column names, or by evidence."""
    label = str(path)
    with readable(label, "text"):
        lines = read_lines(path)
        stray = lines.str.strip_chars_end("\r").str.contains("\r", literal=True)
        if stray.any():
            line = (stray.arg_max() or 0) + 1
            raise InputError(f"line {line} of {path} has a carriage return within it; end every line the same way")
    words = pl.DataFrame({"words": lines.str.extract_all(r"\S+")}).with_row_index("line", 1)
    words = words.filter(pl.col("words").list.len() > 0)
    first = words["words"].head(1).explode().drop_nulls().to_list()
    width, ids = len(first), [asked.get(side) or side for side in ("user", "item")]
    if header is None:
        found = all({name, SECOND_NAMES[side]} & set(first) for side, name in zip(("user", "item"), ids, strict=True))
        header = True if found else None
    if header is True:
        return Table(label, first, lambda chosen: _rows(words[1:], first, chosen, width, label))

    extra = [role for role in ("rating", "time", "rank", "score") if asked.get(role, False) is not False]
    named, note = [role for role in extra if asked[role]], ""
    if header is False:
        named = named or extra[:1]
    elif header is None and not named and "user" in asked:
        named, note = _decide(words["words"], "rating" in asked, label)
        if not named and lines.str.contains("\t").all():
            raise InputError(f"{path} looks like tab-separated columns, not like lists of items; rename it to .tsv")
    if header == "lists" or not named:
        return Table(label, ids, lambda _: _lists(words, label), note=note)
    names = ids + [asked[role] or role for role in (named if width == 3 else extra)]
    return Table(label, names[:width], lambda chosen: _rows(words, names, chosen, width, label), note=note)


def _decide(words: pl.Series, ratings: bool, label: str) -> tuple[list[str], str]:
    """The role of the third column (none if lines are lists), and a note if another reading was possible.

    Lists have one line for each user, so repeated users are evidence of rows. Small numbers, decimals or one constant
    are evidence of ratings; numbers above all items of the second column (times, for example) are evidence against
    lists. `InputError` asks which it is if the evidence conflicts.
    """
    sizes, users = words.list.len().to_numpy(), words.list.first()
    width, repeated = int(sizes.max(initial=0)), users.n_unique() < len(users)
    even = bool((sizes == width).all())
    if width < 3 or not (repeated or (ratings and even and width <= 4)):
        return [], ""
    second, third = (words.list.get(at, null_on_oob=True) for at in (1, 2))
    items, numbers = (column.cast(pl.Float64, strict=False).to_numpy() for column in (second, third))
    numeric = even and bool(np.isfinite(numbers).all())
    decimal = numeric and third.str.contains(".", literal=True).any()
    rated = decimal or (numeric and (numbers.min() < 0 or numbers.max() <= SCALE)) or (even and third.n_unique() == 1)
    if ratings and rated and (repeated or decimal):
        why = "users repeat" if repeated else "the third holds decimals"
        more = ", like all columns after it (time= names the fourth)" if width > 3 else ""
        note = f"all lines of {label} have {width} columns and {why}, so the third was taken for a rating and ignored"
        remedy = "pass min_rating= (--min-rating) to drop low ratings, or header='lists' (--lists) if it holds items"
        return ["rating"], f"{note}{more}; {remedy}"
    if not (repeated or rated or (numeric and numbers.min() > items.max())):
        note = f"all lines of {label} have {width} columns and no user repeats, so each was read as a user and items"
        return [], f"{note}; pass header=False (--no-header) if the columns are user, item, rating"
    remedy = (
        "pass header=False (--no-header) if it is a rating, time='time' (split: --time time) if it is a time, or "
        "header='lists' (--lists) if all columns but the first hold items"
        if ratings
        else "pass rank='rank' (--rank rank) or score='score' (--score score) if it is one, or give each user one line"
    )
    if even and np.isnan(numbers[:1]).all() and np.isfinite(numbers[1:]).all():
        remedy = f"pass user= (--user) and item= (--item) if the first line names the columns; {remedy}"
    raise InputError(
        f"it must be clear what the third column of {label} is, but it may be an item or not (first line: "
        f"{' '.join(words[0].to_list())!r}); {remedy}"
    )


def _rows(words: pl.DataFrame, names: list[str], chosen: dict[str, str], width: int, label: str) -> pl.DataFrame:
    """Columns by position; every line must have as many as the first."""
    ragged = words.filter(pl.col("words").list.len() != width)
    if ragged.height:
        raise InputError(
            f"to be rows, all lines of {label} must have the same number of columns, but line {ragged['line'][0]} has "
            f"{len(ragged['words'][0])} and the first has {width}; correct that line, or pass header='lists' (--lists) "
            "if each line is a user and items"
        )
    columns = {role: words["words"].list.get(names.index(name)) for role, name in chosen.items()}
    return pl.DataFrame({role: (narrow_ids if role in IDS else narrow)(column) for role, column in columns.items()})


def _lists(words: pl.DataFrame, label: str) -> pl.DataFrame:
    """A user and an item for each word after the first."""
    lonely = words.filter(pl.col("words").list.len() == 1)
    if lonely.height:
        raise InputError(
            f"each line of {label} must hold a user and at least one item, but line {lonely['line'][0]} holds only "
            f"{lonely['words'][0][0]!r}; remove that line"
        )
    pairs = words.select(pl.col("words").list.first().alias("user"), pl.col("words").list.slice(1).alias("item"))
    pairs = pairs.explode("item")
    return pairs.select(narrow_ids(pairs[side]) for side in IDS)
