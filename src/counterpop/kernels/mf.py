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
WINDOW = 1 << 15  # triples: few enough that their users' vectors stay in the cache, which is half the time
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


@njit(nogil=True, cache=True)
def draw_triples(
    low, high,  # the users of this thread
    starts, items,  # (U + 1,), (N,) train rows, sorted by user and item
    draws,  # positives drawn for each user; 0: each row is a positive once
    negatives, accept, alias,  # alias table of the negatives' law, empty for uniform
    block_of, members, member_starts,  # (I,), (I,), (T + 1,) the blocks of items
    state, out_users, out_items, out_negatives, order, order_starts,
):  # fmt: skip
    """Fills the triples of one epoch for users low..high; returns their number.

    `order[order_starts[b]:order_starts[b + 1]]` are those of item block b: users in their order from a random
    one on, shuffled within windows of WINDOW triples.
    """
    n = 0
    touched = np.full(len(block_of), -1, np.int32)  # the last user who was found to have touched the item
    turn = next_below(state, high - low) if high > low else 0
    for step in range(high - low):
        u = low + turn + step
        if u >= high:
            u -= high - low
        start, stop = starts[u], starts[u + 1]
        if start == stop or stop - start >= len(block_of):  # nothing seen, or nothing left to be a negative
            continue
        for row in range(start, stop):
            touched[items[row]] = u
        rows = stop - start
        if draws > 0.0:
            rows = np.int64(draws)
            if next_unit(state) < draws - rows:
                rows += 1
        for row in range(rows):
            i = items[start + row] if draws == 0.0 else items[start + next_below(state, stop - start)]
            block = block_of[i]
            first = member_starts[block]
            for _ in range(negatives):
                j = _draw_negative(
                    state, touched, u, block, block_of, members, first,
                    member_starts[block + 1] - first, accept, alias,
                )  # fmt: skip
                if j >= 0:
                    out_users[n], out_items[n], out_negatives[n] = u, i, j
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
        window = place - (place - order_starts[block]) % WINDOW
        other = window + next_below(state, place - window + 1)
        order[place] = order[other]
        order[other] = m
    return n


# numpy's errors: vectors that leave all bounds must come back to be seen, not divide by zero in here
@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def step_triples(
    user_vectors, item_vectors,  # (U, D), (I, D) float32, changed in place
    users, items, negatives, order,  # triples, and the order in which they are taken
    lr, reg, bce, normalised,
    item_ledger, user_ledger, every,  # (I, 4, D), (U, 4, D), or (0, 0, 0) for none; one triple in `every`
):  # fmt: skip
    """One SGD step for each triple; returns the sum of the recorded losses and their number.

    Loss: -log sg(s_i - s_j) (BPR) or -log sg(s_i) - log(1 - sg(s_j)) (BCE), + reg/2 of the squared rows.
    """
    dim = user_vectors.shape[1]
    one = np.float32(1.0)
    keep = one - lr * reg
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        square, s_i, s_j = np.float32(0.0), np.float32(0.0), np.float32(0.0)
        for d in range(dim):
            square += P[d] * P[d]
            s_i += P[d] * A[d]
            s_j += P[d] * B[d]
        scale = one / np.sqrt(square + np.float32(1e-12)) if normalised else one
        s_i *= scale
        s_j *= scale
        if bce:
            g_i = one / (one + np.exp(s_i))
            g_j = one / (one + np.exp(-s_j))
        else:
            g_i = one / (one + np.exp(s_i - s_j))
            g_j = g_i
        if m % every == 0:
            recorded += 1
            if bce:
                loss += np.logaddexp(0.0, -s_i) + np.logaddexp(0.0, s_j)
            else:
                loss += np.logaddexp(0.0, s_j - s_i)
            if len(item_ledger):
                _record(P, A, B, scale, g_i, g_j, item_ledger[i], item_ledger[j], user_ledger[u])
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
def _record(P, A, B, scale, g_i, g_j, ledger_i, ledger_j, ledger_u):
    """Adds one triple to the ledger rows (4, D) of its two items and its user."""
    for d in range(len(P)):
        p = scale * P[d]
        ledger_i[PULL, d] += p
        ledger_i[PULL_SLOPE, d] += g_i * p
        ledger_j[PUSH, d] += p
        ledger_j[PUSH_SLOPE, d] += g_j * p
        ledger_u[PULL, d] += A[d]
        ledger_u[PULL_SLOPE, d] += g_i * A[d]
        ledger_u[PUSH, d] += B[d]
        ledger_u[PUSH_SLOPE, d] += g_j * B[d]
