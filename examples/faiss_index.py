"""FAISS: one adjustment, three existing indexes: flat, IVF and HNSW."""

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
indexes = {
    "flat": faiss.IndexFlatIP(dim),
    "IVF": faiss.IndexIVFFlat(coarse, dim, 16, ip),
    "HNSW": faiss.IndexHNSWFlat(dim, 32, ip),
}
indexes["IVF"].train(items)
indexes["IVF"].nprobe = 4
indexes["HNSW"].hnsw.efSearch = 128
recall = {}
for name, index in indexes.items():
    index.add(items)
    scores, found = search(index, fix, users, 20)  # the index is unchanged
    recall[name] = [
        recall_of(lambda q, k, index=index: index.search(q, k)[1], items, queries, 100)
        for queries in (users, fix.query(users))
    ]
    print(
        f"{name}: finds {recall[name][0]:.1%} of the exact top 100 of plain queries, "
        f"{recall[name][1]:.1%} of transformed ones"
    )
