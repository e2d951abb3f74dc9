"""What the dashboard's sliders move: every metric at every stop of both, measured beforehand on validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpop.directions import Directions
from counterpop.errors import InputError
from counterpop.metrics.popularity import HEAD_GROUPS, popularity_groups
from counterpop.serving.model import ServedModel
from counterpop.tuning import search_strengths

STOPS = tuple(round(0.1 * n, 1) for n in range(21))
K = 20
MOST_USERS = 50_000  # beyond it, users are drawn
SAMPLE_STREAM = 600


def measure_stops(model: ServedModel, most_users: int = MOST_USERS, seed: int = 0) -> dict[str, Any]:
    """Every metric at every pair of stops, ready for JSON: `values[name][a][b]`.

    The stops are 0, 0.1, ... 2 and the tuned strengths. Figures are those of `evaluate` on the validation
    part; where it has more than `most_users` users, of as many drawn at random. They come from the model that
    has not seen the validation part: of a refit run, the first.
    """
    trial = model.trial
    if trial.adjustment.embeddings is None:
        raise InputError("strengths cannot be tried without the vectors")
    everybody = np.flatnonzero(trial.valid.user_counts).astype(np.int32)
    users = everybody
    if len(everybody) > most_users:
        generator = np.random.default_rng([seed, SAMPLE_STREAM])
        users = np.sort(generator.choice(everybody, most_users, replace=False))
    tuned = model.adjustment.item_strength, model.adjustment.user_strength
    grid = search_strengths(
        trial.adjustment.embeddings, Directions(trial.adjustment.item_direction, trial.adjustment.user_direction),
        trial.train, trial.valid, k=K, groups=True, users=users,
        item_strengths=_stops(tuned[0]), user_strengths=_stops(tuned[1]),
        threads=1,  # the other cores go on answering
    )  # fmt: skip
    counts = trial.train.item_counts
    group_of = popularity_groups(counts)
    return {
        "k": K,
        "users": len(users),
        "of_users": len(everybody),
        "tuned": tuned,
        "item_strengths": grid.item_strengths,
        "user_strengths": grid.user_strengths,
        "values": {name: value.tolist() for name, value in grid.values.items()},
        "groups": [
            {
                "items": int((group_of == g).sum()),
                "interactions": float(counts[group_of == g].sum() / max(1, counts.sum())),
            }
            for g in range(HEAD_GROUPS + 1)
        ],
        "catalogue_popularity": float(counts.mean()),
    }


def _stops(tuned: float) -> tuple[float, ...]:
    return tuple(sorted({*STOPS, tuned, 0.0}))
