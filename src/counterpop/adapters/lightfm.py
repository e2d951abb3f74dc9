"""LightFM: the representations of users and items with their biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from counterpop.adapters.vectors import Vectors, as_vectors
from counterpop.errors import InputError
from counterpop.interactions import Ids


def vectors_of(
    model: Any,
    *,
    user_features: Any = None,
    item_features: Any = None,
    user_ids: Sequence[Any] | Ids | None = None,
    item_ids: Sequence[Any] | Ids | None = None,
) -> Vectors:
    """Representations (u, 1) of users and (v, bias) of items: their inner product is the score, ranked alike.

    The user's own bias moves all scores of a user together and is left out. Pass the features that `fit` got.
    """
    if not hasattr(model, "get_user_representations") or getattr(model, "item_embeddings", None) is None:
        raise InputError(f"a fitted LightFM model is needed, got {type(model).__name__}; call fit first")
    _, users = model.get_user_representations(user_features)
    biases, items = model.get_item_representations(item_features)
    users = np.column_stack([users, np.ones(len(users), dtype=np.float32)])
    return as_vectors(users, np.column_stack([items, biases]), user_ids, item_ids)
