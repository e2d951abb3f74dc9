"""Every point of a grid of strengths for a block of users, looking only at items that can matter.

At grid point g the score of item i for user u is s_ui + a_ug t_i + c_ug r_i: a plane over the item's two
components (t, r) along the two directions, which do not depend on the user. Items are laid out in cells of
near (t, r). The full lists of a few anchor points bound from below the k-th best score of the points near
them; the bounds give each cell the lowest plain score with which one of its items could enter any list; only
items above it, the pool, are looked at for every point. Lists are kept as sets: a hit's rank is counted when
one is found.
"""

import numpy as np
from numba import njit

from counterpop.kernels.topk import CHUNK, LEFT_OUT, count_from, lower_bound, raise_bar

# what is added up for every grid point
RECALL, HIT_RATE, NDCG, POPULARITY, TAIL = 0, 1, 2, 3, 4
SLACK = np.float32(1e-5)  # of the score's size: rounding must not hide an item that belongs in


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "contract"})
def search_grid(
    scores,  # (B, I) plain scores, seen items LEFT_OUT, items in the order of the cells
    item_shift,
    user_shift,  # (B, G) a and c
    item_part,
    user_part,  # (I,) t and r
    cell_starts,
    boxes,  # (C + 1,), (4, C) lowest and highest t, lowest and highest r of each cell
    anchors,
    near,  # (A,) grid points whose full lists are taken first, (G, N) those near each grid point
    tie,
    counts,
    tail,  # (I,) order of ties, popularity, whether an item is of the tail
    held_starts,
    held_items,
    held_weights,
    users,  # held-out items of user users[b], and the weight of each
    ideal,  # (K + 1,) ideal DCG by number of held-out items
    k,
    low,
    high,
    sums,
    weight,
    exposure,  # (G, 5), (1,), (I, G) or (0, 0): added to
):
    """Adds the metrics of users low..high of the block to `sums` and `weight`; returns items looked at."""
    n_items = scores.shape[1]
    pool = np.empty(n_items, np.int64)
    in_pool = np.zeros(n_items, np.bool_)
    planes = np.empty((3, n_items), np.float32)  # s, t and r of the pool
    pool_tie = np.empty(n_items, tie.dtype)
    pool_held = np.empty(n_items, np.float32)
    shifted = np.empty(n_items, np.float32)
    chosen = np.empty(n_items + 1, np.int64)
    lanes = np.empty(CHUNK * (1 + 3 * k // CHUNK), np.float32)
    listed = np.empty((len(anchors), 3, k), np.float32)
    cell_bars = np.empty(len(cell_starts) - 1, np.float32)
    held_weight = np.zeros(n_items, np.float32)
    looked_at = 0
    for b in range(low, high):
        row = scores[b]
        n_pool, short = 0, False
        for anchor in range(len(anchors)):
            a, c = item_shift[b, anchors[anchor]], user_shift[b, anchors[anchor]]
            for n in range(n_items):
                moved = row[n] + a * item_part[n] + c * user_part[n]
                shifted[n] = moved if row[n] > LEFT_OUT else LEFT_OUT
            n_chosen = _choose(shifted, n_items, lower_bound(shifted, n_items, lanes, k), tie, chosen, k)
            short = n_chosen < k
            for place in range(n_chosen):
                n = chosen[place]
                if not in_pool[n]:
                    n_pool = _admit(n, n_pool, row, item_part, user_part, pool, in_pool, planes)
                listed[anchor, 0, place] = row[n]
                listed[anchor, 1, place] = item_part[n]
                listed[anchor, 2, place] = user_part[n]
        cell_bars[:] = LEFT_OUT if short else -LEFT_OUT
        for g in range(len(near)):
            bar = LEFT_OUT
            for anchor in near[g]:
                bar = max(bar, _lowest(listed[anchor], item_shift[b, g], user_shift[b, g]))
            _lower_cell_bars(boxes, item_shift[b, g], user_shift[b, g], bar, cell_bars)
        for cell in range(len(cell_bars)):
            bar = cell_bars[cell]
            for n in range(cell_starts[cell], cell_starts[cell + 1]):
                if row[n] >= bar and row[n] > LEFT_OUT and not in_pool[n]:
                    n_pool = _admit(n, n_pool, row, item_part, user_part, pool, in_pool, planes)
        looked_at += n_pool
        first, last = held_starts[users[b]], held_starts[users[b] + 1]
        total = np.float32(0.0)
        for n in range(first, last):
            held_weight[held_items[n]] = held_weights[n]
            total += held_weights[n]
        for m in range(n_pool):
            pool_tie[m] = tie[pool[m]]
            pool_held[m] = held_weight[pool[m]]
        n_held = last - first
        share, best_gain = total / n_held, ideal[min(n_held, k)]  # share: 1 if every held-out pair counts the same
        weight[0] += share
        n_chosen = min(k, n_pool)
        for place in range(n_chosen):
            chosen[place] = place
        for g in range(len(near)):
            a, c = item_shift[b, g], user_shift[b, g]
            n_chosen = _choose_from_pool(planes, n_pool, a, c, pool_tie, shifted, chosen, n_chosen, k)
            held = pool_held, pool, n_held, share, best_gain
            _measure(chosen[:n_chosen], shifted, pool_tie, *held, counts, tail, sums[g], exposure, g)
        for n in range(first, last):
            held_weight[held_items[n]] = 0
        for m in range(n_pool):
            in_pool[pool[m]] = False
    return looked_at


@njit(nogil=True, cache=True)
def _choose(shifted, n, bar, tie, chosen, k):
    """Puts the best k of shifted[:n] into `chosen`, in no order; returns how many. k must reach `bar`."""
    n_chosen = 0
    bar = max(bar, np.nextafter(LEFT_OUT, np.float32(0.0)))
    for start in range(0, n, CHUNK):
        chunk = shifted[start : min(start + CHUNK, n)]
        if count_from(chunk, bar):
            for m in range(len(chunk)):
                chosen[n_chosen] = start + m  # always written, kept where it counts: no branch to guess
                n_chosen += chunk[m] >= bar
    if n_chosen > 4 * k:  # many ties, as for a user of zeros: one sort instead of many removals
        by_tie = chosen[:n_chosen][np.argsort(tie[chosen[:n_chosen]])]
        chosen[:k] = by_tie[np.argsort(-shifted[by_tie], kind="mergesort")][:k]
        return k
    while n_chosen > k:
        worst = 0
        for place in range(1, n_chosen):
            less = shifted[chosen[place]] - shifted[chosen[worst]]
            if less < 0 or (less == 0 and tie[chosen[place]] > tie[chosen[worst]]):
                worst = place
        n_chosen -= 1
        chosen[worst] = chosen[n_chosen]
    return n_chosen


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "contract"})
def _choose_from_pool(planes, n_pool, a, c, tie, shifted, chosen, n_chosen, k):
    """The best k of the pool at one grid point; the last point's choice, still in `chosen`, sets the bar."""
    for m in range(n_pool):
        shifted[m] = planes[0, m] + a * planes[1, m] + c * planes[2, m]
    bar, top = -LEFT_OUT, LEFT_OUT
    for place in range(n_chosen):
        bar = min(bar, shifted[chosen[place]])
        top = max(top, shifted[chosen[place]])
    return _choose(shifted, n_pool, raise_bar(shifted[:n_pool], bar, top, k), tie, chosen, k)


@njit(nogil=True, cache=True, inline="always")
def _admit(n, n_pool, row, item_part, user_part, pool, in_pool, planes):
    """Adds item n to the pool; returns the pool's new size."""
    in_pool[n] = True
    pool[n_pool] = n
    planes[0, n_pool] = row[n]
    planes[1, n_pool] = item_part[n]
    planes[2, n_pool] = user_part[n]
    return n_pool + 1


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "contract"})
def _lowest(listed, a, c):
    """The lowest score of a list at a grid point: as many items as it is long reach that score there."""
    lowest = -LEFT_OUT
    for place in range(listed.shape[1]):
        lowest = min(lowest, listed[0, place] + a * listed[1, place] + c * listed[2, place])
    return lowest


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "contract"})
def _lower_cell_bars(boxes, a, c, bar, cell_bars):
    """Lowers each cell's bar to the plain score with which one of its items could reach `bar` here."""
    for cell in range(len(cell_bars)):
        reach = max(a * boxes[0, cell], a * boxes[1, cell]) + max(c * boxes[2, cell], c * boxes[3, cell])
        need = bar - reach - SLACK * (abs(bar) + abs(reach))
        cell_bars[cell] = min(need, cell_bars[cell])


@njit(nogil=True, cache=True)
def _measure(chosen, shifted, tie, pool_held, pool, n_held, share, best_gain, counts, tail, sums, exposure, g):
    """Adds one user's metrics at one grid point to sums (5,) and to exposure[:, g]."""
    hits, gain, popularity, tails = 0.0, 0.0, 0.0, 0
    for m in chosen:
        n = pool[m]
        popularity += counts[n]
        tails += tail[n]
        if exposure.shape[0]:
            exposure[n, g] += 1
        if pool_held[m] > 0:
            rank = 1
            for other in chosen:
                more = shifted[other] - shifted[m]
                rank += more > 0 or (more == 0 and tie[other] < tie[m])
            hits += pool_held[m]
            gain += pool_held[m] / np.log2(rank + 1.0)
    sums[RECALL] += hits / n_held
    sums[HIT_RATE] += share if hits > 0 else 0.0
    sums[NDCG] += gain / best_gain
    if len(chosen):
        sums[POPULARITY] += share * popularity / len(chosen)
        sums[TAIL] += share * tails / len(chosen)
