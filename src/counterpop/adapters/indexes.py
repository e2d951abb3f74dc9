"""What an approximate index finds: measured, because a transform can move queries to where it finds less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpop.adjustment import Adjustment
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.ranking import rank


def check_index(adjustment: Adjustment, inner_products: bool, dim: int, how: str) -> None:
    """Raises `InputError` unless an index ranks by inner product and has vectors as wide as the adjustment's.

    `how` is what to build it with for inner products.
    """
    if not inner_products:
        raise InputError(
            f"the query transform keeps inner products, but this index ranks by another metric; build it with {how}"
        )
    if dim != (width := len(adjustment.item_direction)):
        raise InputError(f"the adjustment is for vectors of {width} numbers, but the index holds {dim}")


def recall_of(search: Callable[[FloatArray, int], Any], item_vectors: FloatArray, queries: FloatArray, k: int) -> float:
    """The share of the exact top k by inner product that `search(queries, k)` finds: 1 is all of it.

    `search` gives positions in `item_vectors`, (B, K). Compare plain and transformed queries: a graph (HNSW)
    built on inner products is linked towards long, popular vectors, and finds less of what lies elsewhere.
    """
    exact, _ = rank(
        queries,
        item_vectors,
        k,
        users=np.zeros(len(queries), dtype=np.int32),
        seen=[],
        ties=np.arange(len(item_vectors)),
    )
    found = np.asarray(search(queries, k)).astype(np.int64)
    return float(np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(exact, found, strict=True)]))
