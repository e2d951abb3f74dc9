"""The counts in the page headers of a parquet file: polars takes them for sizes, and a damaged one ends the process."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAGIC = b"PAR1"
_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3  # fields by number, as in parquet.thrift: of the footer, a row group, a chunk,
_VALUES, _LENGTH, _DATA, _DICTIONARY = 5, 7, 9, 11  # of a column,
_UNPACKED, _PACKED, _DICTIONARY_PAGE, _DATA_PAGES = 2, 3, 7, (5, 8)  # and of a page header, whose counts are field 1


def check_pages(path: Path) -> None:
    """Raises `ValueError` if a page does not hold between none and all of its column's values."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            for column in _columns(data):
                _check_column(data, column)
        except (IndexError, KeyError, TypeError, AttributeError):
            raise ValueError("its footer or a page header is damaged") from None


def _columns(data: mmap.mmap) -> Iterator[dict[int, Any]]:
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != MAGIC or length > len(data) - 12:
        raise ValueError("its footer is damaged")
    footer = _Compact(data, len(data) - 8 - length).value(12)
    return (chunk[_COLUMN] for group in footer[_ROW_GROUPS] for chunk in group[_COLUMNS])


def _check_column(data: mmap.mmap, column: dict[int, Any]) -> None:
    at = column.get(_DICTIONARY) or column[_DATA]
    end = at + column[_LENGTH]
    while at < end:
        page = _Compact(data, at)
        header = page.value(12)
        most = {_DICTIONARY_PAGE: 8 * header[_UNPACKED]} | dict.fromkeys(_DATA_PAGES, column[_VALUES])
        if header[_PACKED] < 0 or any(not 0 <= header[kind][1] <= most[kind] for kind in most if kind in header):
            raise ValueError(f"the page header at byte {at:,} is damaged")
        at = page.at + header[_PACKED]


class _Compact:
    """Values in Thrift's compact protocol, from a place in a file on; a struct is a dict by field number."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at
        if at < 0:
            raise IndexError(at)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """A whole number of at least 0."""
        value = shift = 0
        while (byte := self.byte()) & 128:
            value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift

    def signed(self) -> int:
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def value(self, kind: int) -> Any:
        if kind in (4, 5, 6):
            return self.signed()
        if kind in (9, 10):  # a list
            length, kind = divmod(self.byte(), 16)
            return [self.value(max(kind, 3)) for _ in range(length if length < 15 else self.number())]
        if kind == 12:
            return self.struct()
        if kind == 3:
            return self.byte()
        if kind in (7, 8):  # a float, or bytes, which nobody asks for
            length = 8 if kind == 7 else self.number()
            self.at += length
            return None
        if kind in (1, 2):
            return kind == 1
        raise IndexError(kind)

    def struct(self) -> dict[int, Any]:
        found, field = dict[int, Any](), 0
        while head := self.byte():
            step, kind = divmod(head, 16)
            field = field + step if step else self.signed()
            found[field] = self.value(kind)
        return found
