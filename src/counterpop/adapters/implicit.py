"""implicit: ALS, BPR and LMF, in memory or saved as npz by `model.save`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from counterpop.adapters.vectors import DAMAGED, Vectors, as_vectors, existing_file
from counterpop.errors import InputError
from counterpop.interactions import RowIds


def vectors_of(model: Any, *, user_ids: RowIds = None, item_ids: RowIds = None) -> Vectors:
    """The factors of a fitted model, or of the npz file that its `save` wrote.

    Rows are numbered as in the matrix that the model was fitted on; pass the ids of its rows and columns if the log
    uses others. BPR keeps an item bias in its last column, LMF the biases of both sides in its last two. They stay:
    the index that serves the model contains them too, and the score is the inner product of whole rows.
    """
    if isinstance(model, str | Path):
        return as_vectors(*_read_factors(existing_file(model)), user_ids, item_ids)
    users, items = (getattr(model, f"{side}_factors", None) for side in ("user", "item"))
    if users is None or items is None:
        raise InputError(
            "the model must be fitted and have user and item factors (ALS, BPR, LMF), "
            f"got {type(model).__name__} without them; call fit first"
        )
    if hasattr(users, "to_numpy"):  # on a GPU
        users, items = users.to_numpy(), items.to_numpy()
    return as_vectors(users, items, user_ids, item_ids)


def _read_factors(path: Path) -> tuple[Any, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return arrays["user_factors"], arrays["item_factors"]
    except DAMAGED as error:
        raise InputError(
            f"{path} must be a model saved by implicit, with user_factors and item_factors ({error}); save it again"
        ) from None
