"""`log_sum_exp` in Triton kernels: scores are computed tile by tile and never leave the chip.

Forward, a program holds some queries and goes through a part of the keys; the sums of the parts are joined afterwards.
Backward, one kernel does the same for the queries and, with the two sides exchanged, for the keys. Each program writes
the gradient of its own part, so sums always come in the same order. Products take half precision and add up in float32:
half has the 10 bits of tf32 at twice its speed. It lacks range, so weights are scaled before they are rounded.
Limit: a vector with a number above 65,504 gives infinity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.device import contrast


class Tiles(NamedTuple):
    """How a kernel is cut."""

    rows: int
    """Held by a program; halved if operands are float32."""
    columns: int
    """Gone through at a time; halved likewise."""
    warps: int
    stages: int
    programs: int = 264
    """Maximum number that columns are divided among, if the rows give fewer: two for each multiprocessor of an H200."""


OPERANDS = torch.float16  # of the products; float32 stands for tf32
# by the width of a row
FORWARD = {64: Tiles(128, 128, 8, 3), 128: Tiles(64, 128, 4, 3), 256: Tiles(128, 128, 8, 2)}
BACKWARD = {64: Tiles(128, 64, 8, 3), 128: Tiles(64, 128, 4, 2), 256: Tiles(64, 64, 4, 2)}
SMALL = Tiles(64, 32, 4, 2)  # on a card with less shared memory than an H100
LEAST = 16  # numbers of a row in a product

LOWEST = tl.constexpr(contrast.LOWEST)
LOG2E = tl.constexpr(1.4426950408889634)
SHIFT = tl.constexpr(14)  # weights are multiplied by 2 ** 14, so that those above 4e-9 keep all their bits
UNSHIFT = tl.constexpr(2.0**-14)


def fused_log_sum_exp(
    queries: Tensor, keys: Tensor, bias: Tensor, labels: tuple[Tensor, Tensor], kinds: Tensor | None = None
) -> Tensor:
    """As `contrast.log_sum_exp`."""
    rows = bias[None] if kinds is None else bias
    sums: list[Tensor] = [FusedLogSumExp.apply(queries, keys, one, labels) for one in rows]
    return sums[0] if kinds is None else torch.stack(sums).gather(0, kinds[None])[0]


class FusedLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, bias: Tensor, labels: tuple[Tensor, Tensor]) -> Tensor:
        operands = queries.to(OPERANDS).contiguous(), keys.to(OPERANDS).contiguous()
        known = bias.contiguous(), (labels[0].contiguous(), labels[1].contiguous())
        sums = sums_of(*operands, *known).logsumexp(0)
        ctx.save_for_backward(*operands, known[0], *known[1], sums)
        return sums

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        queries, keys, bias, *labels, sums = ctx.saved_tensors
        slope = slopes[0].contiguous()
        known = (queries, keys), bias, (labels[0], labels[1]), sums, slope, slope.abs().amax()
        to_queries, to_keys = (
            gradient_of(*known, of_keys=of_keys).sum(0) if ctx.needs_input_grad[of_keys] else None
            for of_keys in (False, True)
        )
        return to_queries, to_keys, None, None


def tiles_of(table: dict[int, Tiles], rows: Tensor) -> tuple[Tiles, int]:
    """The tiles for such rows (., D), and the power of two they are padded to."""
    width = max(LEAST, triton.next_power_of_2(rows.shape[1]))
    tiles = table[max(width, min(table))] if has_room(rows.device) else SMALL
    rows_held, columns = (size * 2 // rows.element_size() for size in tiles[:2])
    return tiles._replace(rows=rows_held, columns=columns), width


def has_room(device: torch.device) -> bool:
    """Whether programs get 200 KB of shared memory."""
    return device.type != "cuda" or torch.cuda.get_device_capability(device)[0] in (9, 10)


def parts_of(rows: int, columns: int, tiles: Tiles) -> tuple[int, int]:
    """Into how many parts the columns are cut, and the length of each."""
    blocks = triton.cdiv(columns, tiles.columns)
    parts = max(1, min(blocks, tiles.programs // triton.cdiv(rows, tiles.rows)))
    length = triton.cdiv(blocks, parts) * tiles.columns
    return triton.cdiv(columns, length), length


def sums_of(queries: Tensor, keys: Tensor, bias: Tensor, labels: tuple[Tensor, Tensor]) -> Tensor:
    """(parts, B) the log-sum-exp of each query over a part of the keys; -1e30 where none is left.

    Queries and keys are operands of one type, contiguous.
    """
    (B, D), N = queries.shape, len(keys)
    tiles, width = tiles_of(FORWARD, queries)
    parts, length = parts_of(B, N, tiles)
    out = torch.empty(parts, B, device=queries.device)
    shape = {"D": D, "WIDTH": width, "ROWS": tiles.rows, "COLUMNS": tiles.columns}
    how = {"num_warps": tiles.warps, "num_stages": tiles.stages}
    _sum[(triton.cdiv(B, tiles.rows), parts)](queries, keys, bias, *labels, out, B, N, length, **shape, **how)
    return out


def gradient_of(
    operands: tuple[Tensor, Tensor],
    bias: Tensor,
    labels: tuple[Tensor, Tensor],
    sums: Tensor,
    slopes: Tensor,
    largest: Tensor,
    *,
    of_keys: bool,
) -> Tensor:
    """(parts, B, D) or, of keys, (parts, N, D): the gradient at queries or keys, cut by the part it comes from.

    sums, slopes (B,): the log-sum-exps and the slopes of a loss by them; `largest` (): the largest of these.
    """
    x, y = reversed(operands) if of_keys else operands
    own, others = reversed(labels) if of_keys else labels
    (M, D), N = x.shape, len(y)
    tiles, width = tiles_of(BACKWARD, x)
    parts, length = parts_of(M, N, tiles)
    out = torch.empty(parts, M, D, device=x.device)
    shape = {"D": D, "WIDTH": width, "ROWS": tiles.rows, "COLUMNS": tiles.columns, "OF_KEYS": of_keys}
    how = {"num_warps": tiles.warps, "num_stages": tiles.stages}
    known = x, y, bias, sums, slopes, largest, own, others
    _gradient[(triton.cdiv(M, tiles.rows), parts)](*known, out, M, N, length, **shape, **how)
    return out


@triton.jit
def load_rows(table, m, n, D: tl.constexpr, WIDTH: tl.constexpr):
    d = tl.arange(0, WIDTH)[None, :]
    return tl.load(table + m.to(tl.int64)[:, None] * D + d, (m < n)[:, None] & (d < D), 0.0)


@triton.jit(do_not_specialize=["B", "N", "length"])
def _sum(
    queries,
    keys,
    bias,
    own,
    others,  # labels
    out,
    B,
    N,
    length,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    q = load_rows(queries, m, B, D, WIDTH)
    mine = tl.load(own + m, m < B, 0).to(tl.int32)[:, None]
    top = tl.full((ROWS,), LOWEST, tl.float32)  # sums to base 2
    total = tl.zeros((ROWS,), tl.float32)
    begin = tl.program_id(1) * length
    for first in range(begin, tl.minimum(begin + length, N), COLUMNS):
        n = first + tl.arange(0, COLUMNS)
        k = load_rows(keys, n, N, D, WIDTH)
        add = tl.load(bias + n, n < N, float("-inf"))[None, :] * LOG2E
        theirs = tl.load(others + n, n < N, 0).to(tl.int32)[None, :]
        scores = tl.dot(q, tl.trans(k), input_precision="tf32") * LOG2E + add
        scores = tl.where(mine == theirs, float("-inf"), scores)
        new = tl.maximum(top, tl.max(scores, 1))
        total = total * tl.exp2(top - new) + tl.sum(tl.exp2(scores - new[:, None]), 1)
        top = new
    none = total == 0
    found = tl.where(none, LOWEST, (top + tl.log2(tl.where(none, 1.0, total))) / LOG2E)
    tl.store(out + tl.program_id(1) * B + m, found, m < B)


@triton.jit(do_not_specialize=["M", "N", "length"])
def _gradient(
    x,
    y,
    bias,
    sums,
    slopes,
    largest,
    own,
    others,  # labels
    out,
    M,
    N,
    length,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    OF_KEYS: tl.constexpr,  # x are keys and y queries, otherwise the other way round
):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    rows = load_rows(x, m, M, D, WIDTH)
    mine = tl.load(own + m, m < M, 0).to(tl.int32)[:, None]
    scale = tl.load(largest)
    if OF_KEYS:
        add_own = tl.load(bias + m, m < M, float("-inf"))
        no_key = add_own <= LOWEST  # whose scores are as low as a sum without keys, so that no difference is a number
        outside = scale
    else:
        add_own = -tl.load(sums + m, m < M, float("inf"))
        outside = tl.load(slopes + m, m < M, 0.0)[:, None]
    add_own = (add_own * LOG2E + SHIFT)[:, None]
    step = tl.zeros((ROWS, WIDTH), tl.float32)
    begin = tl.program_id(1) * length
    for first in range(begin, tl.minimum(begin + length, N), COLUMNS):
        n = first + tl.arange(0, COLUMNS)
        columns = load_rows(y, n, N, D, WIDTH)
        theirs = tl.load(others + n, n < N, 0).to(tl.int32)[None, :]
        add = -tl.load(sums + n, n < N, float("inf")) if OF_KEYS else tl.load(bias + n, n < N, float("-inf"))
        scores = tl.dot(rows, tl.trans(columns), input_precision="tf32") * LOG2E + add_own + (add * LOG2E)[None, :]
        left_out = (mine == theirs) | (no_key[:, None] if OF_KEYS else (add <= LOWEST)[None, :])
        weights = tl.exp2(tl.where(left_out, float("-inf"), scores))
        if OF_KEYS:
            slope = tl.load(slopes + n, n < N, 0.0) / tl.where(scale > 0, scale, 1.0)
            weights *= slope[None, :]
        step = tl.dot(weights.to(columns.dtype), columns, step, input_precision="tf32")
    d = tl.arange(0, WIDTH)[None, :]
    at = (tl.program_id(1) * M + m).to(tl.int64)[:, None] * D + d
    tl.store(out + at, step * outside * UNSHIFT, (m < M)[:, None] & (d < D))
