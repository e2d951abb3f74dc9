"""How much of a model's scores is popularity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpop.recommender import Recommender

WEIGHED_USERS = 500
WEIGHT_STREAM = 610


class PopularityWeight(NamedTuple):
    """The share of the variance of a user's scores over all items that popularity explains: mean over users."""

    share: float
    """0: scores do not follow popularity at all; 1: they follow nothing else."""
    low: float
    high: float
    """The 95 % interval of the mean."""
    users: int
    """How many users were drawn."""


def weigh_popularity(model: Recommender, counts: NDArray[np.int64], seed: int = 0) -> PopularityWeight:
    """R^2 of a regression of each user's scores on log(1 + interactions), at the model's strengths.

    For at most 500 users with interactions, drawn at random; NaN if the scores do not vary. It says how far scores go
    with popularity, not that popularity causes them: taste and popularity can go together.
    """
    users = np.flatnonzero(model.seen.user_counts)
    draw = np.random.default_rng([seed, WEIGHT_STREAM])
    users = np.sort(draw.choice(users, min(WEIGHED_USERS, len(users)), replace=False))
    by = np.log1p(counts.astype(np.float64))
    by -= by.mean()
    queries = model.query(model.embeddings.user_vectors[users])
    explained = np.empty(len(users))
    for n, query in enumerate(queries):
        scores = (model.embeddings.item_vectors @ query).astype(np.float64)
        scores -= scores.mean()
        total = (scores @ scores) * (by @ by)
        explained[n] = (scores @ by) ** 2 / total if total else np.nan
    known = explained[np.isfinite(explained)]
    if not len(known):
        return PopularityWeight(float("nan"), float("nan"), float("nan"), len(users))
    mean, reach = float(known.mean()), 1.96 * float(known.std()) / np.sqrt(len(known))
    return PopularityWeight(mean, max(0.0, mean - reach), min(1.0, mean + reach), len(users))
