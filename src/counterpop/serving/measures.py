"""The metrics behind the dashboard's sliders, measured in advance at every pair of stops."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpop.directions import Directions
from counterpop.metrics.popularity import HEAD_GROUPS, popularity_groups
from counterpop.serving.model import ServedModel
from counterpop.tuning import EXPOSURE_BYTES, search_strengths

HIGHEST = 2.0
K = 20
MOST_USERS = 50_000  # of more, a random sample is measured
SAMPLE_STREAM = 600


def measure_stops(model: ServedModel, most_users: int = MOST_USERS) -> dict[str, Any]:
    """Every metric at every pair of stops, ready for JSON: `values[name][a][b]`.

    The stops are 0, 0.1, ... 2 (above 600,000 items 0, 0.2, ... 2) and the tuned strengths. The metrics are those
    of `evaluate` on the validation part, for a random sample of `most_users` users if it has more. They are
    measured on the model that has not seen that part: for a refit run, the first one.
    """
    trial, valid = model.trial, model.valid
    everybody = np.flatnonzero(valid.user_counts).astype(np.int32)
    users = everybody
    if len(everybody) > most_users:
        generator = np.random.default_rng([0, SAMPLE_STREAM])
        users = np.sort(generator.choice(everybody, most_users, replace=False))
    fits = 4 * valid.n_items * (HIGHEST / 0.1 + 1) ** 2 <= EXPOSURE_BYTES  # one count per item and pair
    step = 0.1 if fits else 0.2
    tuned = model.recommender.item_strength, model.recommender.user_strength
    case = trial.embeddings, Directions(trial.item_direction, trial.user_direction), trial.seen, valid
    stops: dict[str, Any] = {"item_strengths": _stops(step, tuned[0]), "user_strengths": _stops(step, tuned[1])}
    # one thread: the other cores keep answering requests
    grid = search_strengths(*case, **stops, k=K, groups=True, users=users, threads=1)
    counts = trial.seen.item_counts
    sizes, held = (np.bincount(popularity_groups(counts), by, HEAD_GROUPS + 1) for by in (None, counts))
    shares = held / max(1, counts.sum())
    return {
        "k": K,
        "users": len(users),
        "of_users": len(everybody),
        "step": step,
        "tuned": tuned,
        **stops,
        "values": {name: value.tolist() for name, value in grid.values.items()},
        "groups": [{"items": int(n), "interactions": float(share)} for n, share in zip(sizes, shares, strict=True)],
    }


def _stops(step: float, tuned: float) -> tuple[float, ...]:
    return tuple(sorted({*(round(step * n, 1) for n in range(round(HIGHEST / step) + 1)), tuned}))
