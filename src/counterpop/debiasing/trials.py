"""Settings, held-out pairs for tuning and for testing, and the effect of an adjustment on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any

import numpy as np

from counterpop.adjustment import Adjustment
from counterpop.directions import Directions, ItemDirection
from counterpop.embeddings import Embeddings, FloatArray
from counterpop.errors import CounterpopWarning, InputError, check_settings
from counterpop.evaluation import Measures, contrast, measure
from counterpop.interactions import IntArray, Interactions, pair_keys, rows_of
from counterpop.metrics.resampling import PER_USER
from counterpop.panels import Users, choose_users
from counterpop.presentation import Shown
from counterpop.ranking import rank, tie_order
from counterpop.segmentation import regroup
from counterpop.splits import LATER, Development, Split, SplitManifest, draw_by_item
from counterpop.tuning import (
    FOLDS,
    LOWER_IS_BETTER,
    STRENGTHS,
    Frontier,
    Grid,
    PointOptions,
    PointSettings,
    Target,
    deal_folds,
    refine,
    search_strengths,
)

# Pairs drawn from the log itself if there is no later one: at least this many of every item, and this many in
# total unless that is more than a share of the log; never more than half of an item's pairs.
LEAST_OF_EACH, ENOUGH_PAIRS, MOST_OF_LOG = 2, 50_000, 0.2
SIGNIFICANT = 0.01  # chosen after seeing data: at .05 one BPR model was adjusted and lost .003 (docs/debias.md)
SPARE = 2.0  # standard errors below the limit on the price, without a later log: rebuilt vectors are not the given ones
USER_STREAM, PAIR_STREAM = 500, 501
PART_NAMES = "uniform", "ordinary"


class DebiasOptions(PointOptions, total=False):
    """The fields of `DebiasSettings` as keywords of `debias` and `check_drift`, for type checkers."""

    item_direction: ItemDirection | None
    drop_unknown: bool
    report: Callable[[str], None]


@dataclass(frozen=True, eq=False)
class DebiasSettings(PointSettings):
    """The settings of `debias` and `check_drift`, which take them as keywords."""

    item_direction: ItemDirection | None = None
    drop_unknown: bool = False
    """Leave out ids of the logs that have no vector, with a warning, instead of raising `InputError`."""
    report: Callable[[str], None] = lambda stage: None
    """Called with the name of each stage as it starts."""

    @classmethod
    def of(cls, settings: DebiasOptions, caller: Callable[..., Any] | None = None) -> DebiasSettings:
        """These settings, the rest by default; raises `InputError` if one of them does not exist.

        `caller` is the function that they are keywords of; its own are suggested as well.
        """
        check_settings(settings, [field.name for field in fields(cls)], signature(caller).parameters if caller else ())
        return cls(**settings)


def warn_of_settings(settings: DebiasSettings, *, in_sample: bool) -> None:
    """Warns of settings whose result may disappoint; `in_sample` means without a later log."""
    if settings.point == "gain" and not settings.floor:
        if settings.target not in ("recall", "hit_rate", "ndcg"):
            text = (
                f"the target {settings.target} without a limit takes the strengths that move it most, at any cost in "
                "accuracy; point='balanced' or a floor such as recall=0.95 limits the cost"
            )
            warnings.warn(CounterpopWarning(text), stacklevel=4)
        elif in_sample:
            text = "far along the grid, a gain that is judged without a later log may be none; pass a holdout"
            warnings.warn(CounterpopWarning(text), stacklevel=4)


@dataclass(frozen=True, eq=False, repr=False)
class Effect(Shown):
    """A model before and after, on the same held-out pairs of users on whom nothing was tuned."""

    plain: Measures
    adjusted: Measures
    comparison: Mapping[str, Mapping[str, float]]

    def gain(self, target: Target) -> float:
        """By how much the target improved; below 0 if it got worse."""
        sign = -1 if target in LOWER_IS_BETTER else 1
        return sign * float(getattr(self.adjusted, target) - getattr(self.plain, target))

    def is_proven(self, target: Target) -> bool:
        """Whether the difference is statistically significant.

        By the paired test. Coverage and Gini, which are properties of all lists together, have none: their two
        intervals must not overlap.
        """
        if target in PER_USER:
            return self.comparison[target]["p_value"] < SIGNIFICANT
        (low, high), (other_low, other_high) = (m.intervals[target] for m in (self.plain, self.adjusted))
        return high < other_low or other_high < low

    def is_better(self, target: Target) -> bool:
        """Whether the target improved significantly."""
        return self.gain(target) > 0 and self.is_proven(target)

    def to_json(self) -> dict[str, Any]:
        return {
            "users": len(self.plain.users),
            "plain": self.plain.to_json(),
            "adjusted": self.adjusted.to_json(),
            "comparison": {name: dict(row) for name, row in self.comparison.items()},
        }


@dataclass(frozen=True, eq=False)
class Part:
    """Held-out pairs, and what the users behind them have seen before."""

    seen: Interactions
    tuning: Interactions
    """Held-out pairs of the users on whom strengths are tuned."""
    test: Interactions
    """Held-out pairs of the other users, on whom the effect is measured."""
    vectors: Embeddings | None = None
    """Vectors that do not know the held-out pairs, if the given ones do: see `rebuild`."""


@dataclass(frozen=True, eq=False)
class Trial:
    """The held-out pairs of an experiment."""

    parts: tuple[Part, Part]
    """Uniform pairs, which hold every item about equally often, and ordinary ones, drawn at random."""
    in_sample: bool
    """Whether they come from the log the model was trained on."""
    sample: int | None
    """Maximum number of users on each side, if a sample was drawn; else None."""


def hold_out(log: Interactions, later: Interactions | None, seed: int, users: Users = None) -> Trial:
    """Held-out pairs of a later log, or else of the log itself, for users to tune on and users to test on.

    `users` limits the number of users on each side: see `panels`.
    """
    generator, in_sample = np.random.default_rng([seed, PAIR_STREAM]), later is None
    if later is None:
        of_each = max(LEAST_OF_EACH, int(min(ENOUGH_PAIRS, MOST_OF_LOG * len(log)) / log.n_items))
        untimed = replace(log, time=None)  # random pairs of each item, not the latest
        uniform = draw_by_item(untimed, np.minimum(of_each, log.item_counts // 2), generator)
        ordinary = generator.choice(len(log), len(uniform), replace=False)
        masks = [np.isin(np.arange(len(log)), rows) for rows in (uniform, ordinary)]
        parts = [(log.rows(~mask), log.rows(mask)) for mask in masks]
    else:
        parts = [(log, held) for held in _draw_later(log, later, generator)]
    chance = np.random.default_rng([seed, USER_STREAM]).random(log.n_users)
    divided, sizes = [], set()
    for seen, held in parts:
        sides = []
        for tuning in (True, False):
            able = np.flatnonzero((held.user_counts > 0) & ((chance < 0.5) == tuning)).astype(np.int32)
            if not len(able):
                raise InputError(
                    "held-out pairs of several users are needed, to tune on some and test on others, got those of "
                    f"{int((held.user_counts > 0).sum())}; pass a longer log"
                )
            chosen, sample = choose_users(able, log.user_counts, log.n_items, users, seed)
            sizes |= {sample.users} if sample else set()
            sides.append(held.rows(rows_of(held, chosen)))
        divided.append(Part(seen, sides[0], sides[1]))
    return Trial((divided[0], divided[1]), in_sample, max(sizes, default=None))


def _draw_later(
    log: Interactions, later: Interactions, generator: np.random.Generator
) -> tuple[Interactions, Interactions]:
    """Of the later pairs that the log does not hold: those that hold every item about equally often, and all."""
    later = later.rows(~np.isin(pair_keys(later), pair_keys(log)))
    if not len(later):
        raise InputError("the holdout must hold pairs that the log does not, but it has none; pass a later log")
    flat = max(1, int(np.median(later.item_counts[later.item_counts > 0])))
    rows = draw_by_item(replace(later, time=None), np.full(log.n_items, flat), generator)  # not the latest
    return later.rows(np.sort(rows)), later


def as_split(log: Interactions, seed: int = 0, **parts: Interactions) -> Split:
    """The log as train, and these held-out parts; those that are not given are empty."""
    nothing = log.rows(np.zeros(len(log), dtype=bool))
    whole = {"train": log, **dict.fromkeys(("valid", "test", "ordinary", "intervened"), nothing), **parts}
    manifest = SplitManifest.of(LATER, seed, {}, None, whole)
    return Split(Development(log, whole["valid"], None, parts.get("ordinary"), manifest.drawn), whole["test"], manifest)


def split_later(log: Interactions, later: Interactions, tuned_on: Interactions, seed: int = 0) -> Split:
    """A split to measure vectors trained on `log` on: an even draw of later pairs as test, all of them as ordinary.

    Users of `tuned_on` are left out, because strengths were tuned on them.
    """
    fresh = later.rows(tuned_on.user_counts[later.user_ix] == 0)
    if not len(fresh):
        raise InputError("the holdout must hold users on whom no strength was tuned, but it has none; pass another one")
    even, everything = _draw_later(log, fresh, np.random.default_rng([seed, PAIR_STREAM]))
    return as_split(log, seed, test=even, ordinary=everything)


def tune_on(
    trial: Trial, vectors: Embeddings, directions: Directions, settings: DebiasSettings, cells: IntArray | None = None
) -> tuple[list[Grid], Frontier]:
    """The grids of both parts, measured on the tuning users, with `cells` as groups; and what points are chosen by."""
    fold, strengths = deal_folds(len(vectors.user_vectors), settings.seed), refine(STRENGTHS)
    options: dict[str, Any] = {"k": settings.k, "item_strengths": strengths, "user_strengths": strengths}
    options["user_groups"] = fold if cells is None else cells * FOLDS + fold
    grids = []
    for name, part in zip(PART_NAMES, trial.parts, strict=True):
        settings.report(f"measuring every pair of strengths on {name} pairs")
        grids.append(search_strengths(part.vectors or vectors, directions, part.seen, part.tuning, **options))
    group = np.arange(len(grids[0].user_groups))
    uniform, ordinary = (regroup(grid, group % FOLDS) for grid in grids)
    limits = settings.target, settings.floor or {}, settings.allowed_price
    frontier = Frontier(uniform, ordinary, *limits, spare=SPARE if trial.in_sample else 1.0)
    return [regroup(grid, group // FOLDS) for grid in grids], frontier


def measure_on(
    part: Part,
    vectors: Embeddings,
    adjustment: Adjustment,
    settings: DebiasSettings,
    strengths: tuple[FloatArray, FloatArray] | None = None,
) -> Measures:
    """The measures of an adjustment on the test users; `strengths` are those of every user (U,), if they differ."""
    vectors, users = part.vectors or vectors, np.flatnonzero(part.test.user_counts).astype(np.int32)
    own = () if strengths is None else (side[users] for side in strengths)
    queries = adjustment.query(vectors.user_vectors[users], *own)
    ties = tie_order(vectors.item_ids)
    lists, _ = rank(queries, vectors.item_vectors, settings.k, users=users, seen=[part.seen], ties=ties)
    return measure(lists, users, part.seen, part.test, seed=settings.seed)


def effect_of(plain: Measures, adjusted: Measures, settings: DebiasSettings) -> Effect:
    """The effect, with the paired tests."""
    return Effect(plain, adjusted, contrast(adjusted, plain, seed=settings.seed))
