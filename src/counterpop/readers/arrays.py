"""Arrays: npz archives and SciPy matrices, whose positions are the ids."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from counterpop.errors import InputError
from counterpop.readers.tables import Roles, Table, bad_row, readable


def open_npz(path: Path) -> Table:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an npz file, or is truncated; write it again with numpy.savez")

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        with readable(str(path), "npz"), np.load(path, allow_pickle=False) as archive:
            arrays = {role: archive[name] for role, name in chosen.items()}
        shapes = {chosen[role]: array.shape for role, array in arrays.items()}
        if len(set(shapes.values())) > 1 or arrays["item"].ndim != 1:
            raise InputError(f"the arrays of {path} must be flat and of one length, got the shapes {shapes}")
        for role in ("user", "item"):
            array = arrays.get(role, np.empty(0))
            if array.dtype.kind in "if" and len(bad := np.flatnonzero(array < 0)):
                raise bad_row(chosen[role], bad[0], array[bad[0]], str(path), "a position of at least 0")
        return pl.DataFrame(arrays)

    with readable(str(path), "npz"), np.load(path, allow_pickle=False) as archive:
        return Table(str(path), list(archive.files), take)


def open_matrix(matrix: Any, asked: Roles) -> Table:
    pairs = matrix.tocsr().copy()
    pairs.sum_duplicates()
    pairs.eliminate_zeros()
    pairs = pairs.tocoo()

    def take(chosen: dict[str, str]) -> pl.DataFrame:
        arrays = {"user": pairs.row, "item": pairs.col, "rating": pairs.data}
        return pl.DataFrame({role: arrays[role] for role in chosen})

    names = [asked.get(role) or role for role in ("user", "item", "rating")]
    return Table("the SciPy matrix", names, take, shape=matrix.shape)
