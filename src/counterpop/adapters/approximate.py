"""Lists through an approximate index, with its measured recall: for catalogues where an exact search takes too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import IntArray, pairs_of
from counterpop.panels import choose_users
from counterpop.recommender import Recommender

SAMPLED = 500  # users to choose by, and as many others to measure on
FEWEST_ITEMS = 2_000  # an exact search of fewer is as fast


@dataclass(frozen=True, eq=False)
class ApproximateSearch:
    """A FAISS index over the item vectors, and how much of the exact lists it finds."""

    model: Recommender
    index: Any
    recall: float
    """Share of the exact lists that is found, for users on whom nothing was chosen."""

    def recommend(self, users: IntArray, k: int = 20) -> tuple[IntArray, FloatArray]:
        """As `Recommender.recommend`, but some items may be missing; scores are exact.

        As many more items are fetched as the most active of the users has seen, up to 1,024 in total.
        """
        model = self.model
        queries = model.query(model.embeddings.user_vectors[users], model.item_strengths_of(users))
        most = int(model.seen.user_counts[users].max(initial=0))
        wanted = min(k + most, max(k, 1024), model.seen.n_items)
        scores, items = self.index.search(np.ascontiguousarray(queries), wanted)
        row, item = pairs_of(model.seen, users)
        known, keys = row * model.seen.n_items + item, np.arange(len(users))[:, None] * model.seen.n_items + items
        at = np.minimum(np.searchsorted(known, keys), max(0, len(known) - 1))
        hidden = (items < 0) | (len(known) > 0 and known[at] == keys)
        order = np.argsort(hidden, axis=1, kind="stable")[:, : min(k, wanted)]
        gone = np.take_along_axis(hidden, order, axis=1)
        lists = np.where(gone, -1, np.take_along_axis(items, order, axis=1)).astype(np.int32)
        return lists, np.where(gone, np.float32(-3.4e38), np.take_along_axis(scores, order, axis=1))


def build_search(model: Recommender, least: float = 0.95, k: int = 20, seed: int = 0) -> ApproximateSearch:
    """An index that finds at least this share of the exact lists, if it can.

    Items are grouped by k-means (IVF, inner product) and the groups nearest to a query are searched: as few as find
    `least` for a sample of users. The recall that is reported is that of other users.
    """
    if not 0 < least <= 1:
        raise InputError(f"the recall of an approximate search is above 0 and at most 1, got {least}")
    try:
        import faiss
    except ImportError:
        raise InputError("an approximate search needs FAISS: pip install 'counterpop[faiss]'") from None
    vectors = np.ascontiguousarray(model.embeddings.item_vectors)
    if len(vectors) < FEWEST_ITEMS:
        raise InputError(f"an approximate search is for {FEWEST_ITEMS:,} items or more, got {len(vectors):,}")
    groups = int(4 * np.sqrt(len(vectors)))
    index: Any = faiss.index_factory(vectors.shape[1], f"IVF{groups},Flat", faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = seed
    index.train(vectors)
    index.add(vectors)
    able = np.flatnonzero(model.seen.user_counts).astype(np.int32)
    drawn, _ = choose_users(able, model.seen.user_counts, model.seen.n_items, 2 * SAMPLED, seed)
    search = ApproximateSearch(model, index, 0.0)
    chosen_on, measured_on = drawn[::2], drawn[1::2]
    exact = model.recommend(chosen_on, k)[0]
    index.nprobe = 1
    while _found(search.recommend(chosen_on, k)[0], exact) < least and index.nprobe < groups:
        index.nprobe = min(groups, 2 * index.nprobe)
    lists = search.recommend(measured_on, k)[0]
    return ApproximateSearch(model, index, _found(lists, model.recommend(measured_on, k)[0]))


def _found(lists: IntArray, exact: IntArray) -> float:
    """The share of the exact lists that is found."""
    pairs = zip(lists, exact, strict=True)
    return sum(int(np.isin(b[b >= 0], a).sum()) for a, b in pairs) / max(1, int((exact >= 0).sum()))
