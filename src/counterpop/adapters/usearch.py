"""USearch: an existing HNSW index, unchanged, searched with transformed queries."""

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
) -> Any:
    """The matches that `index.search` returns for user vectors (D,) or (B, D) with popularity removed."""
    check_index(adjustment, index.metric_kind.name == "IP", index.ndim, 'metric="ip"')
    return index.search(adjustment.query(user_vectors, item_strength, user_strength), k)
