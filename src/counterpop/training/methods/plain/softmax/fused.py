"""The softmax loss of a batch of MF in Triton kernels, from the tables' rows to the steps that they take.

Rows are gathered and normalised, `fused_contrast` sums over the negatives, and the steps are added to the tables. As
with autograd, all is computed from the vectors before the step; but no gradient is as large as a table. One kernel adds
what is recorded to the ledger, for LightGCN too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop import ledger
from counterpop.training.device import fused_contrast
from counterpop.training.device.fused_contrast import LEAST, gradient_of, load_rows, sums_of
from counterpop.training.device.launching import add_row, row_of, softplus

ROWS, WARPS = 8, 4  # of a program, outside the products
PULL, PUSH = tl.constexpr(ledger.PULL), tl.constexpr(ledger.PUSH)
PULL_SLOPE, PUSH_SLOPE = tl.constexpr(ledger.PULL_SLOPE), tl.constexpr(ledger.PUSH_SLOPE)
KEYS, LABELS = 32, 1024  # of the ledger's kernel: negatives that a program holds, labels that it compares at a time


class Rows(NamedTuple):
    """Rows of a table, N of them."""

    at: Tensor
    vectors: Tensor  # (N, D) as the loss sees them
    operands: Tensor  # (N, D) these, times what scores are multiplied by, for products
    scales: Tensor  # (N,) what the rows were multiplied by: 1 without cosines


class Taken(NamedTuple):
    """What a step along B pairs found, from the vectors before it."""

    users: Rows
    seen: Rows
    negatives: Rows
    bias: Tensor  # (N,) added to their scores
    others: Tensor  # (B,) the log-sum-exp of the negatives
    own: Tensor  # (B,) the seen items' scores
    losses: Tensor  # (B,)
    slopes: Tensor  # (B,) of the losses by `others`


@dataclass(frozen=True)
class Step:
    """A step along a batch."""

    lr: Tensor  # ()
    reg: float
    scale: float  # of the scores
    normalised: bool

    def take(
        self,
        tables: tuple[Tensor, Tensor],
        pairs: tuple[Tensor, Tensor],
        drawn: Tensor | None,
        laws: tuple[Tensor, Tensor],
        weights: Tensor | None,
    ) -> Taken:
        """Moves the tables of users and items along these pairs (B,), (B,).

        `drawn` are the negatives, None for the batch's own items. `laws` (I,), (I,): what is added to an item's score
        as a positive, and as a negative. `weights` (I,): what its pairs count.
        """
        P, A = self._gather(tables[0], pairs[0], self.scale), self._gather(tables[1], pairs[1], 1.0)
        B = A if drawn is None else self._gather(tables[1], drawn, 1.0)
        operands, bias, labels = (P.operands, B.operands), laws[1].index_select(0, B.at), (A.at, B.at)
        parts = sums_of(*operands, bias, labels)
        taken = Taken(P, A, B, bias, *torch.empty(4, len(P.at), device=parts.device))
        given = P.vectors, A.vectors, A.at, laws[0], laws[0] if weights is None else weights, parts, *taken[4:]
        _launch(_compare, P.vectors, given, len(parts), self.scale, WEIGHTED=weights is not None)
        known = operands, bias, labels, taken.others, taken.slopes, taken.slopes.amax()
        to_users, to_negatives = (gradient_of(*known, of_keys=of_keys) for of_keys in (False, True))
        self._move(tables[0], P, to_users, self.scale, (A, taken.slopes))
        self._move(tables[1], A, to_negatives if drawn is None else to_negatives[:0], 1.0, (P, taken.slopes))
        if drawn is not None:
            self._move(tables[1], B, to_negatives, 1.0)
        return taken

    def _gather(self, table: Tensor, at: Tensor, times: float) -> Rows:
        size = len(at), table.shape[1]
        vectors = torch.empty(size, device=table.device)
        operands = torch.empty(size, device=table.device, dtype=fused_contrast.OPERANDS)
        rows = Rows(at, vectors, operands, torch.empty(size[0], device=table.device))
        _launch(_gather, vectors, (table, *rows), times, NORMALISED=self.normalised)
        return rows

    def _move(
        self, table: Tensor, rows: Rows, parts: Tensor, times: float, partners: tuple[Rows, Tensor] | None = None
    ) -> None:
        """Takes the step of these rows; `parts` (., N, D) of their gradient count `times`, their pairs' are added."""
        partner, slopes = (partners[0].vectors, partners[1]) if partners else (rows.vectors, rows.scales)
        given = table, rows.at, rows.vectors, rows.scales, parts, partner, slopes, self.lr
        kind = {"NORMALISED": self.normalised, "PAIRED": partners is not None}
        _launch(_step, rows.vectors, given, len(parts), times, self.scale, self.reg, **kind)


def record(
    tables: tuple[Tensor, Tensor],
    pairs: tuple[Tensor, Tensor, Tensor, Tensor],
    negatives: tuple[Tensor, Tensor, Tensor],
    known: tuple[Tensor, Tensor, Tensor | None],
    scale: float,
    every: int,
) -> None:
    """Adds one pair in `every` to a ledger's tables of users and items (., 4, D): see `DeviceLedger.record_shared`.

    Positions and vectors of users and seen items; positions and vectors of the negatives, and what is added to their
    scores; the pairs' own scores, the log-sum-exps of the others, and the weight of a pair, by its item.
    """
    (n, D), (at, keys, bias), (own, others, weights) = pairs[2].shape, negatives, known
    shape = {"D": D, "WIDTH": max(LEAST, triton.next_power_of_2(D)), "ROWS": LEAST, "KEYS": KEYS, "LABELS": LABELS}
    given = *tables, *pairs, at, keys, bias, own, others, own if weights is None else weights
    numbers = triton.cdiv(n, every), len(at), every, scale
    _record[(triton.cdiv(len(at), KEYS),)](*given, *numbers, **shape, WEIGHTED=weights is not None, num_warps=WARPS)


def _launch(kernel: Any, rows: Tensor, tensors: tuple[Tensor, ...], *numbers: float, **kind: bool) -> None:
    n, D = rows.shape
    shape = {"D": D, "WIDTH": triton.next_power_of_2(D), "ROWS": ROWS}
    kernel[(triton.cdiv(n, ROWS),)](*tensors, n, *numbers, **shape, **kind, num_warps=WARPS)


@triton.jit(do_not_specialize=["n"])
def _gather(
    table,
    at,
    vectors,
    operands,
    scales,
    n,
    times,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    NORMALISED: tl.constexpr,
):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)[None, :]
    here = m < n
    inside = here[:, None] & (d < D)
    x = tl.load(table + row_of(at, m, here)[:, None] * D + d, inside, 0.0)
    scale = tl.full((ROWS,), 1.0, tl.float32)
    if NORMALISED:
        scale = tl.rsqrt(tl.sum(x * x, 1) + 1e-12)
    x *= scale[:, None]
    tl.store(vectors + m[:, None] * D + d, x, inside)
    tl.store(operands + m[:, None] * D + d, (x * times).to(operands.dtype.element_ty), inside)
    tl.store(scales + m, scale, here)


@triton.jit(do_not_specialize=["n", "n_parts"])
def _compare(
    P,
    A,
    items,
    as_positive,
    weights,
    parts,
    others,
    own,
    losses,
    slopes,
    n,
    n_parts,
    times,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = m < n
    item = row_of(items, m, here)
    score = tl.sum(load_rows(P, m, n, D, WIDTH) * load_rows(A, m, n, D, WIDTH), 1) * times
    score += tl.load(as_positive + item, here, 0.0)
    top = tl.load(parts + m, here, 0.0)
    total = tl.full((ROWS,), 1.0, tl.float32)
    for part in range(1, n_parts):
        more = tl.load(parts + part * n + m, here, 0.0)
        new = tl.maximum(top, more)
        total = total * tl.exp(top - new) + tl.exp(more - new)
        top = new
    sums = top + tl.log(total)
    weight = tl.full((ROWS,), 1.0, tl.float32)
    if WEIGHTED:
        weight = tl.load(weights + item, here, 0.0)
    tl.store(others + m, sums, here)
    tl.store(own + m, score, here)
    tl.store(losses + m, weight * softplus(sums - score), here)
    tl.store(slopes + m, weight * tl.exp(-softplus(score - sums)), here)


@triton.jit(do_not_specialize=["n", "n_parts"])
def _step(
    table,
    at,
    vectors,
    scales,
    parts,
    partners,
    slopes,
    lr,
    n,
    n_parts,
    times,
    score_scale,
    reg,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    NORMALISED: tl.constexpr,
    PAIRED: tl.constexpr,
):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = m < n
    x = load_rows(vectors, m, n, D, WIDTH)
    slope = tl.zeros((ROWS, WIDTH), tl.float32)
    for part in range(n_parts):
        slope += load_rows(parts + part * n * D, m, n, D, WIDTH)
    slope *= times
    if PAIRED:
        pull = tl.load(slopes + m, here, 0.0) * score_scale
        slope -= pull[:, None] * load_rows(partners, m, n, D, WIDTH)
    if NORMALISED:
        scale = tl.load(scales + m, here, 1.0)[:, None]
        slope = scale * (slope - tl.sum(slope * x, 1)[:, None] * x)
        x /= scale
    d = tl.arange(0, WIDTH)[None, :]
    to = row_of(at, m, here)[:, None] * D + d
    add_row(table, to, -tl.load(lr) * (slope + reg * x), here[:, None] & (d < D))


@triton.jit(do_not_specialize=["M", "N", "every"])
def _record(
    to_users,
    to_items,
    users,
    items,
    P,
    A,
    negatives,
    keys,
    bias,
    own,
    others,
    weights,
    M,  # recorded pairs
    N,
    every,
    scale,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    LABELS: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    d = tl.arange(0, WIDTH)[None, :]
    n = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    there = n < N
    k = load_rows(keys, n, N, D, WIDTH)
    theirs = row_of(negatives, n, there)
    add = tl.load(bias + n, there, float("-inf"))[None, :]
    push, push_slope = tl.zeros((KEYS, WIDTH), tl.float32), tl.zeros((KEYS, WIDTH), tl.float32)
    for first in range(0, M, ROWS):
        m = (first + tl.arange(0, ROWS)) * every
        here = first + tl.arange(0, ROWS) < M
        inside = here[:, None] & (d < D)
        item = row_of(items, m, here)
        p = tl.load(P + m.to(tl.int64)[:, None] * D + d, inside, 0.0)
        count = tl.zeros((ROWS,), tl.int32)  # of the negatives that count for a pair
        for start in range(0, N, LABELS):
            other = start + tl.arange(0, LABELS)
            label = row_of(negatives, other, other < N)
            count += tl.sum(((item[:, None] != label[None, :]) & (other < N)[None, :]).to(tl.int32), 1)
        o = tl.load(own + m, here, 0.0)
        others_sum = tl.load(others + m, here, 0.0)
        weight = tl.full((ROWS,), 1.0, tl.float32)
        if WEIGHTED:
            weight = tl.load(weights + item, here, 0.0)
        weight = tl.where(here, weight, 0.0) * scale
        counts = (item[:, None] != theirs[None, :]) & there[None, :] & here[:, None]
        scores = tl.dot((p * scale).to(tl.float16), tl.trans(k.to(tl.float16))) + add  # as `others` has them
        whole = others_sum + softplus(o - others_sum)
        slopes = tl.where(counts, tl.exp(scores - whole[:, None]), 0.0) * weight[:, None]
        even = tl.where(counts, 1.0, 0.0) / tl.maximum(count, 1).to(tl.float32)[:, None]
        push = tl.dot(tl.trans(even), p, push, input_precision="tf32")
        push_slope = tl.dot(tl.trans(slopes), p, push_slope, input_precision="tf32")
        user = row_of(users, m, here)[:, None] * (4 * D) + d
        add_row(to_users, user + PUSH * D, tl.dot(even, k, input_precision="tf32"), inside)
        add_row(to_users, user + PUSH_SLOPE * D, tl.dot(slopes, k, input_precision="tf32"), inside)
        if tl.program_id(0) == 0:
            a = tl.load(A + m.to(tl.int64)[:, None] * D + d, inside, 0.0)
            pull = (weight * tl.exp(-softplus(o - others_sum)))[:, None]  # the sum of its slopes
            seen = item[:, None] * (4 * D) + d
            add_row(to_items, seen + PULL * D, p, inside)
            add_row(to_items, seen + PULL_SLOPE * D, pull * p, inside)
            add_row(to_users, user + PULL * D, a, inside)
            add_row(to_users, user + PULL_SLOPE * D, pull * a, inside)
    at = theirs[:, None] * (4 * D) + d
    inside = there[:, None] & (d < D)
    add_row(to_items, at + PUSH * D, push, inside)
    add_row(to_items, at + PUSH_SLOPE * D, push_slope, inside)
