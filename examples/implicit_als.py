"""implicit: fit ALS, find and test an adjustment, rank with it. BPR and LMF work the same way."""

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

import counterpop as cp
from counterpop.adapters.implicit import vectors_of

log = cp.make_world(1500, 300, seed=2).log  # or cp.read_interactions("log.parquet")
seen = csr_matrix((np.ones(len(log), np.float32), (log.user_ix, log.item_ix)), shape=(log.n_users, log.n_items))
model = AlternatingLeastSquares(factors=16, random_state=0)
model.fit(seen, show_progress=False)

fix = cp.debias(**vectors_of(model, user_ids=log.user_ids, item_ids=log.item_ids), interactions=log)
print(
    f"strengths {fix.item_strength} / {fix.user_strength}: recall on uniform held-out pairs "
    f"{fix.uniform.plain.recall:.3f} -> {fix.uniform.adjusted.recall:.3f}"
)

model.user_factors = fix.query(model.user_factors)  # implicit's own recommend now removes popularity
items, scores = model.recommend(np.arange(3), seen[:3], N=5)
print(log.item_ids[items])
