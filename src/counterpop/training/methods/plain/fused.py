"""Plain, gradient and IPS: BPR or BCE on inner products, with a ledger where one is kept."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from counterpop.ledger import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE
from counterpop.training.device.launching import Launch, add_losses, add_row, any_taken, row_of, softplus
from counterpop.training.device.ledger import DeviceLedger
from counterpop.training.settings import Settings

TO_PULL, TO_PUSH = tl.constexpr(PULL), tl.constexpr(PUSH)
TO_PULL_SLOPE, TO_PUSH_SLOPE = tl.constexpr(PULL_SLOPE), tl.constexpr(PUSH_SLOPE)


def step(
    tables: tuple[Tensor, Tensor],
    triples: Tensor,
    lr: float,
    settings: Settings,
    weights: Tensor | None,
    ledger: DeviceLedger | None,
    into: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Steps along all triples; returns the mean recorded loss. `weights` (I,) belong to the seen items.

    The steps move the tables of users and items, or are added to the two tables `into`, all at once: at lr -1 that is
    the gradient, a step of length 1 backwards.
    """
    users = tables[0]
    launch = Launch(users.shape[1], all_at_once=into is not None)
    sums = (ledger.items, ledger.users) if ledger else tables  # unused without a ledger
    own = *(into or tables), users if weights is None else weights, *sums
    kind = {"BCE": settings.loss == "bce", "NORMALISED": settings.normalises}
    kind |= {"WEIGHTED": weights is not None, "LEDGER": ledger is not None}
    return launch(_step, tables, triples, lr, settings, *own, **kind)


@triton.jit
def slopes(s_i, s_j, weight, BCE: tl.constexpr):
    """How hard the loss pulls the seen item and pushes the negative."""
    if BCE:
        g_i = weight * tl.sigmoid(-s_i)
        g_j = tl.sigmoid(s_j)
    else:
        g_i = weight * tl.sigmoid(s_j - s_i)
        g_j = g_i
    return g_i, g_j


@triton.jit
def losses_of(s_i, s_j, weight, BCE: tl.constexpr):
    return weight * softplus(-s_i) + softplus(s_j) if BCE else weight * softplus(s_j - s_i)


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
    to_users,
    to_items,  # (U, D), (I, D) what the steps are added to: P and Q themselves in training MF
    weights,
    item_ledger,
    user_ledger,  # (I,), (I, 4, D), (U, 4, D); unused where there are none
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BCE: tl.constexpr,
    NORMALISED: tl.constexpr,
    WEIGHTED: tl.constexpr,
    LEDGER: tl.constexpr,
):
    d = tl.arange(0, WIDTH)[None, :]
    for first in range(tl.program_id(0) * ROWS, n, tl.num_programs(0) * ROWS):
        m = first + tl.arange(0, ROWS)
        here = m < n
        inside = here[:, None] & (d < D)
        i = row_of(items, m, here)
        at_u = row_of(users, m, here)[:, None] * D + d
        at_i = i[:, None] * D + d
        at_j = row_of(negatives, m, here)[:, None] * D + d
        p = tl.load(P + at_u, inside, 0.0)
        a = tl.load(Q + at_i, inside, 0.0)
        b = tl.load(Q + at_j, inside, 0.0)
        scale = tl.full((ROWS,), 1.0, tl.float32)
        if NORMALISED:
            scale = tl.rsqrt(tl.sum(p * p, 1) + 1e-12)
        weight = tl.full((ROWS,), 1.0, tl.float32)
        if WEIGHTED:
            weight = tl.load(weights + i, here, 0.0)
        s_i = tl.sum(p * a, 1) * scale
        s_j = tl.sum(p * b, 1) * scale
        g_i, g_j = slopes(s_i, s_j, weight, BCE)
        keep = tl.full((ROWS,), 0.0, tl.float32) - lr * reg
        back = keep
        if NORMALISED:
            back = keep - lr * (g_i * s_i - g_j * s_j) * scale * scale
        step_i = (lr * g_i * scale)[:, None]
        step_j = (lr * g_j * scale)[:, None]
        add_row(to_users, at_u, back[:, None] * p + step_i * a - step_j * b, inside)
        add_row(to_items, at_i, keep[:, None] * a + step_i * p, inside)
        add_row(to_items, at_j, keep[:, None] * b - step_j * p, inside)
        if any_taken(first, ROWS, every):
            taken = here & (m % every == 0)
            add_losses(loss, losses_of(s_i, s_j, weight, BCE), taken)
            if LEDGER:
                rows = taken[:, None] & inside
                p = p * scale[:, None]
                ledger_i = (at_i - d) * 4 + d
                ledger_j = (at_j - d) * 4 + d
                ledger_u = (at_u - d) * 4 + d
                add_row(item_ledger, ledger_i + TO_PULL * D, p, rows)
                add_row(item_ledger, ledger_j + TO_PUSH * D, p, rows)
                add_row(item_ledger, ledger_i + TO_PULL_SLOPE * D, g_i[:, None] * p, rows)
                add_row(item_ledger, ledger_j + TO_PUSH_SLOPE * D, g_j[:, None] * p, rows)
                add_row(user_ledger, ledger_u + TO_PULL * D, a, rows)
                add_row(user_ledger, ledger_u + TO_PUSH * D, b, rows)
                add_row(user_ledger, ledger_u + TO_PULL_SLOPE * D, g_i[:, None] * a, rows)
                add_row(user_ledger, ledger_u + TO_PUSH_SLOPE * D, g_j[:, None] * b, rows)
