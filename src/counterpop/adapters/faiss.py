"""FAISS: an index that serves already, untouched, searched with transformed queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError


def search(
    index: Any,
    adjustment: Adjustment,
    user_vectors: NDArray[np.floating],
    k: int,
    *,
    item_strength: float | FloatArray | None = None,
    user_strength: float | FloatArray | None = None,
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Scores and ids as `index.search` gives them, for user vectors (B, D) with popularity taken out.

    Strengths default to the tuned ones. A flat index gives exactly what adjusted vectors would; IVF and HNSW
    may find more or less of it than of plain queries: `adapters.indexes.recall_of` measures yours.
    """
    _check(index, len(adjustment.item_direction))
    queries = np.atleast_2d(adjustment.query(user_vectors, item_strength, user_strength))
    scores, ids = index.search(np.ascontiguousarray(queries), k)
    return scores, ids


def _check(index: Any, dim: int) -> None:
    """Raises `InputError` unless the index ranks by inner product and has vectors of `dim` numbers."""
    import faiss

    if index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise InputError(
            "the query transform keeps inner products, but this index ranks by another metric; build it with "
            "METRIC_INNER_PRODUCT"
        )
    if index.d != dim:
        raise InputError(f"the adjustment is for vectors of {dim} numbers, but the index holds {index.d}")
