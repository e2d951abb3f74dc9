"""Text files: csv, tsv, RecBole's .inter, and lines "user item item ..."."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import polars as pl

from counterpop.errors import InputError
from counterpop.readers.tables import Roles, Table, readable

INFERRED_ROWS = 10_000  # a column whose type changes further down is read a second time, as strings


def open_text(path: Path, kind: str, asked: Roles, header: bool) -> Table:
    """A csv, tsv or .inter file. Every column is parsed, or polars would accept rows with too many fields."""
    separator = "," if kind == "csv" else "\t"

    def scan(types: dict[str, Any] | None) -> pl.LazyFrame:
        return pl.scan_csv(
            path,
            has_header=header,
            separator=separator,
            quote_char=None if kind == "inter" else '"',
            infer_schema_length=INFERRED_ROWS if types is None else 0,
            schema_overrides=types,
            glob=False,
        )

    with readable(str(path), kind):
        schema = scan(None).collect_schema()
    columns = schema.names()
    if kind == "inter":
        names = [name.split(":")[0] for name in columns]
    elif header:
        names = columns
    else:
        names = [asked.get(role) or role for role in ("user", "item", "rating", "time")][: len(columns)]

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        read = {role: columns[names.index(name)] for role, name in chosen.items()}
        rest = [name for name in columns if name not in read.values()]
        wanted = [pl.col(name).alias(role) for role, name in read.items()]
        if rest:  # one flag per row in place of the columns that are parsed but not read
            wanted.append(pl.all_horizontal(pl.col(rest).is_null()).alias(""))
        types: dict[str, Any] = {**schema, **dict.fromkeys(rest, pl.String)}
        with readable(str(path), kind, lambda: _first_ragged(path, separator)):
            try:
                rows = scan(types).select(wanted).collect()
            except pl.exceptions.ComputeError:  # a column turns into text further down
                rows = scan(dict.fromkeys(columns, pl.String)).select(wanted).collect()
                rows = rows.with_columns(_narrow(rows[role]) for role in chosen)
        while rows.height and all(value is None or value is True for value in rows.row(-1)):
            rows = rows.head(-1)  # blank lines at the end
        return rows.select(*chosen)

    hint = ", or header=False if the first line is already a row" if header and kind != "inter" else ""
    return Table(str(path), names, take, hint)


def _narrow(column: pl.Series) -> pl.Series:
    """Text as integers or floats if every value is one."""
    for kind in (pl.Int64, pl.Int128, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == column.null_count():
            return numbers
    return column


def _first_ragged(path: Path, separator: str) -> str:
    """The first line with more fields than line 1, in words; empty if there is none."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        lines = csv.reader((line.decode(errors="replace") for line in file), delimiter=separator)
        width = len(next(lines))
        for fields in lines:
            if len(fields) > width:
                return f"line {lines.line_num} has {len(fields)} fields where line 1 has {width}"
    return ""


def open_adjacency(path: Path, asked: Roles) -> Table:
    """A .txt file with one line for each user: the user's id, then the ids of the items."""

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with readable(str(path), "text"):
            lines = pl.Series(path.read_text(encoding="utf-8").splitlines(), dtype=pl.String)
        if lines.len() and lines.str.contains("\t").all():
            raise InputError(
                f'{path} looks like tab-separated columns, not lines "user item item ..."; rename it to .tsv'
            )
        words = pl.DataFrame({"words": lines.str.extract_all(r"\S+")}).with_row_index("line", 1)
        words = words.filter(pl.col("words").list.len() > 0)
        lonely = words.filter(pl.col("words").list.len() == 1)
        if lonely.height:
            raise InputError(
                f"each line of {path} must hold a user and at least one item, but line {lonely['line'][0]} holds only "
                f"{lonely['words'][0][0]!r}; remove that line"
            )
        pairs = words.select(pl.col("words").list.first().alias("user"), pl.col("words").list.slice(1).alias("item"))
        pairs = pairs.explode("item")
        return pairs.select(_narrow(pairs["user"]), _narrow(pairs["item"]))

    return Table(str(path), [asked.get("user") or "user", asked.get("item") or "item"], take)
