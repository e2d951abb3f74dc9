"""A trained model as data: two matrices and their ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import Ids, Interactions
from counterpop.presentation import Shown

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings(Shown):
    """User vectors (U, D) and item vectors (I, D) in float32, in the order of their ids.

    A score is the inner product of the two. Vectors must be finite and all of the same width.
    """

    user_vectors: FloatArray
    item_vectors: FloatArray
    user_ids: Ids
    item_ids: Ids

    def __post_init__(self) -> None:
        for side, vectors, ids in (
            ("user", self.user_vectors, self.user_ids),
            ("item", self.item_vectors, self.item_ids),
        ):
            if vectors.ndim != 2 or vectors.dtype != np.float32:
                raise InputError(
                    f"{side} vectors must be a float32 matrix with one row for each {side}, "
                    f"got {vectors.dtype} of shape {vectors.shape}"
                )
            if len(vectors) != len(ids):
                raise InputError(f"each {side} needs one vector, got {len(vectors)} vectors for {len(ids)} {side} ids")
            bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
            if len(bad):
                raise InputError(
                    f"vectors must be finite, but {len(bad)} {side} vectors hold NaN or infinity "
                    f"(first: {side} {ids[bad[:1]].tolist()[0]!r}); lower the learning rate or drop them"
                )
        if self.user_vectors.shape[1] != self.item_vectors.shape[1]:
            raise InputError(
                f"user and item vectors must have the same width, got {self.user_vectors.shape[1]} "
                f"and {self.item_vectors.shape[1]}"
            )

    def __repr__(self) -> str:
        return f"Embeddings({len(self.user_ids):,} users, {len(self.item_ids):,} items, dim {self.dim})"

    @property
    def dim(self) -> int:
        return int(self.user_vectors.shape[1])


def check_same_ids(vectors: Embeddings, *logs: Interactions) -> None:
    """Raises `InputError` unless positions mean the same users and items in the vectors and in all logs."""
    for log in logs:
        for side in ("user", "item"):
            mine, theirs = getattr(vectors, f"{side}_ids"), getattr(log, f"{side}_ids")
            if mine is not theirs and not np.array_equal(mine, theirs):
                raise InputError(
                    f"vectors and log must hold the same {side}s in the same order, but their {len(mine)} and "
                    f"{len(theirs)} {side}s differ; use the split that the model was trained on"
                )
