"""The product of a sparse graph with vectors, in a Triton kernel.

A program adds up one stretch of a row's entries, so that long rows do not keep the card waiting; stretches of one row
meet in no fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

STRETCH = 128  # entries of a row that one program adds up
AT_ONCE = 8  # of them that it reads together


@dataclass(frozen=True)
class Stretches:
    """The rows of a graph, cut into stretches: of which row each is, its first entry and the end of it."""

    rows: Tensor
    starts: Tensor
    ends: Tensor
    columns: Tensor
    """Of every entry of the graph."""


def cut(graph: Tensor) -> Stretches:
    """The stretches of a graph in CSR; rows without entries have none."""
    starts = graph.crow_indices()
    number = (starts.diff() + STRETCH - 1) // STRETCH
    rows = torch.repeat_interleave(torch.arange(len(number), device=starts.device), number)
    place = torch.arange(len(rows), device=starts.device) - (number.cumsum(0) - number)[rows]
    first = starts[rows] + place * STRETCH
    end = torch.minimum(first + STRETCH, starts[rows + 1])
    return Stretches(rows.int(), first.int(), end.int(), graph.col_indices().int())


def add_product(into: Tensor, values: Tensor, stretches: Stretches, vectors: Tensor) -> Tensor:
    """Adds graph @ vectors to `into` (N, D), and returns it; sums are float32 whatever the type of the vectors."""
    D = vectors.shape[1]
    parts = stretches.rows, stretches.starts, stretches.ends, stretches.columns, values
    shape = {"D": D, "WIDTH": triton.next_power_of_2(D), "AT_ONCE": AT_ONCE}
    _add[(len(stretches.rows),)](*parts, vectors, into, **shape, num_warps=1)
    return into


@triton.jit
def _add(
    rows, starts, ends, columns, values, vectors, into, D: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr
):
    stretch = tl.program_id(0)
    start = tl.load(starts + stretch)
    end = tl.load(ends + stretch)
    d = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    for first in range(start, end, AT_ONCE):
        entry = first + tl.arange(0, AT_ONCE)
        there = entry < end
        column = tl.load(columns + entry, there, 0).to(tl.int64)
        value = tl.load(values + entry, there, 0.0)
        inside = there[:, None] & (d[None, :] < D)
        row = tl.load(vectors + column[:, None] * D + d[None, :], inside, 0.0).to(tl.float32)
        total += tl.sum(row * value[:, None], 0)
    at = tl.load(rows + stretch).to(tl.int64) * D + d
    tl.atomic_add(into + at, total, d < D, "relaxed")
