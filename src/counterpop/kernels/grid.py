"""Every point of a grid of strengths for a block of users, looking only at items that can matter.

At grid point g the score of item i for user u is s_ui + a_ug t_i + b_ug r_i: a plane over the item's two
components (t, r) along the two directions, which do not depend on the user. Items are laid out in cells of
near (t, r). A first guess at the k-th best score of every grid point, from the best of a few anchor points,
gives each cell the lowest plain score with which one of its items could enter any list; only items above it
are looked at again.
"""

import numpy as np
from numba import njit

from counterpop.kernels.topk import CHUNK, LEFT_OUT, insert, lower_bound, scan

# what is added up for every grid point
RECALL, HIT_RATE, NDCG, POPULARITY, TAIL = 0, 1, 2, 3, 4
SLACK = np.float32(1e-5)  # of the score's size: rounding must not hide an item that belongs in


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def search_grid(
    scores,  # (B, I) plain scores, seen items LEFT_OUT, items in the order of the cells
    item_shift, user_shift,  # (B, G) a and b
    item_part, user_part,  # (I,) t and r
    cell_starts, boxes,  # (C + 1,), (4, C) lowest and highest t, lowest and highest r of each cell
    anchors,  # grid points whose full lists are taken first
    tie, counts, tail,  # (I,) order of ties, popularity, whether an item is of the tail
    held_starts, held_items, held_weights, users,  # held-out items of user users[b], and the weight of each
    ideal,  # (K + 1,) ideal DCG by number of held-out items
    k, low, high,
    sums, weight, exposure,  # (G, 5), (1,), (G, I) or (0, 0): added to
):  # fmt: skip
    """Adds the metrics of users low..high of the block to `sums` and `weight`; returns items looked at."""
    n_grid = item_shift.shape[1]
    n_items = scores.shape[1]
    pool = np.empty(n_items, np.int64)
    in_pool = np.zeros(n_items, np.bool_)
    pool_tie = np.empty(n_items, tie.dtype)
    planes = np.empty((3, n_items), np.float32)
    shifted = np.empty(n_items, np.float32)
    best_score = np.empty(k, np.float32)
    best = np.empty(k, np.int64)
    lanes = np.empty(CHUNK * (1 + 3 * k // CHUNK), np.float32)
    cell_bars = np.empty(len(cell_starts) - 1, np.float32)
    held_weight = np.zeros(n_items, np.float32)
    looked_at = 0
    for b in range(low, high):
        row = scores[b]
        n_pool = 0
        for anchor in anchors:
            a, c = item_shift[b, anchor], user_shift[b, anchor]
            for n in range(n_items):
                moved = row[n] + a * item_part[n] + c * user_part[n]
                shifted[n] = moved if row[n] > LEFT_OUT else LEFT_OUT
            best_score[:] = LEFT_OUT
            best[:] = -1
            scan(shifted, n_items, lower_bound(shifted, n_items, lanes, k), tie, best_score, best)
            for n in best:
                if n >= 0 and not in_pool[n]:
                    n_pool = _admit(
                        n, n_pool, row, item_part, user_part, tie, pool, in_pool, planes, pool_tie
                    )
        cell_bars[:] = -LEFT_OUT if n_pool >= k else LEFT_OUT
        _reset(best, n_pool)
        for g in range(n_grid):
            a, c = item_shift[b, g], user_shift[b, g]
            _best_of_pool(planes, n_pool, a, c, pool_tie, shifted, best_score, best)
            _lower_cell_bars(boxes, a, c, best_score[k - 1], cell_bars)
        for cell in range(len(cell_bars)):
            bar = cell_bars[cell]
            for n in range(cell_starts[cell], cell_starts[cell + 1]):
                if row[n] >= bar and row[n] > LEFT_OUT and not in_pool[n]:
                    n_pool = _admit(
                        n, n_pool, row, item_part, user_part, tie, pool, in_pool, planes, pool_tie
                    )
        looked_at += n_pool
        first, last = held_starts[users[b]], held_starts[users[b] + 1]
        total = np.float32(0.0)
        for n in range(first, last):
            held_weight[held_items[n]] = held_weights[n]
            total += held_weights[n]
        share = total / (last - first)  # 1 where every held-out pair counts the same
        weight[0] += share
        _reset(best, n_pool)
        for g in range(n_grid):
            _best_of_pool(
                planes, n_pool, item_shift[b, g], user_shift[b, g], pool_tie, shifted, best_score, best
            )
            _measure(
                best, pool, held_weight, last - first, share, ideal, counts, tail,
                sums[g], exposure, g,
            )  # fmt: skip
        for n in range(first, last):
            held_weight[held_items[n]] = 0
        for m in range(n_pool):
            in_pool[pool[m]] = False
    return looked_at


@njit(nogil=True, cache=True, inline="always")
def _reset(best, n_pool):
    """Starts the running list with the first of the pool; -1 where the pool is too small."""
    for place in range(len(best)):
        best[place] = place if place < n_pool else -1


@njit(nogil=True, cache=True, inline="always")
def _admit(n, n_pool, row, item_part, user_part, tie, pool, in_pool, planes, pool_tie):
    """Adds item n to the pool; returns the pool's new size."""
    in_pool[n] = True
    pool[n_pool] = n
    pool_tie[n_pool] = tie[n]
    planes[0, n_pool] = row[n]
    planes[1, n_pool] = item_part[n]
    planes[2, n_pool] = user_part[n]
    return n_pool + 1


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "contract"})
def _lower_cell_bars(boxes, a, c, bar, cell_bars):
    """Lowers each cell's bar to the plain score with which one of its items could reach `bar` here."""
    for cell in range(len(cell_bars)):
        t, t_high = a * boxes[0, cell], a * boxes[1, cell]
        r, r_high = c * boxes[2, cell], c * boxes[3, cell]
        reach = (t if t > t_high else t_high) + (r if r > r_high else r_high)
        need = bar - reach - SLACK * (abs(bar) + abs(reach))
        cell_bars[cell] = need if need < cell_bars[cell] else cell_bars[cell]


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
def _best_of_pool(planes, n_pool, a, c, tie, shifted, best_score, best):
    """Sorts into `best` the best places of the pool at one grid point, starting from the last point's list.

    Between neighbouring points few places change, so the old list is put in order first and hardly anything
    passes its last score.
    """
    k = len(best)
    for m in range(n_pool):
        shifted[m] = planes[0, m] + a * planes[1, m] + c * planes[2, m]
    best_score[:] = LEFT_OUT
    for place in range(min(k, n_pool)):
        m = best[place]
        score = shifted[m]
        shifted[m] = LEFT_OUT
        insert(score, m, tie, best_score, best, place)
    scan(shifted, n_pool, best_score[k - 1], tie, best_score, best)


@njit(nogil=True, cache=True)
def _measure(best, pool, held_weight, n_held, share, ideal, counts, tail, sums, exposure, g):
    """Adds one user's metrics at one grid point to sums (5,) and to exposure[g]."""
    hits, gain, popularity = 0.0, 0.0, 0.0
    tails, filled = 0, 0
    for place in range(len(best)):
        if best[place] < 0:
            break
        n = pool[best[place]]
        filled += 1
        popularity += counts[n]
        tails += tail[n]
        if held_weight[n] > 0:
            hits += held_weight[n]
            gain += held_weight[n] / np.log2(place + 2.0)
        if exposure.shape[0]:
            exposure[g, n] += 1
    sums[RECALL] += hits / n_held
    sums[HIT_RATE] += share if hits > 0 else 0.0
    sums[NDCG] += gain / ideal[min(n_held, len(best))]
    if filled:
        sums[POPULARITY] += share * popularity / filled
        sums[TAIL] += share * tails / filled
