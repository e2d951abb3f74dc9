"""Ids as they come from outside: cleaned to integers or strings, then numbered in rising order."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray
from counterpop.readers.tables import check_rows

SPREAD = 8  # integer ids that span less than this many numbers per row go through a lookup table
BLOCK = 1 << 18  # rows handled at a time: their arrays fit the cache, which saves allocating fresh memory
EXACT = 2.0**53  # above this, a float cannot represent every whole number
UUID_PARTS = ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))  # start and length of each group of hex digits


def clean_ids(column: pl.Series, name: str, label: str) -> pl.Series:
    """The column as Int64 or String, without gaps."""
    check_rows(column.is_null(), column, name, label, "an id")
    if column.dtype.is_float():
        column = column.cast(pl.Float64)
        bad = ~((column.floor() == column) & (column.abs() <= EXACT))  # polars orders NaN above every number
        check_rows(bad, column, name, label, "a whole number as id (or text)")
        return column.cast(pl.Int64)
    if column.dtype.is_integer():
        fits = column.cast(pl.Int64, strict=False)
        return fits if fits.null_count() == 0 else column.cast(pl.String)
    if column.dtype == pl.Binary:
        if (column.bin.size() == 16).all():
            parts = [column.bin.encode("hex").str.slice(start, length) for start, length in UUID_PARTS]
            return pl.select(pl.concat_str(parts, separator="-")).to_series()
        try:
            column = column.cast(pl.String)
        except pl.exceptions.ComputeError:
            bad = pl.Series([value.decode(errors="replace").encode() != value for value in column])
            check_rows(bad, column, name, label, "UTF-8 text or the 16 bytes of a UUID as id")
            raise
    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Duration):
        raise InputError(
            f"column {name!r} of {label} must hold numbers or text as ids, got {column.dtype}; choose another column"
        )
    column = column.cast(pl.String)
    check_rows(column == "", column, name, label, "an id")
    return column


def narrow_ids(column: pl.Series) -> pl.Series:
    """Text as integers if every id is written as one, or every one as 7.0; 007, +7 and 1e2 stay text, like all others.

    >>> narrow_ids(pl.Series(["7", "-20"])).to_list(), narrow_ids(pl.Series(["100", "1e2"])).to_list()
    ([7, -20], ['100', '1e2'])
    """
    whole = column.str.strip_suffix(".0") if column.str.ends_with(".0").all() else column
    numbers = whole.cast(pl.Int64, strict=False)
    if numbers.null_count() > column.null_count():
        return column
    same = numbers.cast(pl.String).str.len_bytes() == whole.str.len_bytes()  # no zeros or sign in front
    return numbers if same.all() else column


def index_ids(column: pl.Series, size: int | None = None) -> tuple[Ids, IntArray]:
    """The ids in rising order, and the position of every row's id; with `size` the ids already are positions."""
    if size is not None:
        return np.arange(size), column.to_numpy().astype(np.int32)
    if column.dtype == pl.String:
        known, ix = _index_by_hash(column)
        return known.to_numpy().astype(object), ix
    ids = column.to_numpy()
    low, high = int(ids.min()), int(ids.max())
    if high - low >= SPREAD * len(ids):
        known, ix = _index_by_hash(column)
        return known.to_numpy(), ix
    ids = ids - low
    seen = np.zeros(high - low + 1, dtype=bool)
    seen[ids] = True
    rank = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(seen) + low, rank[ids]


def _index_by_hash(column: pl.Series) -> tuple[pl.Series, IntArray]:
    """The same through hashes, which are several times faster than strings; falls back if two ids share a hash."""
    hashes = column.hash()
    known = column.gather(hashes.arg_unique()).sort()
    ix = find_hashes(hashes.to_numpy(), known.hash().to_numpy())
    if (known.gather(ix) == column).all():
        return known, ix
    known = column.unique().sort()
    return known, known.search_sorted(column).to_numpy().astype(np.int32)


def find_hashes(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> IntArray:
    """The position of each hash in `known`: by a table of the first bits, then a search for those that share a slot."""
    bits = min(len(known).bit_length() + 4, 26)
    shift = np.uint64(64 - bits)
    slots = np.zeros(1 << bits, dtype=np.int32)
    slots[known >> shift] = np.arange(len(known), dtype=np.int32)
    ix = np.empty(len(hashes), dtype=np.int32)
    order = np.argsort(known)
    for start in range(0, len(hashes), BLOCK):
        block = hashes[start : start + BLOCK]
        at = slots[block >> shift]
        wrong = np.flatnonzero(known[at] != block)
        at[wrong] = order[np.searchsorted(known, block[wrong], sorter=order)]
        ix[start : start + BLOCK] = at
    return ix
