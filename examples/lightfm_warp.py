"""LightFM: item biases are part of the vectors, so the popularity in them is removed too."""

import numpy as np
from lightfm import LightFM
from scipy.sparse import coo_matrix

import counterpop as cp
from counterpop.adapters.lightfm import vectors_of

log = cp.make_world(1500, 300, seed=2).log
pairs = coo_matrix((np.ones(len(log), np.float32), (log.user_ix, log.item_ix)), shape=(log.n_users, log.n_items))
model = LightFM(no_components=16, loss="bpr", random_state=0)
model.fit(pairs, epochs=10)

vectors = vectors_of(model, user_ids=log.user_ids, item_ids=log.item_ids)
fix = cp.debias(**vectors, interactions=log)
print(
    f"strengths {fix.item_strength} / {fix.user_strength}: recall on uniform held-out pairs "
    f"{fix.uniform.plain.recall:.3f} -> {fix.uniform.adjusted.recall:.3f}"
)
