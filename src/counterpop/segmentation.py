"""Segments of users, by activity or by taste for popular items, with their own strengths if these do better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import SegmentBy, Segments
from counterpop.interactions import BoolArray, IntArray, Interactions, head
from counterpop.metrics.resampling import PER_USER
from counterpop.tuning import LOWER_IS_BETTER, Grid, Target, choose_strengths

PARTS = 3  # thirds of the users
LEAST_USERS = 50  # in each half of a segment
LEAST_GAIN = 1.01  # over one pair of strengths for all users; less is not worth the complication
HALF_STREAM = 510


@dataclass(frozen=True, eq=False)
class Division:
    """Users divided into small cells, from which segments of either kind can be formed.

    Users are also split into two halves, so that strengths tuned on one half can be tested on the other.
    """

    values: Mapping[SegmentBy, NDArray[np.float64]]
    """(U,) the values that users are divided by."""
    cells: IntArray
    """(U,) each user's cell, a number whose digits are half, activity and taste."""

    def bounds(self, by: SegmentBy) -> tuple[float, ...]:
        return _bounds(self.values[by])


def divide(log: Interactions, seed: int) -> Division:
    """Every user's activity, share of popular items, and cell."""
    activity = log.user_counts.astype(np.float64)
    popular = np.bincount(log.user_ix, weights=head(log.item_counts)[log.item_ix], minlength=log.n_users)
    values: dict[SegmentBy, NDArray[np.float64]] = {
        "activity": activity,
        "head-taste": popular / np.maximum(activity, 1),
    }
    cells = np.random.default_rng([seed, HALF_STREAM]).integers(0, 2, log.n_users)
    for value in values.values():
        cells = cells * PARTS + np.searchsorted(_bounds(value), value, side="right")
    return Division(values, cells.astype(np.int32))


def choose_segments(
    grids: Sequence[Grid], division: Division, target: Target, floor: Mapping[str, float] | None
) -> Segments | None:
    """The best segments; None unless strengths by segment beat one pair for all in both halves, tuned on the other.

    `grids` are those of the uniform and the ordinary part, with the division's cells as groups. Always None for
    coverage and Gini, which are properties of all lists together.
    """
    if target not in PER_USER or any(name not in PER_USER for name in floor or ()):
        return None
    sign = -1 if target in LOWER_IS_BETTER else 1
    half, activity, taste = np.unravel_index(np.arange(2 * PARTS**2), (2, PARTS, PARTS))

    def choose(cells: BoolArray) -> tuple[float, float] | None:
        uniform, ordinary = (merge(grid, cells) for grid in grids)
        if min(uniform.users, ordinary.users) < LEAST_USERS:
            return None
        return choose_strengths(uniform, target, floor, ordinary)

    def cross_check(segment: NDArray[np.intp], side: int) -> float:
        """The target in one half at the strengths tuned on the other; NaN if there are too few users."""
        total, users = 0.0, 0
        for number in np.unique(segment):
            strengths = choose((segment == number) & (half != side))
            mine = merge(grids[0], (segment == number) & (half == side))
            if strengths is None or not mine.users:
                return float("nan")
            total += mine.users * mine.at(*strengths)[target]
            users += mine.users
        return total / users

    best, best_gain = None, LEAST_GAIN
    kinds: tuple[tuple[SegmentBy, NDArray[np.intp]], ...] = (("activity", activity), ("head-taste", taste))
    for by, segment in kinds:
        value = np.array([[cross_check(s, side) for side in (0, 1)] for s in (segment, 0 * segment)])
        if len(division.bounds(by)) < PARTS - 1 or not (value > 0).all():
            continue
        gains = (value[0] / value[1]) ** sign
        strengths = [choose(segment == number) for number in range(PARTS)]
        known = tuple(pair for pair in strengths if pair is not None)
        if gains.min() > 1 and gains.mean() >= best_gain and len(known) == PARTS:
            best, best_gain = Segments(by, division.bounds(by), known), float(gains.mean())
    return best


def _bounds(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS)).tolist())


def regroup(grid: Grid, labels: NDArray[np.integer]) -> Grid:
    """The grid with its groups of users merged by label: group n of the result holds all with label n."""
    return replace(grid, user_groups=tuple(merge(grid, labels == label) for label in range(int(labels.max()) + 1)))


def merge(grid: Grid, cells: BoolArray) -> Grid:
    """One grid for the users of several groups; its values are 0 if they have no users."""
    parts = [part for part, taken in zip(grid.user_groups, cells, strict=False) if taken and part.users]
    users = sum(part.users for part in parts)
    nothing = np.zeros((len(grid.item_strengths), len(grid.user_strengths)))
    values = {
        name: sum((part.users * part.values[name] for part in parts), start=nothing) / max(1, users)
        for name in PER_USER
    }
    return replace(grid, values=values, users=users, user_groups=())
