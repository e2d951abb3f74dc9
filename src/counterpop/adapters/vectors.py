"""What every adapter of a model gives back, and the checks they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import polars as pl

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import Ids


class Vectors(TypedDict):
    """Vectors and the ids of their rows: `debias(**vectors, interactions=log)`."""

    user_vectors: FloatArray
    item_vectors: FloatArray
    user_ids: Sequence[Any] | Ids | None
    item_ids: Sequence[Any] | Ids | None


def as_vectors(
    user_vectors: Any, item_vectors: Any, user_ids: Sequence[Any] | Ids | None, item_ids: Sequence[Any] | Ids | None
) -> Vectors:
    """The two sides as float32 matrices; without ids, rows are numbered from 0."""
    sides = []
    for what, vectors, ids in (("user", user_vectors, user_ids), ("item", item_vectors, item_ids)):
        matrix = np.asarray(vectors, dtype=np.float32)
        if matrix.ndim != 2:
            raise InputError(f"{what} vectors must be a matrix with one row for each {what}, got shape {matrix.shape}")
        if ids is not None and len(ids) != len(matrix):
            raise InputError(f"each {what} vector needs an id, got {len(matrix)} vectors and {len(ids)} ids")
        sides.append((matrix, np.arange(len(matrix)) if ids is None else ids))
    (users, own_users), (items, own_items) = sides
    return Vectors(user_vectors=users, item_vectors=items, user_ids=own_users, item_ids=own_items)


def matrix_of(column: pl.Series, where: str) -> FloatArray:
    """The lists of a column as the rows of a matrix."""
    if isinstance(column.dtype, pl.Array):
        return column.to_numpy().astype(np.float32, copy=False)
    if column.dtype != pl.List or column.list.len().n_unique() > 1:
        raise InputError(f"{where}: vectors must be lists of one width, but {column.name} holds others")
    return column.explode().to_numpy().astype(np.float32, copy=False).reshape(len(column), -1)
