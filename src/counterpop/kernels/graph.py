"""LightGCN on the CPU: the propagation over the graph, the gradient of a batch of triples, Adam.

Threads own rows of the result in `propagate` and slices of everything in `adam`. In `pull_triples` they own
users, and items are cut into blocks as in `kernels.mf`. So there are no locks and no races.
"""

import numpy as np
from numba import njit

from counterpop.kernels.mf import record, slopes


@njit(nogil=True, cache=True, fastmath=True)
def propagate(
    starts,
    neighbours,  # (N + 1,), (2E,) the graph of users and items as CSR
    edges,
    kept,  # (2E,) the edge that each entry belongs to, (E,) whether it is kept; empty: all are
    scale,
    gain,
    base,  # (N,), (N,), (N, D)
    source,
    out,  # (N, D), (N, D)
    low,
    high,  # the rows of this thread
):
    """out[r] = gain[r] (base[r] + scale[r] x the sum of source over the neighbours of r)."""
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


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def pull_triples(
    user_vectors,
    item_vectors,  # (U, D), (I, D)
    users,
    items,
    negatives,
    order,  # triples, and those of them that are taken
    reg,
    bce,
    normalised,
    user_gradient,
    item_gradient,  # (U, D), (I, D) added to
    item_ledger,
    user_ledger,
    every,
    weights,
):
    """Adds the gradient of each triple's loss; returns the sum of the recorded losses and their number."""
    dim = user_vectors.shape[1]
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        G, H, K = user_gradient[u], item_gradient[i], item_gradient[j]
        weight = weights[i] if len(weights) else np.float32(1.0)
        scale, s_i, s_j, g_i, g_j = slopes(P, A, B, bce, normalised, weight)
        if order[m] % every == 0:  # by its place in the epoch: batches and blocks may be short
            recorded += 1
            loss += record(P, A, B, scale, s_i, s_j, g_i, g_j, bce, weight, i, j, u, item_ledger, user_ledger)
        back = reg
        if normalised:
            back += (g_i * s_i - g_j * s_j) * scale * scale
        pull, push = g_i * scale, g_j * scale
        for d in range(dim):
            p, a, b = P[d], A[d], B[d]
            G[d] += back * p - pull * a + push * b
            H[d] += reg * a - pull * p
            K[d] += reg * b + push * p
    return loss, recorded


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
