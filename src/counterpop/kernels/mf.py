"""Matrix factorisation by SGD: drawing triples, and the steps along them, with the ledger.

Threads never touch the same row at the same time. Each owns a range of users; items are cut into as many
blocks as there are threads, anew in every epoch, and while one thread works on a block the others work on
other blocks. A triple's seen item and negative lie in the same block. So there are no locks and no races, and
the same seed with the same number of threads gives the same bits.
"""

import numpy as np
from numba import njit

from counterpop.kernels.randomness import next_below, next_unit

PULL, PUSH, PULL_SLOPE, PUSH_SLOPE = 0, 1, 2, 3  # the four sums of a ledger row
TRIES = 1000  # to draw an item that the user has not touched; then the triple is left out


@njit(nogil=True, cache=True, inline="always")
def _draw_negative(state, touched, user, block, block_of, members, first, n_members, accept, alias):
    """An item of the block that the user has not touched, or -1."""
    for _ in range(TRIES):
        if len(accept):
            item = next_below(state, len(accept))
            if next_unit(state) >= accept[item]:
                item = alias[item]
            if block_of[item] != block:
                continue
        else:
            item = members[first + next_below(state, n_members)]
        if touched[item] != user:
            return item
    return -1


@njit(nogil=True, cache=True, inline="always")
def _draw_beyond(state, touched, user, members, first, above, below, last, pool):
    """DICE's negative: half of them more popular than the seen item, half less, or -1.

    Members of the block are in falling popularity: those before `above` are popular enough, those from
    `below` on unpopular enough. A side with fewer than `pool` items is not drawn from; with two such, any is.
    """
    low, high = first, last
    more = above - first >= pool
    if more and (last - below < pool or next_unit(state) < 0.5):
        high = above
    elif last - below >= pool:
        low = below
    for _ in range(TRIES):
        item = members[low + next_below(state, high - low)]
        if touched[item] != user:
            return item
    return -1


@njit(nogil=True, cache=True)
def draw_triples(
    low,
    high,  # the users of this thread
    starts,
    items,  # (U + 1,), (N,) train rows, sorted by user and item
    window,  # triples that are shuffled together
    draws,  # positives drawn for each user; 0: each row is a positive once
    negatives,
    accept,
    alias,  # alias table of the negatives' law, empty for uniform
    block_of,
    members,
    member_starts,  # (I,), (I,), (T + 1,) the blocks of items
    above,
    below,
    pool,  # (I,), (I,), number: DICE's draws, see `_draw_beyond`; empty for others
    treated,  # (N,) rows whose item is written as I + item, with block_of (2I,); empty for none
    state,
    out_users,
    out_items,
    out_negatives,
    order,
    order_starts,
):
    """Fills the triples of one epoch for users low..high; returns their number.

    `order[order_starts[b]:order_starts[b + 1]]` are those of item block b: users in their order from a random
    one on, shuffled within windows of so many triples.
    """
    n = 0
    touched = np.full(len(block_of), -1, np.int32)  # the last user who was found to have touched the item
    turn = next_below(state, high - low) if high > low else 0
    for step in range(high - low):
        u = low + turn + step
        if u >= high:
            u -= high - low
        start, stop = starts[u], starts[u + 1]
        if start == stop or stop - start >= len(members):  # nothing seen, or nothing left to be a negative
            continue
        for row in range(start, stop):
            touched[items[row]] = u
        rows = stop - start
        if draws > 0.0:
            rows = np.int64(draws)
            if next_unit(state) < draws - rows:
                rows += 1
        for row in range(rows):
            at = start + row if draws == 0.0 else start + next_below(state, stop - start)
            i = items[at]
            shift = len(members) if len(treated) and treated[at] else 0
            block = block_of[i]
            first, last = member_starts[block], member_starts[block + 1]
            for _ in range(negatives):
                if len(above):
                    j = _draw_beyond(state, touched, u, members, first, above[i], below[i], last, pool)
                else:
                    j = _draw_negative(state, touched, u, block, block_of, members, first, last - first, accept, alias)
                if j >= 0:
                    out_users[n], out_items[n], out_negatives[n] = u, i + shift, j + shift
                    n += 1
    order_starts[:] = 0
    for m in range(n):
        order_starts[block_of[out_items[m]] + 1] += 1
    for block in range(len(order_starts) - 1):
        order_starts[block + 1] += order_starts[block]
    ends = order_starts.copy()
    for m in range(n):  # shuffled as they come
        block = block_of[out_items[m]]
        place = ends[block]
        ends[block] += 1
        first = place - (place - order_starts[block]) % window
        other = first + next_below(state, place - first + 1)
        order[place] = order[other]
        order[other] = m
    return n


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def slopes(P, A, B, bce, normalised, weight):
    """What a triple's loss needs: 1/|P| (or 1), both scores, and how hard it pulls at i and pushes at j.

    `weight` is the seen item's: of the whole loss with BPR, of its part of the loss with BCE.
    """
    one = np.float32(1.0)
    square, s_i, s_j = np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for d in range(len(P)):
        square += P[d] * P[d]
        s_i += P[d] * A[d]
        s_j += P[d] * B[d]
    scale = one / np.sqrt(square + np.float32(1e-12)) if normalised else one
    s_i *= scale
    s_j *= scale
    if bce:
        return scale, s_i, s_j, weight / (one + np.exp(s_i)), one / (one + np.exp(-s_j))
    g = weight / (one + np.exp(s_i - s_j))
    return scale, s_i, s_j, g, g


# numpy's errors: vectors that leave all bounds must come back to be seen, not divide by zero in here
@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def step_triples(
    user_vectors,
    item_vectors,  # (U, D), (I, D) float32, changed in place
    users,
    items,
    negatives,
    order,  # triples, and the order in which they are taken
    lr,
    reg,
    bce,
    normalised,
    item_ledger,
    user_ledger,
    every,  # (I, 4, D), (U, 4, D), or (0, 0, 0) for none; one triple in `every`
    weights,  # (I,) of the loss, by the seen item; empty: all are 1
):
    """One SGD step for each triple; returns the sum of the recorded losses and their number.

    Loss: -w log sg(s_i - s_j) (BPR) or -w log sg(s_i) - log(1 - sg(s_j)) (BCE), + reg/2 of the squared rows.
    """
    dim = user_vectors.shape[1]
    one = np.float32(1.0)
    keep = one - lr * reg
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        weight = weights[i] if len(weights) else one
        scale, s_i, s_j, g_i, g_j = slopes(P, A, B, bce, normalised, weight)
        if m % every == 0:
            recorded += 1
            loss += record(P, A, B, scale, s_i, s_j, g_i, g_j, bce, weight, i, j, u, item_ledger, user_ledger)
        # through the normalisation: (v - (v.p) p) / |P| with v = g_i Q_i - g_j Q_j
        back = keep
        if normalised:
            back -= lr * (g_i * s_i - g_j * s_j) * scale * scale
        step_i = lr * g_i * scale
        step_j = lr * g_j * scale
        for d in range(dim):
            p, a, b = P[d], A[d], B[d]
            P[d] = back * p + step_i * a - step_j * b
            A[d] = keep * a + step_i * p
            B[d] = keep * b - step_j * p
    return loss, recorded


@njit(nogil=True, cache=True, fastmath=True)
def record(P, A, B, scale, s_i, s_j, g_i, g_j, bce, weight, i, j, u, item_ledger, user_ledger):
    """Adds one triple to the ledger rows (4, D) of its two items and its user; returns its loss."""
    if len(item_ledger):
        at_i, at_j, at_u = item_ledger[i], item_ledger[j], user_ledger[u]
        for d in range(len(P)):
            p = scale * P[d]
            at_i[PULL, d] += p
            at_i[PULL_SLOPE, d] += g_i * p
            at_j[PUSH, d] += p
            at_j[PUSH_SLOPE, d] += g_j * p
            at_u[PULL, d] += A[d]
            at_u[PULL_SLOPE, d] += g_i * A[d]
            at_u[PUSH, d] += B[d]
            at_u[PUSH_SLOPE, d] += g_j * B[d]
    if bce:
        return weight * np.logaddexp(0.0, -s_i) + np.logaddexp(0.0, s_j)
    return weight * np.logaddexp(0.0, s_j - s_i)
