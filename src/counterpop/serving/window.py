"""The last lists that were served: a ring of item positions, cheap to add to, and what it exposes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing import audit
from counterpop.interactions import IntArray, gini
from counterpop.metrics import popularity
from counterpop.readers import Category
from counterpop.serving.model import ServedModel

KEPT_PLACES = 50  # of each list; longer lists are cut off
SAMPLE = 256  # lists that are compared with what the plain model would have served
MOST_CATEGORIES = 30  # of each column, by interactions; the others are counted together
OTHER = "(other)"


@dataclass(frozen=True, eq=False)
class Served:
    """What a window holds, oldest first."""

    users: IntArray
    """(N,) positions; -1 for unknown users and histories."""
    lists: IntArray
    """(N, KEPT_PLACES) item positions; -1 is an empty place."""
    latest: IntArray
    """(U',) for each known user, the place of their latest list."""


class Window:
    """The last lists served by one run. Threads may add to it at the same time."""

    def __init__(self, size: int) -> None:
        self.size, self._added, self._lock = size, 0, threading.Lock()
        self._users = np.empty(size, dtype=np.int32)
        self._lists = np.empty((size, KEPT_PLACES), dtype=np.int32)

    def add(self, users: IntArray, lists: IntArray) -> None:
        """Adds lists (B, K), one for each user; the oldest leave if the window is full. -1 is an unknown user."""
        if not self.size:
            return
        if len(users) > self.size:
            users, lists = users[-self.size :], lists[-self.size :]
        k, n = lists.shape[1], len(users)
        if k > KEPT_PLACES:
            k, lists = KEPT_PLACES, lists[:, :KEPT_PLACES]
        with self._lock:
            start = self._added % self.size
            # slices are several times faster than positions, which only lists at the end of the ring need
            at = slice(start, start + n) if start + n <= self.size else np.arange(start, start + n) % self.size
            self._users[at] = users
            self._lists[at, :k] = lists
            self._lists[at, k:] = -1
            self._added += n

    def read(self) -> Served:
        """A copy of what it holds."""
        with self._lock:
            held = min(self._added, self.size)
            order = np.arange(self._added - held, self._added) % max(1, self.size)
            users, lists = self._users[order], self._lists[order]
        last = np.full(int(users.max(initial=-1)) + 1, -1)
        last[users[users >= 0]] = np.flatnonzero(users >= 0)  # of several lists the last one stays
        return Served(users, lists, np.sort(last[last >= 0]).astype(np.int32))


def audit_window(model: ServedModel, window: Window, k: int) -> dict[str, Any] | None:
    """The audit of the latest list of every known user in the window, up to place k; None if there is none."""
    served = window.read()
    if not len(served.latest):
        return None
    lists = served.lists[served.latest]
    longest = int((lists >= 0).sum(axis=1).max(initial=1))
    lists = np.ascontiguousarray(lists[:, : min(k, longest)])
    found = audit(lists, served.users[served.latest], model.train, labels=model.labels).as_dict()
    return found | {
        "window": {"lists": len(served.users), "of_unknown_users": int((served.users < 0).sum()), "size": window.size}
    }


class Exposure:
    """The gauges of a window: what its lists expose, and what plain lists would for the same users."""

    def __init__(self, model: ServedModel) -> None:
        counts = model.train.item_counts
        self.model, self.counts = model, counts
        self.groups = Category(
            [f"{low}-{high} %" for low, high in ((0, 5), (5, 10), (10, 15), (15, 20), (20, 100))],
            popularity.popularity_groups(counts).astype(np.int32),
        )
        self.categories = {name: _largest(one, counts) for name, one in model.categories.items()}
        self.tail = popularity.popularity_classes(counts) == 2
        total = np.bincount(model.train.user_ix, counts[model.train.item_ix], model.train.n_users)
        with np.errstate(invalid="ignore"):
            self.chosen = total / model.train.user_counts  # (U,) mean popularity of each profile

    def measure(self, window: Window) -> dict[str, dict[str, Any]]:
        """Figures by kind of lists: all that were served; the last of known users, as served and as plain lists."""
        served = window.read()
        if not len(served.users):
            return {}
        found = {"served": self._figures(served.users, served.lists)}
        sample = served.latest[-SAMPLE:]
        if len(sample):
            users, lists = served.users[sample], served.lists[sample]
            width = int((lists >= 0).sum(axis=1).max(initial=1))
            plain, _ = self.model.recommend(users, width, 0.0, 0.0)
            plain = np.where(lists[:, : plain.shape[1]] >= 0, plain, -1)  # as long as the lists that were served
            found |= {"sample": self._figures(users, lists), "sample_plain": self._figures(users, plain)}
        return found

    def _figures(self, users: IntArray, lists: IntArray) -> dict[str, Any]:
        filled = lists >= 0
        exposed = np.bincount(lists[filled], minlength=len(self.counts))
        shown = popularity.average_popularity(lists, self.counts)
        known = users >= 0
        with np.errstate(invalid="ignore", divide="ignore"):
            chosen = self.chosen[users[known]]
            both = np.isfinite(chosen) & np.isfinite(shown[known])
            lift = shown[known][both].sum() / chosen[both].sum() - 1 if both.any() else np.nan
            tail = np.nanmean(popularity.tail_share(lists, ~self.tail)) if filled.any() else np.nan
        columns: Mapping[str, Category] = {"": self.groups, **self.categories}
        return {
            "lists": len(users),
            "tail_share": float(tail),
            "coverage": popularity.coverage(exposed),
            "gini": gini(exposed),
            "popularity_lift": float(lift),
            "shares": {name: _shares(category, exposed) for name, category in columns.items()},
        }


def _largest(category: Category, counts: NDArray[np.int64]) -> Category:
    """The categories with the most interactions; the others, and items without one, are counted together."""
    held = np.bincount(category.of[category.of >= 0], counts[category.of >= 0], len(category.values))
    kept = np.sort(np.argsort(-held, kind="stable")[:MOST_CATEGORIES])
    place = np.full(len(category.values) + 1, len(kept), dtype=np.int32)  # the last entry is for -1
    place[kept] = np.arange(len(kept))
    return Category([*(category.values[n] for n in kept.tolist()), OTHER], place[category.of])


def _shares(category: Category, exposed: NDArray[np.int64]) -> dict[str, float]:
    places = np.bincount(category.of, exposed, len(category.values)) / max(1, int(exposed.sum()))
    return dict(zip(category.values, places.tolist(), strict=True))
