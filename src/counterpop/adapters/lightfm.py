"""LightFM: the representations of users and items, including item biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpop.adapters.vectors import Vectors, as_vectors
from counterpop.errors import InputError
from counterpop.interactions import RowIds


def vectors_of(
    model: Any,
    *,
    user_features: Any = None,
    item_features: Any = None,
    user_ids: RowIds = None,
    item_ids: RowIds = None,
) -> Vectors:
    """Vectors (u, 1) of users and (v, bias) of items, whose inner products rank items as LightFM does.

    User biases are left out: they shift all scores of a user by the same amount. Pass the features that `fit` got.
    """
    if not hasattr(model, "get_user_representations") or getattr(model, "item_embeddings", None) is None:
        raise InputError(f"the model must be a fitted LightFM model, got {type(model).__name__}; call fit first")
    _, users = model.get_user_representations(user_features)
    biases, items = model.get_item_representations(item_features)
    users = np.column_stack([users, np.ones(len(users), dtype=np.float32)])
    return as_vectors(users, np.column_stack([items, biases]), user_ids, item_ids)
