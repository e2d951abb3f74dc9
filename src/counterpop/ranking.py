"""Exact top-k in blocks, leaving out seen items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import Ids, IntArray, Interactions, ranks_of
from counterpop.kernels.threads import core_count, in_stretches
from counterpop.progress import tell_watchers

BLOCK_BYTES = 4 << 20  # scores at a time in each thread: they stay in the cache
WIDE_BLOCK_BYTES = 64 << 20  # maximum


def hash_ids(ids: Ids) -> NDArray[np.uint64]:
    """(N,) a hash of each outside id, the same on every machine and in every version."""
    if ids.dtype == object:
        return np.array([int.from_bytes(blake2b(i.encode(), digest_size=8).digest()) for i in ids], np.uint64)
    keys = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(keys ^ (keys >> np.uint64(32)))


def tie_order(item_ids: Ids) -> NDArray[np.int64]:
    """(I,) the rank of each item in a fixed shuffle of the outside ids.

    It breaks ties between scores, so that lists depend neither on the order of the items nor on their popularity.
    """
    return ranks_of(np.argsort(hash_ids(item_ids), kind="stable"))


def score_blocks(
    queries: FloatArray, item_vectors: FloatArray, users: IntArray, seen: Sequence[tuple[NDArray[np.int64], IntArray]]
) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of scores (B, I) of the queries (one row for each of `users`), with seen items marked as left out.

    `seen` holds pairs of arrays: where each user's items start (U + 1,), and the items.
    """
    from counterpop.kernels.topk import leave_out  # imports numba, which training on a GPU can do without

    n_items = len(item_vectors)
    # in large catalogues more rows than fit the cache, or the item vectors would be read again every few rows
    rows = max(BLOCK_BYTES // (4 * n_items), min(64, WIDE_BLOCK_BYTES // (4 * n_items)), 1)
    space = np.empty((min(rows, len(queries)), n_items), dtype=np.float32)
    tell_watchers(len(queries), 0)
    for start in range(0, len(queries), rows):
        block = slice(start, min(start + rows, len(queries)))
        scores = space[: block.stop - block.start]
        np.matmul(queries[block], item_vectors.T, out=scores)
        for starts, items in seen:
            leave_out(scores, starts, items, users[block])
        yield block, scores
        tell_watchers(0, len(scores))


def rank(
    queries: FloatArray,
    item_vectors: FloatArray,
    k: int,
    *,
    users: IntArray,
    seen: Sequence[Interactions],
    ties: NDArray[np.int64],
    threads: int | None = None,
) -> tuple[IntArray, FloatArray]:
    """The best k items for every query and their scores, both (B, K), best first; K is at most I.

    `users[b]` is the position of the user of query b, whose items in the logs of `seen` are left out. If fewer than
    k items remain, -1 fills the list. Exact; see `tie_order` for ties.
    """
    from counterpop.kernels.topk import top_k

    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    if len(users) != len(queries) or len(ties) != len(item_vectors):
        raise InputError("each query needs a user, and each item a rank among ties")
    if any(log.n_items != len(item_vectors) or (len(users) and users.max() >= log.n_users) for log in seen):
        raise InputError("the logs of seen items must have the positions of the vectors; use the model's split")
    k = min(k, len(item_vectors))
    logs = [(log.user_starts, log.item_ix) for log in seen]
    items = np.empty((len(queries), k), dtype=np.int32)
    scores = np.empty((len(queries), k), dtype=np.float32)

    def work(_: int, stretch: slice) -> None:
        for block, all_scores in score_blocks(queries[stretch], item_vectors, users[stretch], logs):
            top_k(all_scores, ties, 0, len(all_scores), scores[stretch][block], items[stretch][block])

    in_stretches(work, len(queries), threads or core_count())
    return items, scores
