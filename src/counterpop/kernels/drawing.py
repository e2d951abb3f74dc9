"""Drawing the triples of an epoch on the CPU.

Threads never touch the same row at the same time. Each owns a range of users; items are dealt into as many blocks as
there are threads, again in every epoch, and while one thread works on a block the others work on other blocks. A
triple's seen item and negative lie in the same block. So there are no locks and no races, and the same seed with the
same number of threads gives the same bits.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterpop.kernels.randomness import next_below, next_unit

TRIES = 1000  # to draw an item that the user has not touched; then the triple is left out

Ints = NDArray[np.int32]


class Rows(NamedTuple):
    """Train rows, sorted by user and item."""

    starts: NDArray[np.int64]  # (U + 1,)
    items: Ints  # (N,)
    treated: NDArray[np.bool_]  # (N,) rows whose item is written as I + item; empty for none


class Blocks(NamedTuple):
    """The blocks of items of one epoch."""

    block_of: Ints  # (I,), or (2I,) with treated rows
    members: Ints  # (I,) items block after block
    starts: NDArray[np.int64]  # (T + 1,)


class Law(NamedTuple):
    """How negatives are drawn: by an alias table, empty for uniform, or by popularity beyond the seen item's."""

    accept: NDArray[np.float64]
    alias: Ints
    above: NDArray[np.int64]  # (I,) see `_draw_beyond`; empty for no contrast
    below: NDArray[np.int64]
    pool: float


class Triples(NamedTuple):
    """The triples of one thread in one epoch, and their shuffled order, item block after item block."""

    users: Ints
    items: Ints
    negatives: Ints
    order: Ints
    block_starts: NDArray[np.int64]

    def block(self, number: int) -> Ints:
        """The order within one item block."""
        return self.order[self.block_starts[number] : self.block_starts[number + 1]]


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
    """An item clearly more popular than the seen one, or clearly less, at even chances; or -1.

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
def draw_triples(low, high, rows, blocks, law, draws, negatives, window, state, out):
    """Fills the triples of one epoch for users low..high; returns their number.

    `out.order[out.block_starts[b]:out.block_starts[b + 1]]` are those of item block b: users in order from a random one
    on, shuffled within windows of this many triples. draws: positives for each user; 0 takes each row once.
    """
    starts, items, treated = rows
    block_of, members, member_starts = blocks
    accept, alias, above, below, pool = law
    out_users, out_items, out_negatives, order, order_starts = out
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
        count = stop - start
        if draws > 0.0:
            count = np.int64(draws)
            if next_unit(state) < draws - count:
                count += 1
        for row in range(count):
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
