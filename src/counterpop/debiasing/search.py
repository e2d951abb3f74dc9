"""The search for an adjustment of given vectors, and what it returns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.debiasing.matching import as_embeddings, check_fit, in_order_of, sort_ledger
from counterpop.debiasing.rebuilding import rebuild
from counterpop.debiasing.trials import (
    PART_NAMES,
    DebiasSettings,
    Effect,
    Trial,
    effect_of,
    hold_out,
    measure_on,
    tune_on,
)
from counterpop.directions import Directions, find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import CounterpopWarning
from counterpop.interactions import Interactions, RowIds
from counterpop.ledger import Ledger
from counterpop.recommender import Recommender
from counterpop.runs import Model
from counterpop.segmentation import choose_segments, divide
from counterpop.tuning import LOWER_IS_BETTER, Grid, Target, efficient

LEAST_AGREEMENT = 0.55  # chosen on validation: see experiments/debias_without_holdout.md
CAUTIOUS_FLOOR = {"recall": 0.95}  # without a holdout: further along the grid, what seemed a gain was none


@dataclass(frozen=True, eq=False, kw_only=True)
class Debiasing(Recommender):
    """An adjustment of vectors trained by another model, with its measured effect.

    If no significant gain was found the strengths are 0: leave the vectors as they are.
    """

    uniform: Effect
    """On held-out pairs that hold every item about equally often."""
    ordinary: Effect
    """On held-out pairs drawn at random, which favour popular items."""
    by_segment: Effect | None
    """Strengths by segment (adjusted) against one pair for all (plain); None if none were worth a test."""
    grid: Grid
    """The pairs of strengths that were measured on uniform pairs."""
    ordinary_grid: Grid
    """The same on ordinary pairs: what a floor is measured on."""
    tried: tuple[float, float]
    """The best strengths on the grid; the adjustment's own are 0 if these brought no significant gain."""
    target: Target
    floor: Mapping[str, float]
    k: int
    agreement: float | None
    """Without a holdout: how well vectors rebuilt from pairs agree with the given ones, from 0 to 1; else None."""
    sample: int | None
    """Maximum number of users on each side, if the catalogue is so large that a random sample was drawn."""
    item_counts: NDArray[np.int64]
    """(I,) interactions of every item in the log."""

    @property
    def gained(self) -> bool:
        return (self.item_strength, self.user_strength) != (0.0, 0.0)

    @property
    def provable(self) -> bool:
        """Whether the held-out pairs can prove anything: they are later ones, or the vectors can be rebuilt."""
        return self.agreement is None or self.agreement >= LEAST_AGREEMENT

    @property
    def how_judged(self) -> str:
        """What the figures were measured with, in a sentence."""
        if self.agreement is None:
            return "Judged on a later log."
        if not self.provable:
            return (
                "No proof is possible without a later log (--holdout): vectors rebuilt from the users' own pairs agree "
                f"with the given ones only by {self.agreement:.0%}, and {LEAST_AGREEMENT:.0%} is required, so the "
                "strengths are 0."
            )
        return (
            "Judged without a later log: the model was trained on the held-out pairs, so the vectors were rebuilt "
            f"without them. Rebuilt from all pairs, they agree with the given ones by {self.agreement:.0%}. A later "
            "log (--holdout) gives more certain figures."
        )

    @property
    def headline(self) -> str:
        """Whether to use the adjustment, in one line."""
        if not self.provable:
            return "No proof without a later log: leave the vectors as they are"
        if self.gained:
            return f"Yes: remove popularity, at item strength {self.item_strength}, user strength {self.user_strength}"
        return f"{'Not significant' if self.uniform.gain(self.target) > 0 else 'No'}: leave the vectors as they are"

    @property
    def sentences(self) -> list[str]:
        """The reason for the headline, and what to know about the figures."""
        if not self.provable:
            return [self.how_judged]
        target, proof = self.target.replace("_", " "), self.uniform.proof(self.target)
        outcome = f"do not improve {target}, so the strengths are 0"
        if self.uniform.gain(self.target) > 0:
            outcome = f"seem to improve {target}, but not significantly ({proof}), so the strengths are 0"
        if self.gained:
            outcome = f"improve {target} ({proof})"
        tried = f"the best strengths ({self.tried[0]} item, {self.tried[1]} user)"
        sentences = [f"On uniform held-out pairs of users who were not used for tuning, {tried} {outcome}."]
        if self.price:
            sentences.append(self.price)
        sentences.append(self.how_judged)
        if self.agreement is not None and self.floor:
            floors = ", ".join(f"{share:g} of {name}" for name, share in self.floor.items())
            sentences.append(f"Only strengths that keep {floors} on ordinary held-out pairs were considered.")
        if self.sample is not None:
            sentences.append(f"The catalogue is large: each half is a random sample of at most {self.sample:,} users.")
        return sentences

    @property
    def price(self) -> str:
        """What the gain costs in recall on ordinary held-out pairs: a sentence, or "" if nothing."""
        if not self.gained or self.ordinary.gain("recall") >= 0 or not self.ordinary.is_proven("recall"):
            return ""
        return (
            "The price: on ordinary held-out pairs, which favour items that are popular already, recall falls from "
            f"{self.ordinary.plain.recall:.4f} to {self.ordinary.adjusted.recall:.4f}; a floor (--floor recall=0.95) "
            "limits this."
        )

    def to_json(self) -> dict[str, Any]:
        """What `counterpop debias --json` prints."""
        names = "gained", "how_judged", "agreement", "sample", "k", "target", "tried", "item_strength", "user_strength"
        effects = {"uniform": self.uniform, "ordinary": self.ordinary, "by_segment": self.by_segment}
        return {
            **{name: getattr(self, name) for name in names},
            "floor": dict(self.floor),
            "segments": self.segments and vars(self.segments),
            **{name: effect and effect.to_json() for name, effect in effects.items()},
        }

    def curve(self) -> dict[str, NDArray[Any]]:
        """The whole trade-off as columns: every pair of strengths and its metrics on both held-out parts.

        `frontier` marks the points that no other point beats in both the target on uniform pairs and recall on
        ordinary ones.
        """
        a, b = np.meshgrid(self.grid.item_strengths, self.grid.user_strengths, indexing="ij")
        columns: dict[str, NDArray[Any]] = {"item_strength": a.ravel(), "user_strength": b.ravel()}
        for part, grid in zip(PART_NAMES, (self.grid, self.ordinary_grid), strict=True):
            columns |= {f"{part}_{name}": value.ravel() for name, value in grid.values.items()}
        sign = -1 if self.target in LOWER_IS_BETTER else 1
        first, second = sign * columns[f"uniform_{self.target}"], columns["ordinary_recall"]
        return columns | {"frontier": efficient(first, second)}


def debias(
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    interactions: Interactions,
    *,
    holdout: Interactions | None = None,
    user_ids: RowIds = None,
    item_ids: RowIds = None,
    ledger: Ledger | None = None,
    **settings: Any,
) -> Debiasing:
    """A tuned adjustment of given vectors, and its effect on users on whom nothing was tuned.

    Other keywords are the fields of `DebiasSettings`. Without ids, row n of the vectors (and of a ledger) belongs to
    the n-th id of the log. Every id of the logs needs a vector, or `drop_unknown=True`.

    Strengths are tuned on half of the users, on pairs of `holdout` (a later log; pairs that are in the first one are
    ignored), drawn so that items count about equally. Without a holdout they are pairs of the log itself, and the
    vectors are rebuilt without them: see `debiasing.rebuilding`. The floor is then 0.95 of recall unless you set one,
    and if rebuilt vectors do not agree with the given ones, the strengths are 0. The effect is
    measured on the other half of the users; if `target` does not improve significantly there (paired test, p < .01;
    for coverage and Gini, 95 % intervals that do not overlap), the strengths are 0. Segments of users get their own
    strengths if that is better than one pair for all, tuned and tested the same way. In very large catalogues both
    halves are random samples: see `Debiasing.sample`.
    """
    chosen = DebiasSettings.of(settings)
    if holdout is None and not chosen.floor:
        chosen = replace(chosen, floor=CAUTIOUS_FLOOR)
    if chosen.target not in ("recall", "hit_rate", "ndcg") and not chosen.floor:
        text = (
            f"the target {chosen.target} without a floor takes the strengths that move it most, at any cost in "
            "accuracy; a floor such as recall=0.95 limits the cost"
        )
        warnings.warn(CounterpopWarning(text), stacklevel=2)
    vectors = as_embeddings(user_vectors, item_vectors, interactions, user_ids, item_ids)
    log = in_order_of(interactions, vectors, chosen.drop_unknown)
    check_fit(vectors, log, chosen.seed)
    if ledger is not None:
        ledger = sort_ledger(ledger, interactions, user_ids, item_ids)
    later = None if holdout is None else in_order_of(holdout, vectors, chosen.drop_unknown)
    trial = hold_out(log, later, chosen.seed)
    directions = find_directions(Model(vectors, ledger), log, chosen.item_direction, chosen.user_direction)
    if later is not None:
        return _search(vectors, log, trial, directions, chosen)
    chosen.report("rebuilding vectors without the held-out pairs")
    trial, agreement = rebuild(trial, vectors, log, chosen.k, chosen.seed)
    return _search(vectors, log, trial, directions, chosen, agreement)


def _search(
    vectors: Embeddings,
    log: Interactions,
    trial: Trial,
    directions: Directions,
    settings: DebiasSettings,
    agreement: float | None = None,
) -> Debiasing:
    """The best strengths along the directions, tuned and tested on the held-out pairs."""
    division = divide(trial.parts[0].seen, settings.seed)  # dividing by held-out pairs would leak them
    grids, tried = tune_on(trial, vectors, directions, settings, division.cells)
    best = Adjustment(directions.item, directions.user, *tried)
    effects = []
    for name, part in zip(PART_NAMES, trial.parts, strict=True):
        settings.report(f"testing strengths {tried[0]} and {tried[1]} on other users, {name} pairs")
        before, after = (measure_on(part, vectors, a, settings) for a in (best.with_strengths(0.0, 0.0), best))
        effects.append(effect_of(before, after, settings))
    gained = effects[0].is_better(settings.target) and (agreement is None or agreement >= LEAST_AGREEMENT)
    segments = choose_segments(grids, division, settings.target, settings.floor) if gained else None
    by_segment = None
    if segments is not None:
        settings.report(f"testing strengths by {segments.by} on other users")
        strengths = segments.strengths_of(division.values[segments.by])
        after = measure_on(trial.parts[0], vectors, best, settings, strengths)
        by_segment = effect_of(effects[0].adjusted, after, settings)
        bounds = divide(log, settings.seed).bounds(segments.by)  # thirds of the log that callers have
        better = by_segment.is_better(settings.target) and len(bounds) == len(segments.bounds)
        segments = replace(segments, bounds=bounds) if better else None
    return Debiasing(
        directions.item,
        directions.user,
        *(tried if gained else (0.0, 0.0)),
        embeddings=vectors,
        seen=log,
        segments=segments,
        uniform=effects[0],
        ordinary=effects[1],
        by_segment=by_segment,
        grid=replace(grids[0], user_groups=()),
        ordinary_grid=replace(grids[1], user_groups=()),
        tried=tried,
        target=settings.target,
        floor=settings.floor or {},
        k=settings.k,
        agreement=agreement,
        sample=trial.sample,
        item_counts=log.item_counts,
    )
