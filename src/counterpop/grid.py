"""The layout of a search over strengths: its points in the order they are visited, and its items in cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, ranks_of
from counterpop.runs import Strengths

CELL_ITEMS = 32  # items per cell of the kernel, approximately
MOST_CELLS = 256
_ANCHORS = 3  # along each axis of the grid
_NEAR = 4  # anchors whose lists bound the scores of a point


@dataclass(frozen=True, eq=False)
class Points:
    """The points of a grid in the order the kernel visits them: each is a neighbour of the one before."""

    item_strength: NDArray[np.float64]  # (G,)
    user_strength: NDArray[np.float64]
    in_order: NDArray[np.int64]  # (G,) when each point of the grid, row by row, is visited
    anchors: NDArray[np.int64]  # (A,) a few points spread over the grid
    near: NDArray[np.intp]  # (G, N) the anchors nearest to each point


def order_points(item_strengths: Strengths, user_strengths: Strengths) -> Points:
    """The points row by row, every second row backwards."""
    n_item, n_user = len(item_strengths), len(user_strengths)
    snake = np.arange(n_item * n_user).reshape(n_item, n_user)
    snake[1::2] = snake[1::2, ::-1].copy()
    a, b = (
        axis[snake // n_user, snake % n_user].ravel()
        for axis in np.meshgrid(item_strengths, user_strengths, indexing="ij")
    )
    in_order = ranks_of(snake.ravel())
    rows, columns = (np.unique(np.linspace(0, n - 1, _ANCHORS).astype(np.int64)) for n in (n_item, n_user))
    anchors = in_order[(rows[:, None] * n_user + columns).ravel()]
    distance = np.abs(a[:, None] - a[anchors]) + np.abs(b[:, None] - b[anchors])
    return Points(a, b, in_order, anchors, np.argsort(distance, axis=1, kind="stable")[:, :_NEAR])


@dataclass(frozen=True, eq=False)
class Cells:
    """Items grouped by their components along the two directions."""

    order: NDArray[np.intp]  # (I,) items in the order of their cells
    place: IntArray  # (I,) the place of each item in that order
    item_part: FloatArray  # (I,) component along the popular direction, in the order of the cells
    user_part: FloatArray
    starts: NDArray[np.int64]  # (C + 1,)
    boxes: FloatArray  # (4, C) lowest and highest item part, lowest and highest user part


def group_items(item_part: FloatArray, user_part: FloatArray) -> Cells:
    """Items in strips by one component, and each strip in cells by the other."""
    n = len(item_part)
    strips = max(1, int(np.sqrt(min(MOST_CELLS, n / CELL_ITEMS))))
    strip = ranks_of(np.argsort(item_part, kind="stable")) * strips // n
    order = np.lexsort((user_part, strip))
    bounds = np.searchsorted(strip[order], np.arange(strips + 1))
    starts = np.unique(
        np.concatenate([np.linspace(bounds[s], bounds[s + 1], strips + 1).astype(np.int64) for s in range(strips)])
    )
    t, r, first = item_part[order], user_part[order], starts[:-1]
    boxes = np.stack([edge.reduceat(part, first) for part in (t, r) for edge in (np.minimum, np.maximum)])
    return Cells(order, ranks_of(order).astype(np.int32), t, r, starts, boxes)
