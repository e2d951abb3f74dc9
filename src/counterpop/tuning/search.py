"""The whole grid of strengths in one pass, and the choice among its points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from counterpop.directions import Directions
from counterpop.embeddings import Embeddings, FloatArray, check_same_ids
from counterpop.errors import InputError, check_settings
from counterpop.grid import Points, group_items, order_points
from counterpop.interactions import BoolArray, IntArray, Interactions, gini, head, rows_of
from counterpop.kernels.threads import core_count, in_stretches
from counterpop.metrics.accuracy import ideal_dcg
from counterpop.metrics.popularity import HEAD_GROUPS, popularity_groups
from counterpop.metrics.resampling import PER_USER
from counterpop.presentation import Pictured
from counterpop.ranking import score_blocks, tie_order
from counterpop.runs import STRENGTHS, Strengths

Target = Literal["recall", "hit_rate", "ndcg", "average_popularity", "tail_share", "coverage", "gini"]

LOWER_IS_BETTER = ("average_popularity", "gini")
EXPOSURE_BYTES = 1 << 30  # for the counts of all threads together


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Pictured):
    """Every metric at every pair of strengths: `values[name][a, b]` for item strength a, user strength b."""

    item_strengths: Strengths
    user_strengths: Strengths
    values: Mapping[str, NDArray[np.float64]]
    users: int
    looked_at: float
    """Mean number of items per user that had to be ranked at every point; the others were ruled out."""
    user_groups: tuple[Grid, ...] = ()
    """The same for each group of users, if groups were given; without coverage and Gini."""
    weight: float | None = None
    """How much all users together count, if held-out pairs have weights; None: as much as their number."""

    def at(self, item_strength: float, user_strength: float) -> dict[str, float]:
        """All metrics at one point of the grid."""
        if item_strength not in self.item_strengths or user_strength not in self.user_strengths:
            raise InputError(f"the grid has no point at strengths {item_strength} and {user_strength}")
        a, b = self.item_strengths.index(item_strength), self.user_strengths.index(user_strength)
        return {name: float(value[a, b]) for name, value in self.values.items()}


@dataclass(frozen=True)
class Tradeoff:
    """A pair of strengths: what it gains and what it costs, both against strength 0 on the users of a grid."""

    item_strength: float
    user_strength: float
    gain: float
    """Improvement of the target, above 0 if better."""
    price: float
    """Share of ordinary recall that is lost; below 0 if it rises."""


class GridOptions(TypedDict, total=False):
    """The fields of `SearchOptions` as keywords of `search_strengths`, for type checkers."""

    k: int
    item_strengths: Strengths
    user_strengths: Strengths
    exposure: bool
    groups: bool
    users: IntArray | None
    user_groups: IntArray | None
    lean: FloatArray | None
    threads: int | None


@dataclass(frozen=True, eq=False)
class SearchOptions:
    """What `search_strengths` measures, and where."""

    k: int = 20
    item_strengths: Strengths = STRENGTHS
    user_strengths: Strengths = STRENGTHS
    exposure: bool = True
    """Measure coverage and Gini, which need a count for each item and point."""
    groups: bool = False
    """With exposure, also measure each popularity group's share of recommendations (`group_1_frequency`)."""
    users: IntArray | None = None
    """Measure only these users; by default all who have held-out pairs."""
    user_groups: IntArray | None = None
    """(U,) the group of every user; each group then also gets a grid of its own."""
    lean: FloatArray | None = None
    """(U,) with it the second strength of a point is not that of users: it is added to a user's item strength times
    the user's number here."""
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"k must be at least 1, got {self.k}")


def search_strengths(
    embeddings: Embeddings,
    directions: Directions,
    train: Interactions,
    held: Interactions,
    **options: Unpack[GridOptions],
) -> Grid:
    """Every metric of `held` at every pair of strengths, exactly as `measure` would give it for each.

    One product of the large matrices serves all points: P'.Q' = P.Q - a (P.q)(Q.q) - b (P.p)(Q.p)
    + a b (P.p)(p.q)(Q.q). The options are those of `SearchOptions`.
    """
    from counterpop.kernels.grid import search_grid

    check_settings(options, [field.name for field in fields(SearchOptions)])
    how = SearchOptions(**options)
    check_same_ids(embeddings, train, held)
    users, group_of = _users_by_group(held, how)
    points = order_points(how.item_strengths, how.user_strengths)
    P, Q = embeddings.user_vectors[users], embeddings.item_vectors
    cells = group_items(Q @ directions.item, Q @ directions.user)
    totals = _Totals.zeros(len(Q), len(points.near), how)
    k, a, b, items = min(how.k, len(Q)), points.item_strength, points.user_strength, Q[cells.order]
    weights = np.ones(len(held), dtype=np.float32) if held.weight is None else held.weight
    fixed = (
        *(cells.item_part, cells.user_part, cells.starts, cells.boxes, points.anchors, points.near),
        *(tie_order(embeddings.item_ids)[cells.order], train.item_counts[cells.order]),
        *(~head(train.item_counts)[cells.order], held.user_starts, cells.place[held.item_ix], weights),
    )
    starts = np.concatenate([[0], np.cumsum(train.user_counts[users])])
    seen, ideal = [(starts, cells.place[train.item_ix[rows_of(train, users)]])], ideal_dcg(k)
    rows = np.arange(len(users), dtype=np.int32)  # of `seen`

    def work(part: int, stretch: slice) -> int:
        looked_at = 0
        for block, scores in score_blocks(P[stretch], items, rows[stretch], seen):
            along_item, along_user = (P[stretch][block] @ d for d in (directions.item, directions.user))
            both = np.outer(along_user, a * b * (directions.item @ directions.user))
            item_shift = (both - np.outer(along_item, a)).astype(np.float32)  # (B, G)
            user_shift = -np.outer(along_user, b).astype(np.float32)
            mine, people = group_of[stretch][block], users[stretch][block]
            if how.lean is not None:
                own = a + np.outer(how.lean[people], b)  # (B, G)
                item_shift, user_shift = (-along_item[:, None] * own).astype(np.float32), np.zeros_like(user_shift)
            cuts = [0, *(np.flatnonzero(np.diff(mine)) + 1).tolist(), len(mine)]
            for low, high in pairwise(cuts):
                into = totals.sums[part, mine[low]], totals.weight[part, mine[low]], totals.exposed[part]
                looked_at += search_grid(scores, item_shift, user_shift, *fixed, people, ideal, k, low, high, *into)
        return looked_at

    looked_at = sum(in_stretches(work, len(users), len(totals.sums)))
    of_group = popularity_groups(train.item_counts)[cells.order] if how.groups else None
    return totals.as_grid(how, points, group_of, looked_at, of_group)


def _users_by_group(held: Interactions, how: SearchOptions) -> tuple[IntArray, IntArray]:
    """The users to measure and their groups, one group after another, so that a block falls into few stretches."""
    users = np.flatnonzero(held.user_counts).astype(np.int32) if how.users is None else how.users
    if not len(users) or not held.user_counts[users].all():
        raise InputError("strengths are chosen on held-out pairs, but the validation part or one of its users has none")
    if how.user_groups is None:
        return users, np.zeros(len(users), dtype=np.int32)
    users = users[np.argsort(how.user_groups[users], kind="stable")]
    return users, how.user_groups[users]


@dataclass(frozen=True, eq=False)
class _Totals:
    """What the kernel adds up, separately for each thread."""

    sums: NDArray[np.float64]  # (threads, groups of users, G, 5)
    weight: NDArray[np.float64]  # (threads, groups of users, 1)
    exposed: IntArray  # (threads, I, G), or (threads, 0, 0) without exposure

    @classmethod
    def zeros(cls, n_items: int, n_points: int, how: SearchOptions) -> _Totals:
        threads = how.threads or core_count()
        n_groups = 1 if how.user_groups is None else int(how.user_groups.max()) + 1
        if how.exposure:
            threads = min(threads, max(1, EXPOSURE_BYTES // (4 * n_items * n_points)))
        counts = (n_items, n_points) if how.exposure else (0, 0)
        return cls(
            np.zeros((threads, n_groups, n_points, len(PER_USER))),
            np.zeros((threads, n_groups, 1)),
            np.zeros((threads, *counts), dtype=np.int32),
        )

    def as_grid(
        self, how: SearchOptions, points: Points, group_of: IntArray, looked_at: int, groups: NDArray[Any] | None
    ) -> Grid:
        """The means at every point; `group_of` are the users' groups and `groups` the items' popularity groups."""
        axes, users = (how.item_strengths, how.user_strengths), len(group_of)
        shape = tuple(map(len, axes))

        def means(sums: NDArray[np.float64], weight: float) -> dict[str, NDArray[np.float64]]:
            with np.errstate(invalid="ignore"):  # NaN for a group without users
                ordered = (sums / weight)[points.in_order]
            return {name: ordered[:, n].reshape(shape) for n, name in enumerate(PER_USER)}

        sums, weight = self.sums.sum(axis=0), self.weight.sum(axis=(0, 2))
        values = means(sums.sum(axis=0), weight.sum())
        if how.exposure:
            shown = [self.exposed[:, :, g].sum(axis=0) for g in points.in_order]
            values["coverage"] = np.array([np.mean(n > 0) for n in shown]).reshape(shape)
            values["gini"] = np.array([gini(n) for n in shown]).reshape(shape)
            if groups is not None:
                shares = np.array([np.bincount(groups, n, HEAD_GROUPS + 1) / max(1, n.sum()) for n in shown])
                values |= {f"group_{g + 1}_frequency": shares[:, g].reshape(shape) for g in range(HEAD_GROUPS + 1)}
        parts: tuple[Grid, ...] = ()
        if how.user_groups is not None:
            sizes = np.bincount(group_of, minlength=len(sums)).tolist()
            parts = tuple(
                Grid(*axes, means(sums[g], weight[g]), sizes[g], looked_at / users, weight=float(weight[g]))
                for g in range(len(sums))
            )
        return Grid(*axes, values, users, looked_at / users, parts, float(weight.sum()))


def choose_strengths(
    grid: Grid, target: Target = "recall", floor: Mapping[str, float] | None = None, ordinary: Grid | None = None
) -> tuple[float, float]:
    """The pair of strengths with the best `target`; the weakest of equally good ones.

    `floor={"ndcg": 0.98}` allows only points whose NDCG on the ordinary validation part is at least 0.98 of the
    plain model's (for metrics where lower is better: at most 1 / 0.98 of it). The winner of a grid flatters itself:
    `tune` does not use this without proof unless asked to.
    """
    if target not in grid.values:
        raise InputError(f"target must be one of {', '.join(grid.values)}, got {target!r}")
    value = -grid.values[target] if target in LOWER_IS_BETTER else grid.values[target].copy()
    value[~above_floor(floor, ordinary, value.shape)] = -np.inf
    best = np.argwhere(value >= value.max() - 1e-12)  # the last bits depend on the number of threads
    a, b = min(best, key=lambda point: round(grid.item_strengths[point[0]] + grid.user_strengths[point[1]], 9))
    return grid.item_strengths[a], grid.user_strengths[b]


def above_floor(floor: Mapping[str, float] | None, ordinary: Grid | None, shape: tuple[int, ...]) -> BoolArray:
    """(A, B) the points that `choose_strengths` allows with this floor."""
    allowed = np.ones(shape, dtype=bool)
    for name, share in (floor or {}).items():
        if ordinary is None:
            raise InputError(
                "a floor is measured on an ordinary validation part, but this split has none; "
                "make the split with one (split --ordinary 0.05)"
            )
        if name not in ordinary.values:
            raise InputError(f"floor must name one of {', '.join(ordinary.values)}, got {name!r}")
        measured, plain = ordinary.values[name], ordinary.at(0.0, 0.0)[name]
        allowed &= measured * share <= plain if name in LOWER_IS_BETTER else measured >= share * plain
    if not allowed.any():
        raise InputError("no pair of strengths satisfies the floor; lower it")
    return allowed


def trace_frontier(grid: Grid, ordinary: Grid, target: Target = "recall") -> tuple[Tradeoff, ...]:
    """The efficient pairs of strengths, lowest price first; gain rises with the price.

    A pair is efficient if no other has both a larger gain and a lower price. Both are measured on the users on whom
    strengths are chosen, so the gain of the best pairs is somewhat too high.
    """
    a, b = np.meshgrid(grid.item_strengths, grid.user_strengths, indexing="ij")
    value, kept = grid.values[target], ordinary.values["recall"]
    plain = grid.item_strengths.index(0.0), grid.user_strengths.index(0.0)
    gain = (value - value[plain]) * (-1 if target in LOWER_IS_BETTER else 1)
    price = (kept[plain] - kept) / (kept[plain] or 1.0)
    points = (
        Tradeoff(*map(float, row)) for row in zip(*(x[efficient(gain, kept)] for x in (a, b, gain, price)), strict=True)
    )
    return tuple(sorted(points, key=lambda point: (point.price, point.gain)))


def efficient(first: NDArray[np.float64], second: NDArray[np.float64]) -> BoolArray:
    """Which points no other point beats in both values, in the shape of the values; higher is better."""
    x, y = first.ravel(), second.ravel()
    no_worse = (x[:, None] >= x) & (y[:, None] >= y)  # [m, n]: m against n
    return np.asarray(~(no_worse & ~no_worse.T).any(axis=0)).reshape(first.shape)
