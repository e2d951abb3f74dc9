"""Anybody's vectors in, a tuned adjustment and its proven effect out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Segments
from counterpop.directions import ItemDirection, UserDirection, find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import CounterpopWarning, InputError
from counterpop.evaluation import PER_USER, Measures, compare, measure, measure_model
from counterpop.interactions import BoolArray, Ids, Interactions, as_ids, pair_keys, places, restrict
from counterpop.ledger import Ledger
from counterpop.ranking import rank
from counterpop.recommender import Recommender
from counterpop.runs import Model
from counterpop.segmentation import choose_segments, divide
from counterpop.splits import draw_by_item
from counterpop.tuning import LOWER_IS_BETTER, Grid, Target, choose_strengths, search_strengths

# Pairs drawn from the log itself where there is no later one: at least so many of every item, and so many in
# all where that takes no more than a share of the log.
LEAST_OF_EACH, ENOUGH_PAIRS, MOST_OF_LOG = 2, 10_000, 0.2
MOST_SCORES = 2_000_000_000  # users x items on each side; more users tell little more and take minutes
SIGNIFICANT = 0.01  # set with data in view: at .05 one BPR model was adjusted and lost .003 (README)
USER_STREAM, PAIR_STREAM, ORDER_STREAM = 500, 501, 502
ORDER_PAIRS = 20_000
PART_NAMES = "every item alike", "pairs as they come"


@dataclass(frozen=True, eq=False)
class Effect:
    """A model before and after, on the same held-out pairs of users who took no part in the choice."""

    plain: Measures
    adjusted: Measures
    comparison: Mapping[str, Mapping[str, float]]

    def gain(self, target: Target) -> float:
        """How far the target moved to the better; below 0 where it moved to the worse."""
        sign = -1 if target in LOWER_IS_BETTER else 1
        return sign * float(getattr(self.adjusted, target) - getattr(self.plain, target))

    def is_proven(self, target: Target) -> bool:
        """Whether a difference is beyond chance.

        By the paired test; coverage and Gini, which belong to all lists together, have none: there the two
        intervals must not overlap.
        """
        if target in PER_USER:
            return self.comparison[target]["p_value"] < SIGNIFICANT
        (low, high), (other_low, other_high) = (m.intervals[target] for m in (self.plain, self.adjusted))
        return high < other_low or other_high < low

    def proof(self, target: Target) -> str:
        """What `is_proven` rests on, in words."""
        if target in PER_USER:
            return f"p = {self.comparison[target]['p_value']:.2g}, where p < {SIGNIFICANT} is asked for"
        return f"the 95 % intervals {'do not ' if self.is_proven(target) else ''}overlap"

    def to_json(self) -> dict[str, Any]:
        return {
            "users": len(self.plain.users),
            "plain": self.plain.to_json(),
            "adjusted": self.adjusted.to_json(),
            "comparison": {name: dict(row) for name, row in self.comparison.items()},
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Debiasing(Recommender):
    """An adjustment of vectors that somebody else trained, with the proof of its effect.

    Where no gain is proven the strengths are 0: leave the vectors as they are.
    """

    uniform: Effect
    """On held-out pairs that hold every item about equally often."""
    ordinary: Effect
    """On held-out pairs as they come."""
    by_segment: Effect | None
    """Strengths by segment (adjusted) against one pair for all (plain); None if none were worth a test."""
    grid: Grid
    """What the strengths were chosen from."""
    ordinary_grid: Grid
    """The same on held-out pairs as they come: what a floor is measured on."""
    tried: tuple[float, float]
    """The strengths that looked best; those of the adjustment itself are 0 where they proved no better."""
    target: Target
    floor: Mapping[str, float]
    k: int
    in_sample: bool
    """Whether the held-out pairs were in the log the model was trained on: figures are then too high."""
    sample: int | None
    """Most users on each side, drawn at random, where the catalogue is too large for all; else None."""
    item_counts: NDArray[np.int64]
    """(I,) interactions of every item in the log."""

    @property
    def gained(self) -> bool:
        return (self.item_strength, self.user_strength) != (0.0, 0.0)

    @property
    def unproven(self) -> bool:
        """Whether the strengths are 0 although the best that were tried look better."""
        return not self.gained and self.uniform.gain(self.target) > 0

    @property
    def price(self) -> str:
        """What the gain costs in accuracy on held-out pairs as they come: a sentence, or none."""
        if not self.gained or self.ordinary.gain("recall") >= 0 or not self.ordinary.is_proven("recall"):
            return ""
        plain, adjusted = self.ordinary.plain.recall, self.ordinary.adjusted.recall
        return (
            "The price: on held-out pairs as they come, which favour what was popular already, recall falls "
            f"from {plain:.4f} to {adjusted:.4f}; a floor (--floor recall=0.95) bounds it."
        )

    def to_json(self) -> dict[str, Any]:
        """What `counterpop debias --json` prints."""
        return {
            "gained": self.gained,
            "in_sample": self.in_sample,
            "sample": self.sample,
            "k": self.k,
            "target": self.target,
            "floor": dict(self.floor),
            "tried": self.tried,
            "item_strength": self.item_strength,
            "user_strength": self.user_strength,
            "uniform": self.uniform.to_json(),
            "ordinary": self.ordinary.to_json(),
            "segments": self.segments and vars(self.segments),
            "by_segment": self.by_segment and self.by_segment.to_json(),
        }

    def curve(self) -> dict[str, NDArray[Any]]:
        """The whole trade-off as columns: every pair of strengths and its metrics on both held-out parts.

        `frontier` marks the points that no other beats in both the target on uniform pairs and the recall on
        ordinary ones.
        """
        a, b = np.meshgrid(self.grid.item_strengths, self.grid.user_strengths, indexing="ij")
        columns: dict[str, NDArray[Any]] = {"item_strength": a.ravel(), "user_strength": b.ravel()}
        for part, grid in (("uniform", self.grid), ("ordinary", self.ordinary_grid)):
            columns |= {f"{part}_{name}": value.ravel() for name, value in grid.values.items()}
        sign = -1 if self.target in LOWER_IS_BETTER else 1
        first, second = sign * columns[f"uniform_{self.target}"], columns["ordinary_recall"]
        no_worse = (first[:, None] >= first) & (second[:, None] >= second)  # [m, n]: m against n
        better = no_worse & ((first[:, None] > first) | (second[:, None] > second))
        return columns | {"frontier": np.asarray(~better.any(axis=0))}


def debias(
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    interactions: Interactions,
    *,
    holdout: Interactions | None = None,
    user_ids: Sequence[Any] | Ids | None = None,
    item_ids: Sequence[Any] | Ids | None = None,
    ledger: Ledger | None = None,
    drop_unknown: bool = False,
    target: Target = "recall",
    floor: Mapping[str, float] | None = None,
    k: int = 20,
    item_direction: ItemDirection | None = None,
    user_direction: UserDirection | None = None,
    seed: int = 0,
    report: Callable[[str], None] = lambda stage: None,
) -> Debiasing:
    """A tuned adjustment of given vectors, and its effect on users who took no part in the choice.

    Without ids, row n of the vectors (and of a ledger) belongs to the n-th id of the log. Strengths are
    chosen on half of the users, on pairs of `holdout` (a later log, less what the first one holds), drawn so
    that items count about equally; without one, on a few pairs of every item of the log itself, which the
    model has seen: the choice carries over, the figures are too high. The other half of the users shows the
    effect; where `target` is not proven better there (paired test, p < .01; for coverage and Gini, 95 %
    intervals that do not overlap), the strengths are 0.
    `floor={"ndcg": 0.98}` keeps to strengths that leave so much of the plain model's NDCG on held-out pairs
    as they come. Segments of users get strengths of their own where that is better than one pair for all,
    chosen and tested the same way.

    Every id of the logs needs a vector, or `drop_unknown=True`. In catalogues of many items a random sample
    of the users chooses and proves: see `sample`. `report` is told each stage of the work as it begins.
    """
    if target not in ("recall", "hit_rate", "ndcg") and not floor:
        text = (
            f"{target} alone asks for whatever strengths move it most, at any cost in accuracy; "
            "a floor such as recall=0.95 bounds the cost"
        )
        warnings.warn(CounterpopWarning(text), stacklevel=2)
    vectors = as_embeddings(user_vectors, item_vectors, interactions, user_ids, item_ids)
    log = in_order_of(interactions, vectors, drop_unknown)
    _check_fit(vectors, log, seed)
    if ledger is not None:
        orders = [
            slice(None) if ids is None else np.argsort(as_ids(ids, known, what), kind="stable")
            for what, ids, known in (
                ("user", user_ids, interactions.user_ids),
                ("item", item_ids, interactions.item_ids),
            )
        ]
        ledger = replace(ledger, users=ledger.users[orders[0]], items=ledger.items[orders[1]])
    later = None if holdout is None else in_order_of(holdout, vectors, drop_unknown)
    trial = hold_out(log, later, seed)
    directions = find_directions(Model(vectors, ledger), log, item_direction, user_direction)
    division = divide(trial.parts[0].seen, seed)  # held-out pairs would tell on themselves
    grids = []
    for name, part in zip(PART_NAMES, trial.parts, strict=True):
        report(f"measuring 121 pairs of strengths, {name}")
        grids.append(search_strengths(vectors, directions, part.seen, part.chooses, k=k, user_groups=division.cells))
    tried = choose_strengths(grids[0], target, floor, grids[1])
    best = Recommender(directions.item, directions.user, *tried, embeddings=vectors, seen=log)
    effects = []
    for name, part in zip(PART_NAMES, trial.parts, strict=True):
        report(f"proving strengths {tried[0]} and {tried[1]} on other users, {name}")
        effects.append(_effect(best, part, k, seed))
    strengths = tried if is_better(effects[0], target) else (0.0, 0.0)
    segments, by_segment = None, None
    if strengths != (0.0, 0.0):
        segments = choose_segments(grids, division, target, floor)
    if segments is not None:
        report(f"proving strengths by {segments.by} on other users")
        by_segment = _segment_effect(
            best, effects[0].adjusted, segments, division.values[segments.by], trial.parts[0], k, seed
        )
        bounds = divide(log, seed).bounds(segments.by)  # thirds of the log that callers have
        kept = is_better(by_segment, target) and len(bounds) == len(segments.bounds)
        segments = replace(segments, bounds=bounds) if kept else None
    return Debiasing(
        directions.item,
        directions.user,
        *strengths,
        embeddings=vectors,
        seen=log,
        segments=segments,
        uniform=effects[0],
        ordinary=effects[1],
        by_segment=by_segment,
        grid=replace(grids[0], user_groups=()),
        ordinary_grid=replace(grids[1], user_groups=()),
        tried=tried,
        target=target,
        floor=floor or {},
        k=k,
        in_sample=holdout is None,
        sample=trial.sample,
        item_counts=log.item_counts,
    )


def as_embeddings(
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    log: Interactions,
    user_ids: Sequence[Any] | Ids | None,
    item_ids: Sequence[Any] | Ids | None,
) -> Embeddings:
    """The vectors in the order of their sorted ids."""
    sides = []
    for what, vectors, ids, known in (
        ("user", user_vectors, user_ids, log.user_ids),
        ("item", item_vectors, item_ids, log.item_ids),
    ):
        matrix = np.asarray(vectors, dtype=np.float32)
        if ids is None and len(matrix) != len(known):
            raise InputError(
                f"without {what}_ids there must be a vector for each of the log's {len(known)} {what}s in "
                f"their order, got {len(matrix)}; pass {what}_ids"
            )
        own = known if ids is None else as_ids(ids, known, what)
        if len(own) != len(matrix):
            raise InputError(f"each {what} vector needs an id, got {len(matrix)} vectors and {len(own)} ids")
        order = np.argsort(own, kind="stable")
        own = own[order]
        twice = np.flatnonzero(own[1:] == own[:-1])
        if len(twice):
            raise InputError(f"{what} ids must be given once, but {own[twice[:1]].tolist()[0]!r} comes twice")
        zero = len(matrix) - np.count_nonzero(matrix.any(axis=1))
        if zero:
            text = f"{zero} {what} vectors are all zero, so that all their scores are 0"
            warnings.warn(CounterpopWarning(text), stacklevel=3)
        in_order = bool((order[1:] > order[:-1]).all())
        sides.append((matrix if in_order else matrix[order], own))
    (users, own_users), (items, own_items) = sides
    return Embeddings(users, items, own_users, own_items)


def in_order_of(log: Interactions, vectors: Embeddings, drop_unknown: bool) -> Interactions:
    """The log with the positions of the vectors; ids without a vector are an error, or left out and told."""
    without = []
    for what, ids, known in (("user", log.user_ids, vectors.user_ids), ("item", log.item_ids, vectors.item_ids)):
        missing = ids[~places(ids, known, what)[1]].tolist()
        if len(missing) == len(ids):
            raise InputError(
                f"the log and the vectors must share {what} ids, but the log has {missing[0]!r} and others, "
                f"the vectors {known[:1].tolist()[0]!r} and others; pass {what}_ids (--{what}-ids)"
            )
        if missing and not drop_unknown:
            raise InputError(
                f"every {what} needs a vector, but {len(missing)} {what}s of the log have none "
                f"(first: {missing[0]!r}); pass drop_unknown=True (--drop-unknown) to leave them out"
            )
        without.append(f"{len(missing)} {what}s")
    kept = restrict(log, vectors.user_ids, vectors.item_ids)
    if len(kept) < len(log):
        text = f"left out {len(log) - len(kept)} of {len(log)} pairs: {' and '.join(without)} have no vector"
        warnings.warn(CounterpopWarning(text), stacklevel=3)
    if not len(kept):
        raise InputError("the log and the vectors must share ids, but no pair is left; pass the ids it uses")
    return kept


def _check_fit(vectors: Embeddings, log: Interactions, seed: int) -> None:
    """Warns of vectors that the log does not know, and where they and the log do not seem to belong together.

    Rows in the wrong order cannot be seen from their number. They show in that a user's own pairs then score
    no higher than the same items do for other users.
    """
    for what, counts in (("user", log.user_counts), ("item", log.item_counts)):
        unknown = int((counts == 0).sum())
        if unknown:
            does = "take no part" if what == "user" else "can be recommended, with a popularity of 0"
            text = f"{unknown} of {len(counts)} {what} vectors have no interaction in the log: they {does}"
            warnings.warn(CounterpopWarning(text), stacklevel=3)
    generator = np.random.default_rng([seed, ORDER_STREAM])
    rows = generator.choice(len(log), min(ORDER_PAIRS, len(log)), replace=False)
    users, items = log.user_ix[rows], vectors.item_vectors[log.item_ix[rows]]
    own, other = ((vectors.user_vectors[ix] * items).sum(axis=1) for ix in (users, generator.permutation(users)))
    apart = own != other
    share = float((own[apart] > other[apart]).mean()) if apart.any() else 0.5
    if len(rows) >= 500 and share < 0.5 + 1.5 / np.sqrt(len(rows)):  # three standard errors
        text = (
            f"a user's own pairs score higher than the same items for another user only {share:.0%} of the "
            "time, as by chance: check that each vector stands beside its id, and that the log is the model's"
        )
        warnings.warn(CounterpopWarning(text), stacklevel=3)


@dataclass(frozen=True, eq=False)
class Part:
    """Held-out pairs, and what the users behind them have seen before."""

    seen: Interactions
    chooses: Interactions
    """Held-out pairs of the users on whom strengths are chosen."""
    proves: Interactions
    """Those of the others, who show the effect."""


@dataclass(frozen=True, eq=False)
class Trial:
    parts: tuple[Part, Part]
    """Uniform over items, and as they come."""
    sample: int | None


def hold_out(log: Interactions, later: Interactions | None, seed: int) -> Trial:
    """Held-out pairs of a later log, or else of the log itself, for users who choose and users who prove."""
    generator = np.random.default_rng([seed, PAIR_STREAM])
    if later is None:
        of_each = max(LEAST_OF_EACH, int(min(ENOUGH_PAIRS, MOST_OF_LOG * len(log)) / log.n_items))
        uniform = _mask(log, draw_by_item(log, np.full(log.n_items, of_each), generator))
        some = _mask(log, generator.choice(len(log), uniform.sum(), replace=False))
        parts = [(log.rows(~mask), log.rows(mask)) for mask in (uniform, some)]
    else:
        later = later.rows(~np.isin(pair_keys(later), pair_keys(log)))
        if not len(later):
            raise InputError("the holdout must hold pairs that the log does not, but it has none; pass a later log")
        flat = max(1, int(np.median(later.item_counts[later.item_counts > 0])))
        uniform = _mask(later, draw_by_item(later, np.full(log.n_items, flat), generator))
        parts = [(log, later.rows(uniform)), (log, later)]
    chance = np.random.default_rng([seed, USER_STREAM]).random(log.n_users)
    most = max(1, MOST_SCORES // log.n_items)
    sampled = False
    found = []
    for seen, held in parts:
        sides = []
        for choosing in (True, False):
            users = np.flatnonzero((held.user_counts > 0) & ((chance < 0.5) == choosing))
            if not len(users):
                raise InputError(
                    f"held-out pairs of several users are needed to choose and to prove, got those of "
                    f"{int((held.user_counts > 0).sum())}; pass a longer log"
                )
            sampled |= len(users) > most
            mask = np.zeros(log.n_users, dtype=bool)
            mask[users[np.argsort(chance[users])[:most]]] = True
            sides.append(held.rows(mask[held.user_ix]))
        found.append(Part(seen, *sides))
    return Trial((found[0], found[1]), most if sampled else None)


def _mask(log: Interactions, rows: NDArray[np.intp]) -> BoolArray:
    mask = np.zeros(len(log), dtype=bool)
    mask[rows] = True
    return mask


def _effect(best: Recommender, part: Part, k: int, seed: int) -> Effect:
    """An adjustment against the plain vectors on the users who prove."""
    best = replace(best, seen=part.seen)
    before, after = (measure_model(a, part.proves, k, seed=seed) for a in (best.with_strengths(0.0, 0.0), best))
    return Effect(before, after, compare(after, before, seed=seed))


def is_better(effect: Effect, target: Target) -> bool:
    """Whether the target is better, beyond chance."""
    return effect.gain(target) > 0 and effect.is_proven(target)


def _segment_effect(
    best: Recommender,
    one_pair: Measures,
    segments: Segments,
    values: NDArray[np.float64],
    part: Part,
    k: int,
    seed: int,
) -> Effect:
    """Strengths by segment against one pair for all, on the users who prove."""
    users = one_pair.users
    lists, _ = rank(
        best.query(best.embeddings.user_vectors[users], *segments.strengths_of(values[users])),
        best.embeddings.item_vectors,
        k,
        users=users,
        seen=[part.seen],
        ties=best.ties,
    )
    apart = measure(lists, users, part.seen, part.proves, seed=seed)
    return Effect(one_pair, apart, compare(apart, one_pair, seed=seed))
