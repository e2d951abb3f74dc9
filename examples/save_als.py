"""implicit's ALS as files for `counterpop debias --model als.npz`: the model, its log and the titles of its items.

With a model of your own, this is `model.save("als.npz")`. Its rows must be in the order of the log's sorted ids;
otherwise pass --user-ids and --item-ids.
"""

import numpy as np
import polars as pl
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

import counterpop as cp
from counterpop.demo import name_items

world = cp.make_world(1500, 300, seed=2)  # a made-up film service
log = world.log
pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}).write_parquet("log.parquet")
name_items(world).write_csv("films.csv")  # item, title, genre

seen = csr_matrix((np.ones(len(log), np.float32), (log.user_ix, log.item_ix)), shape=(log.n_users, log.n_items))
model = AlternatingLeastSquares(factors=16, random_state=0)
model.fit(seen, show_progress=False)
model.save("als.npz")
print("Wrote als.npz, log.parquet and films.csv.")
