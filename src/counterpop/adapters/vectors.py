"""What the adapters of all models return, and the checks they share."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, TypedDict
from zipfile import BadZipFile

import numpy as np
import polars as pl

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import RowIds

DAMAGED = (KeyError, TypeError, ValueError, OSError, EOFError, BadZipFile, zlib.error)  # what NumPy's readers raise


class Vectors(TypedDict):
    """Vectors and the ids of their rows: `debias(**vectors, interactions=log)`."""

    user_vectors: FloatArray
    item_vectors: FloatArray
    user_ids: RowIds
    item_ids: RowIds


def as_vectors(user_vectors: Any, item_vectors: Any, user_ids: RowIds, item_ids: RowIds) -> Vectors:
    """The two sides as float32 matrices; without ids, rows are numbered from 0."""
    sides = []
    for what, vectors, ids in (("user", user_vectors, user_ids), ("item", item_vectors, item_ids)):
        matrix = np.asarray(vectors, dtype=np.float32)
        if matrix.ndim != 2:
            raise InputError(f"{what} vectors must be a matrix with one row per {what}, got shape {matrix.shape}")
        if ids is not None and len(ids) != len(matrix):
            raise InputError(f"each {what} vector needs an id, got {len(matrix)} vectors and {len(ids)} ids")
        sides.append((matrix, np.arange(len(matrix)) if ids is None else ids))
    (users, own_users), (items, own_items) = sides
    return Vectors(user_vectors=users, item_vectors=items, user_ids=own_users, item_ids=own_items)


def existing_file(path: str | Path) -> Path:
    """The path; raises `InputError` unless it is a file."""
    if not Path(path).is_file():
        raise InputError(f"{path} does not exist")
    return Path(path)


def matrix_of(column: pl.Series, where: str) -> FloatArray:
    """The lists of a column as the rows of a matrix."""
    if isinstance(column.dtype, pl.Array):
        return column.to_numpy().astype(np.float32, copy=False)
    if column.dtype != pl.List or column.list.len().n_unique() > 1:
        raise InputError(f"{where}: vectors must be lists of equal length, but those of {column.name} are not")
    return column.explode().to_numpy().astype(np.float32, copy=False).reshape(len(column), -1)
