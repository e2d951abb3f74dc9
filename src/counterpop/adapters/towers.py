"""Two-tower models as two callables, in torch, JAX, ONNX or anything else that returns arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpop.adapters.vectors import Vectors, as_vectors
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import RowIds

Tower = Callable[[Any], Any]


def vectors_of(
    user_tower: Tower,
    item_tower: Tower,
    users: Any,
    items: Any,
    *,
    user_ids: RowIds = None,
    item_ids: RowIds = None,
    batch: int = 4096,
) -> Vectors:
    """The vectors that the towers compute for all users and items, `batch` at a time.

    A tower takes a slice of its inputs (an array, a tensor or a list: anything that can be sliced) and returns one
    vector for each. Scores must be inner products; a model that scores by cosine must return unit vectors.
    Put a torch model into `eval` mode first.
    """
    user_vectors, item_vectors = _run(user_tower, users, batch, "user"), _run(item_tower, items, batch, "item")
    return as_vectors(user_vectors, item_vectors, user_ids, item_ids)


def _run(tower: Tower, inputs: Any, batch: int, what: str) -> FloatArray:
    if batch < 1 or not len(inputs):
        raise InputError(f"batch must be at least 1 and there must be {what}s, got {batch} and {len(inputs)} {what}s")
    parts = []
    for start in range(0, len(inputs), batch):
        given = inputs[start : start + batch]
        made = tower(given)
        made = made.detach().cpu().numpy() if hasattr(made, "detach") else np.asarray(made)  # torch, or not
        if made.ndim != 2 or len(made) != len(given):
            raise InputError(
                f"the {what} tower must return one vector for each of its {len(given)} inputs, got shape {made.shape}"
            )
        parts.append(made.astype(np.float32, copy=False))
    return np.concatenate(parts)
