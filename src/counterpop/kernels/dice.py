"""DICE: each vector is an interest half and a conformity half, taught apart by who was more popular.

Loss of a triple (u, i, j), x and y the score differences s_i - s_j of the interest and the conformity halves:
-log sg(x + y) + weight x [-log sg(x) - log sg(-y) where j is the more popular, else -log sg(y)]
- push x the distance of the halves of each of the three rows (mean |difference|, or mean square).
Threads share rows as in `kernels.mf`: not at all.
"""

import numpy as np
from numba import njit

NONE, L1, L2 = 0, 1, 2  # distance of the two halves


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def slopes(P, A, B, more, weight):
    """The differences x and y, and how hard the loss pulls at both: -dL/dx, -dL/dy."""
    one, half = np.float32(1.0), len(P) // 2
    x, y = np.float32(0.0), np.float32(0.0)
    for d in range(half):
        x += P[d] * (A[d] - B[d])
        y += P[d + half] * (A[d + half] - B[d + half])
    click = one / (one + np.exp(x + y))
    if more:
        return x, y, click + weight / (one + np.exp(x)), click - weight / (one + np.exp(-y))
    return x, y, click, click + weight / (one + np.exp(y))


@njit(nogil=True, cache=True)
def loss_of(x, y, more, weight):
    """The loss of a triple without its distances."""
    click = np.logaddexp(0.0, -x - y)
    if more:
        return click + weight * (np.logaddexp(0.0, -x) + np.logaddexp(0.0, y))
    return click + weight * np.logaddexp(0.0, -y)


@njit(nogil=True, cache=True, fastmath=True, inline="always")
def _apart(difference, kind, push):
    """The slope of push x distance along the first half; along the second it is the opposite."""
    if kind == L1:
        return push if difference > np.float32(0.0) else -push
    if kind == L2:
        return np.float32(2.0) * push * difference
    return np.float32(0.0)


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def step_triples(
    user_vectors,
    item_vectors,  # (U, D), (I, D) float32, changed in place
    users,
    items,
    negatives,
    order,
    lr,
    reg,
    counts,  # (I,) popularity
    weight,
    kind,
    push,
    every,
):
    """One SGD step for each triple; returns the sum of the recorded losses and their number."""
    half = user_vectors.shape[1] // 2
    keep = np.float32(1.0) - lr * reg
    push = push / np.float32(half)
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        more = counts[j] > counts[i]
        x, y, g, h = slopes(P, A, B, more, weight)
        if m % every == 0:
            recorded += 1
            loss += loss_of(x, y, more, weight)
        g, h = lr * g, lr * h
        for d in range(half):
            p, a, b = P[d], A[d], B[d]
            q, c, e = P[d + half], A[d + half], B[d + half]
            away = lr * _apart(p - q, kind, push)
            P[d] = keep * p + g * (a - b) + away
            P[d + half] = keep * q + h * (c - e) - away
            away = lr * _apart(a - c, kind, push)
            A[d] = keep * a + g * p + away
            A[d + half] = keep * c + h * q - away
            away = lr * _apart(b - e, kind, push)
            B[d] = keep * b - g * p + away
            B[d + half] = keep * e - h * q - away
    return loss, recorded


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def pull_triples(
    user_vectors,
    item_vectors,
    users,
    items,
    negatives,
    order,
    reg,
    counts,
    weight,
    kind,
    push,
    every,
    user_gradient,
    item_gradient,  # (U, D), (I, D) added to
):
    """Adds the gradient of each triple's loss; returns the sum of the recorded losses and their number."""
    half = user_vectors.shape[1] // 2
    push = push / np.float32(half)
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        G, H, K = user_gradient[u], item_gradient[i], item_gradient[j]
        more = counts[j] > counts[i]
        x, y, g, h = slopes(P, A, B, more, weight)
        if m % every == 0:
            recorded += 1
            loss += loss_of(x, y, more, weight)
        for d in range(half):
            p, a, b = P[d], A[d], B[d]
            q, c, e = P[d + half], A[d + half], B[d + half]
            away = _apart(p - q, kind, push)
            G[d] += reg * p - g * (a - b) - away
            G[d + half] += reg * q - h * (c - e) + away
            away = _apart(a - c, kind, push)
            H[d] += reg * a - g * p - away
            H[d + half] += reg * c - h * q + away
            away = _apart(b - e, kind, push)
            K[d] += reg * b + g * p - away
            K[d + half] += reg * e + h * q + away
    return loss, recorded
