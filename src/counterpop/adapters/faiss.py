"""FAISS: an existing index, unchanged, searched with transformed queries."""

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
    """Scores and ids as `index.search` returns them, for user vectors (B, D) with popularity removed.

    Strengths default to the tuned ones. A flat index returns exactly what adjusted vectors would. The recall of IVF
    and HNSW may be higher or lower than for plain queries: measure yours with `adapters.indexes.recall_of`.
    """
    import faiss

    inner_products = index.metric_type == faiss.METRIC_INNER_PRODUCT
    check_index(adjustment, inner_products, index.d, "METRIC_INNER_PRODUCT")
    queries = np.atleast_2d(adjustment.query(user_vectors, item_strength, user_strength))
    scores, ids = index.search(np.ascontiguousarray(queries), k)
    return scores, ids
