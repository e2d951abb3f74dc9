"""The whole grid of strengths in one pass, and the choice among its points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.directions import Directions, ItemDirection, UserDirection, find_directions
from counterpop.embeddings import Embeddings, FloatArray, check_same_ids
from counterpop.errors import InputError
from counterpop.evaluation import PER_USER
from counterpop.interactions import IntArray, Interactions, gini, head
from counterpop.kernels.threads import core_count, in_stretches
from counterpop.metrics.accuracy import ideal_dcg
from counterpop.metrics.popularity import HEAD_GROUPS, popularity_groups
from counterpop.ranking import score_blocks, tie_order
from counterpop.recommender import Recommender
from counterpop.runs import FIXED, STRENGTHS, Run
from counterpop.splits import Development, Split

Target = Literal["recall", "hit_rate", "ndcg", "average_popularity", "tail_share", "coverage", "gini"]

LOWER_IS_BETTER = ("average_popularity", "gini")
CELL_ITEMS = 32  # items in a cell of the kernel, about
MOST_CELLS = 256
EXPOSURE_BYTES = 1 << 30  # of the counts of all threads together
_ANCHORS = 3  # on each side of the grid
_NEAR = 4  # anchors whose lists bound the scores of a point


@dataclass(frozen=True, eq=False)
class Grid:
    """Every metric at every pair of strengths: `values[name][a, b]` for item strength a, user strength b."""

    item_strengths: tuple[float, ...]
    user_strengths: tuple[float, ...]
    values: Mapping[str, NDArray[np.float64]]
    users: int
    looked_at: float
    """Mean number of items for each user that had to be ranked at every point; the rest was ruled out."""
    user_groups: tuple[Grid, ...] = ()
    """The same for each group of users, where groups were asked for; without coverage and Gini."""

    def at(self, item_strength: float, user_strength: float) -> dict[str, float]:
        """All metrics at one point of the grid."""
        if item_strength not in self.item_strengths or user_strength not in self.user_strengths:
            raise InputError(f"the grid has no point at strengths {item_strength} and {user_strength}")
        a, b = self.item_strengths.index(item_strength), self.user_strengths.index(user_strength)
        return {name: float(value[a, b]) for name, value in self.values.items()}


def search_strengths(
    embeddings: Embeddings,
    directions: Directions,
    train: Interactions,
    held: Interactions,
    *,
    k: int = 20,
    item_strengths: tuple[float, ...] = STRENGTHS,
    user_strengths: tuple[float, ...] = STRENGTHS,
    weights: FloatArray | None = None,
    exposure: bool = True,
    groups: bool = False,
    users: IntArray | None = None,
    user_groups: IntArray | None = None,
    threads: int | None = None,
) -> Grid:
    """Every metric of `held` at every pair of strengths, exactly as separate evaluations would give it.

    One product of the big matrices serves all points: P'.Q' = P.Q - a (P.q)(Q.q) - b (P.p)(Q.p)
    + a b (P.p)(p.q)(Q.q). `weights` lets a held-out pair count more than another; `users` keeps to some
    users; `exposure=False` leaves out coverage and Gini, which need a count for each item and point;
    `groups=True` adds to them the share of recommendations of every popularity group (`group_1_frequency`);
    `user_groups` (U,) numbers a group for every user, and each of those gets a grid of its own as well.
    """
    from counterpop.kernels.grid import search_grid

    check_same_ids(embeddings, train, held)
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    users = np.flatnonzero(held.user_counts).astype(np.int32) if users is None else users
    if not len(users) or not held.user_counts[users].all():
        raise InputError("strengths are chosen on held-out pairs, but the validation part or a user has none")
    n_groups, group_of = 1, np.zeros(len(users), dtype=np.int32)
    if user_groups is not None:  # users of one group one after another, so that a block falls into few stretches
        users = users[np.argsort(user_groups[users], kind="stable")]
        n_groups, group_of = int(user_groups.max()) + 1, user_groups[users]
    points = _points(item_strengths, user_strengths)
    threads, k = threads or core_count(), min(k, len(embeddings.item_vectors))
    if exposure:  # each thread counts for every item and point
        threads = min(threads, max(1, EXPOSURE_BYTES // (4 * len(embeddings.item_vectors) * len(points.near))))
    a, b = points.item_strength, points.user_strength
    P, Q = embeddings.user_vectors[users], embeddings.item_vectors
    cells = _cells(Q @ directions.item, Q @ directions.user)
    items = Q[cells.order]
    counts, tail = train.item_counts[cells.order], ~head(train.item_counts)[cells.order]
    ties = tie_order(embeddings.item_ids)[cells.order]
    seen = [(train.user_starts, cells.place[train.item_ix])]
    starts, held_items = held.user_starts, cells.place[held.item_ix]
    weights = np.ones(len(held), dtype=np.float32) if weights is None else weights
    sums, weight = np.zeros((threads, n_groups, len(a), 5)), np.zeros((threads, n_groups, 1))
    exposed = np.zeros((threads, len(Q), len(a)) if exposure else (threads, 0, 0), dtype=np.int32)

    def work(part: int, stretch: slice) -> int:
        looked_at = 0
        for block, scores in score_blocks(P[stretch], items, users[stretch], seen):
            along_item, along_user = (P[stretch][block] @ d for d in (directions.item, directions.user))
            both = np.outer(along_user, a * b * (directions.item @ directions.user))
            item_shift = (both - np.outer(along_item, a)).astype(np.float32)  # (B, G)
            user_shift = -np.outer(along_user, b).astype(np.float32)
            mine = group_of[stretch][block]
            cuts = [0, *(np.flatnonzero(np.diff(mine)) + 1).tolist(), len(mine)]
            for low, high in pairwise(cuts):
                looked_at += search_grid(
                    scores,
                    item_shift,
                    user_shift,
                    cells.item_part,
                    cells.user_part,
                    cells.starts,
                    cells.boxes,
                    points.anchors,
                    points.near,
                    ties,
                    counts,
                    tail,
                    starts,
                    held_items,
                    weights,
                    users[stretch][block],
                    ideal_dcg(k),
                    k,
                    low,
                    high,
                    sums[part, mine[low]],
                    weight[part, mine[low]],
                    exposed[part],
                )
        return looked_at

    looked_at = sum(in_stretches(work, len(users), threads))
    shape = len(item_strengths), len(user_strengths)

    def means(sums: NDArray[np.float64], weight: float) -> dict[str, NDArray[np.float64]]:
        with np.errstate(invalid="ignore"):  # NaN for a group without users
            ordered = (sums / weight)[points.in_order]
        return {name: ordered[:, n].reshape(shape) for n, name in enumerate(PER_USER)}

    by_group, weights_by_group = sums.sum(axis=0), weight.sum(axis=(0, 2))
    values = means(by_group.sum(axis=0), weights_by_group.sum())
    if exposure:
        shown = [exposed[:, :, g].sum(axis=0) for g in points.in_order]
        values |= {
            "coverage": np.array([np.mean(n > 0) for n in shown]).reshape(shape),
            "gini": np.array([gini(n) for n in shown]).reshape(shape),
        }
        if groups:
            of_group = popularity_groups(train.item_counts)[cells.order]
            shares = np.array([np.bincount(of_group, n, HEAD_GROUPS + 1) / max(1, n.sum()) for n in shown])
            values |= {f"group_{g + 1}_frequency": shares[:, g].reshape(shape) for g in range(HEAD_GROUPS + 1)}
    axes, mean_looked_at = (item_strengths, user_strengths), looked_at / len(users)
    sizes = np.bincount(group_of, minlength=n_groups).tolist()
    parts = tuple(
        Grid(*axes, means(by_group[g], weights_by_group[g]), sizes[g], mean_looked_at) for g in range(n_groups)
    )
    return Grid(*axes, values, len(users), mean_looked_at, parts if user_groups is not None else ())


@dataclass(frozen=True, eq=False)
class _Points:
    """The points of a grid in the order the kernel takes them: each a neighbour of the one before."""

    item_strength: NDArray[np.float64]  # (G,)
    user_strength: NDArray[np.float64]
    in_order: NDArray[np.intp]  # (G,) where each point of the grid, row by row, was taken
    anchors: NDArray[np.intp]  # (A,) a few points spread over the grid
    near: NDArray[np.intp]  # (G, N) the anchors nearest to each point


def _points(item_strengths: tuple[float, ...], user_strengths: tuple[float, ...]) -> _Points:
    n_item, n_user = len(item_strengths), len(user_strengths)
    snake = np.arange(n_item * n_user).reshape(n_item, n_user)
    snake[1::2] = snake[1::2, ::-1].copy()
    a, b = (
        axis[snake // n_user, snake % n_user].ravel()
        for axis in np.meshgrid(item_strengths, user_strengths, indexing="ij")
    )
    in_order = np.argsort(snake.ravel())
    rows, columns = (np.unique(np.linspace(0, n - 1, _ANCHORS).astype(np.int64)) for n in (n_item, n_user))
    anchors = in_order[(rows[:, None] * n_user + columns).ravel()]
    apart = np.abs(a[:, None] - a[anchors]) + np.abs(b[:, None] - b[anchors])
    return _Points(a, b, in_order, anchors, np.argsort(apart, axis=1, kind="stable")[:, :_NEAR])


@dataclass(frozen=True, eq=False)
class _Cells:
    order: NDArray[np.intp]  # (I,) items in the order of their cells
    place: IntArray  # (I,) where each item went
    item_part: FloatArray  # (I,) component along the popular direction, in the order of the cells
    user_part: FloatArray
    starts: NDArray[np.int64]  # (C + 1,)
    boxes: FloatArray  # (4, C) lowest and highest item part, lowest and highest user part


def _cells(item_part: FloatArray, user_part: FloatArray) -> _Cells:
    """Items in strips by one component, each strip in cells by the other."""
    n = len(item_part)
    strips = max(1, int(np.sqrt(min(MOST_CELLS, n / CELL_ITEMS))))
    strip = np.empty(n, dtype=np.int64)
    strip[np.argsort(item_part, kind="stable")] = np.arange(n) * strips // n
    order = np.lexsort((user_part, strip))
    bounds = np.searchsorted(strip[order], np.arange(strips + 1))
    starts = np.unique(
        np.concatenate([np.linspace(bounds[s], bounds[s + 1], strips + 1).astype(np.int64) for s in range(strips)])
    )
    t, r = item_part[order], user_part[order]
    low, high = np.minimum.reduceat, np.maximum.reduceat
    first = starts[:-1]
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n)
    return _Cells(order, place, t, r, starts, np.stack([low(t, first), high(t, first), low(r, first), high(r, first)]))


def choose_strengths(
    grid: Grid, target: Target = "recall", floor: Mapping[str, float] | None = None, ordinary: Grid | None = None
) -> tuple[float, float]:
    """The pair of strengths with the best `target`; of equals the weakest.

    `floor={"ndcg": 0.98}` keeps to points whose NDCG on the ordinary validation part is at least 0.98 of the
    plain model's there (for metrics where lower is better: at most 1 / 0.98 of it).
    """
    if target not in grid.values:
        raise InputError(f"target must be one of {', '.join(grid.values)}, got {target!r}")
    value = grid.values[target].copy()
    if target in LOWER_IS_BETTER:
        value = -value
    for name, share in (floor or {}).items():
        if ordinary is None:
            raise InputError(
                "a floor is measured on an ordinary validation part, but this split has none; "
                "make the split with one (split --ordinary 0.05)"
            )
        if name not in ordinary.values:
            raise InputError(f"floor must name one of {', '.join(ordinary.values)}, got {name!r}")
        measured, plain = ordinary.values[name], ordinary.at(0.0, 0.0)[name]
        allowed = measured * share <= plain if name in LOWER_IS_BETTER else measured >= share * plain
        value[~allowed] = -np.inf
    if not np.isfinite(value.max()):
        raise InputError("no pair of strengths keeps to the floor; lower it")
    best = np.argwhere(value >= value.max() - 1e-12)  # the last bits depend on the number of threads
    a, b = min(best, key=lambda point: round(grid.item_strengths[point[0]] + grid.user_strengths[point[1]], 9))
    return grid.item_strengths[a], grid.user_strengths[b]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuned(Recommender):
    """A recommender with the grid that its strengths were chosen from."""

    grid: Grid
    ordinary: Grid | None
    """The same on the ordinary validation part, where there is one."""


def tune(
    run: Run,
    split: Split | Development,
    *,
    target: Target = "recall",
    floor: Mapping[str, float] | None = None,
    k: int = 20,
    item_direction: ItemDirection | None = None,
    user_direction: UserDirection | None = None,
) -> Tuned:
    """The adjustment whose strengths are best on the validation part; the test part is out of reach.

    Strengths are chosen on the model trained without the validation part. Where the run was refit on train +
    validation, the adjustment is that of the second model at the strengths of the first. The grid is that of the
    model's own dials; a model without any (plain, IPS, CausE, DICE, corrected vectors) keeps strengths 0. Naming a
    direction asks for the paper's adjustment on top of any of them.
    """
    named = item_direction is not None or user_direction is not None
    dials = run.model.dials
    items = STRENGTHS if named else dials.item_strengths if dials else FIXED
    users = STRENGTHS if named else dials.user_strengths if dials else FIXED
    known = split.development if isinstance(split, Split) else split
    directions = find_directions(run.model, known.train, item_direction, user_direction)
    vectors = run.model.embeddings

    def search(held: Interactions) -> Grid:
        return search_strengths(vectors, directions, known.train, held, k=k, item_strengths=items, user_strengths=users)

    grid = search(known.valid)
    ordinary = None
    if known.ordinary is not None:
        ordinary = search(known.ordinary)
    strengths = choose_strengths(grid, target, floor, ordinary)
    if run.refit is not None:
        directions = find_directions(run.refit, known.refit_train(), item_direction, user_direction)
    return Tuned(
        directions.item,
        directions.user,
        *strengths,
        embeddings=run.embeddings,
        seen=known.refit_train(),
        refit=run.refit is not None,
        grid=grid,
        ordinary=ordinary,
    )
