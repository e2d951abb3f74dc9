"""Vectors in plain files (npy, npz, safetensors, parquet), and saved models of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from counterpop.adapters.vectors import DAMAGED, Vectors, existing_file, matrix_of
from counterpop.errors import InputError
from counterpop.interactions import Ids, RowIds
from counterpop.readers.pages import check_pages


def read_vectors(path: str | Path) -> tuple[NDArray[Any], Ids | None]:
    """The matrix in a file and, if the file has them, the ids of its rows.

    npy: only the matrix. npz and safetensors: `vectors` and, optionally, `ids`. parquet: a column `id` and either one
    column `vector` of lists or one column per dimension, in order; no others.
    """
    ending = Path(path).suffix.lower()
    if ending not in (".npy", ".npz", ".safetensors", ".parquet"):
        raise InputError(f"vectors are read from .npy, .npz, .safetensors or .parquet, got {path}")
    source = existing_file(path)
    try:
        if ending == ".npy":
            vectors, ids = np.load(source, allow_pickle=False), None
        elif ending == ".parquet":
            check_pages(source)
            vectors, ids = _from_table(source, pl.read_parquet(source))
        else:
            with source.open("rb") as file:  # NumPy would leave a damaged one open
                arrays = load_file(source) if ending == ".safetensors" else dict(np.load(file, allow_pickle=False))
            if "vectors" not in arrays:
                raise InputError(f"{source} must hold an array 'vectors', but has {', '.join(arrays) or 'nothing'}")
            vectors, ids = arrays["vectors"], arrays.get("ids")
    except InputError:
        raise
    except (*DAMAGED, SafetensorError, AttributeError, pl.exceptions.PolarsError) as error:  # AttributeError: bfloat16
        raise InputError(f"{source} cannot be read as {ending[1:]} ({error}); write it again, in float32") from None
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating):
        got = f"{vectors.dtype} of shape {vectors.shape}"
        raise InputError(f"{source} must hold a matrix of floats with one row per id, got {got}")
    return vectors, ids


def _from_table(source: Path, table: pl.DataFrame) -> tuple[NDArray[Any], Ids]:
    if "id" not in table.columns or len(table.columns) < 2:
        raise InputError(f"{source} must have a column 'id' and columns of vectors, but has {', '.join(table.columns)}")
    missing = table["id"].null_count()
    if missing:
        raise InputError(f"{source}: every vector needs an id, but {missing} have none; remove those rows")
    ids = np.array(table["id"].to_list(), dtype=object if table["id"].dtype == pl.String else None)
    rest = table.drop("id")
    if "vector" not in rest.columns:
        return rest.to_numpy(), ids
    if len(rest.columns) > 1:
        others = ", ".join(name for name in rest.columns if name != "vector")
        raise InputError(
            f"{source} must have only the columns 'id' and 'vector', but also has {others}; move what belongs to the "
            "vectors into the lists, and remove the rest"
        )
    return matrix_of(rest["vector"], str(source)), ids


def read_ids(path: str | Path) -> Sequence[Any] | Ids:
    """The ids in a file: a npy array, or text with one id per line."""
    source = existing_file(path)
    try:
        if source.suffix.lower() == ".npy":
            ids: Ids = np.load(source, allow_pickle=False)
            return ids
        with source.open(encoding="utf-8-sig") as lines:  # lines end only at \n or \r\n
            return [line.removesuffix("\n") for line in lines]
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{source} must hold ids, as npy or one per line ({error}); write it again") from None


def read_model(path: str | Path, *, user_ids: RowIds = None, item_ids: RowIds = None) -> Vectors:
    """The vectors of a saved model: implicit's npz, the folder of Spark's ALSModel, or RecBole's pth."""
    from counterpop.adapters import implicit, recbole, spark

    source = Path(path)
    if not source.exists():
        raise InputError(f"{source} does not exist")
    if source.is_dir():
        if user_ids is not None or item_ids is not None:
            raise InputError("a saved ALSModel contains its ids; do not pass user_ids and item_ids")
        return spark.vectors_of(source)
    known = {".npz": implicit.vectors_of, ".pth": recbole.vectors_of, ".pt": recbole.vectors_of}
    if source.suffix.lower() not in known:
        raise InputError(
            f"a model is read from implicit's .npz, the folder of Spark's ALSModel or RecBole's .pth, got {source}"
        )
    return known[source.suffix.lower()](source, user_ids=user_ids, item_ids=item_ids)
