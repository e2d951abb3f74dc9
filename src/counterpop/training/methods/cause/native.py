"""CausE for the CPU. An item's treatment row is I rows after its control row; LightGCN's users have a second row too.

The items of a triple are both control rows or both treatment rows. An item's two rows belong to the same block, so
threads share no row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterpop.interactions import IntArray, Interactions
from counterpop.kernels.drawing import Triples
from counterpop.training.methods.plain.native import loss_of, slopes
from counterpop.training.native import Objective, Recorded, Tables
from counterpop.training.settings import Settings


class CausEObjective(Objective):
    def __init__(self, train: Interactions, settings: Settings, threads: int, penalty: float) -> None:
        super().__init__(train, settings, threads)
        self._penalty = np.float32(penalty / settings.dim)  # of the mean over D

    def step(
        self, part: int, tables: Tables, triples: Triples, order: IntArray, lr: float, into: Tables | None = None
    ) -> Recorded:
        rates = np.float32(lr), self._reg, self._penalty
        recorded: Recorded = walk(tables, into, triples, order, rates, self._bce, self._settings.ledger_every)
        return recorded


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def walk(tables, into, triples, order, rates, bce, every):
    """Steps along each triple, as in `plain.native.walk`, + penalty x the sum of squared differences of each item's
    two rows.

    tables: users (U, D), or (2U, D) with `into`, whose second half belongs to treatment triples; items (2I, D).
    rates: lr, reg, penalty.
    """
    dim, n_items = tables.users.shape[1], len(tables.items) // 2
    one = np.float32(1.0)
    lr, reg, penalty = rates
    fall, near = -lr * reg, np.float32(2.0) * lr * penalty
    loss, recorded = 0.0, 0
    for m in range(len(order)):
        u, i, j = triples.users[order[m]], triples.items[order[m]], triples.negatives[order[m]]
        other = -n_items if i >= n_items else n_items
        if into is not None and i >= n_items:
            u += len(tables.users) // 2
        P, A, B, C, E = (
            tables.users[u],
            tables.items[i],
            tables.items[j],
            tables.items[i + other],
            tables.items[j + other],
        )
        if into is not None:
            G, H, K, S, T = into.users[u], into.items[i], into.items[j], into.items[i + other], into.items[j + other]
        _, s_i, s_j, g_i, g_j = slopes(P, A, B, bce, False, one)
        if m % every == 0:
            recorded += 1
            loss += loss_of(s_i, s_j, bce, one)
        step_i, step_j = lr * g_i, lr * g_j
        for d in range(dim):
            p, a, b, c, e = P[d], A[d], B[d], C[d], E[d]
            to_c, to_e = near * (a - c), near * (b - e)
            to_p = fall * p + step_i * a - step_j * b
            to_a, to_b = fall * a + step_i * p - to_c, fall * b - step_j * p - to_e
            if into is None:
                P[d], A[d], B[d], C[d], E[d] = p + to_p, a + to_a, b + to_b, c + to_c, e + to_e
            else:
                G[d] += to_p
                H[d] += to_a
                K[d] += to_b
                S[d] += to_c
                T[d] += to_e
    return loss, recorded
