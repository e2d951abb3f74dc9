"""Spark: the factors of an ALSModel, in memory or saved; reading a saved one needs neither Spark nor Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from counterpop.adapters.vectors import Vectors, as_vectors, matrix_of
from counterpop.errors import InputError
from counterpop.readers.pages import check_pages


def vectors_of(model: Any) -> Vectors:
    """The factors and ids of an ALSModel, or of the folder that `model.save` (or `write().save`) wrote.

    Factors are transferred through Arrow, which Spark 4 includes; if there are very many, save the model and pass the
    folder.
    """
    sides = "userFactors", "itemFactors"
    if isinstance(model, str | Path):
        tables = [_read_folder(Path(model), side) for side in sides]
    elif hasattr(model, "userFactors"):
        frames = [getattr(model, side) for side in sides]
        tables = [pl.DataFrame(f.toArrow() if hasattr(f, "toArrow") else f.toPandas()) for f in frames]
    else:
        raise InputError(f"the model must be an ALSModel or the folder of a saved one, got {type(model).__name__}")
    for table in tables:
        if not {"id", "features"} <= set(table.columns):
            raise InputError(f"factors of an ALSModel must have the columns id and features, got {table.columns}")
    (user_ids, user_vectors), (item_ids, item_vectors) = (
        (table["id"].to_numpy(), matrix_of(table["features"], side)) for table, side in zip(tables, sides, strict=True)
    )
    return as_vectors(user_vectors, item_vectors, user_ids, item_ids)


def _read_folder(path: Path, side: str) -> pl.DataFrame:
    parts = sorted((path / side).glob("*.parquet"))
    if not parts:
        raise InputError(f"{path} must be a saved ALSModel with parquet files under {side}, but has none there")
    try:
        for part in parts:
            check_pages(part)
        return pl.read_parquet(parts)
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}/{side} cannot be read as parquet ({error}); save the model again") from None
