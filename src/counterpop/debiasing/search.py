"""The search for an adjustment of given vectors, and what it returns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.debiasing.matching import as_embeddings, check_fit, in_order_of, sort_ledger
from counterpop.debiasing.rebuilding import rebuild
from counterpop.debiasing.trials import (
    PART_NAMES,
    SIGNIFICANT,
    DebiasOptions,
    DebiasSettings,
    Effect,
    Trial,
    as_split,
    effect_of,
    hold_out,
    measure_on,
    tune_on,
)
from counterpop.directions import Directions, find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import CounterpopWarning
from counterpop.evaluation import Measures
from counterpop.interactions import Interactions, RowIds
from counterpop.ledger import Ledger
from counterpop.presentation import Pictured
from counterpop.progress import telling
from counterpop.recommender import Recommender
from counterpop.runs import Model
from counterpop.segmentation import choose_segments, divide
from counterpop.splits import Split
from counterpop.tuning import (
    LOWER_IS_BETTER,
    WHICH,
    Grid,
    Proof,
    Target,
    Tradeoff,
    Which,
    efficient,
    explain_choice,
    prove_point,
    trace_frontier,
    warn_of,
)

LEAST_AGREEMENT = 0.55  # chosen on validation: see experiments/debias_without_holdout.md


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Debiasing(Recommender, Pictured):
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
    """The strengths of the point that was asked for; the adjustment's own are 0 if their gain is not proven."""
    points: Mapping[Which, Proof]
    """What each point of the frontier would choose, and is worth to the users on whom nothing was tuned."""
    point: Which
    """The point that was asked for."""
    allowed_price: float | None
    """Largest share of ordinary recall that "balanced" and "free" may cost."""
    warnings: tuple[str, ...]
    target: Target
    floor: Mapping[str, float]
    k: int
    agreement: float | None
    """Without a holdout: how well vectors rebuilt from pairs agree with the given ones, from 0 to 1; else None."""
    sample: int | None
    """Maximum number of users on each side, if there are so many users and items that a sample was drawn."""
    item_counts: NDArray[np.int64]
    """(I,) interactions of every item in the log."""
    split: Split
    """The log as train. With a later log also what was held out: uniform pairs of the users tuned on (validation) and
    of the others (test), and ordinary pairs of the others. `evaluate` takes it; without a later log these are empty."""
    seed: int = 0
    """Of all random draws."""

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
            f"without them. Rebuilt from all pairs, they agree with the given ones by {self.agreement:.0%}, and the "
            "limit on the price is multiplied by that. A later log (--holdout) gives more certain figures."
        )

    @property
    def headline(self) -> str:
        """Whether to use the adjustment, in one line."""
        if not self.provable:
            return "No proof without a later log: leave the vectors as they are"
        if self.gained:
            return f"Yes: remove popularity, at item strength {self.item_strength}, user strength {self.user_strength}"
        if self.points["gain"].proven:
            return "Not at this price: leave the vectors as they are, or accept a higher price"
        return f"{'Not significant' if self.uniform.gain(self.target) > 0 else 'No'}: leave the vectors as they are"

    @property
    def sentences(self) -> list[str]:
        """The reason for the headline, and what to know about the figures."""
        if not self.provable:
            return [self.how_judged]
        sentences = [explain_choice(self.points, self.point, self.target, self.allowed_price)]
        if not self.gained and not self.points["gain"].proven:
            sentences.append(f"Proof takes p < {SIGNIFICANT:g}.")
        sentences.append(self.how_judged)
        if self.floor:
            floors = ", ".join(f"{share:g} of {name}" for name, share in self.floor.items())
            sentences.append(f"Only strengths that keep {floors} on ordinary held-out pairs were considered.")
        if self.sample is not None:
            sentences.append(
                f"Each half is a sample of at most {self.sample:,} users, stratified by activity; --users all measures "
                "everybody."
            )
        return [*sentences, *(f"Warning: {warning}." for warning in self.warnings)]

    @property
    def frontier(self) -> tuple[Tradeoff, ...]:
        """The efficient pairs of strengths, measured on the tuning users: see `trace_frontier`."""
        return trace_frontier(self.grid, self.ordinary_grid, self.target)

    def to_json(self) -> dict[str, Any]:
        """What `counterpop debias --json` prints."""
        names = "gained", "how_judged", "agreement", "sample", "k", "target", "tried", "item_strength", "user_strength"
        effects = {"uniform": self.uniform, "ordinary": self.ordinary, "by_segment": self.by_segment}
        worth = asdict(self.points[self.point])
        return {
            **{name: value for name, value in worth.items() if "strength" not in name},
            **{name: getattr(self, name) for name in names},
            "point": self.point,
            "allowed_price": self.allowed_price,
            "points": {name: asdict(point) for name, point in self.points.items()},
            "frontier": [asdict(point) for point in self.frontier],
            "sentences": self.sentences,
            "warnings": list(self.warnings),
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
    progress: bool = True,
    **settings: Unpack[DebiasOptions],
) -> Debiasing:
    """A tuned adjustment of given vectors, and its effect on users on whom nothing was tuned.

    Other keywords are the fields of `DebiasSettings`. Without ids, row n of the vectors (and of a ledger) belongs to
    the n-th id of the log. Every id of the logs needs a vector, or `drop_unknown=True`.

    Strengths are tuned on half of the users, on pairs of `holdout` (a later log; pairs that are in the first one are
    ignored), drawn so that items count about equally. Without a holdout they are pairs of the log itself, and the
    vectors are rebuilt without them: see `debiasing.rebuilding`. The limit on the price is
    then multiplied by how well rebuilt vectors agree with the given ones, points must be further below it, and if the
    agreement is too low, the strengths are 0.

    `point` and `price` choose a point of the frontier as in `tune`. Each point is measured on the other half of the
    users. If `target` does not improve significantly there (paired test, p < .01; for coverage and Gini, 95 %
    intervals that do not overlap) or the price is too high, the strengths are 0. Segments of users get their own
    strengths if that is better than one pair for all, tuned and tested the same way. If there are very many users and
    items, both halves are samples: see `panels` and `Debiasing.sample`.

    A terminal or a notebook shows the stages, unless `progress` is False or `report` is a function of your own.
    """
    with telling(progress and "report" not in settings) as tell:
        chosen = DebiasSettings.of({"report": tell, **settings}, debias)
        return _debias((user_vectors, item_vectors), interactions, holdout, (user_ids, item_ids), ledger, chosen)


def _debias(
    matrices: tuple[NDArray[np.floating], NDArray[np.floating]],
    interactions: Interactions,
    holdout: Interactions | None,
    ids: tuple[RowIds, RowIds],
    ledger: Ledger | None,
    chosen: DebiasSettings,
) -> Debiasing:
    """The same with settings that were read."""
    if chosen.point == "gain" and not chosen.floor:
        if chosen.target not in ("recall", "hit_rate", "ndcg"):
            text = (
                f"the target {chosen.target} without a limit takes the strengths that move it most, at any cost in "
                "accuracy; point='balanced' or a floor such as recall=0.95 limits the cost"
            )
            warnings.warn(CounterpopWarning(text), stacklevel=3)
        elif holdout is None:
            text = "far along the grid, a gain that is judged without a later log may be none; pass a holdout"
            warnings.warn(CounterpopWarning(text), stacklevel=3)
    vectors = as_embeddings(*matrices, interactions, *ids)
    log = in_order_of(interactions, vectors, chosen.drop_unknown)
    check_fit(vectors, log, chosen.seed)
    if ledger is not None:
        ledger = sort_ledger(ledger, interactions, *ids)
    later = None if holdout is None else in_order_of(holdout, vectors, chosen.drop_unknown)
    trial = hold_out(log, later, chosen.seed, chosen.users)
    directions = find_directions(Model(vectors, ledger), log, chosen.item_direction, chosen.user_direction)
    if later is not None:
        return _search(vectors, log, trial, directions, chosen)
    chosen.report("rebuilding vectors without the held-out pairs")
    trial, agreement = rebuild(trial, vectors, log, chosen.k, chosen.seed)
    if chosen.allowed_price is not None:  # what rebuilt vectors do not reproduce may cost more than is judged
        chosen = replace(chosen, price=chosen.allowed_price * min(1.0, max(0.0, agreement)))
    return _search(vectors, log, trial, directions, chosen, agreement)


def _search(
    vectors: Embeddings,
    log: Interactions,
    trial: Trial,
    directions: Directions,
    settings: DebiasSettings,
    agreement: float | None = None,
) -> Debiasing:
    """The points along the directions, tuned and tested on the held-out pairs."""
    division = divide(trial.parts[0].seen, settings.seed)  # dividing by held-out pairs would leak them
    grids, frontier = tune_on(trial, vectors, directions, settings, division.cells)
    chosen: dict[Which, tuple[float, float]] = {which: frontier.choose(which) for which in WHICH}
    effects = _test_strengths(trial, vectors, directions, settings, set(chosen.values()))
    able = agreement is None or agreement >= LEAST_AGREEMENT
    points: dict[Which, Proof] = {}
    for which, pair in chosen.items():
        both, compared = effects[pair], [effect.comparison for effect in effects[pair]]
        sides = [effect.plain for effect in both], [effect.adjusted for effect in both]
        proof = prove_point(which, pair, frontier, *sides, compared, SIGNIFICANT)
        points[which] = replace(proof, proven=able and proof.proven)
    tried, gained = chosen[settings.point], points[settings.point].proven
    segments = choose_segments(grids, division, settings.target, settings.floors) if gained else None
    by_segment = None
    if segments is not None:
        settings.report(f"testing strengths by {segments.by} on other users")
        strengths = segments.strengths_of(division.values[segments.by])
        best = Adjustment(directions.item, directions.user, *tried)
        after = measure_on(trial.parts[0], vectors, best, settings, strengths)
        by_segment = effect_of(effects[tried][0].adjusted, after, settings)
        bounds = divide(log, settings.seed).bounds(segments.by)  # thirds of the log that callers have
        better = by_segment.is_better(settings.target) and len(bounds) == len(segments.bounds)
        segments = replace(segments, bounds=bounds) if better else None
    uniform, ordinary = effects[tried]
    return Debiasing(
        directions.item,
        directions.user,
        *(tried if gained else (0.0, 0.0)),
        embeddings=vectors,
        seen=log,
        segments=segments,
        uniform=uniform,
        ordinary=ordinary,
        by_segment=by_segment,
        grid=replace(grids[0], user_groups=()),
        ordinary_grid=replace(grids[1], user_groups=()),
        tried=tried,
        points=points,
        point=settings.point,
        allowed_price=settings.allowed_price,
        warnings=tuple(warn_of(grids[0], tried, ordinary.plain, ordinary.adjusted)) if gained else (),
        target=settings.target,
        floor=settings.floor or {},
        k=settings.k,
        agreement=agreement,
        sample=trial.sample,
        item_counts=log.item_counts,
        split=as_split(log, settings.seed, **_held_out(trial)),
        seed=settings.seed,
    )


def _held_out(trial: Trial) -> dict[str, Interactions]:
    """The parts to measure the given vectors on; none if they were trained on them."""
    uniform, ordinary = trial.parts
    return {} if trial.in_sample else {"valid": uniform.tuning, "test": uniform.test, "ordinary": ordinary.test}


def _test_strengths(
    trial: Trial, vectors: Embeddings, directions: Directions, settings: DebiasSettings, pairs: set[tuple[float, float]]
) -> dict[tuple[float, float], list[Effect]]:
    """What each pair of strengths does to the test users of both parts."""
    measured: dict[tuple[float, float], list[Measures]] = {}
    for pair in sorted({(0.0, 0.0), *pairs}):
        settings.report(f"testing strengths {pair[0]} and {pair[1]} on other users")
        one = Adjustment(directions.item, directions.user, *pair)
        measured[pair] = [measure_on(part, vectors, one, settings) for part in trial.parts]
    plain = measured[0.0, 0.0]
    return {
        pair: [effect_of(before, after, settings) for before, after in zip(plain, both, strict=True)]
        for pair, both in measured.items()
    }
