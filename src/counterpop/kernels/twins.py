"""Plain, slow twins of the kernels: what each is held to in the tests. Nothing here is compiled.

The twins compute in float64 and rank by a full sort. They take the arguments of their kernels, less those
that only serve speed (cells, anchors, shares of threads).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.kernels.dice import L1, L2
from counterpop.kernels.grid import HIT_RATE, NDCG, POPULARITY, RECALL, TAIL
from counterpop.kernels.mf import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE
from counterpop.kernels.topk import LEFT_OUT

Array = NDArray[Any]


def broken_rules(
    low: int,
    high: int,
    starts: Array,
    items: Array,
    draws: float,
    negatives: int,
    block_of: Array,
    out_users: Array,
    out_items: Array,
    out_negatives: Array,
    order: Array,
    order_starts: Array,
) -> list[str]:
    """What the triples of `draw_triples` break of its contract, one sentence each; empty where they keep it.

    For data in which every user leaves an item of every block untouched, so that no triple is left out.
    """
    broken = []
    n = int(order_starts[-1])
    seen = [set(items[starts[u] : starts[u + 1]].tolist()) for u in range(len(starts) - 1)]
    triples = np.stack([out_users[:n], out_items[:n], out_negatives[:n]], axis=1).tolist()
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
    for block in range(len(order_starts) - 1):
        mine = [m for m, (_, i, _) in enumerate(triples) if block_of[i] == block]
        if sorted(order[order_starts[block] : order_starts[block + 1]].tolist()) != mine:
            broken.append(f"the order of block {block} is not a permutation of its triples")
    return broken


def step_triples(
    user_vectors: Array,
    item_vectors: Array,
    users: Array,
    items: Array,
    negatives: Array,
    order: Array,
    lr: float,
    reg: float,
    bce: bool,
    normalised: bool,
    item_ledger: Array,
    user_ledger: Array,
    every: int,
    weights: Array,
) -> tuple[float, int]:
    """As the kernel: moves the vectors and adds to the ledgers in place."""
    total, recorded = 0.0, 0
    for m, at in enumerate(order):
        u, i, j = users[at], items[at], negatives[at]
        P, A, B = (row.astype(np.float64) for row in (user_vectors[u], item_vectors[i], item_vectors[j]))
        p = P / np.linalg.norm(P) if normalised else P
        s_i, s_j = p @ A, p @ B
        w = float(weights[i]) if len(weights) else 1.0
        if bce:
            loss = w * np.logaddexp(0, -s_i) + np.logaddexp(0, s_j)
            g_i, g_j = w / (1 + np.exp(s_i)), 1 / (1 + np.exp(-s_j))
        else:
            loss = w * np.logaddexp(0, s_j - s_i)
            g_i = g_j = w / (1 + np.exp(s_i - s_j))
        if m % every == 0:
            total, recorded = total + float(loss), recorded + 1
            if len(item_ledger):
                item_ledger[i, PULL] += p
                item_ledger[i, PULL_SLOPE] += g_i * p
                item_ledger[j, PUSH] += p
                item_ledger[j, PUSH_SLOPE] += g_j * p
                user_ledger[u, PULL] += A
                user_ledger[u, PULL_SLOPE] += g_i * A
                user_ledger[u, PUSH] += B
                user_ledger[u, PUSH_SLOPE] += g_j * B
        along_p = -(g_i * A - g_j * B)  # the slope of the loss along p, then along P
        along_P = (along_p - (along_p @ p) * p) / np.linalg.norm(P) if normalised else along_p
        user_vectors[u] = P - lr * (along_P + reg * P)
        item_vectors[i] = A - lr * (-g_i * p + reg * A)
        item_vectors[j] = B - lr * (g_j * p + reg * B)
    return total, recorded


def slopes(loss: Callable[..., float], rows: list[Array], small: float = 1e-6) -> list[Array]:
    """The slope of a loss along each of its rows, by central differences: the twin of every method's own.

    Kernels take the slopes of `dice_loss`, `macr_loss` and `cause_loss` by hand.
    """
    found = [np.zeros(len(row)) for row in rows]
    for n, row in enumerate(rows):
        for d in range(len(row)):
            up, down = ([other.astype(np.float64) for other in rows] for _ in range(2))
            up[n][d] += small
            down[n][d] -= small
            found[n][d] = (loss(*up) - loss(*down)) / (2 * small)
    return found


def dice_loss(P: Array, A: Array, B: Array, more: bool, weight: float, kind: int, push: float, reg: float) -> float:
    """DICE's loss of one triple, with its distances; `more` says that B is the more popular item."""
    half = len(P) // 2
    x, y = P[:half] @ (A - B)[:half], P[half:] @ (A - B)[half:]
    told = np.logaddexp(0, -x) + np.logaddexp(0, y) if more else np.logaddexp(0, -y)
    loss = np.logaddexp(0, -x - y) + weight * told + reg / 2 * (P @ P + A @ A + B @ B)
    for row in (P, A, B):
        difference = row[:half] - row[half:]
        if kind == L1:
            loss -= push * np.abs(difference).mean()
        if kind == L2:
            loss -= push * (difference**2).mean()
    return float(loss)


def macr_loss(
    P: Array, A: Array, B: Array, w_user: Array, w_item: Array, item_weight: float, user_weight: float, reg: float
) -> float:
    """MACR's loss of one triple."""
    z_u, z_i, z_j = (1 / (1 + np.exp(-x)) for x in (w_user @ P, w_item @ A, w_item @ B))
    loss = np.logaddexp(0, -(P @ A) * z_u * z_i) + np.logaddexp(0, (P @ B) * z_u * z_j)
    loss -= item_weight * (np.log(z_i) + np.log(1 - z_j)) + user_weight * (np.log(z_u) + np.log(1 - z_u))
    return float(loss + reg / 2 * (P @ P + A @ A + B @ B))


def cause_loss(P: Array, A: Array, B: Array, C: Array, E: Array, bce: bool, penalty: float, reg: float) -> float:
    """CausE's loss of one triple; C and E are the other rows of the items A and B."""
    s_i, s_j = P @ A, P @ B
    loss = np.logaddexp(0, -s_i) + np.logaddexp(0, s_j) if bce else np.logaddexp(0, s_j - s_i)
    apart = (A - C) @ (A - C) + (B - E) @ (B - E)
    return float(loss + penalty * apart + reg / 2 * (P @ P + A @ A + B @ B))


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
