"""CausE: every item has a control row and, I rows further, a treatment row, held near each other.

A triple's items are both control rows or both treatment rows. Loss: as in `kernels.mf`, not normalised, +
penalty x the squared distance of each of the two items from its other row. Threads share rows as there: not
at all, because an item's two rows belong to the same block.
"""

import numpy as np
from numba import njit

from counterpop.kernels.mf import slopes


@njit(nogil=True, cache=True)
def loss_of(s_i, s_j, bce):
    """The loss of a triple without its penalty."""
    if bce:
        return np.logaddexp(0.0, -s_i) + np.logaddexp(0.0, s_j)
    return np.logaddexp(0.0, s_j - s_i)


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def step_triples(
    user_vectors,
    item_vectors,  # (U, D), (2I, D) float32, changed in place
    users,
    items,
    negatives,
    order,
    lr,
    reg,
    bce,
    penalty,
    every,
):
    """One SGD step for each triple; returns the sum of the recorded losses and their number."""
    dim, n_items = user_vectors.shape[1], len(item_vectors) // 2
    one = np.float32(1.0)
    keep = one - lr * reg
    near = np.float32(2.0) * lr * penalty
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        other = -n_items if i >= n_items else n_items
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        C, E = item_vectors[i + other], item_vectors[j + other]
        _, s_i, s_j, g_i, g_j = slopes(P, A, B, bce, False, one)
        if m % every == 0:
            recorded += 1
            loss += loss_of(s_i, s_j, bce)
        g_i, g_j = lr * g_i, lr * g_j
        for d in range(dim):
            p, a, b, c, e = P[d], A[d], B[d], C[d], E[d]
            P[d] = keep * p + g_i * a - g_j * b
            A[d] = keep * a + g_i * p - near * (a - c)
            B[d] = keep * b - g_j * p - near * (b - e)
            C[d] = c + near * (a - c)
            E[d] = e + near * (b - e)
    return loss, recorded


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def pull_triples(
    user_vectors,
    item_vectors,  # (2U, D), (2I, D): treatment triples take the second half of the users
    users,
    items,
    negatives,
    order,
    reg,
    bce,
    penalty,
    every,
    user_gradient,
    item_gradient,  # (2U, D), (2I, D) added to
):
    """Adds the gradient of each triple's loss; returns the sum of the recorded losses and their number."""
    dim, n_items = user_vectors.shape[1], len(item_vectors) // 2
    near = np.float32(2.0) * penalty
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        other = n_items
        if i >= n_items:
            other = -n_items
            u += len(user_vectors) // 2
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        C, E = item_vectors[i + other], item_vectors[j + other]
        G, H, K = user_gradient[u], item_gradient[i], item_gradient[j]
        S, T = item_gradient[i + other], item_gradient[j + other]
        _, s_i, s_j, g_i, g_j = slopes(P, A, B, bce, False, np.float32(1.0))
        if m % every == 0:
            recorded += 1
            loss += loss_of(s_i, s_j, bce)
        for d in range(dim):
            p, a, b = P[d], A[d], B[d]
            G[d] += reg * p - g_i * a + g_j * b
            H[d] += reg * a - g_i * p + near * (a - C[d])
            K[d] += reg * b + g_j * p + near * (b - E[d])
            S[d] -= near * (a - C[d])
            T[d] -= near * (b - E[d])
    return loss, recorded
