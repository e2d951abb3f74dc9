"""Plain files: vectors with their ids as parquet and npz, in any order, as `counterpop debias` reads them."""

import tempfile

import numpy as np
import polars as pl

import counterpop as cp
from counterpop.adapters.files import read_vectors

world = cp.make_world(1500, 300, seed=2)
log = world.log
popularity = np.log1p(log.item_counts)[:, None]  # vectors of a model that has learned popularity
users = np.hstack([world.user_taste, np.ones((log.n_users, 1))]).astype(np.float32)
items = np.hstack([world.item_taste, 0.5 * popularity]).astype(np.float32)
order = np.random.default_rng(0).permutation(log.n_items)
with tempfile.TemporaryDirectory() as folder:
    pl.DataFrame({"id": log.user_ids, "vector": users}).write_parquet(f"{folder}/users.parquet")
    np.savez(f"{folder}/items.npz", vectors=items[order], ids=log.item_ids[order])

    user_vectors, user_ids = read_vectors(f"{folder}/users.parquet")
    item_vectors, item_ids = read_vectors(f"{folder}/items.npz")
    fix = cp.debias(user_vectors, item_vectors, log, user_ids=user_ids, item_ids=item_ids)
    cp.save_adjustment(fix, f"{folder}/FIX")
    again = cp.load_adjustment(f"{folder}/FIX")
print(
    f"strengths {fix.item_strength} / {fix.user_strength}: recall on uniform held-out pairs "
    f"{fix.uniform.plain.recall:.3f} -> {fix.uniform.adjusted.recall:.3f}"
)
