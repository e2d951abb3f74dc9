"""Plain, slow twins of the kernels that draw and rank, for the tests to compare them with. Nothing here is compiled.

The twins compute in float64 and rank by a full sort. They take the arguments of their kernels, without those that only
serve speed (cells, anchors, shares of threads). The kernels that train are tested against torch's autograd instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.kernels.drawing import Blocks, Rows, Triples
from counterpop.kernels.grid import HIT_RATE, NDCG, POPULARITY, RECALL, TAIL
from counterpop.kernels.topk import LEFT_OUT

Array = NDArray[Any]


def broken_rules(
    users: tuple[int, int], rows: Rows, blocks: Blocks, draws: float, negatives: int, out: Triples
) -> list[str]:
    """What the triples of `draw_triples` break of its contract, one sentence each; empty where they keep it.

    For data in which every user leaves an item of every block untouched, so that no triple is left out.
    """
    broken = []
    (low, high), starts, items, block_of = users, rows.starts, rows.items, blocks.block_of
    n = int(out.block_starts[-1])
    seen = [set(items[starts[u] : starts[u + 1]].tolist()) for u in range(len(starts) - 1)]
    triples = np.stack([out.users[:n], out.items[:n], out.negatives[:n]], axis=1).tolist()
    if any(not low <= u < high for u, _, _ in triples):
        broken.append("a user of another thread was drawn")
    if any(i not in seen[u] for u, i, _ in triples):
        broken.append("a positive is an item that the user has not touched")
    if any(j in seen[u] for u, _, j in triples):
        broken.append("a negative is an item that the user has touched")
    if any(block_of[i] != block_of[j] for _, i, j in triples):
        broken.append("a positive and its negative lie in different blocks")
    drawn = [sum(user == u for user, _, _ in triples) for u in range(len(seen))]
    for u in range(low, high):
        positives = [i for user, i, _ in triples if user == u]
        if not draws and sorted(positives) != sorted(list(seen[u]) * negatives):
            broken.append(f"the rows of user {u} are not positives once each")
        if draws and seen[u] and drawn[u] not in (negatives * int(draws), negatives * int(np.ceil(draws))):
            broken.append(f"user {u} was drawn {drawn[u]} times")
    for block in range(len(out.block_starts) - 1):
        mine = [m for m, (_, i, _) in enumerate(triples) if block_of[i] == block]
        if sorted(out.block(block).tolist()) != mine:
            broken.append(f"the order of block {block} is not a permutation of its triples")
    return broken


def leave_out(scores: Array, starts: Array, items: Array, users: Array) -> None:
    """As the kernel: marks in place."""
    for row, u in zip(scores, users, strict=True):
        row[items[starts[u] : starts[u + 1]]] = LEFT_OUT


def top_k(scores: Array, tie: Array, k: int) -> Array:
    """(B, K) the best items of each row by a full sort; -1 where nothing is left."""
    lists = np.full((len(scores), k), -1, dtype=np.int64)
    for row, found in zip(scores, lists, strict=True):
        best = [n for n in np.lexsort((tie, -row)) if row[n] > LEFT_OUT][:k]
        found[: len(best)] = best
    return lists


def search_grid(
    scores: Array,
    item_shift: Array,
    user_shift: Array,
    item_part: Array,
    user_part: Array,
    tie: Array,
    counts: Array,
    tail: Array,
    held_starts: Array,
    held_items: Array,
    held_weights: Array,
    users: Array,
    k: int,
) -> tuple[Array, float, Array]:
    """Sums (G, 5), weight and exposure (G, I): each user at each grid point by a full ranking."""
    n_grid = item_shift.shape[1]
    sums, weight = np.zeros((n_grid, 5)), 0.0
    exposure = np.zeros((n_grid, scores.shape[1]), dtype=np.int64)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    for b, u in enumerate(users):
        rows = slice(held_starts[u], held_starts[u + 1])
        worth = dict(zip(held_items[rows].tolist(), held_weights[rows].tolist(), strict=True))
        share = sum(worth.values()) / len(worth)
        weight += share
        for g in range(n_grid):
            plain = scores[b].astype(np.float64)
            shifted = plain + item_shift[b, g] * item_part + user_shift[b, g] * user_part
            shifted[scores[b] <= LEFT_OUT] = LEFT_OUT
            found = [n for n in top_k(shifted[None], tie, k)[0].tolist() if n >= 0]
            gains = [worth.get(n, 0.0) for n in found]
            into = sums[g]
            into[RECALL] += sum(gains) / len(worth)
            into[HIT_RATE] += share * any(gains)
            into[NDCG] += np.dot(gains, discounts[: len(found)]) / discounts[: min(k, len(worth))].sum()
            if found:
                into[POPULARITY] += share * np.mean(counts[found])
                into[TAIL] += share * np.mean(tail[found])
                exposure[g, found] += 1
    return sums, weight, exposure
