"""The metrics behind the dashboard's sliders, measured in advance at every pair of stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.directions import Directions
from counterpop.interactions import IntArray
from counterpop.metrics.popularity import HEAD_GROUPS, popularity_groups
from counterpop.serving.model import ServedModel
from counterpop.tuning import EVERYBODY, EXPOSURE_BYTES, Folded, Grid, deal_folds, search_strengths

HIGHEST = 2.0
K = 20
MOST_USERS = 50_000  # of more, a random sample is measured
SAMPLE_STREAM = 600


def measure_stops(model: ServedModel, most_users: int = MOST_USERS) -> dict[str, Any]:
    """Every metric at every pair of stops, ready for JSON: `values[name][a][b]`.

    The stops are 0, 0.1, ... 2 (above 600,000 items 0, 0.2, ... 2), the tuned strengths and those of the named points.
    The metrics are those of `evaluate` on the validation part, for a random sample of `most_users` users if it has
    more, and the price on ordinary pairs if there are some. They are measured on the model that has not seen these
    pairs: for a refit run, the first one. `errors` has the standard errors of recall's difference from strength 0 and
    of the price, by the spread over ten groups of users.
    """
    (trial, valid), *others = model.parts
    everybody = np.flatnonzero(valid.user_counts).astype(np.int32)
    users = _sample(everybody, most_users)
    fits = 4 * valid.n_items * (HIGHEST / 0.1 + 1) ** 2 <= EXPOSURE_BYTES  # one count per item and pair
    step = 0.1 if fits else 0.2
    tuned = model.recommender.item_strength, model.recommender.user_strength
    points = model.tuning.get("points", {})
    pairs = [tuned, *((point["item_strength"], point["user_strength"]) for point in points.values())]
    directions = Directions(trial.item_direction, trial.user_direction)
    stops = {f"{side}_strengths": _stops(step, [pair[n] for pair in pairs]) for n, side in enumerate(("item", "user"))}
    # one thread: the other cores keep answering requests
    options: dict[str, Any] = stops | {"k": K, "threads": 1, "user_groups": deal_folds(valid.n_users, 0)}
    grid = search_strengths(trial.embeddings, directions, trial.seen, valid, groups=True, users=users, **options)
    values, errors = dict(grid.values), {"recall": _lost(grid)[1]}
    for other, pairs_held in others:  # ordinary pairs, if there are some
        shoppers = _sample(np.flatnonzero(pairs_held.user_counts).astype(np.int32), most_users)
        case = other.embeddings, directions, other.seen, pairs_held
        ordinary = search_strengths(*case, users=shoppers, exposure=False, **options)
        whole = ordinary.at(0.0, 0.0)["recall"] or 1.0
        values["price"], errors["price"] = (table / whole for table in _lost(ordinary))
    counts = trial.seen.item_counts
    sizes, held = (np.bincount(popularity_groups(counts), by, HEAD_GROUPS + 1) for by in (None, counts))
    shares = held / max(1, counts.sum())
    return {
        "k": K,
        "users": len(users),
        "of_users": len(everybody),
        "step": step,
        "tuned": tuned,
        "points": dict(zip(points, pairs[1:], strict=True)),
        "sentence": model.tuning.get("sentence"),
        **stops,
        "values": {name: value.tolist() for name, value in values.items()},
        "errors": {name: value.tolist() for name, value in errors.items()},
        "groups": [{"items": int(n), "interactions": float(share)} for n, share in zip(sizes, shares, strict=True)],
    }


def _lost(grid: Grid) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(A, B) by how much recall is below that at strength 0, and the standard error of that."""
    plain = grid.item_strengths.index(0.0), grid.user_strengths.index(0.0)
    return Folded.of(grid, "recall").loss(plain, EVERYBODY)


def _sample(users: IntArray, most: int) -> IntArray:
    if len(users) <= most:
        return users
    return np.sort(np.random.default_rng([0, SAMPLE_STREAM]).choice(users, most, replace=False))


def _stops(step: float, more: Sequence[float]) -> tuple[float, ...]:
    return tuple(sorted({*(round(step * n, 1) for n in range(round(HIGHEST / step) + 1)), *more}))
