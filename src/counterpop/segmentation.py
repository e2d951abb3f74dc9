"""Users in segments, by activity or by taste for popular items, where strengths of their own do better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpop.adjustment import SegmentBy, Segments
from counterpop.evaluation import PER_USER
from counterpop.interactions import BoolArray, IntArray, Interactions, head
from counterpop.tuning import LOWER_IS_BETTER, Grid, Target, choose_strengths

PARTS = 3  # thirds of the users
LEAST_USERS = 50  # in each half of a segment
LEAST_GAIN = 1.01  # over one pair of strengths for all: less is not worth a second dial
HALF_STREAM = 510


@dataclass(frozen=True, eq=False)
class Division:
    """Users in small cells, out of which segments of either kind can be put together.

    They are halved as well, so that strengths chosen on one half can be tried on the other.
    """

    values: Mapping[SegmentBy, NDArray[np.float64]]
    """(U,) what users are told apart by."""
    cells: IntArray
    """(U,) the number of each user's cell: half, then activity, then taste, as digits."""

    def bounds(self, by: SegmentBy) -> tuple[float, ...]:
        return _bounds(self.values[by])


def divide(log: Interactions, seed: int) -> Division:
    """Every user's activity, taste for the head, and cell."""
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
    """The best segments, if in both halves the other half's strengths by segment beat its one pair for all.

    `grids` are of the uniform and of the ordinary part, with the division's cells as groups. None for
    coverage and Gini, which belong to all lists together.
    """
    if target not in PER_USER or any(name not in PER_USER for name in floor or ()):
        return None
    sign = -1 if target in LOWER_IS_BETTER else 1
    half, activity, taste = np.unravel_index(np.arange(2 * PARTS**2), (2, PARTS, PARTS))

    def choose(taken: BoolArray) -> tuple[float, float] | None:
        uniform, ordinary = (_merge(grid, taken) for grid in grids)
        if min(uniform.users, ordinary.users) < LEAST_USERS:
            return None
        return choose_strengths(uniform, target, floor, ordinary)

    def try_out(segment: NDArray[np.intp], where: int) -> float:
        """The target in one half at the strengths that the other half chose; NaN where users are too few."""
        total, users = 0.0, 0
        for number in np.unique(segment):
            strengths = choose((segment == number) & (half != where))
            mine = _merge(grids[0], (segment == number) & (half == where))
            if strengths is None or not mine.users:
                return float("nan")
            total += mine.users * mine.at(*strengths)[target]
            users += mine.users
        return total / users if users else float("nan")

    best, best_gain = None, LEAST_GAIN
    kinds: tuple[tuple[SegmentBy, NDArray[np.intp]], ...] = (("activity", activity), ("head-taste", taste))
    for by, segment in kinds:
        found = np.array([[try_out(s, where) for where in (0, 1)] for s in (segment, 0 * segment)])
        if len(division.bounds(by)) < PARTS - 1 or not (found > 0).all():
            continue
        gains = (found[0] / found[1]) ** sign
        strengths = [choose(segment == number) for number in range(PARTS)]
        known = tuple(pair for pair in strengths if pair is not None)
        if gains.min() > 1 and gains.mean() >= best_gain and len(known) == PARTS:
            best, best_gain = Segments(by, division.bounds(by), known), float(gains.mean())
    return best


def _bounds(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS)).tolist())


def _merge(grid: Grid, taken: BoolArray) -> Grid:
    """One grid of the users of several cells."""
    parts = [part for part, wanted in zip(grid.user_groups, taken, strict=False) if wanted and part.users]
    users = sum(part.users for part in parts)
    values = {
        name: np.asarray(sum(part.users * part.values[name] for part in parts) / max(1, users)) for name in PER_USER
    }
    return replace(grid, values=values, users=users, user_groups=())
