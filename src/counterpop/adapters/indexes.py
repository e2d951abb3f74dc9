"""What an approximate index finds: measured, because a transform can move queries to where it finds less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpop.embeddings import FloatArray
from counterpop.ranking import rank


def recall_of(
    search: Callable[[FloatArray, int], Any], item_vectors: FloatArray, queries: FloatArray, k: int
) -> float:
    """The share of the exact top k by inner product that `search(queries, k)` finds: 1 is all of it.

    `search` gives positions in `item_vectors`, (B, K). Compare plain and transformed queries: a graph (HNSW)
    built on inner products is linked towards long, popular vectors, and finds less of what lies elsewhere.
    """
    exact, _ = rank(
        queries, item_vectors, k,
        users=np.zeros(len(queries), dtype=np.int32), seen=[], ties=np.arange(len(item_vectors)),
    )  # fmt: skip
    found = np.asarray(search(queries, k)).astype(np.int64)
    return float(np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(exact, found, strict=True)]))
