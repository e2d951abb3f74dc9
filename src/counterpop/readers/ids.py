"""Ids as they come from outside: cleaned to integers or strings, numbered in rising order, and merged as pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray
from counterpop.readers.tables import check_rows

SPREAD = 8  # integer ids that span less than this many numbers per row go through a lookup table
BLOCK = 1 << 18  # rows handled at a time: their arrays fit the cache, which saves allocating fresh memory
EXACT = 2.0**53  # above this, a float cannot represent every whole number
UUID_BYTES = 16
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
        if (column.bin.size() == UUID_BYTES).all():
            parts = [column.bin.encode("hex").str.slice(start, length) for start, length in UUID_PARTS]
            return pl.select(pl.concat_str(parts, separator="-")).to_series()
        column = decode_ids(column, name, label)
    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Duration):
        raise InputError(
            f"column {name!r} of {label} must hold numbers or text as ids, got {column.dtype}; choose another column"
        )
    column = column.cast(pl.String)
    check_rows(column == "", column, name, label, "an id")
    return column


def decode_ids(column: pl.Series, name: str, label: str) -> pl.Series:
    """Bytes that are not all UUIDs, as text."""
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        gaps = column.fill_null(b"")
        bad = pl.Series([value.decode(errors="replace").encode() != value for value in gaps])
        check_rows(bad, column, name, label, "UTF-8 text or the 16 bytes of a UUID as id")
        raise


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


@dataclass(frozen=True, eq=False)
class HashTable:
    """Where a hash is among known ones: a table of the first bits, then a search for those that share a slot."""

    known: NDArray[np.uint64]
    slots: IntArray
    order: NDArray[np.intp]

    @classmethod
    def of(cls, known: NDArray[np.uint64]) -> HashTable:
        bits = min(len(known).bit_length() + 4, 26)
        slots = np.zeros(1 << bits, dtype=np.int32)
        slots[known >> np.uint64(64 - bits)] = np.arange(len(known), dtype=np.int32)
        return cls(known, slots, np.argsort(known))

    def find(self, hashes: NDArray[np.uint64]) -> IntArray:
        """The position of each hash, which must be known."""
        shift = np.uint64(65 - len(self.slots).bit_length())
        ix = np.empty(len(hashes), dtype=np.int32)
        for start in range(0, len(hashes), BLOCK):
            block = hashes[start : start + BLOCK]
            at = self.slots[block >> shift]
            wrong = np.flatnonzero(self.known[at] != block)
            at[wrong] = self.order[np.searchsorted(self.known, block[wrong], sorter=self.order)]
            ix[start : start + BLOCK] = at
        return ix


def find_hashes(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> IntArray:
    """The position of each hash in `known`."""
    return HashTable.of(known).find(hashes)


def sorted_ids(parts: Sequence[pl.Series]) -> pl.Series:
    """The distinct ids of several columns, in rising order; text if any of them is text."""
    if any(part.dtype == pl.String for part in parts):
        parts = [part.cast(pl.String) for part in parts]
    return pl.concat(parts).unique().sort()


@dataclass(frozen=True, eq=False)
class Positions:
    """Sorted ids, ready to be found in column after column."""

    known: pl.Series
    ranks: IntArray | None
    """The position of every number from the lowest id on, if ids are close to each other."""
    hashes: HashTable | None
    """None if two ids share a hash."""

    @classmethod
    def of(cls, known: pl.Series) -> Positions:
        if known.dtype == pl.Int64 and len(known) and known[-1] - known[0] < SPREAD * len(known):
            ranks = np.zeros(known[-1] - known[0] + 1, dtype=np.int32)
            ranks[known.to_numpy() - known[0]] = np.arange(len(known), dtype=np.int32)
            return cls(known, ranks, None)
        hashes = known.hash()
        return cls(known, None, HashTable.of(hashes.to_numpy()) if hashes.n_unique() == len(known) else None)

    @property
    def ids(self) -> Ids:
        return self.known.to_numpy().astype(object) if self.known.dtype == pl.String else self.known.to_numpy()

    def find(self, column: pl.Series) -> IntArray:
        """The position of each id, which must be known."""
        column = column.cast(self.known.dtype)
        if self.ranks is not None:
            return np.asarray(self.ranks[column.to_numpy() - self.known[0]])
        if self.hashes is not None:
            return self.hashes.find(column.hash().to_numpy())
        return self.known.search_sorted(column).to_numpy().astype(np.int32)


def merge_rows(
    key: NDArray[np.int64], n_items: int, columns: Mapping[str, pl.Series]
) -> tuple[IntArray, IntArray, Any, Any]:
    """Users, items, times and parts of pairs, each once: sorted, with their latest time and earliest part.

    `key` is user x n_items + item.
    """
    rows = pl.DataFrame({"key": key, **columns})
    if not bool((key[1:] >= key[:-1]).all()):
        rows = rows.sort("key")
        key = rows["key"].to_numpy()
    fresh = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=fresh[1:])
    n_rows, n_pairs = len(key), int(np.count_nonzero(fresh))

    user_ix, item_ix = np.empty(n_pairs, dtype=np.int32), np.empty(n_pairs, dtype=np.int32)
    at = 0
    for start in range(0, n_rows, BLOCK):
        pairs = key[start : start + BLOCK][fresh[start : start + BLOCK]]
        users = pairs // n_items
        user_ix[at : at + len(pairs)] = users
        item_ix[at : at + len(pairs)] = pairs - users * n_items
        at += len(pairs)
    starts = np.flatnonzero(fresh) if columns else np.empty(0, dtype=np.intp)
    time = np.maximum.reduceat(rows["time"].to_numpy(), starts) if "time" in columns else None
    part = np.minimum.reduceat(rows["split"].to_numpy(), starts) if "split" in columns else None
    return user_ix, item_ix, time, part
