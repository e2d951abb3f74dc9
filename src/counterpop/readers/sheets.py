"""Spreadsheets: the first sheet of an .xlsx file."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from counterpop.errors import InputError
from counterpop.readers.tables import Roles, Table, open_frame, readable


def open_sheet(path: Path, asked: Roles, header: bool) -> Table:
    """The first sheet; without a header its columns are, by position, user, item, rating, time."""
    try:
        import fastexcel
    except ImportError:
        raise InputError(
            f"reading {path} needs fastexcel, which is not installed; pip install 'counterpop[xlsx]', or save it as csv"
        ) from None
    with readable(str(path), "xlsx"):
        try:
            rows = pl.read_excel(path, has_header=header, infer_schema_length=None)
        except fastexcel.FastExcelError as error:
            raise ValueError(str(error)) from None
    if not header:
        roles = ("user", "item", "rating", "time")
        names = [asked.get(role) or role for role in roles][: rows.width]
        rows = rows.rename(dict(zip(rows.columns, names, strict=False)))
    return open_frame(str(path), rows.lazy(), "xlsx")
