"""DICE: the interest and the conformity half of each row, loaded and moved apart."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from counterpop.training.device.fused.rows import add_losses, add_row, any_taken, launch, parts_of, row_of, softplus
from counterpop.training.device.losses import DCOR_ROWS, distance_correlation
from counterpop.training.methods import DICE
from counterpop.training.settings import Settings

CORRELATIONS = 8  # of an epoch, at most, as in `training.objectives`


def step_epoch(
    users: Tensor,
    items: Tensor,
    triples: Tensor,
    lr: float,
    settings: Settings,
    counts: Tensor,
    weight: Tensor,
    options: DICE,
) -> Tensor:
    """Steps along all triples; returns the mean recorded loss.

    `counts` (I,) is popularity, `weight` one number on the device. A distance correlation is taken a few
    times an epoch, as in `training.objectives`: of the first users and seen items of each part.
    """
    half, losses = users.shape[1] // 2, []
    dcor = options.discrepancy == "dcor" and options.penalty > 0
    for part in parts_of(triples, CORRELATIONS) if dcor else [triples]:
        apart = _correlation_slopes(users, items, part) if dcor else []
        loss = launch(
            _step,
            users,
            items,
            part,
            lr,
            settings,
            counts,
            weight,
            options.penalty / half,
            of=triples.shape[1],
            width=half,
            rows=8,
            L1=options.discrepancy == "l1",
            L2=options.discrepancy == "l2",
        )
        losses.append(loss)
        for table, rows, slope in apart:
            table.index_add_(0, rows, slope, alpha=-lr * options.penalty * part.shape[1])
    return torch.stack(losses).mean()


def _correlation_slopes(users: Tensor, items: Tensor, triples: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For users and seen items: the table, rows of it, and the slope of the distance correlation of these."""
    found = []
    for table, rows in ((users, triples[0, :DCOR_ROWS]), (items, triples[1, :DCOR_ROWS])):
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
            told = tl.where(more, softplus(-x) + softplus(y), softplus(-y))
            add_losses(loss, softplus(-x - y) + weight * told, taken)
