"""The recall of an approximate index, which a query transform can lower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from counterpop.adjustment import Adjustment
from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.ranking import rank


def check_index(adjustment: Adjustment, inner_products: bool, dim: int, how: str) -> None:
    """Raises `InputError` unless an index ranks by inner product and its vectors have the adjustment's dimension.

    `how` says how to build an index that ranks by inner product.
    """
    if not inner_products:
        raise InputError(
            "to use the query transform, the index must rank by inner product, but this one uses another metric; "
            f"build it with {how}"
        )
    if dim != (width := len(adjustment.item_direction)):
        raise InputError(f"the adjustment is for vectors of {width} numbers, but the index holds {dim}")


def recall_of(search: Callable[[FloatArray, int], Any], item_vectors: FloatArray, queries: FloatArray, k: int) -> float:
    """The share of the exact top k by inner product that `search(queries, k)` finds, from 0 to 1.

    `search` returns positions in `item_vectors`, (B, K). Compare plain and transformed queries: the links of a graph
    (HNSW) built on inner products lead towards long, popular vectors, so it finds fewer of the others.
    """
    users, ties = np.zeros(len(queries), dtype=np.int32), np.arange(len(item_vectors))
    exact, _ = rank(queries, item_vectors, k, users=users, seen=[], ties=ties)
    found = np.asarray(search(queries, k)).astype(np.int64)
    return float(np.mean([np.isin(mine, theirs).mean() for mine, theirs in zip(exact, found, strict=True)]))
