"""Whether an adjustment made some time ago still fits: new data in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.debiasing import DebiasOptions, DebiasSettings, Effect, as_embeddings, hold_out, in_order_of
from counterpop.debiasing.trials import effect_of, measure_on, tune_on
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.interactions import Interactions, RowIds, pair_keys
from counterpop.presentation import Shown
from counterpop.runs import Model
from counterpop.tuning import Target

Verdict = Literal["fits", "renew", "switch off", "unproven"]
SENTENCES: dict[Verdict, str] = {
    "fits": "The adjustment still fits: a new one does no better.",
    "renew": "Renew it: directions and strengths found on the new data do better.",
    "switch off": "Switch it off: on the new data it does no better than the plain vectors.",
    "unproven": "Too few users to tell: on the new data it looks better than the plain vectors, but not "
    "significantly; check again with more users.",
}


@dataclass(frozen=True, eq=False, repr=False)
class Drift(Shown):
    """An adjustment on new data, compared with the plain vectors and with a new adjustment."""

    item_cosine: float
    """Between the stored item direction and that of the new data, without its sign, which has no meaning."""
    user_cosine: float
    stored: tuple[float, float]
    """Item and user strength of the adjustment."""
    best: tuple[float, float]
    """Strengths of the new one."""
    against_plain: Effect
    """The adjustment (adjusted) against the plain vectors (plain), on uniform held-out pairs."""
    renewed: Effect
    """The new adjustment (adjusted) against the stored one (plain)."""
    target: Target
    in_sample: bool
    verdict: Verdict

    @property
    def sentence(self) -> str:
        if self.verdict == "fits" and self.renewed.gain(self.target) > 0:
            return "The adjustment still fits: a new one does better, but not significantly."
        return SENTENCES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """What `counterpop debias --check --json` prints."""
        names = "verdict", "sentence", "item_cosine", "user_cosine", "stored", "best", "target", "in_sample"
        effects = {"against_plain": self.against_plain.to_json(), "renewed": self.renewed.to_json()}
        return {name: getattr(self, name) for name in names} | effects


def check_drift(
    adjustment: Adjustment,
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    interactions: Interactions,
    *,
    trained_on: Interactions | None = None,
    user_ids: RowIds = None,
    item_ids: RowIds = None,
    **settings: Unpack[DebiasOptions],
) -> Drift:
    """Whether directions and strengths still fit the vectors in use and a new log.

    `interactions` is the new log, `trained_on` the one the vectors were trained on; without it, held-out pairs are
    drawn from the new log itself, as in `debias`. Other keywords are the fields of `DebiasSettings`. A new adjustment
    is tuned on half of the users. On the other half the stored one is compared with the plain vectors and with the
    new one, by the tests of `debias`: it fits if it is significantly better than the plain vectors, should be
    switched off if it is no better, and is unproven in between. A cosine far from 1 is no reason to renew it: only
    better lists are. Strengths by segment are ignored.
    """
    chosen = DebiasSettings.of(settings, check_drift)
    first = interactions if trained_on is None else trained_on
    vectors = as_embeddings(user_vectors, item_vectors, first, user_ids, item_ids)
    if vectors.dim != len(adjustment.item_direction):
        raise InputError(
            f"the adjustment is for vectors of {len(adjustment.item_direction)} numbers, but these have "
            f"{vectors.dim}; debias them again"
        )
    new = in_order_of(interactions, vectors, chosen.drop_unknown)
    log = new if trained_on is None else in_order_of(trained_on, vectors, chosen.drop_unknown)
    trial = hold_out(log, None if trained_on is None else new, chosen.seed, chosen.users)
    tested = np.isin(pair_keys(new), pair_keys(trial.parts[0].test))  # a new adjustment must not see these
    directions = find_directions(Model(vectors), new.rows(~tested), chosen.item_direction, chosen.user_direction)
    _, frontier = tune_on(trial, vectors, directions, chosen)
    best = frontier.choose(chosen.point)
    new_one = Adjustment(directions.item, directions.user, *best)
    plain, stored, new_measures = (
        measure_on(trial.parts[0], vectors, a, chosen)
        for a in (adjustment.with_strengths(0.0, 0.0), adjustment, new_one)
    )
    against_plain, renewed, new_against_plain = (
        effect_of(*pair, chosen) for pair in ((plain, stored), (stored, new_measures), (plain, new_measures))
    )
    strengths, target = (adjustment.item_strength, adjustment.user_strength), chosen.target
    verdict: Verdict = "unproven" if against_plain.gain(target) > 0 else "switch off"
    if strengths == (0.0, 0.0) or against_plain.is_better(target):
        verdict = "fits"
    if renewed.is_better(target) and new_against_plain.is_better(target):
        verdict = "renew"
    cosines = (
        abs(float(adjustment.item_direction @ directions.item)),
        abs(float(adjustment.user_direction @ directions.user)),
    )
    return Drift(*cosines, strengths, best, against_plain, renewed, target, trial.in_sample, verdict)
