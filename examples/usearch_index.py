"""USearch: an existing HNSW index, searched with transformed queries."""

import numpy as np
from usearch.index import Index

import counterpop as cp
from counterpop.adapters.indexes import recall_of
from counterpop.adapters.usearch import search

world = cp.make_world(1500, 2000, seed=2)
popularity = np.log1p(world.log.item_counts)[:, None]  # vectors of a model that has learned popularity
users = np.hstack([world.user_taste, np.ones((len(world.user_taste), 1))]).astype(np.float32)
items = np.hstack([world.item_taste, 0.2 * popularity]).astype(np.float32)
fix = cp.debias(users, items, world.log)

index = Index(ndim=items.shape[1], metric="ip", dtype="f32", expansion_search=256)
index.add(np.arange(len(items)), items)
matches = search(index, fix, users, 20)  # the index is unchanged
recall = [recall_of(lambda q, k: index.search(q, k).keys, items, queries, 100) for queries in (users, fix.query(users))]
print(f"finds {recall[0]:.1%} of the exact top 100 of plain queries, {recall[1]:.1%} of transformed ones")
