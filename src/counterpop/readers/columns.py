"""From a source of any kind to its columns by role, each cleaned to its final type."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from counterpop.errors import CounterpopWarning, InputError
from counterpop.readers.arrays import open_matrix, open_npz
from counterpop.readers.ids import clean_ids, narrow_ids
from counterpop.readers.lines import open_lines
from counterpop.readers.sheets import open_sheet
from counterpop.readers.tables import (
    Header,
    Roles,
    Table,
    bad_row,
    check_rows,
    open_frame,
    open_pandas,
    open_parquet,
    readable,
)
from counterpop.readers.text import check_size, open_text

TEXTS = ("csv", "tsv", "inter", "txt", "jsonl", "ndjson")
EXTENSIONS = (*TEXTS, "parquet", "npz", "xlsx")
COMPRESSED = (".gz", ".zst")  # text files may end in these as well
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # in the name of a folder: no value
PARTS = {"train": 0, "intervened": 1, "valid": 2, "validation": 2, "test": 3, "0": 0, "1": 1, "2": 2, "3": 3}


def read_columns(table: Table, asked: Roles, *, min_rating: float | None = None) -> dict[str, pl.Series]:
    """The columns of an open source by role, without the rows rated below `min_rating`; ratings are not returned."""
    chosen = table.choose(asked)
    rows = table.take(chosen)
    if not rows.height:
        raise InputError(f"a source must hold rows, but {table.label} holds none; check that it is the right one")
    columns = {role: clean(role, rows[role], name, table.label) for role, name in chosen.items()}
    warn_of_source(table, asked, min_rating)
    ratings = columns.pop("rating", None)
    if ratings is None or min_rating is None:
        return columns
    kept = ratings >= min_rating
    if not kept.any():
        raise InputError(
            f"no row of {table.label} has a {chosen['rating']!r} of {min_rating} or more (the highest is "
            f"{ratings.to_numpy().max()}); lower min_rating"
        )
    return {role: column.filter(kept) for role, column in columns.items()}


def warn_of_source(table: Table, asked: Roles, min_rating: float | None) -> None:
    """Warns of how a source was read, if another reading was possible."""
    if note := table.note or ("" if min_rating is not None else _ignored_ratings(table, asked)):
        warnings.warn(CounterpopWarning(note), stacklevel=4)


def column_names(source: Any) -> list[str]:
    """The names of a source's columns."""
    return open_source(source, {}, None).names


def each_column(source: Any, asked: Roles) -> Iterator[tuple[str, Any, pl.Series]]:
    """The label of the source, a role and its cleaned column, one after the other, in the order of the roles.

    From parquet, columns are read one at a time, so that a caller who lets go of each needs memory for one.
    """
    table = open_source(source, asked, None)
    chosen = table.choose(asked)
    whole = None if table.columnar else table.take(chosen)
    for role, name in chosen.items():
        column = (table.take({role: name}) if whole is None else whole)[role]
        if not len(column):
            raise InputError(f"a source must hold rows, but {table.label} holds none; check that it is the right one")
        yield table.label, role, clean(role, column, name, table.label)
    if table.note:
        warnings.warn(CounterpopWarning(table.note), stacklevel=3)


def _ignored_ratings(table: Table, asked: Roles) -> str:
    """A note if the source of a log has ratings; the weights of a matrix are none."""
    column = asked.get("rating") or "rating"
    if "rating" not in asked or table.shape is not None or column not in table.names:
        return ""
    return (
        f"the ratings of {table.label} (column {column!r}) were ignored, so every row counts the same; "
        "pass min_rating= (--min-rating) to drop low ones"
    )


def open_source(source: Any, asked: Roles, header: Header) -> Table:
    """The source, ready to be read."""
    if isinstance(source, str | Path):
        return _open_file(Path(source), asked, header)
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        return open_frame("the polars table", source.lazy())
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        return open_pandas(source)
    if hasattr(source, "__arrow_c_stream__"):
        with readable("the Arrow table", "a table"):
            return open_frame("the Arrow table", pl.DataFrame(source).lazy())
    if hasattr(source, "tocsr"):
        return open_matrix(source, asked)
    raise InputError(
        f"a source must be a path, a pandas, polars or Arrow table, or a SciPy matrix, got {type(source).__name__}"
    )


def _open_file(path: Path, asked: Roles, header: Header) -> Table:
    if not path.is_file():
        return _open_files(path)
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; pass a file with rows")
    packed = path.suffix.lower() in COMPRESSED
    kind = Path(path.stem if packed else path.name).suffix.removeprefix(".").lower()
    if kind not in EXTENSIONS or (packed and kind not in TEXTS):
        raise InputError(
            f"{path} must end in one of {', '.join('.' + e for e in EXTENSIONS)} (text also in "
            f"{' or '.join(COMPRESSED)}), because the extension decides the format; rename it, or pass a table"
        )
    if header == "lists" and kind != "txt":
        raise InputError(
            f"lines \"user item item ...\" must be in a .txt file, but {path} is {kind}; drop header='lists' (--lists)"
        )
    if kind in TEXTS:
        check_size(path)
    if kind == "npz":
        return open_npz(path)
    if kind == "txt":
        return open_lines(path, asked, header)
    if kind == "parquet":
        return open_parquet(str(path), [path])
    if kind in ("jsonl", "ndjson"):
        return open_frame(str(path), pl.scan_ndjson(path, infer_schema_length=None), "JSON lines")
    if kind == "xlsx":
        return open_sheet(path, asked, header is not False)
    return open_text(path, kind, asked, header is not False or kind == "inter")


def _named_by(pattern: Path) -> Iterator[Path]:
    """The files that a pattern names."""
    return Path(pattern.anchor or ".").glob(str(pattern.relative_to(pattern.anchor)))


def _open_files(path: Path) -> Table:
    """All parquet files of a folder, however deep, or all that a pattern such as logs/*.parquet names."""
    note = ""
    if path.is_dir():
        folder, found = path, [file for file in sorted(path.rglob("*.parquet")) if file.is_file()]
        files = [file for file in found if not _is_hidden(file.relative_to(path))]
        if hidden := sorted({*found} - {*files}):
            note = (
                f"names that begin with _ or . mark unfinished or internal files, so {len(hidden)} parquet files of "
                f"{path} were left out (first: {hidden[0].relative_to(path)}); if they are part of the log, rename them"
            )
        if not files:
            raise InputError(f"{path} is a folder without parquet files; pass the path of one file")
    else:
        folder = Path(*takewhile(lambda part: not set("*?[") & set(part), path.parts))
        files = [file for file in sorted(_named_by(path)) if file.is_file()]
        if not files:
            raise InputError(f"{path} is missing; pass the path of a file, of a folder of parquet files, or a pattern")
        if any(file.suffix.lower() != ".parquet" for file in files):
            raise InputError(f"a pattern must name parquet files, but {path} names others; pass them one by one")
    names = _check_same_columns(files)
    notes = "; ".join(filter(None, (note, _missing_parts(path, files))))
    return open_parquet(f"{path} ({len(files)} files)", files, notes, _values_of_folders(folder, files, names))


def _is_hidden(path: Path) -> bool:
    """Whether Spark and Hive would not read the file: names that begin with _ or . are those of unfinished work."""
    return any(part[0] in "_." and "=" not in part for part in path.parts)


def _values_of_folders(folder: Path, files: Sequence[Path], names: Sequence[str]) -> dict[str, pl.Series]:
    """The value of each file in the columns that only the names of its folders hold: day=2024-01-01/part-0.parquet."""
    named = [
        {unquote(key): unquote(value) for key, mark, value in (part.partition("=") for part in parts) if mark}
        for parts in (file.relative_to(folder).parts[:-1] for file in files)
    ]
    keys = dict.fromkeys(key for values in named for key in values if key not in names)
    columns = {key: pl.Series([values.get(key, HIVE_NULL) for values in named]) for key in keys}
    return {key: narrow_ids(column.replace(HIVE_NULL, None)) for key, column in columns.items()}


def _check_same_columns(files: Sequence[Path]) -> list[str]:
    """The columns; raises `InputError` for the first file that is no parquet, or has others than the first."""
    first: dict[str, pl.DataType] = {}
    for file in files:
        with readable(str(file), "parquet"):
            columns = dict(pl.read_parquet_schema(file))
        first = first or columns
        for name in {**first, **columns}:
            here, there = columns.get(name), first.get(name)
            if here != there:
                has, had = (f"{kind} in {name!r}" if kind else f"no column {name!r}" for kind in (here, there))
                raise InputError(
                    f"files that are read together must have the same columns, but {file} has {has} where "
                    f"{files[0].name} has {had}; write it again"
                )
    return list(first)


def _missing_parts(path: Path, files: Sequence[Path]) -> str:
    """A note if the numbers of files called part-00000 and so on have a gap."""
    numbers = [int(found[1]) for file in files if (found := re.match(r"part-(\d+)", file.name))]
    gaps = sorted({*range(min(numbers, default=0), max(numbers, default=0))} - {*numbers})
    if not gaps or len(numbers) < len(files):
        return ""
    return (
        f"{len(gaps)} of the parts {min(numbers)} to {max(numbers)} in {path} are missing (first: part "
        f"{gaps[0]}); if they were not empty, write them again"
    )


def _numbers(column: pl.Series, name: str, label: str) -> pl.Series:
    """The column as finite Float64."""
    with readable(f"column {name!r} of {label}", "numbers"):
        numbers = column.cast(pl.Float64, strict=False)
    check_rows(~numbers.is_finite().fill_null(False), column, name, label, "a number")
    return numbers


def _seconds(column: pl.Series, name: str, label: str) -> pl.Series:
    """Numbers as they are; dates and ISO 8601 text as seconds since 1970."""
    if column.dtype in (pl.Date, pl.Datetime):
        check_rows(column.is_null(), column, name, label, "a time")
        return column.cast(pl.Datetime("us")).cast(pl.Int64) / 1e6
    if column.dtype != pl.String or column.cast(pl.Float64, strict=False).null_count() == column.null_count():
        return _numbers(column, name, label)
    parsed = column.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
    seconds = (parsed.cast(pl.Int64) / 1e6).to_numpy().copy()
    for row in parsed.is_null().arg_true():
        try:
            moment = datetime.fromisoformat(column[row] or "")
        except ValueError:
            raise bad_row(name, row, column[row], label, "a number, date or ISO 8601 text") from None
        seconds[row] = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return pl.Series(seconds)


def _parts(column: pl.Series, name: str, label: str) -> pl.Series:
    """The log's own split as 0 train, 1 intervened, 2 validation, 3 test."""
    if column.dtype.is_numeric():
        known: dict[Any, int] = {float(part): part for part in range(4)}
        column = column.cast(pl.Float64)
    else:
        known = PARTS
        with readable(f"column {name!r} of {label}", "a split"):
            column = column.cast(pl.String).str.to_lowercase()
    parts = column.replace_strict(known, default=None, return_dtype=pl.Int8)
    check_rows(parts.is_null(), column, name, label, "0 to 3, or train, intervened, valid or test,")
    return parts


def _text(column: pl.Series, *_: str) -> pl.Series:
    return column.cast(pl.String)


def clean(role: str, column: pl.Series, name: str, label: str) -> pl.Series:
    """A column in the type of its role."""
    return _CLEANERS.get(role, _text)(column, name, label)


_CLEANERS = {
    **dict.fromkeys(("user", "item"), clean_ids),
    **dict.fromkeys(("rating", "rank", "score"), _numbers),
    "time": _seconds,
    "split": _parts,
}
