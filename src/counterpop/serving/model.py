"""A run ready to serve: one value with everything that requests ask for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.folding import fold_in, ridge
from counterpop.interactions import Ids, IntArray, Interactions
from counterpop.kernels.topk import LEFT_OUT, top_k
from counterpop.metrics.popularity import exposure
from counterpop.ranking import rank
from counterpop.readers import Category, Labels
from counterpop.recommender import Recommender

LIST_LENGTH = 20  # of the lists that the fallback is counted from
MOST_LISTS = 20_000  # maximum number of those lists


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A recommender, what it was trained on, and the names of items. Every list is exact (see `ranking`)."""

    name: str
    written: str
    """When the run folder was written."""
    recommender: Recommender
    """It leaves out train and validation items."""
    train: Interactions
    """What the model was trained on; an item's popularity is its count in it."""
    find_parts: Callable[[], Sequence[tuple[Recommender, Interactions]]]
    """What the dashboard measures: see `parts`."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """How the strengths were chosen, as `counterpop tune --json` prints it; empty if they were not."""
    item_names: Sequence[str | None] | None = None
    """By item position, if there is a table of names."""
    categories: Mapping[str, Category] = field(default_factory=dict)
    """Categories of items, by the name of their column in that table."""

    @property
    def labels(self) -> Labels | None:
        """What the table of names says of the items; None without one."""
        return None if self.item_names is None else Labels(list(self.item_names), self.categories)

    @property
    def vectors(self) -> Embeddings:
        return self.recommender.embeddings

    @property
    def seen(self) -> Interactions:
        return self.recommender.seen

    @cached_property
    def parts(self) -> Sequence[tuple[Recommender, Interactions]]:
        """Validation pairs and, for the price, ordinary ones, each with a model that was not trained on them.

        They are found when first asked for: what `debias` wrote without a later log takes some time.
        """
        return self.find_parts()

    @cached_property
    def last_time(self) -> float | None:
        """The last time of the log; None if it has none."""
        return None if self.seen.time is None or not len(self.seen.time) else float(self.seen.time.max())

    @cached_property
    def fold_in_reg(self) -> float:
        return ridge(self.vectors.item_vectors)

    @cached_property
    def popular(self) -> tuple[IntArray, FloatArray]:
        """All items by how many adjusted lists hold them, at the tuned strengths, and their scores.

        The score of an item is the share of users (at most 20,000, evenly spread) whose list of 20 holds it: its
        popularity in lists from which popularity was removed. Items in no list come last, by count.
        """
        users = np.unique(np.linspace(0, self.seen.n_users - 1, MOST_LISTS).astype(np.int32))
        lists, _ = self.recommend(users, LIST_LENGTH)
        shown = exposure(lists, self.seen.n_items)
        order = np.lexsort((self.recommender.ties, -self.train.item_counts, -shown))
        return order.astype(np.int32), (shown[order] / len(users)).astype(np.float32)

    def recommend(
        self, users: IntArray, k: int, item_strength: float | None = None, user_strength: float | None = None
    ) -> tuple[IntArray, FloatArray]:
        """The best k items for each user and their scores (B, K); -1 fills a list that runs out of items."""
        # one thread: requests run in parallel, and starting threads costs more than ranking a small batch
        return self.recommender.recommend(users, k, item_strength, user_strength, threads=1)

    def recommend_to(
        self,
        histories: Sequence[IntArray],
        k: int,
        item_strength: float | None = None,
        user_strength: float | None = None,
    ) -> tuple[IntArray, FloatArray]:
        """The same for users known only by the items they have touched, which are left out of their lists."""
        touched = [np.unique(history) for history in histories]
        queries = self.recommender.query(
            fold_in(self.vectors.item_vectors, touched, self.fold_in_reg), item_strength, user_strength
        )
        users = np.arange(len(touched), dtype=np.int32)
        rows = np.repeat(users, [len(items) for items in touched])
        log = Interactions(rows, np.concatenate(touched), users, self.vectors.item_ids)
        items, ties = self.vectors.item_vectors, self.recommender.ties
        return rank(queries, items, k, users=users, seen=[log], ties=ties, threads=1)

    def recommend_to_anybody(self, k: int) -> tuple[IntArray, FloatArray]:
        """The fallback for unknown users (K,): the first k of `popular`."""
        items, scores = self.popular
        return items[:k], scores[:k]

    def similar(self, item: int, k: int, item_strength: float | None = None) -> tuple[IntArray, FloatArray]:
        """The k items most similar to an item by the cosine of their adjusted vectors, and the cosines (K,).

        Zero vectors have a cosine of 0 with everything.
        """
        Q, q = self.vectors.item_vectors, self.recommender.item_direction
        a = self.recommender.item_strength if item_strength is None else item_strength
        along = (Q @ q).astype(np.float64)
        # |v - a (v.q) q|^2 = |v|^2 - (2 a - a^2) (v.q)^2, and the same for inner products
        taken = a * (2 - a)
        lengths = np.sqrt(np.maximum(np.einsum("id,id->i", Q, Q, dtype=np.float64) - taken * along**2, 0))
        inner = Q @ (Q[item] - np.float32(taken * along[item]) * q)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines = np.nan_to_num(inner / (lengths * lengths[item]), nan=0.0, posinf=0.0, neginf=0.0)
        scores = np.clip(cosines, -1, 1).astype(np.float32)[None]
        scores[0, item] = LEFT_OUT
        k = min(k, len(Q) - 1)
        items, best = np.empty((1, k), dtype=np.int32), np.empty((1, k), dtype=np.float32)
        top_k(scores, self.recommender.ties, 0, 1, best, items)
        return items[0], best[0]


def find(known: Ids, wanted: str | int) -> int | None:
    """The position of an id in the sorted `known`, or None. Text must be written as in the log.

    >>> find(np.array([3, 7, 9]), "7"), find(np.array([3, 7, 9]), "07")
    (1, None)
    """
    value: Any = wanted
    if known.dtype == object:
        value = str(wanted)
    elif isinstance(wanted, str):
        try:
            value = int(wanted)
        except ValueError:
            return None
        if str(value) != wanted:  # int() also takes " 7", "+7", "0_7" and digits of other scripts
            return None
    at = bisect_left(known, value)
    return at if at < len(known) and known[at] == value else None
