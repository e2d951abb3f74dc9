"""Items as pages show them: their titles and categories, and which of them gain and lose places in lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpop.interactions import Ids
from counterpop.readers import Category, Labels

Exposure = NDArray[np.int64]
NO_CATEGORY = "(none)"


@dataclass(frozen=True, eq=False)
class Catalogue:
    """What items are called, by position."""

    item_ids: Ids
    item_counts: NDArray[np.int64]
    """(I,) popularity: the interactions of every item."""
    labels: Labels | None = None

    def title(self, item: int) -> str:
        """The title of an item as HTML; its id is in the tooltip, or the title itself if the item has no name."""
        own = f"item {self.item_ids[item : item + 1].tolist()[0]}"
        name = self.labels.names[item] if self.labels is not None else None
        return f'<span title="{escape(own)}">{escape(name or own)}</span>'

    def about(self, item: int) -> str:
        """The categories of an item as HTML, or nothing."""
        kinds = self.labels.categories.values() if self.labels is not None else ()
        return escape(", ".join(kind.values[kind.of[item]] for kind in kinds if kind.of[item] >= 0))


class Move(NamedTuple):
    """An item, and the number of lists that hold it before and after."""

    item: int
    before: int
    after: int


def moved_items(before: Exposure, after: Exposure, most: int = 5) -> tuple[list[Move], list[Move]]:
    """The items that gain the most lists, and those that lose the most, at most this many of each.

    >>> moved_items(np.array([9, 0, 4, 2]), np.array([1, 7, 4, 3]), most=1)
    ([Move(item=1, before=0, after=7)], [Move(item=0, before=9, after=1)])
    """
    change = after - before
    order = np.argsort(-change, kind="stable")
    return (
        [Move(i, int(before[i]), int(after[i])) for i in order[:most].tolist() if change[i] > 0],
        [Move(i, int(before[i]), int(after[i])) for i in order[::-1][:most].tolist() if change[i] < 0],
    )


class CategoryShare(NamedTuple):
    """A category: its items, and its shares of the interactions and of the places in each kind of lists."""

    name: str
    items: int
    interactions: float
    shares: Sequence[float]


def category_shares(kind: Category, counts: NDArray[np.int64], exposures: Sequence[Exposure]) -> list[CategoryShare]:
    """The categories of a column, most interactions first; items without one form a category of their own."""
    of = np.where(kind.of >= 0, kind.of, len(kind.values))
    names = [*kind.values, NO_CATEGORY]
    sizes = np.bincount(of, minlength=len(names))
    mixes = []
    for weights in (counts, *exposures):
        total = np.bincount(of, weights=weights, minlength=len(names))
        mixes.append(total / max(1.0, total.sum()))
    order = np.argsort(-mixes[0], kind="stable")
    rows = ((names[n], int(sizes[n]), *(float(mix[n]) for mix in mixes)) for n in order.tolist() if sizes[n])
    return [CategoryShare(name, size, held, shares) for name, size, held, *shares in rows]
