"""MACR for the CPU. Each thread has its own copy of the two shared vectors (MF), or of their gradient (LightGCN)."""

from __future__ import annotations

import numpy as np
from numba import njit

from counterpop.embeddings import FloatArray
from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.drawing import Triples
from counterpop.kernels.graph import adam
from counterpop.runs import Model
from counterpop.training.methods.macr import MACR, MEETINGS, first_branches, with_branch
from counterpop.training.native import Objective, Recorded, Tables
from counterpop.training.settings import Settings

BRANCH_EVERY = 16  # one triple in 16 moves the shared vectors of MF, which see millions of them,
BRANCH_RATE = 1 / 16  # at this share of the learning rate, for the same reason


class MACRObjective(Objective):
    """Each thread moves its own copy of the shared vectors, and the copies are averaged."""

    meetings = MEETINGS

    def __init__(self, train: Interactions, settings: Settings, threads: int, method: MACR) -> None:
        super().__init__(train, settings, threads)
        self._weights = np.float32(method.item_weight), np.float32(method.user_weight)
        self._branches = first_branches(settings)  # (2, D) of users, of items
        self._copies = np.stack([self._branches] * threads)
        self._gradient = np.zeros_like(self._copies)
        self._mean, self._square = np.zeros_like(self._branches), np.zeros_like(self._branches)

    def step(
        self, part: int, tables: Tables, triples: Triples, order: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        branches, moved = self._copies[part], self._gradient[part]
        rates = np.float32(lr), self._reg
        pace = np.float32(BRANCH_RATE * lr if into is None else lr), BRANCH_EVERY if into is None else 1
        every = self._settings.ledger_every
        recorded: Recorded = walk(tables, into, triples, order, rates, branches, moved, pace, self._weights, every)
        return recorded

    def after_steps(self, tables: Tables, triples: float, lr: float) -> None:
        self._meet(self._copies.mean(axis=0))

    def after_gradient(self, tables: Tables, gradient: Tables, triples: float, lr: float, step: int) -> None:
        adam(self._branches, self._gradient.sum(axis=0), self._mean, self._square, lr, step)
        self._gradient[:] = 0
        self._meet(self._branches)

    def _meet(self, branches: FloatArray) -> None:
        self._branches = branches
        self._copies[:] = branches

    def model(self, tables: Tables, triples: int, recorded: int, copy: bool) -> Model:
        return with_branch(self._embeddings(tables, copy=False), self._branches[1])


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def sigmoid(x):
    """1 / (1 + exp(-x)) to 3e-7: five exponentials for each triple would take a third of the time.

    1/2 + x p(x^2) / q(x^2) on [-16, 16], a least-squares fit with a largest error of 7e-8 before rounding.
    """
    x = min(max(x, np.float32(-16.0)), np.float32(16.0))
    y = x * x
    p = ((np.float32(4.41805e-8) * y + np.float32(4.5919154e-5)) * y + np.float32(8.071025e-3)) * y
    q = (np.float32(9.46811e-10) * y + np.float32(3.7035661e-6)) * y + np.float32(1.4852387e-3)
    q = (q * y + np.float32(0.11561684)) * y + np.float32(1.0)
    return np.float32(0.5) + x * (p + np.float32(0.24999984)) / q


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
    z_u, z_i, z_j = sigmoid(l_u), sigmoid(l_i), sigmoid(l_j)
    y_i, y_j = s_i * z_u * z_i, s_j * z_u * z_j
    e_i, e_j = sigmoid(-y_i), -sigmoid(y_j)
    at_i = e_i * y_i * (one - z_i) + item_weight * (one - z_i)
    at_j = e_j * y_j * (one - z_j) - item_weight * z_j
    at_u = (e_i * y_i + e_j * y_j) * (one - z_u) + user_weight * (one - z_u - z_u)
    return y_i, y_j, z_u, z_i, z_j, e_i * z_u * z_i, e_j * z_u * z_j, at_u, at_i, at_j


@njit(nogil=True, cache=True)
def loss_of(y_i, y_j, z_u, z_i, z_j, item_weight, user_weight):
    """The loss of a triple without L2."""
    match = np.logaddexp(0.0, -y_i) + np.logaddexp(0.0, y_j)
    least = 1e-12
    item = -np.log(max(z_i, least)) - np.log(max(1.0 - z_j, least))
    user = -np.log(max(z_u, least)) - np.log(max(1.0 - z_u, least))
    return match + item_weight * item + user_weight * user


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy", inline="always")
def steps_of(p, a, b, w, v, by):
    """What one number of the user's row and of both items' rows moves by; w and v are of the shared vectors."""
    fall, g_i, g_j, at_u, at_i, at_j = by
    return fall * p + g_i * a + g_j * b + at_u * w, fall * a + g_i * p + at_i * v, fall * b + g_j * p + at_j * v


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def walk(tables, into, triples, order, rates, branches, moved, pace, weights, every):
    """Steps along each triple, as in `plain.native.walk`.

    z_u = sg(w_user.P_u), z_i = sg(w_item.Q_i). Loss: BCE of s z_u z for the seen item and the negative + item_weight x
    BCE of z (seen 1, negative 0) + user_weight x BCE of z_u (as seen, and as negative) + reg/2 of the squared rows.
    branches (2, D): w_user and w_item, moved in place unless `into` is given; then `moved` takes their steps. pace:
    their learning rate, and one triple in how many moves them. weights: of items, of users.
    """
    dim = tables.users.shape[1]
    (lr, reg), (branch_lr, branch_every), (item_weight, user_weight) = rates, pace, weights
    fall = -lr * reg
    w_user, w_item = branches[0], branches[1]
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = triples.users[order[m]], triples.items[order[m]], triples.negatives[order[m]]
        P, A, B = tables.users[u], tables.items[i], tables.items[j]
        if into is not None:
            G, H, K = into.users[u], into.items[i], into.items[j]
        y_i, y_j, z_u, z_i, z_j, g_i, g_j, at_u, at_i, at_j = slopes(P, A, B, w_user, w_item, item_weight, user_weight)
        if m % every == 0:
            recorded += 1
            loss += loss_of(y_i, y_j, z_u, z_i, z_j, item_weight, user_weight)
        c_u, c_i, c_j = branch_lr * at_u, branch_lr * at_i, branch_lr * at_j
        g_i, g_j, at_u, at_i, at_j = lr * g_i, lr * g_j, lr * at_u, lr * at_i, lr * at_j
        by = fall, g_i, g_j, at_u, at_i, at_j
        if into is not None:
            for d in range(dim):
                to_p, to_a, to_b = steps_of(P[d], A[d], B[d], w_user[d], w_item[d], by)
                G[d] += to_p
                H[d] += to_a
                K[d] += to_b
                moved[0, d] += c_u * P[d]
                moved[1, d] += c_i * A[d] + c_j * B[d]
        elif m % branch_every == 0:
            for d in range(dim):
                p, a, b, w, v = P[d], A[d], B[d], w_user[d], w_item[d]
                to_p, to_a, to_b = steps_of(p, a, b, w, v, by)
                P[d], A[d], B[d] = p + to_p, a + to_a, b + to_b
                w_user[d], w_item[d] = w + c_u * p, v + c_i * a + c_j * b
        else:
            for d in range(dim):
                p, a, b = P[d], A[d], B[d]
                to_p, to_a, to_b = steps_of(p, a, b, w_user[d], w_item[d], by)
                P[d], A[d], B[d] = p + to_p, a + to_a, b + to_b
    return loss, recorded
