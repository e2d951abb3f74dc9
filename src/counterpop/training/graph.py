"""The graph of users and items that LightGCN smooths vectors over: only NumPy, for every engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, Interactions


@dataclass(frozen=True, eq=False)
class Graph:
    """Who touched what, both ways, as CSR: nodes are users 0..U-1, then items."""

    starts: NDArray[np.int64]  # (N + 1,)
    neighbours: IntArray  # (2E,)
    edges: IntArray  # (2E,) the interaction behind each entry
    scale: FloatArray  # (N,) one over the root of the number of neighbours; 1 for none

    def cut(self, threads: int) -> NDArray[np.intp]:
        """(T + 1,) rows so that every thread has about as much to add up."""
        work = self.starts + np.arange(len(self.starts))
        return np.searchsorted(work, np.linspace(0, work[-1], threads + 1))


def graph_of(train: Interactions) -> Graph:
    """The graph of a log."""
    by_item = np.lexsort((train.user_ix, train.item_ix)).astype(np.int32)
    degrees = np.concatenate([train.user_counts, train.item_counts])
    return Graph(
        np.concatenate([[0], np.cumsum(degrees)]),
        np.concatenate([train.item_ix + np.int32(train.n_users), train.user_ix[by_item]]),
        np.concatenate([np.arange(len(train), dtype=np.int32), by_item]),
        (1 / np.sqrt(np.maximum(degrees, 1))).astype(np.float32),
    )
