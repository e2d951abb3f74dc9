"""Random rows of each group in one pass, without an order of all rows in memory."""

import numpy as np
from numba import njit

from counterpop.kernels.randomness import next_unit


@njit(nogil=True, cache=True)
def select_rows(groups, pool, quota, have, state, out):
    """Fills `out` with quota[g] rows of each group g of the pool, in rising order; returns their number.

    Every choice of as many rows is equally likely: a row is taken with the number still needed of its group over the
    number still to come. `groups` (N,) may be empty if all rows are one group. `have` (G,) are the rows of each group
    in the pool; it and `quota` are counted down.
    """
    taken = 0
    for n in range(len(pool)):
        if not pool[n]:
            continue
        g = groups[n] if len(groups) else np.int32(0)
        if next_unit(state) * have[g] < quota[g]:
            out[taken] = n
            taken += 1
            quota[g] -= 1
        have[g] -= 1
    return taken
