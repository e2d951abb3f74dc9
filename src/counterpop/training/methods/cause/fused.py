"""CausE: a triple moves both rows, control and treatment, of its two items."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.device.launching import Launch, add_losses, add_row, any_taken, row_of
from counterpop.training.methods.plain.fused import losses_of, slopes
from counterpop.training.settings import Settings


def step_epoch(tables: tuple[Tensor, Tensor], triples: Tensor, lr: float, settings: Settings, penalty: float) -> Tensor:
    """Steps along all triples, items (2I, D); returns the mean recorded loss."""
    users, items = tables
    own = len(items) // 2, penalty / items.shape[1]
    return Launch(users.shape[1])(_step, tables, triples, lr, settings, *own, BCE=settings.loss == "bce")


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
    n_items,
    penalty,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BCE: tl.constexpr,
):
    d = tl.arange(0, WIDTH)[None, :]
    keep = -lr * reg
    near = 2 * lr * penalty
    for first in range(tl.program_id(0) * ROWS, n, tl.num_programs(0) * ROWS):
        m = first + tl.arange(0, ROWS)
        here = m < n
        inside = here[:, None] & (d < D)
        i = row_of(items, m, here)
        j = row_of(negatives, m, here)
        across = tl.where(i < n_items, n_items, -n_items)  # from a row to the same item's other one
        at_u = row_of(users, m, here)[:, None] * D + d
        at_i = i[:, None] * D + d
        at_j = j[:, None] * D + d
        at_other_i = (i + across)[:, None] * D + d
        at_other_j = (j + across)[:, None] * D + d
        p = tl.load(P + at_u, inside, 0.0)
        a = tl.load(Q + at_i, inside, 0.0)
        b = tl.load(Q + at_j, inside, 0.0)
        nearer_i = near * (tl.load(Q + at_other_i, inside, 0.0) - a)
        nearer_j = near * (tl.load(Q + at_other_j, inside, 0.0) - b)
        s_i = tl.sum(p * a, 1)
        s_j = tl.sum(p * b, 1)
        g_i, g_j = slopes(s_i, s_j, 1.0, BCE)
        step_i = (lr * g_i)[:, None]
        step_j = (lr * g_j)[:, None]
        add_row(P, at_u, keep * p + step_i * a - step_j * b, inside)
        add_row(Q, at_i, keep * a + step_i * p + nearer_i, inside)
        add_row(Q, at_j, keep * b - step_j * p + nearer_j, inside)
        add_row(Q, at_other_i, -nearer_i, inside)
        add_row(Q, at_other_j, -nearer_j, inside)
        if any_taken(first, ROWS, every):
            taken = here & (m % every == 0)
            add_losses(loss, losses_of(s_i, s_j, 1.0, BCE), taken)
