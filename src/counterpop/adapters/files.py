"""Vectors in plain files: npy, npz, safetensors, parquet; and whole models, by what their file looks like."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import polars as pl
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from counterpop.adapters.vectors import Vectors, matrix_of
from counterpop.errors import InputError
from counterpop.interactions import Ids


def read_vectors(path: str | Path) -> tuple[NDArray[Any], Ids | None]:
    """The matrix in a file and, where the file has them, the ids of its rows.

    npy: the matrix alone. npz and safetensors: `vectors` and, optionally, `ids`. parquet: a column `id` and
    either one column `vector` of lists or one column for each dimension, in their order; no others.
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
            with source.open("rb") as file:  # NumPy would leave a damaged one open
                arrays = load_file(source) if ending == ".safetensors" else dict(np.load(file, allow_pickle=False))
            if "vectors" not in arrays:
                raise InputError(f"{source} must hold an array 'vectors', but has {', '.join(arrays) or 'nothing'}")
            vectors, ids = arrays["vectors"], arrays.get("ids")
    except InputError:
        raise
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
        BadZipFile,
        zlib.error,
        SafetensorError,
        TypeError,
        AttributeError,  # bfloat16
        pl.exceptions.PolarsError,
    ) as error:
        raise InputError(f"{source} cannot be read as {ending[1:]} ({error}); write it again, in float32") from None
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating):
        got = f"{vectors.dtype} of shape {vectors.shape}"
        raise InputError(f"{source} must hold a matrix of floats with a row for each id, got {got}")
    return vectors, ids


def _from_table(source: Path, table: pl.DataFrame) -> tuple[NDArray[Any], Ids]:
    if "id" not in table.columns or len(table.columns) < 2:
        raise InputError(f"{source} must have a column 'id' and the vectors, but has {', '.join(table.columns)}")
    missing = table["id"].null_count()
    if missing:
        raise InputError(f"{source}: every vector needs an id, but {missing} have none; leave those rows out")
    ids = np.array(table["id"].to_list(), dtype=object if table["id"].dtype == pl.String else None)
    rest = table.drop("id")
    if "vector" not in rest.columns:
        return rest.to_numpy(), ids
    if len(rest.columns) > 1:
        others = ", ".join(name for name in rest.columns if name != "vector")
        raise InputError(
            f"{source} must have no columns but 'id' and 'vector', but has {others} as well; put what "
            "belongs to the vectors into the lists, and leave out the rest"
        )
    return matrix_of(rest["vector"], str(source)), ids


def read_ids(path: str | Path) -> Sequence[Any] | Ids:
    """The ids in a file: a npy array, or text with one on each line."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"{source} does not exist")
    try:
        if source.suffix.lower() == ".npy":
            ids: Ids = np.load(source, allow_pickle=False)
            return ids
        with source.open(encoding="utf-8-sig") as lines:  # a file's lines end at \n (or \r\n) alone
            return [line.removesuffix("\n") for line in lines]
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"{source} must hold ids, as npy or one a line ({error}); write it again") from None


def read_model(
    path: str | Path, *, user_ids: Sequence[Any] | Ids | None = None, item_ids: Sequence[Any] | Ids | None = None
) -> Vectors:
    """The vectors of a saved model: implicit's npz, the folder of Spark's ALSModel, or RecBole's pth."""
    from counterpop.adapters import implicit, recbole, spark

    source = Path(path)
    if not source.exists():
        raise InputError(f"{source} does not exist")
    if source.is_dir():
        if user_ids is not None or item_ids is not None:
            raise InputError("a saved ALSModel has its own ids; leave user_ids and item_ids out")
        return spark.vectors_of(source)
    known = {".npz": implicit.vectors_of, ".pth": recbole.vectors_of, ".pt": recbole.vectors_of}
    if source.suffix.lower() not in known:
        raise InputError(
            f"a model is read from implicit's .npz, the folder of Spark's ALSModel or RecBole's .pth, got {source}"
        )
    return known[source.suffix.lower()](source, user_ids=user_ids, item_ids=item_ids)
