"""What the kernels share: how they are launched, where a triple's rows are, and what is recorded.

A program goes through the triples with a stride, ROWS at a time, and adds its steps to the tables: steps that
meet in a row are added up, in no fixed order. Every file here has its mathematics from the file of the same
name in `kernels`; `scores` from `kernels.mf`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.settings import Settings

LEAST = 128  # triples of a part


def parts_of(triples: Tensor, most: int) -> tuple[Tensor, ...]:
    """An epoch's triples (3, n), cut into parts: it stops where something belongs to no program."""
    return triples.chunk(max(1, min(most, triples.shape[1] // LEAST)), dim=1)


def launch(
    kernel: Any,
    users: Tensor,
    items: Tensor,
    triples: Tensor,
    lr: float,
    settings: Settings,
    *own: object,
    width: int,
    of: int | None = None,
    all_at_once: bool = False,
    rows: int = 4,
    warps: int = 4,
    **constants: object,
) -> Tensor:
    """Steps along all triples (3, n), about `settings.batch` at a time; returns the mean recorded loss.

    `own` and `constants` are what this kernel alone takes. A program holds `rows` triples at a time, and
    `width` numbers of a row together. `of` is how many triples the whole epoch has, where these are a part.
    `all_at_once` where no step waits for another.
    """
    n, every = triples.shape[1], settings.ledger_every
    loss = torch.zeros(1, device=users.device)
    whole = of or n
    programs = -(-n // rows) if all_at_once else max(1, whole // settings.steps(whole) // rows)
    kernel[(programs,)](
        users,
        items,
        *triples.int(),
        n,
        float(lr),
        float(settings.reg),
        every,
        loss,
        *own,
        D=users.shape[1],
        WIDTH=triton.next_power_of_2(width),
        ROWS=rows,
        num_warps=warps,
        **constants,
    )
    return loss[0] / -(-n // every)


@triton.jit
def row_of(positions, m, here):
    """The row that each of the triples m names."""
    return tl.load(positions + m, here, 0).to(tl.int64)


@triton.jit
def softplus(x):
    return tl.log(1 + tl.exp(-tl.abs(x))) + tl.maximum(x, 0.0)


@triton.jit
def add_row(table, at, step, inside):
    tl.atomic_add(table + at, step, inside, "relaxed")


@triton.jit
def any_taken(first, rows, every):
    """Whether one of these triples is recorded: one in `every`. No other warp need be asked."""
    return (first + rows - 1) // every * every >= first


@triton.jit
def add_losses(loss, losses, taken):
    tl.atomic_add(loss, tl.sum(tl.where(taken, losses, 0.0), 0), sem="relaxed")
