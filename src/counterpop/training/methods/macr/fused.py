"""MACR: every program moves its own copy of the two shared vectors, and the copies are averaged now and then.

The native engine's threads do the same. A step by everything that is in flight at once is too long for them: on ML-10M,
with batches of 4096, the vectors swing from one side to the other.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.device.launching import Launch, add_losses, add_row, any_taken, parts_of, row_of, softplus
from counterpop.training.device.losses import OWN_RATE
from counterpop.training.methods.macr import MACR, MEETINGS
from counterpop.training.settings import Settings

MOST_RATE = 1 / 2  # of the learning rate, for a copy


def step_epoch(
    tables: tuple[Tensor, Tensor], triples: Tensor, lr: float, settings: Settings, method: MACR, branches: Tensor
) -> Tensor:
    """Steps along all triples, also of branches (2, D); returns the mean recorded loss.

    The mean of the copies moves by OWN_RATE x lr for each triple, as with batches, unless a copy of this few triples
    would have to move faster than MOST_RATE.
    """
    launch = Launch(tables[0].shape[1], rows=1, warps=1, of=triples.shape[1])  # which no other warp waits for
    weights = float(method.item_weight), float(method.user_weight)
    losses = []
    for part in parts_of(triples, MEETINGS):
        before = branches.clone()
        own = before, branches.zero_(), OWN_RATE, MOST_RATE, *weights
        losses.append(launch(_step, tables, part, lr, settings, *own))
    return torch.stack(losses).mean()


@triton.jit
def _step(
    P,
    Q,
    users,
    items,
    negatives,
    n,
    lr,
    reg,
    every,
    loss,
    before,
    after,  # (2, D), (2, D): the mean of the copies is added to the second
    own_rate,
    most_rate,
    item_weight,
    user_weight,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    column = tl.arange(0, WIDTH)
    d = column[None, :]
    programs = tl.num_programs(0)
    keep = -lr * reg
    branch_lr = lr * tl.minimum(own_rate * programs, most_rate)
    w_user = tl.load(before + column, column < D, 0.0)
    w_item = tl.load(before + D + column, column < D, 0.0)
    for first in range(tl.program_id(0) * ROWS, n, programs * ROWS):
        m = first + tl.arange(0, ROWS)
        here = m < n
        inside = here[:, None] & (d < D)
        at_u = row_of(users, m, here)[:, None] * D + d
        at_i = row_of(items, m, here)[:, None] * D + d
        at_j = row_of(negatives, m, here)[:, None] * D + d
        p = tl.load(P + at_u, inside, 0.0)
        a = tl.load(Q + at_i, inside, 0.0)
        b = tl.load(Q + at_j, inside, 0.0)
        l_u = tl.sum(p * w_user[None, :], 1)
        l_i = tl.sum(a * w_item[None, :], 1)
        l_j = tl.sum(b * w_item[None, :], 1)
        z_u = tl.sigmoid(l_u)
        z_i = tl.sigmoid(l_i)
        z_j = tl.sigmoid(l_j)
        y_i = tl.sum(p * a, 1) * z_u * z_i
        y_j = tl.sum(p * b, 1) * z_u * z_j
        e_i = tl.sigmoid(-y_i)
        e_j = -tl.sigmoid(y_j)
        g = (lr * e_i * z_u * z_i)[:, None]
        h = (lr * e_j * z_u * z_j)[:, None]
        for_i = (e_i * y_i * (1 - z_i) + item_weight * (1 - z_i))[:, None]
        for_j = (e_j * y_j * (1 - z_j) - item_weight * z_j)[:, None]
        for_u = ((e_i * y_i + e_j * y_j) * (1 - z_u) + user_weight * (1 - 2 * z_u))[:, None]
        add_row(P, at_u, keep * p + g * a + h * b + lr * for_u * w_user[None, :], inside)
        add_row(Q, at_i, keep * a + g * p + lr * for_i * w_item[None, :], inside)
        add_row(Q, at_j, keep * b + h * p + lr * for_j * w_item[None, :], inside)
        w_user += branch_lr * tl.sum(for_u * p, 0)
        w_item += branch_lr * tl.sum(for_i * a + for_j * b, 0)
        if any_taken(first, ROWS, every):
            taken = here & (m % every == 0)
            match = softplus(-y_i) + softplus(y_j)
            item = softplus(-l_i) + softplus(l_j)
            user = softplus(-l_u) + softplus(l_u)
            add_losses(loss, match + item_weight * item + user_weight * user, taken)
    add_row(after, column, w_user / programs, column < D)
    add_row(after + D, column, w_item / programs, column < D)
