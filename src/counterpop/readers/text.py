"""Text files with columns: csv, tsv and RecBole's .inter."""

from __future__ import annotations

import csv
import gzip
import math
import os
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import polars as pl

from counterpop.errors import InputError
from counterpop.readers.ids import narrow_ids
from counterpop.readers.tables import Roles, Table, readable

BLOCK = 1 << 22  # bytes
ZSTD_MARK = b"\x28\xb5\x2f\xfd"
SEPARATORS = (",", ";", "\t")
LINE = "\x1f"  # in no line: with it as separator, every line is one column
INFERRED_ROWS = 10_000  # a column whose type changes further down is read a second time, as strings


def check_size(path: Path) -> None:
    """Raises `InputError` for a text file that is larger than the memory of this machine."""
    size, memory = _text_bytes(path), _memory_bytes()
    if size > memory:
        raise InputError(
            f"text is read into memory as a whole, but {path} holds {size / 1e9:.1f} GB and this machine has "
            f"{memory / 1e9:.1f} GB; write it as a folder of parquet files, which can be larger"
        )


def _text_bytes(path: Path) -> int:
    """The size of the text in a file; of a compressed one at least what it states, or else the size of the file."""
    with path.open("rb") as file:
        head = file.read(18)
    size = path.stat().st_size
    if path.suffix.lower() != ".zst" or head[:4] != ZSTD_MARK or len(head) < 18:
        return size
    flags = head[4]  # RFC 8878: how long the size is, whether there is no window, and how long the dictionary's id is
    single = bool(flags & 0x20)
    at, width = 6 - single + (0, 1, 2, 4)[flags & 3], (single, 2, 4, 8)[flags >> 6]
    return max(size, int.from_bytes(head[at : at + width], "little") + (256 if width == 2 else 0))


def _memory_bytes() -> float:
    """The memory of this machine; infinity where the system does not tell."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def open_text(path: Path, kind: str, asked: Roles, header: bool) -> Table:
    """A csv, tsv or .inter file. Every column is parsed, or polars would accept rows with too many fields."""
    with readable(str(path), kind):
        separator, skipped = _separator(path) if kind == "csv" else ("\t", 0)

    def scan(types: dict[str, Any] | None) -> pl.LazyFrame:
        return pl.scan_csv(
            path,
            has_header=header,
            separator=separator,
            decimal_comma=separator == ";",  # as spreadsheets write it where a comma is the decimal sign
            skip_rows=skipped,
            quote_char=None if kind == "inter" else '"',
            infer_schema_length=INFERRED_ROWS if types is None else 0,
            schema_overrides=types,
            glob=False,
        )

    if kind != "inter" and path.suffix.lower() != ".zst" and (wrong := _misread(path, kind, separator)):
        raise InputError(f"{path} could not be read as {kind}: {wrong}; repair it or write it again")
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
        ids = [read[side] for side in ("user", "item") if side in read]
        types: dict[str, Any] = {**schema, **dict.fromkeys([*rest, *ids], pl.String)}
        with readable(str(path), kind, lambda: _first_ragged(path, separator)):
            try:
                rows = scan(types).select(wanted).collect()
            except pl.exceptions.ComputeError:  # a column turns into text further down
                rows = scan(dict.fromkeys(columns, pl.String)).select(wanted).collect()
                rows = rows.with_columns(narrow(rows[role]) for role in chosen if read[role] not in ids)
        while rows.height and all(value is None or value is True for value in rows.row(-1)):
            rows = rows.head(-1)  # blank lines at the end
        return rows.select(narrow_ids(rows[role]) if read[role] in ids else rows[role] for role in chosen)

    hint = ", or header=False if the first line is already a row" if header and kind != "inter" else ""
    declared = {"time": "timestamp"} if kind == "inter" and "timestamp" in names else {}
    return Table(str(path), names, take, hint, declared=declared)


def read_lines(path: Path, most: int | None = None) -> pl.Series:
    """The lines of a text file, which may be compressed; with `most`, the first ones."""
    if path.suffix.lower() in (".gz", ".zst"):
        rows = pl.scan_csv(path, has_header=False, separator=LINE, quote_char=None, infer_schema=False, glob=False)
        return (rows if most is None else rows.head(most)).collect().to_series().fill_null("")
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n") if most is None else [*islice(file, most)]
    return pl.Series([line.rstrip("\r\n") for line in lines], dtype=pl.String)


def _separator(path: Path) -> tuple[str, int]:
    """What separates the columns of a csv file (comma, semicolon or tab), and how many lines to skip.

    The first line decides: the separator that gives the most columns. A first line "sep=;", which spreadsheets write
    and read, is taken at its word and skipped.
    """
    first = str((read_lines(path, 1).to_list() or [""])[0])
    if first.lower().startswith("sep=") and len(first) == 5:
        return first[4], 1
    first = first.replace("\r", "")  # csv refuses one within a line, and so shall we, later and in words
    widths = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in SEPARATORS}
    return max(SEPARATORS, key=lambda mark: widths[mark]), 0


def narrow(column: pl.Series) -> pl.Series:
    """Text as integers or floats if every value is one."""
    for kind in (pl.Int64, pl.Int128, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == column.null_count():
            return numbers
    return column


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def _misread(path: Path, kind: str, separator: str) -> str:
    """What polars would read in silence, in words: an end inside quotes, or a CR within a line; empty if nothing is."""
    quotes = returns = ends = 0
    with readable(str(path), kind), _open(path) as file:
        last = b""
        while block := file.read(BLOCK):
            quotes += block.count(b'"')
            returns += block.count(b"\r")
            ends += (last[-1:] + block).count(b"\r\n")
            last = block
    returns -= last.endswith(b"\r")
    if quotes % 2 == 0 and returns == ends:
        return ""
    with _open(path) as file:
        lines = csv.reader((line.decode(errors="replace") for line in file), delimiter=separator, strict=True)
        try:
            for _ in lines:
                pass
        except csv.Error as error:
            if "unexpected end" in str(error):
                return "it ends inside quotes, so it was cut off or a quote is missing"
            what = "a carriage return within it" if "new-line" in str(error) else "quotes within a field"
            return f"line {lines.line_num} has {what}"
    return ""


def _first_ragged(path: Path, separator: str) -> str:
    """The first line with more fields than line 1, in words; empty if there is none."""
    if path.suffix.lower() == ".zst":
        return ""  # Python reads it only from 3.14 on
    with _open(path) as file:
        lines = csv.reader((line.decode(errors="replace") for line in file), delimiter=separator)
        width = len(next(lines))
        for fields in lines:
            if len(fields) > width:
                return f"line {lines.line_num} has {len(fields)} fields where line 1 has {width}"
    return ""
