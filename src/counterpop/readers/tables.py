"""Tables in memory and parquet files, and the form in which every kind of source is opened."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from counterpop.errors import InputError
from counterpop.readers.pages import check_pages

FOUND_BY_NAME = ("split", "rank", "score")  # roles whose column is used without being asked for
SECOND_NAMES = {"user": "user_id", "item": "item_id", "name": "title"}  # tried where the default is missing
PATH = "\0path"  # the column with the path of each row's file, while folders become columns
_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
FAILURES = (*_POLARS, OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile, zlib.error)

Roles = dict[str, str | Literal[False] | None]
"""The column name asked for in each role; None where the caller named none, False where there must be none."""
Header = bool | Literal["lists"] | None
"""Whether the first line names the columns; "lists" for text lines of a user and items, None if it is not known."""


class Table(NamedTuple):
    """An open source. Only the columns asked for are read."""

    label: str
    names: list[str]
    take: Callable[[dict[str, str]], pl.DataFrame]  # {role: column} -> a frame with one column for each role
    hint: str = ""  # added to the error about a missing column
    shape: tuple[int, int] | None = None  # of a matrix: its empty rows and columns are users and items too
    declared: Mapping[str, str] = {}  # {role: column} where the format itself says what a column is
    note: str = ""  # how the source was read, if another reading was possible
    files: tuple[Path, ...] = ()  # of parquet
    scan: Callable[[Sequence[Path]], pl.LazyFrame] = pl.LazyFrame  # reads some of these files
    columnar: bool = False  # whether reading one column costs only that column

    def choose(self, asked: Roles) -> dict[str, str]:
        """{role: column} for each column that is asked for or found by its name."""
        chosen = {}
        for role, name in asked.items():
            if name is None:
                name = role if role in FOUND_BY_NAME and role in self.names else self.declared.get(role)
            elif name == role not in self.names and SECOND_NAMES.get(role) in self.names:
                name = SECOND_NAMES[role]
            if not name:
                continue
            if name not in self.names:
                remedy = f"pass the right one as {role}=" if role.isidentifier() else "choose one of these"
                raise InputError(
                    f"{self.label} has no column {name!r}, only {', '.join(map(repr, self.names))}; {remedy}{self.hint}"
                )
            chosen[role] = name
        return chosen


def open_frame(label: str, frame: pl.LazyFrame, kind: str = "a table") -> Table:
    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with readable(label, kind):
            return frame.select(pl.col(name).alias(role) for role, name in chosen.items()).collect()

    with readable(label, kind):
        return Table(label, frame.collect_schema().names(), take)


def open_parquet(label: str, files: Sequence[Path], note: str = "", folders: Mapping[str, pl.Series] = {}) -> Table:
    """Parquet files that have the same columns; `folders` are further ones with one value for each file."""
    for file in files:
        with readable(str(file), "parquet"):
            check_pages(file)
    places = {file: n for n, file in enumerate(files)}

    def scan(some: Sequence[Path]) -> pl.LazyFrame:
        frame = pl.scan_parquet(list(some), glob=False, include_file_paths=PATH if folders else None)
        paths, rows = [str(file) for file in some], [places[file] for file in some]
        more = (pl.col(PATH).replace_strict(paths, of.gather(rows)).alias(name) for name, of in folders.items())
        return frame.with_columns(more).drop(PATH, strict=False)

    table = open_frame(label, scan(files), "parquet")

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        try:
            return table.take(chosen)
        except InputError:
            for file in files:  # which of them is damaged?
                open_frame(str(file), scan([file]), "parquet").take(chosen)
            raise

    return table._replace(take=take, files=tuple(files), scan=scan, note=note, columnar=True)


def open_pandas(frame: Any) -> Table:
    """Reads column by column through NumPy, because pandas needs pyarrow to export to Arrow."""
    labels = {str(label): label for label in frame.columns}
    if len(labels) < len(frame.columns):
        raise InputError(f"column names of the pandas table must differ, got {list(frame.columns)}; rename some")

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with readable("the pandas table", "a table"):
            return pl.DataFrame({role: _from_pandas(frame[labels[name]]) for role, name in chosen.items()})

    return Table("the pandas table", list(labels), take)


def _from_pandas(column: Any) -> pl.Series:
    if column.dtype.kind == "M":
        return pl.Series(column.to_numpy(dtype="datetime64[us]"))  # times with a zone come out in UTC
    values = column.to_numpy()
    if values.dtype.kind != "O":
        return pl.Series(values)
    values = [None if gap else value for gap, value in zip(column.isna(), values.tolist(), strict=True)]
    if all(value is None or (isinstance(value, int) and abs(value) < 2**63) for value in values):
        return pl.Series(values, dtype=pl.Int64)
    return pl.Series([value if value is None else str(value) for value in values], dtype=pl.String)


@contextmanager
def readable(label: str, kind: str, explain: Callable[[], str] = str) -> Iterator[None]:
    """Turns any failure of the libraries below into an `InputError` of one sentence."""
    try:
        yield
    except InputError:
        raise
    except FAILURES as failure:
        reason = explain() or str(failure).strip().split("\n")[0].rstrip(".")
        if "utf-8" in reason.lower():
            reason = "it is not UTF-8 text (in a spreadsheet, save it as “CSV UTF-8”)"
        if "allow_pickle" in reason:
            reason = "it holds pickled objects, which could run code; save plain arrays"
        raise InputError(f"{label} could not be read as {kind}: {reason}; repair it or write it again") from None


def bad_row(name: str, row: Any, value: Any, label: str, must: str) -> InputError:
    """The error for one row, counted from 1 without the header."""
    shown = "nothing" if value is None or value == "" else repr(getattr(value, "item", lambda: value)())
    return InputError(
        f"column {name!r} of {label} must hold {must} in every row, but row {int(row) + 1} holds {shown}; "
        "correct that row or remove it"
    )


def check_rows(bad: pl.Series, column: pl.Series, name: str, label: str, must: str) -> None:
    """Raises `InputError` for the first row marked as bad."""
    if bad.any():
        row = bad.arg_max() or 0
        raise bad_row(name, row, column[row], label, must)
