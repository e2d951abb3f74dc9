"""FAISS: one adjustment, three existing indexes: flat, IVF and HNSW."""

from typing import Any

import faiss
import numpy as np

import counterpop as cp
from counterpop.adapters.faiss import search
from counterpop.adapters.indexes import recall_of

world = cp.make_world(1500, 2000, seed=2)
popularity = np.log1p(world.log.item_counts)[:, None]  # vectors of a model that has learned popularity
users = np.hstack([world.user_taste, np.ones((len(world.user_taste), 1))]).astype(np.float32)
items = np.hstack([world.item_taste, 0.2 * popularity]).astype(np.float32)
fix = cp.debias(users, items, world.log)

dim, ip = items.shape[1], faiss.METRIC_INNER_PRODUCT
coarse = faiss.IndexFlatIP(dim)
inverted, graph = faiss.IndexIVFFlat(coarse, dim, 16, ip), faiss.IndexHNSWFlat(dim, 32, ip)
inverted.train(items)
inverted.nprobe = 4
graph.hnsw.efSearch = 128
indexes: dict[str, faiss.Index] = {"flat": faiss.IndexFlatIP(dim), "IVF": inverted, "HNSW": graph}


def positions(queries: np.ndarray, k: int) -> Any:
    """What the index of this round finds."""
    return index.search(queries, k)[1]


recall = {}
for name, index in indexes.items():
    index.add(items)
    scores, found = search(index, fix, users, 20)  # the index is unchanged
    recall[name] = [recall_of(positions, items, queries, 100) for queries in (users, fix.query(users))]
    print(
        f"{name}: finds {recall[name][0]:.1%} of the exact top 100 of plain queries, "
        f"{recall[name][1]:.1%} of transformed ones"
    )
