"""Exact top-k of rows of scores; ties go by a given order of the items, never by their position."""

import numpy as np
from numba import njit

LEFT_OUT = np.float32(-3.4e38)  # the score of an item that must not be ranked; real scores are above it
CHUNK = 64


@njit(nogil=True, cache=True)
def leave_out(scores, starts, items, users):
    """Marks in each row b of `scores` the items of user `users[b]`: items[starts[u]:starts[u + 1]]."""
    for b in range(len(users)):
        for n in range(starts[users[b]], starts[users[b] + 1]):
            scores[b, items[n]] = LEFT_OUT


@njit(nogil=True, cache=True)
def insert(score, item, tie, best_score, best_item, place):
    """Sorts an item into the list above `place`, whose entry is lost."""
    while place > 0 and best_score[place - 1] < score:
        best_score[place] = best_score[place - 1]
        best_item[place] = best_item[place - 1]
        place -= 1
    while place > 0 and best_score[place - 1] == score and tie[best_item[place - 1]] > tie[item]:
        best_score[place] = best_score[place - 1]
        best_item[place] = best_item[place - 1]
        place -= 1
    best_score[place] = score
    best_item[place] = item


@njit(nogil=True, cache=True)
def count_from(scores, bar):
    """How many scores reach the bar. A count is a loop that compilers turn into vector code."""
    above = 0
    for n in range(len(scores)):
        above += scores[n] >= bar
    return above


@njit(nogil=True, cache=True)
def raise_bar(scores, bar, top, k):
    """A bar closer to the k-th best score, which k still reach as they reach `bar`; `top` guesses from above.

    Counting is cheap, so a few guesses do; where scores are tied the bar may stay low.
    """
    n_bar, n_top = count_from(scores, bar), 1
    for _ in range(8):
        if n_bar <= k + 2 or not bar < top:
            break
        part = np.float32(0.7) * (n_bar - k) / max(n_bar - n_top, 1)  # the count falls faster at first
        guess = bar + (top - bar) * np.float32(part)
        n_guess = count_from(scores, guess)
        if n_guess >= k:
            bar, n_bar = guess, n_guess
        else:
            top, n_top = guess, n_guess
    return bar


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def lower_bound(scores, n, lanes, k):
    """A number that at least k of scores[:n] reach, close to the k-th best.

    `lanes` is scratch space. The maximum of every len(lanes)-th score is taken: k of these maxima reach the
    k-th largest of them.
    """
    width = len(lanes)
    if n < 4 * width or k > width:
        return LEFT_OUT
    lanes[:] = LEFT_OUT
    for start in range(0, n - width + 1, width):
        stretch = scores[start : start + width]
        for lane in range(width):
            lanes[lane] = max(stretch[lane], lanes[lane])
    low, high = lanes[0], lanes[0]
    for lane in range(width):
        low, high = min(low, lanes[lane]), max(high, lanes[lane])
    return raise_bar(lanes, low, high, k)


@njit(nogil=True, cache=True)
def scan(scores, n, bar, tie, best_score, best_item):
    """Lets everything in scores[:n] from `bar` up that belongs there into the sorted best."""
    last = len(best_item) - 1
    for start in range(0, n, CHUNK):
        chunk = scores[start : min(start + CHUNK, n)]
        bar = max(bar, best_score[last])
        if not count_from(chunk, bar):
            continue
        for m in range(len(chunk)):
            score = chunk[m]
            if score < bar or score <= LEFT_OUT or score < best_score[last]:
                continue
            if score > best_score[last] or tie[start + m] < tie[best_item[last]]:
                insert(score, start + m, tie, best_score, best_item, last)


@njit(nogil=True, cache=True)
def top_k(scores, tie, low, high, best_score, best_item):
    """Fills rows low..high of `best_score` and `best_item` (B, K); places without an item hold -1."""
    k = best_item.shape[1]
    lanes = np.empty(CHUNK * (1 + 3 * k // CHUNK), np.float32)
    for b in range(low, high):
        best_score[b] = LEFT_OUT
        best_item[b] = -1
        bar = lower_bound(scores[b], scores.shape[1], lanes, k)
        scan(scores[b], scores.shape[1], bar, tie, best_score[b], best_item[b])
