"""USearch: an HNSW index that serves already, untouched, searched with transformed queries."""

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
) -> Any:
    """The matches that `index.search` gives for user vectors (D,) or (B, D) with popularity taken out."""
    if index.metric_kind.name != "IP":
        raise InputError(
            "the query transform keeps inner products, but this index ranks by another metric; build it with "
            'metric="ip"'
        )
    if index.ndim != len(adjustment.item_direction):
        raise InputError(
            f"the adjustment is for vectors of {len(adjustment.item_direction)} numbers, but the index holds "
            f"{index.ndim}"
        )
    return index.search(adjustment.query(user_vectors, item_strength, user_strength), k)
