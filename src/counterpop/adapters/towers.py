"""A two-tower net as two callables, in torch, JAX, ONNX or anything else that gives arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from counterpop.adapters.vectors import Vectors, as_vectors
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import Ids

Tower = Callable[[Any], Any]


def vectors_of(
    user_tower: Tower,
    item_tower: Tower,
    users: Any,
    items: Any,
    *,
    user_ids: Sequence[Any] | Ids | None = None,
    item_ids: Sequence[Any] | Ids | None = None,
    batch: int = 4096,
) -> Vectors:
    """What the towers make of all users and items, `batch` at a time.

    A tower takes a slice of its inputs (an array, a tensor or a list: anything that can be cut) and gives one
    vector for each. Scores must be inner products; a net that divides by lengths must give unit vectors.
    Put a torch net into `eval` mode first.
    """
    user_vectors, item_vectors = (
        _run(tower, inputs, batch, what)
        for what, tower, inputs in (("user", user_tower, users), ("item", item_tower, items))
    )
    return as_vectors(user_vectors, item_vectors, user_ids, item_ids)


def _run(tower: Tower, inputs: Any, batch: int, what: str) -> FloatArray:
    if batch < 1 or not len(inputs):
        raise InputError(f"a batch of at least 1 and some {what}s are needed, got {batch} and {len(inputs)}")
    parts = []
    for start in range(0, len(inputs), batch):
        given = inputs[start : start + batch]
        made = tower(given)
        made = made.detach().cpu().numpy() if hasattr(made, "detach") else np.asarray(made)  # torch, or not
        if made.ndim != 2 or len(made) != len(given):
            raise InputError(
                f"the {what} tower must give one vector for each of its {len(given)} inputs, got shape {made.shape}"
            )
        parts.append(made.astype(np.float32, copy=False))
    return np.concatenate(parts)
