"""DICE: the interest and the conformity half of each row, loaded and moved separately."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.device.launching import Launch, add_losses, add_row, any_taken, parts_of, row_of, softplus
from counterpop.training.methods.dice import CORRELATIONS, DCOR_ROWS, DICE
from counterpop.training.methods.dice.torch import distance_correlation
from counterpop.training.settings import Settings


def step_epoch(
    tables: tuple[Tensor, Tensor],
    triples: Tensor,
    lr: float,
    settings: Settings,
    method: DICE,
    state: tuple[Tensor, Tensor],
) -> Tensor:
    """Steps along all triples; returns the mean recorded loss.

    `state` is popularity (I,) and the weight, one number on the device. A distance correlation is taken a few times an
    epoch, as on the CPU: of the first users and seen items of each part.
    """
    half, losses = tables[0].shape[1] // 2, []
    launch = Launch(half, rows=8, of=triples.shape[1])
    kind = {"L1": method.discrepancy == "l1", "L2": method.discrepancy == "l2"}
    for part in parts_of(triples, CORRELATIONS) if method.correlates else [triples]:
        slopes = _correlation_slopes(tables, part) if method.correlates else []
        losses.append(launch(_step, tables, part, lr, settings, *state, method.penalty / half, **kind))
        for table, rows, slope in slopes:
            table.index_add_(0, rows, slope, alpha=-lr * method.penalty * part.shape[1])
    return torch.stack(losses).mean()


def _correlation_slopes(tables: tuple[Tensor, Tensor], triples: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For users and seen items: the table, rows of it, and the slope of their distance correlation."""
    found = []
    for table, rows in zip(tables, triples[:2, :DCOR_ROWS], strict=True):
        vectors = table[rows].requires_grad_()
        (slope,) = torch.autograd.grad(distance_correlation(*vectors.chunk(2, dim=1)), vectors)
        found.append((table, rows, slope))
    return found


@triton.jit
def _away(difference, push, L1: tl.constexpr, L2: tl.constexpr):
    """The slope of push x distance along the first half; along the second it is the opposite."""
    slope = tl.zeros_like(difference)
    if L1:
        slope = tl.where(difference > 0, push, -push)
    if L2:
        slope = 2 * push * difference
    return slope


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
    counts,
    weight_now,
    push,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    L1: tl.constexpr,
    L2: tl.constexpr,
):
    HALF: tl.constexpr = D // 2
    d = tl.arange(0, WIDTH)[None, :]
    keep = -lr * reg
    weight = tl.load(weight_now)
    for first in range(tl.program_id(0) * ROWS, n, tl.num_programs(0) * ROWS):
        m = first + tl.arange(0, ROWS)
        here = m < n
        inside = here[:, None] & (d < HALF)
        i = row_of(items, m, here)
        j = row_of(negatives, m, here)
        at_u = row_of(users, m, here)[:, None] * D + d
        at_i = i[:, None] * D + d
        at_j = j[:, None] * D + d
        p = tl.load(P + at_u, inside, 0.0)
        q = tl.load(P + at_u + HALF, inside, 0.0)
        a = tl.load(Q + at_i, inside, 0.0)
        c = tl.load(Q + at_i + HALF, inside, 0.0)
        b = tl.load(Q + at_j, inside, 0.0)
        e = tl.load(Q + at_j + HALF, inside, 0.0)
        x = tl.sum(p * (a - b), 1)
        y = tl.sum(q * (c - e), 1)
        more = tl.load(counts + j, here, 0) > tl.load(counts + i, here, 0)
        click = tl.sigmoid(-x - y)
        g = (lr * (click + tl.where(more, weight * tl.sigmoid(-x), 0.0)))[:, None]
        h = (lr * (click + weight * tl.where(more, -tl.sigmoid(y), tl.sigmoid(-y))))[:, None]
        away_u = lr * _away(p - q, push, L1, L2)
        away_i = lr * _away(a - c, push, L1, L2)
        away_j = lr * _away(b - e, push, L1, L2)
        add_row(P, at_u, keep * p + g * (a - b) + away_u, inside)
        add_row(P, at_u + HALF, keep * q + h * (c - e) - away_u, inside)
        add_row(Q, at_i, keep * a + g * p + away_i, inside)
        add_row(Q, at_i + HALF, keep * c + h * q - away_i, inside)
        add_row(Q, at_j, keep * b - g * p + away_j, inside)
        add_row(Q, at_j + HALF, keep * e - h * q - away_j, inside)
        if any_taken(first, ROWS, every):
            taken = here & (m % every == 0)
            by_halves = tl.where(more, softplus(-x) + softplus(y), softplus(-y))
            add_losses(loss, softplus(-x - y) + weight * by_halves, taken)
