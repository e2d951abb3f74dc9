"""LightGCN on the CPU: propagation over the graph, and Adam. Each thread owns rows of the result; none is shared."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, fastmath=True)
def propagate(starts, neighbours, edges, kept, scale, gain, base, source, out, low, high):
    """out[r] = gain[r] (base[r] + scale[r] x the sum of source over the neighbours of r), for rows low..high.

    starts (N + 1,), neighbours (2E,): the graph as CSR. edges (2E,): the edge each entry belongs to; kept (E,): whether
    it is kept, empty if all are. scale, gain (N,); base, source, out (N, D).
    """
    dim = base.shape[1]
    total = np.empty(dim, np.float32)
    for r in range(low, high):
        total[:] = np.float32(0.0)
        e, stop = starts[r], starts[r + 1]
        if len(kept):
            while e < stop:
                if kept[edges[e]]:
                    row = source[neighbours[e]]
                    for d in range(dim):
                        total[d] += row[d]
                e += 1
        while e + 4 <= stop:  # four at a time: the sum is loaded and stored a quarter as often
            r0, r1 = source[neighbours[e]], source[neighbours[e + 1]]
            r2, r3 = source[neighbours[e + 2]], source[neighbours[e + 3]]
            for d in range(dim):
                total[d] += (r0[d] + r1[d]) + (r2[d] + r3[d])
            e += 4
        while e < stop:
            row = source[neighbours[e]]
            for d in range(dim):
                total[d] += row[d]
            e += 1
        for d in range(dim):
            out[r, d] = gain[r] * (base[r, d] + scale[r] * total[d])


@njit(nogil=True, cache=True, fastmath=True)
def adam(values, gradient, mean, square, lr, step):
    """One step of Adam, the step-th, on (N, D) values; betas .9 and .999, epsilon 1e-8."""
    one = np.float32(1.0)
    rate = np.float32(lr / (1.0 - 0.9**step))
    correct = np.float32(1.0 / np.sqrt(1.0 - 0.999**step))
    for r in range(len(values)):
        for d in range(values.shape[1]):
            g = gradient[r, d]
            m = np.float32(0.9) * mean[r, d] + np.float32(0.1) * g
            v = np.float32(0.999) * square[r, d] + (one - np.float32(0.999)) * g * g
            mean[r, d], square[r, d] = m, v
            values[r, d] -= rate * m / (np.sqrt(v) * correct + np.float32(1e-8))
