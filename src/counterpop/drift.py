"""Whether an adjustment made some time ago still fits: new data in, a verdict out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.debiasing import Effect, as_embeddings, hold_out, in_order_of, is_better
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.evaluation import compare, measure_model
from counterpop.interactions import Ids, Interactions, pair_keys
from counterpop.recommender import Recommender
from counterpop.runs import Model
from counterpop.tuning import Target, choose_strengths, search_strengths

Verdict = Literal["fits", "renew", "switch off", "unproven"]
SENTENCES: dict[Verdict, str] = {
    "fits": "The adjustment still fits: one made anew does no better.",
    "renew": "Renew it: directions and strengths found on the new data do better.",
    "switch off": "Switch it off: on the new data it does no better than the plain vectors.",
    "unproven": "Too few users to tell: on the new data it looks better than the plain vectors, but chance "
    "may explain it; check again with more.",
}


@dataclass(frozen=True, eq=False)
class Drift:
    """An adjustment on new data, beside the plain vectors and beside one made anew."""

    item_cosine: float
    """Of the popular direction with that of the new data; the sign of a direction means nothing."""
    user_cosine: float
    stored: tuple[float, float]
    """Its item and user strength."""
    best: tuple[float, float]
    """Those that the new data would choose."""
    against_plain: Effect
    """The adjustment against the plain vectors, uniform held-out pairs."""
    renewed: Effect
    """One made anew (adjusted) against the adjustment (plain)."""
    target: Target
    in_sample: bool
    verdict: Verdict

    @property
    def sentence(self) -> str:
        if self.verdict == "fits" and self.renewed.gain(self.target) > 0:
            return "The adjustment still fits: that one made anew does better is not proven."
        return SENTENCES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """What `counterpop debias --check --json` prints."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "item_cosine": self.item_cosine,
            "user_cosine": self.user_cosine,
            "stored": self.stored,
            "best": self.best,
            "target": self.target,
            "in_sample": self.in_sample,
            "against_plain": self.against_plain.to_json(),
            "renewed": self.renewed.to_json(),
        }


def check_drift(
    adjustment: Adjustment,
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    interactions: Interactions,
    *,
    trained_on: Interactions | None = None,
    user_ids: Sequence[Any] | Ids | None = None,
    item_ids: Sequence[Any] | Ids | None = None,
    drop_unknown: bool = False,
    target: Target = "recall",
    floor: Mapping[str, float] | None = None,
    k: int = 20,
    seed: int = 0,
) -> Drift:
    """Whether directions and strengths still fit the vectors in use and a new log.

    `interactions` is the new log, `trained_on` the one the vectors were trained on; without it held-out
    pairs are drawn from the new log itself, as `debias` does. Half of the users choose what would be best
    now; on the other half the adjustment is put against the plain vectors and against one made anew (tests
    as in `debias`): it fits where it is proven better than the plain vectors, is to be switched off where it
    is no better, and is unproven between the two. A cosine far from 1 alone is no reason to renew: only what
    makes the lists better is.
    """
    first = interactions if trained_on is None else trained_on
    vectors = as_embeddings(user_vectors, item_vectors, first, user_ids, item_ids)
    if vectors.dim != len(adjustment.item_direction):
        raise InputError(
            f"the adjustment is for vectors of {len(adjustment.item_direction)} numbers, but these have "
            f"{vectors.dim}; debias them anew"
        )
    new = in_order_of(interactions, vectors, drop_unknown)
    log = new if trained_on is None else in_order_of(trained_on, vectors, drop_unknown)
    trial = hold_out(log, None if trained_on is None else new, seed)
    proves = pair_keys(trial.parts[0].proves)  # what one made anew is tried on takes no part in its making
    directions = find_directions(Model(vectors), new.rows(~np.isin(pair_keys(new), proves)))
    grids = [search_strengths(vectors, directions, part.seen, part.chooses, k=k) for part in trial.parts]
    best = choose_strengths(grids[0], target, floor, grids[1])
    part = trial.parts[0]
    stored = Recommender(
        adjustment.item_direction,
        adjustment.user_direction,
        adjustment.item_strength,
        adjustment.user_strength,
        embeddings=vectors,
        seen=part.seen,
    )
    renewed = Recommender(directions.item, directions.user, *best, embeddings=vectors, seen=part.seen)
    plain, mine, anew = (
        measure_model(a, part.proves, k, seed=seed) for a in (stored.with_strengths(0.0, 0.0), stored, renewed)
    )
    against_plain, against_stored, anew_against_plain = (
        Effect(before, after, compare(after, before, seed=seed))
        for before, after in ((plain, mine), (mine, anew), (plain, anew))
    )
    off = (stored.item_strength, stored.user_strength) == (0.0, 0.0)
    verdict: Verdict = "unproven" if against_plain.gain(target) > 0 else "switch off"
    if off or is_better(against_plain, target):
        verdict = "fits"
    if is_better(against_stored, target) and is_better(anew_against_plain, target):
        verdict = "renew"
    cosines = [
        abs(float(mine @ theirs))
        for mine, theirs in ((stored.item_direction, directions.item), (stored.user_direction, directions.user))
    ]
    return Drift(
        cosines[0],
        cosines[1],
        (stored.item_strength, stored.user_strength),
        best,
        against_plain,
        against_stored,
        target,
        trained_on is None,
        verdict,
    )
