"""Spark: the factors of an ALSModel, in memory or saved; reading a saved one needs neither Spark nor Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from counterpop.adapters.vectors import Vectors, as_vectors, matrix_of
from counterpop.errors import InputError


def vectors_of(model: Any) -> Vectors:
    """The factors and ids of an ALSModel, or of the folder that `model.save` (or `write().save`) wrote.

    Factors are transferred through Arrow, which Spark 4 includes; if there are very many, save the model and pass the
    folder.
    """
    if isinstance(model, str | Path):
        users, items = (_read_folder(Path(model), f"{side}Factors") for side in ("user", "item"))
    elif hasattr(model, "userFactors"):
        users, items = _collect(model.userFactors), _collect(model.itemFactors)
    else:
        raise InputError(f"the model must be an ALSModel or the folder of a saved one, got {type(model).__name__}")
    (user_ids, user_vectors), (item_ids, item_vectors) = users, items
    return as_vectors(user_vectors, item_vectors, user_ids, item_ids)


def _collect(frame: Any) -> tuple[Any, Any]:
    """Ids and factors of a DataFrame with the columns id and features."""
    table = pl.from_arrow(frame.toArrow()) if hasattr(frame, "toArrow") else pl.from_pandas(frame.toPandas())
    return _ids_and_factors(table, "the model")


def _read_folder(path: Path, side: str) -> tuple[Any, Any]:
    parts = sorted((path / side).glob("*.parquet"))
    if not parts:
        raise InputError(f"{path} must be a saved ALSModel with parquet files under {side}, but has none there")
    try:
        return _ids_and_factors(pl.read_parquet(parts), str(path))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}/{side} cannot be read as parquet ({error}); save the model again") from None


def _ids_and_factors(table: Any, what: str) -> tuple[Any, Any]:
    if not {"id", "features"} <= set(table.columns):
        raise InputError(f"factors of {what} must have the columns id and features, got {table.columns}")
    return table["id"].to_numpy(), matrix_of(table["features"], what)
