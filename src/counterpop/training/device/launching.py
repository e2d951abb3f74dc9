"""What the Triton kernels share: how they are launched, where a triple's rows are, and what is recorded.

A program goes through the triples with a stride, ROWS at a time, and adds its steps to the tables: steps that meet in a
row are added up, in no fixed order. A method's kernel is in its `fused.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.settings import Settings

LEAST = 128  # triples in a part


def parts_of(triples: Tensor, most: int) -> tuple[Tensor, ...]:
    """An epoch's triples (3, n), cut into parts: between them, no program is running."""
    return triples.chunk(max(1, min(most, triples.shape[1] // LEAST)), dim=1)


@dataclass(frozen=True)
class Launch:
    """How a kernel is spread over the card."""

    width: int
    """Numbers of a row that are held together."""
    rows: int = 4
    """Triples that a program holds at a time."""
    warps: int = 4
    of: int | None = None
    """Triples of the whole epoch, if these are a part of it."""
    all_at_once: bool = False
    """Whether no step waits for another; otherwise about `settings.batch` triples are in flight."""

    def __call__(
        self,
        kernel: Any,
        tables: tuple[Tensor, Tensor],
        triples: Tensor,
        lr: float,
        settings: Settings,
        *own: object,
        **constants: object,
    ) -> Tensor:
        """Steps along all triples (3, n); returns the mean recorded loss. `own` and `constants` are its own."""
        n, every = triples.shape[1], settings.ledger_every
        loss = torch.zeros(1, device=triples.device)
        whole = self.of or n
        in_flight = whole // settings.steps(whole)
        programs = -(-n // self.rows) if self.all_at_once else max(1, in_flight // self.rows)
        shape = {"D": tables[0].shape[1], "WIDTH": triton.next_power_of_2(self.width), "ROWS": self.rows}
        rates = float(lr), float(settings.reg), every
        kernel[(programs,)](*tables, *triples.int(), n, *rates, loss, *own, **shape, num_warps=self.warps, **constants)
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
    """Whether one of these triples is recorded: one in `every`. Needs no exchange between warps."""
    return (first + rows - 1) // every * every >= first


@triton.jit
def add_losses(loss, losses, taken):
    tl.atomic_add(loss, tl.sum(tl.where(taken, losses, 0.0), 0), sem="relaxed")
