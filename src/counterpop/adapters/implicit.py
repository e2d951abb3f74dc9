"""implicit: ALS, BPR and LMF, as objects or as the npz files that `model.save` writes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from counterpop.adapters.vectors import Vectors, as_vectors
from counterpop.errors import InputError
from counterpop.interactions import Ids


def vectors_of(
    model: Any, *, user_ids: Sequence[Any] | Ids | None = None, item_ids: Sequence[Any] | Ids | None = None
) -> Vectors:
    """The factors of a fitted model, or of the npz file that its `save` wrote.

    Rows are numbered as in the matrix that the model was fitted on; pass the ids of its rows and columns
    where the log has others. BPR keeps an item bias in its last column, LMF biases of both sides in its last
    two: they stay, because the index that serves the model holds them too, and the inner product of whole
    rows is the score.
    """
    if isinstance(model, str | Path):
        return _from_file(Path(model), user_ids, item_ids)
    users, items = (getattr(model, f"{side}_factors", None) for side in ("user", "item"))
    if users is None or items is None:
        raise InputError(
            "a fitted model with user and item factors is needed (ALS, BPR, LMF), "
            f"got {type(model).__name__} without them; call fit first"
        )
    if hasattr(users, "to_numpy"):  # on a GPU
        users, items = users.to_numpy(), items.to_numpy()
    return as_vectors(users, items, user_ids, item_ids)


def _from_file(path: Path, user_ids: Sequence[Any] | Ids | None, item_ids: Sequence[Any] | Ids | None) -> Vectors:
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return as_vectors(arrays["user_factors"], arrays["item_factors"], user_ids, item_ids)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path} must be what implicit's model.save wrote, with user_factors and item_factors ({error})"
        ) from None
