"""Anybody's vectors in, a tuned adjustment and its proven effect out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import Adjustment
from counterpop.directions import ItemDirection, UserDirection, find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import CounterpopWarning, InputError
from counterpop.evaluation import PER_USER, Measures, compare, measure_model
from counterpop.interactions import BoolArray, Ids, Interactions, as_ids, pair_keys
from counterpop.runs import Model
from counterpop.splits import draw_by_item
from counterpop.tuning import LOWER_IS_BETTER, Grid, Target, choose_strengths, search_strengths

# Pairs drawn from the log itself where there is no later one: at least so many of every item, and so many in
# all where that takes no more than a share of the log.
LEAST_OF_EACH, ENOUGH_PAIRS, MOST_OF_LOG = 2, 10_000, 0.2
SIGNIFICANT = 0.01  # stricter than usual: the best of 121 points is what is put to the test
USER_STREAM, PAIR_STREAM = 500, 501


@dataclass(frozen=True, eq=False)
class Effect:
    """A model before and after, on the same held-out pairs of users who took no part in the choice."""

    plain: Measures
    adjusted: Measures
    comparison: Mapping[str, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        return {
            "users": len(self.plain.users),
            "plain": self.plain.to_json(),
            "adjusted": self.adjusted.to_json(),
            "comparison": {name: dict(row) for name, row in self.comparison.items()},
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Debiasing(Adjustment):
    """An adjustment of vectors that somebody else trained, with the proof of its effect.

    Where nothing is gained the strengths are 0: leave the vectors as they are.
    """

    uniform: Effect
    """On held-out pairs that hold every item about equally often."""
    ordinary: Effect
    """On held-out pairs as they come."""
    grid: Grid
    """What the strengths were chosen from."""
    tried: tuple[float, float]
    """The strengths that looked best; those of the adjustment itself are 0 where they proved no better."""
    in_sample: bool
    """Whether the held-out pairs were in the log the model was trained on: figures are then too high."""

    @property
    def gained(self) -> bool:
        return (self.item_strength, self.user_strength) != (0.0, 0.0)


def debias(
    user_vectors: NDArray[np.floating],
    item_vectors: NDArray[np.floating],
    interactions: Interactions,
    *,
    holdout: Interactions | None = None,
    user_ids: Sequence[Any] | Ids | None = None,
    item_ids: Sequence[Any] | Ids | None = None,
    drop_unknown: bool = False,
    target: Target = "recall",
    floor: Mapping[str, float] | None = None,
    k: int = 20,
    item_direction: ItemDirection | None = None,
    user_direction: UserDirection | None = None,
    seed: int = 0,
) -> Debiasing:
    """A tuned adjustment of given vectors, and its effect on users who took no part in the choice.

    Without ids, row n of the vectors belongs to the n-th id of the log. Strengths are chosen on half of the
    users, on pairs of `holdout` (a later log, less what the first one holds), drawn so that items count about
    equally; without one, on a few pairs of every item of the log itself, which the model has seen: the choice
    carries over, the figures are too high. The other half of the users shows the effect; where `target` is
    not better there (paired test, p < .01), the strengths are 0. Every id of the logs needs a vector, or
    `drop_unknown=True`.
    """
    vectors = _embeddings(user_vectors, item_vectors, interactions, user_ids, item_ids)
    log = _in_order_of(interactions, vectors, drop_unknown)
    generator = np.random.default_rng([seed, PAIR_STREAM])
    if holdout is None:
        of_each = max(LEAST_OF_EACH, int(min(ENOUGH_PAIRS, MOST_OF_LOG * len(log)) / log.n_items))
        uniform = _mask(log, draw_by_item(log, np.full(log.n_items, of_each), generator))
        some = _mask(log, generator.choice(len(log), uniform.sum(), replace=False))
        parts = [(log.rows(~mask), log.rows(mask)) for mask in (uniform, some)]
    else:
        later = _in_order_of(holdout, vectors, drop_unknown)
        later = later.rows(~np.isin(pair_keys(later), pair_keys(log)))
        if not len(later):
            raise InputError(
                "the holdout must hold pairs that the log does not, but it has none; pass a later log"
            )
        flat = max(1, int(np.median(later.item_counts[later.item_counts > 0])))
        uniform = _mask(later, draw_by_item(later, np.full(log.n_items, flat), generator))
        parts = [(log, later.rows(uniform)), (log, later)]
    chooses = np.random.default_rng([seed, USER_STREAM]).random(log.n_users) < 0.5
    directions = find_directions(Model(vectors), log, item_direction, user_direction)
    grids = [
        search_strengths(vectors, directions, seen, held.rows(chooses[held.user_ix]), k=k)
        for seen, held in parts
    ]
    tried = choose_strengths(grids[0], target, floor, grids[1])
    best = Adjustment(directions.item, directions.user, *tried, vectors)
    effects = [_effect(best, seen, held.rows(~chooses[held.user_ix]), k, seed) for seen, held in parts]
    strengths = tried if _is_better(effects[0], target) else (0.0, 0.0)
    return Debiasing(
        directions.item, directions.user, *strengths, vectors,
        uniform=effects[0], ordinary=effects[1], grid=grids[0], tried=tried, in_sample=holdout is None,
    )  # fmt: skip


def _embeddings(
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
        zero = np.flatnonzero(~matrix.any(axis=1))
        if len(zero):
            text = f"{len(zero)} {what} vectors are all zero, so that all their scores are 0"
            warnings.warn(CounterpopWarning(text), stacklevel=3)
        sides.append((matrix[order], own))
    (users, own_users), (items, own_items) = sides
    return Embeddings(users, items, own_users, own_items)


def _in_order_of(log: Interactions, vectors: Embeddings, drop_unknown: bool) -> Interactions:
    """The log with the positions of the vectors; ids without a vector are an error, or left out."""
    keep = np.ones(len(log), dtype=bool)
    moved = []
    for what, ids, known, ix in (
        ("user", log.user_ids, vectors.user_ids, log.user_ix),
        ("item", log.item_ids, vectors.item_ids, log.item_ix),
    ):
        asked = as_ids(ids, known, what)
        at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        missing = np.flatnonzero(known[at] != asked)
        if len(missing) and not drop_unknown:
            raise InputError(
                f"every {what} needs a vector, but {len(missing)} {what}s of the log have none "
                f"(first: {asked[missing[:1]].tolist()[0]!r}); pass drop_unknown=True to leave them out"
            )
        keep &= ~np.isin(ix, missing)
        moved.append(at.astype(np.int32)[ix])
    users, items = (positions[keep] for positions in moved)
    order = np.lexsort((items, users))
    return Interactions(users[order], items[order], vectors.user_ids, vectors.item_ids)


def _mask(log: Interactions, rows: NDArray[np.intp]) -> BoolArray:
    mask = np.zeros(len(log), dtype=bool)
    mask[rows] = True
    return mask


def _effect(best: Adjustment, seen: Interactions, held: Interactions, k: int, seed: int) -> Effect:
    plain, adjusted = (
        measure_model(a, seen, held, k, seed=seed) for a in (best.with_strengths(0.0, 0.0), best)
    )
    return Effect(plain, adjusted, compare(adjusted, plain, seed=seed))


def _is_better(effect: Effect, target: Target) -> bool:
    """Whether the target is better; coverage and Gini have no paired test, so the figure alone decides."""
    sign = -1 if target in LOWER_IS_BETTER else 1
    if target not in PER_USER:
        return sign * float(getattr(effect.adjusted, target) - getattr(effect.plain, target)) > 0
    row = effect.comparison[target]
    return sign * row["difference"] > 0 and row["p_value"] < SIGNIFICANT
