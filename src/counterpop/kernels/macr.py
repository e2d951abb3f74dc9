"""MACR: a score is multiplied by how much its user and its item click and are clicked whatever the match.

z_u = sg(w_user.P_u), z_i = sg(w_item.Q_i). Loss of a triple: BCE of s z_u z for the seen item and the
negative + item_weight x BCE of z (seen 1, negative 0) + user_weight x BCE of z_u (as seen, and as negative).
Threads share rows as in `kernels.mf`: not at all. The two shared vectors are each thread's own copy (MF), or
each thread's own sum of the gradient (LightGCN).
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def slopes(P, A, B, w_user, w_item, item_weight, user_weight):
    """Both products s z_u z, the three z, and -dL/d of s_i, s_j, w_user.P, w_item.A and w_item.B."""
    one, zero = np.float32(1.0), np.float32(0.0)
    s_i, s_j, l_u, l_i, l_j = zero, zero, zero, zero, zero
    for d in range(len(P)):
        s_i += P[d] * A[d]
        s_j += P[d] * B[d]
        l_u += P[d] * w_user[d]
        l_i += A[d] * w_item[d]
        l_j += B[d] * w_item[d]
    z_u, z_i, z_j = one / (one + np.exp(-l_u)), one / (one + np.exp(-l_i)), one / (one + np.exp(-l_j))
    y_i, y_j = s_i * z_u * z_i, s_j * z_u * z_j
    e_i, e_j = one / (one + np.exp(y_i)), -one / (one + np.exp(-y_j))
    at_i = e_i * y_i * (one - z_i) + item_weight * (one - z_i)
    at_j = e_j * y_j * (one - z_j) - item_weight * z_j
    at_u = (e_i * y_i + e_j * y_j) * (one - z_u) + user_weight * (one - z_u - z_u)
    return y_i, y_j, z_u, z_i, z_j, e_i * z_u * z_i, e_j * z_u * z_j, at_u, at_i, at_j


@njit(nogil=True, cache=True)
def loss_of(y_i, y_j, z_u, z_i, z_j, item_weight, user_weight):
    """The loss of a triple."""
    match = np.logaddexp(0.0, -y_i) + np.logaddexp(0.0, y_j)
    least = 1e-12
    item = -np.log(max(z_i, least)) - np.log(max(1.0 - z_j, least))
    user = -np.log(max(z_u, least)) - np.log(max(1.0 - z_u, least))
    return match + item_weight * item + user_weight * user


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
    w_user,
    w_item,  # (D,), (D,) changed in place
    branch_lr,
    branch_every,  # one triple in so many moves the shared vectors, at this rate
    item_weight,
    user_weight,
    every,
):
    """One SGD step for each triple; returns the sum of the recorded losses and their number."""
    dim = user_vectors.shape[1]
    keep = np.float32(1.0) - lr * reg
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        y_i, y_j, z_u, z_i, z_j, g, h, at_u, at_i, at_j = slopes(P, A, B, w_user, w_item, item_weight, user_weight)
        if m % every == 0:
            recorded += 1
            loss += loss_of(y_i, y_j, z_u, z_i, z_j, item_weight, user_weight)
        c_u, c_i, c_j = branch_lr * at_u, branch_lr * at_i, branch_lr * at_j
        g, h, at_u, at_i, at_j = lr * g, lr * h, lr * at_u, lr * at_i, lr * at_j
        if m % branch_every == 0:  # the two loops differ by the shared vectors
            for d in range(dim):
                p, a, b, w, v = P[d], A[d], B[d], w_user[d], w_item[d]
                P[d] = keep * p + g * a + h * b + at_u * w
                A[d] = keep * a + g * p + at_i * v
                B[d] = keep * b + h * p + at_j * v
                w_user[d] = w + c_u * p
                w_item[d] = v + c_i * a + c_j * b
        else:
            for d in range(dim):
                p, a, b, v = P[d], A[d], B[d], w_item[d]
                P[d] = keep * p + g * a + h * b + at_u * w_user[d]
                A[d] = keep * a + g * p + at_i * v
                B[d] = keep * b + h * p + at_j * v
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
    w_user,
    w_item,
    item_weight,
    user_weight,
    every,
    user_gradient,
    item_gradient,
    at_w_user,
    at_w_item,  # (U, D), (I, D), (D,), (D,) added to
):
    """Adds the gradient of each triple's loss; returns the sum of the recorded losses and their number."""
    dim = user_vectors.shape[1]
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = users[order[m]], items[order[m]], negatives[order[m]]
        P, A, B = user_vectors[u], item_vectors[i], item_vectors[j]
        G, H, K = user_gradient[u], item_gradient[i], item_gradient[j]
        y_i, y_j, z_u, z_i, z_j, g, h, at_u, at_i, at_j = slopes(P, A, B, w_user, w_item, item_weight, user_weight)
        if m % every == 0:
            recorded += 1
            loss += loss_of(y_i, y_j, z_u, z_i, z_j, item_weight, user_weight)
        for d in range(dim):
            p, a, b, v = P[d], A[d], B[d], w_item[d]
            G[d] += reg * p - g * a - h * b - at_u * w_user[d]
            H[d] += reg * a - g * p - at_i * v
            K[d] += reg * b - h * p - at_j * v
            at_w_user[d] -= at_u * p
            at_w_item[d] -= at_i * a + at_j * b
    return loss, recorded
