"""A whole epoch of matrix factorisation in one kernel on a GPU (Triton, which comes with torch)."""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

from counterpop.training.device.triples import DeviceLedger
from counterpop.training.settings import Settings

ROWS = 4  # triples that one program holds at a time


def step_epoch(
    users: Tensor, items: Tensor, triples: Tensor, lr: float, settings: Settings, ledger: DeviceLedger | None
) -> Tensor:
    """Steps along all triples (3, n), about `settings.batch` at a time; returns the mean recorded loss.

    Steps that meet in a row are added up, in no fixed order.
    """
    n, dim, every = triples.shape[1], users.shape[1], settings.ledger_every
    loss = torch.zeros(1, device=users.device)
    u, i, j = triples.int()
    programs = max(1, n // settings.steps(n) // ROWS)
    _step[(programs,)](
        users, items, u, i, j, n, lr, settings.reg, loss,
        ledger.items if ledger else users, ledger.users if ledger else users, every,
        D=dim, WIDTH=triton.next_power_of_2(dim), ROWS=ROWS, BCE=settings.loss == "bce",
        NORMALISED=settings.normalises, LEDGER=ledger is not None, num_warps=4,
    )  # fmt: skip
    if ledger:
        ledger.count(n)
    return loss[0] / -(-n // every)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _step(  # type: ignore[no-untyped-def]
    P, Q, users, items, negatives, n, lr, reg, loss, item_ledger, user_ledger, every,
    D: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, BCE: tl.constexpr,
    NORMALISED: tl.constexpr, LEDGER: tl.constexpr,
) -> Any:  # fmt: skip
    """Each program goes through the triples with a stride; see `pulls` for the mathematics."""
    d = tl.arange(0, WIDTH)[None, :]
    for first in range(tl.program_id(0) * ROWS, n, tl.num_programs(0) * ROWS):
        m = first + tl.arange(0, ROWS)
        here = m < n
        inside = here[:, None] & (d < D)
        at_u = tl.load(users + m, here, 0).to(tl.int64)[:, None] * D + d
        at_i = tl.load(items + m, here, 0).to(tl.int64)[:, None] * D + d
        at_j = tl.load(negatives + m, here, 0).to(tl.int64)[:, None] * D + d
        p = tl.load(P + at_u, inside, 0.0)
        a = tl.load(Q + at_i, inside, 0.0)
        b = tl.load(Q + at_j, inside, 0.0)
        scale = tl.full((ROWS,), 1.0, tl.float32)
        if NORMALISED:
            scale = tl.rsqrt(tl.sum(p * p, 1) + 1e-12)
        s_i = tl.sum(p * a, 1) * scale
        s_j = tl.sum(p * b, 1) * scale
        if BCE:
            g_i = tl.sigmoid(-s_i)
            g_j = tl.sigmoid(s_j)
        else:
            g_i = tl.sigmoid(s_j - s_i)
            g_j = g_i
        keep = tl.full((ROWS,), 0.0, tl.float32) - lr * reg
        back = keep
        if NORMALISED:
            back = keep - lr * (g_i * s_i - g_j * s_j) * scale * scale
        step_i = (lr * g_i * scale)[:, None]
        step_j = (lr * g_j * scale)[:, None]
        tl.atomic_add(P + at_u, back[:, None] * p + step_i * a - step_j * b, inside, "relaxed")
        tl.atomic_add(Q + at_i, keep[:, None] * a + step_i * p, inside, "relaxed")
        tl.atomic_add(Q + at_j, keep[:, None] * b - step_j * p, inside, "relaxed")
        taken = here & (m % every == 0)
        if tl.max(taken.to(tl.int32), 0) > 0:
            if BCE:
                lost = tl.log(1 + tl.exp(-tl.abs(s_i))) + tl.maximum(-s_i, 0.0)
                lost += tl.log(1 + tl.exp(-tl.abs(s_j))) + tl.maximum(s_j, 0.0)
            else:
                lost = tl.log(1 + tl.exp(-tl.abs(s_j - s_i))) + tl.maximum(s_j - s_i, 0.0)
            tl.atomic_add(loss, tl.sum(tl.where(taken, lost, 0.0), 0), sem="relaxed")
            if LEDGER:
                rows = taken[:, None] & inside
                p = p * scale[:, None]
                ledger_i = item_ledger + (at_i - d) * 4 + d
                ledger_j = item_ledger + (at_j - d) * 4 + d
                ledger_u = user_ledger + (at_u - d) * 4 + d
                tl.atomic_add(ledger_i, p, rows, "relaxed")
                tl.atomic_add(ledger_j + D, p, rows, "relaxed")
                tl.atomic_add(ledger_i + 2 * D, g_i[:, None] * p, rows, "relaxed")
                tl.atomic_add(ledger_j + 3 * D, g_j[:, None] * p, rows, "relaxed")
                tl.atomic_add(ledger_u, a, rows, "relaxed")
                tl.atomic_add(ledger_u + D, b, rows, "relaxed")
                tl.atomic_add(ledger_u + 2 * D, g_i[:, None] * a, rows, "relaxed")
                tl.atomic_add(ledger_u + 3 * D, g_j[:, None] * b, rows, "relaxed")
