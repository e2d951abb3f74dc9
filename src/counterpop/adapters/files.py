"""Vectors in plain files: npy, npz, safetensors, parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from counterpop.errors import InputError
from counterpop.interactions import Ids


def read_vectors(path: str | Path) -> tuple[NDArray[Any], Ids | None]:
    """The matrix in a file and, where the file has them, the ids of its rows.

    npy: the matrix alone. npz and safetensors: `vectors` and, optionally, `ids`. parquet: a column `id` and
    either one column `vector` of lists or one column for each dimension, in their order.
    """
    source = Path(path)
    ending = source.suffix.lower()
    if ending not in (".npy", ".npz", ".safetensors", ".parquet"):
        raise InputError(f"vectors are read from .npy, .npz, .safetensors or .parquet, got {source}")
    if not source.is_file():
        raise InputError(f"{source} does not exist")
    try:
        if ending == ".npy":
            vectors, ids = np.load(source, allow_pickle=False), None
        elif ending == ".parquet":
            vectors, ids = _from_table(source, pl.read_parquet(source))
        else:
            arrays = (
                load_file(source) if ending == ".safetensors" else dict(np.load(source, allow_pickle=False))
            )
            if "vectors" not in arrays:
                raise InputError(
                    f"{source} must hold an array 'vectors', but has {', '.join(arrays) or 'nothing'}"
                )
            vectors, ids = arrays["vectors"], arrays.get("ids")
    except (ValueError, OSError, EOFError, SafetensorError, pl.exceptions.PolarsError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source} cannot be read as {ending[1:]} ({error}); write it again") from None
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating):
        got = f"{vectors.dtype} of shape {vectors.shape}"
        raise InputError(f"{source} must hold a matrix of floats with a row for each id, got {got}")
    return vectors, ids


def _from_table(source: Path, table: pl.DataFrame) -> tuple[NDArray[Any], Ids]:
    if "id" not in table.columns or len(table.columns) < 2:
        raise InputError(
            f"{source} must have a column 'id' and the vectors, but has {', '.join(table.columns)}"
        )
    ids = np.array(table["id"].to_list(), dtype=object if table["id"].dtype == pl.String else None)
    rest = table.drop("id")
    if "vector" not in rest.columns:
        return rest.to_numpy(), ids
    if rest["vector"].dtype == pl.List and rest["vector"].list.len().n_unique() > 1:
        raise InputError(f"{source}: vectors must have one width, but lists of several lengths occur")
    return np.array(rest["vector"].to_list(), dtype=np.float32), ids
