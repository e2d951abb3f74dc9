"""FAISS: an index that serves already, untouched, searched with transformed queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.adapters.indexes import check_index
from counterpop.adjustment import Adjustment
from counterpop.embeddings import FloatArray


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
    import faiss

    inner_products = index.metric_type == faiss.METRIC_INNER_PRODUCT
    check_index(adjustment, inner_products, index.d, "METRIC_INNER_PRODUCT")
    queries = np.atleast_2d(adjustment.query(user_vectors, item_strength, user_strength))
    scores, ids = index.search(np.ascontiguousarray(queries), k)
    return scores, ids
