"""What a batch of triples does to the vectors it touches, and the ledger of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from counterpop.interactions import Interactions
from counterpop.ledger import Ledger
from counterpop.training.settings import Settings


@dataclass(frozen=True, eq=False)
class Pulls:
    """The gradient of a batch (B triples), and what it is made of."""

    user: Tensor
    """(B, D) of the user vectors; the penalty is in it."""
    item: Tensor
    """(B, D) of the seen items' vectors."""
    negative: Tensor
    """(B, D) of the negatives' vectors."""
    loss: Tensor
    """(B,)"""
    p: Tensor
    """(B, D) user vectors, normalised where training normalises."""
    slope_item: Tensor
    """(B,) how hard the loss pulls the seen item"""
    slope_negative: Tensor
    """(B,) and pushes the negative."""


def pulls(P: Tensor, A: Tensor, B: Tensor, settings: Settings, weights: Tensor | None = None) -> Pulls:
    """The gradient of each triple's loss: users P, seen items A, negatives B, each (B, D).

    `weights` (B,) are those of the seen items: of the whole loss with BPR, of their part of it with BCE.
    """
    scale = torch.ones_like(P[:, :1])
    if settings.normalises:
        scale = P.square().sum(1, keepdim=True).add(1e-12).rsqrt()
    p = P * scale
    s_i, s_j = (p * A).sum(1), (p * B).sum(1)
    w = torch.ones_like(s_i) if weights is None else weights
    if settings.loss == "bce":
        g_i, g_j = w * torch.sigmoid(-s_i), torch.sigmoid(s_j)
        loss = w * torch.nn.functional.softplus(-s_i) + torch.nn.functional.softplus(s_j)
    else:
        g_i = g_j = w * torch.sigmoid(s_j - s_i)
        loss = w * torch.nn.functional.softplus(s_j - s_i)
    drawn = g_i[:, None] * A - g_j[:, None] * B
    if settings.normalises:  # what lies along p only changes the length, which the scores do not see
        drawn = scale * (drawn - (g_i * s_i - g_j * s_j)[:, None] * p)
    reg = settings.reg
    return Pulls(reg * P - drawn, reg * A - g_i[:, None] * p, reg * B + g_j[:, None] * p, loss, p, g_i, g_j)


class DeviceLedger:
    """The sums of a `Ledger` on the device."""

    def __init__(self, train: Interactions, dim: int, every: int, device: torch.device) -> None:
        self.items = torch.zeros(train.n_items, 4, dim, device=device)
        self.users = torch.zeros(train.n_users, 4, dim, device=device)
        self.every, self.triples, self.records = every, 0, 0

    def record(self, triples: Tensor, found: Pulls, A: Tensor, B: Tensor) -> None:
        """Adds one triple in `every` of a batch: pull and push by count, then both by slope."""
        u, i, j = triples[:, :: self.every]
        p, A, B = (rows[:: self.every].float() for rows in (found.p, A, B))
        g_i, g_j = (g[:: self.every, None].float() for g in (found.slope_item, found.slope_negative))
        none = torch.zeros_like(p)
        self.items.index_add_(0, i, torch.stack([p, none, g_i * p, none], 1))
        self.items.index_add_(0, j, torch.stack([none, p, none, g_j * p], 1))
        self.users.index_add_(0, u, torch.stack([A, B, g_i * A, g_j * B], 1))

    def count(self, size: int, batches: int = 1) -> None:
        """Notes that so many batches of this size have been recorded."""
        self.triples += size * batches
        self.records += -(-size // self.every) * batches

    def on_host(self) -> Ledger:
        """A copy as a value."""
        items, users = (np.array(sums.cpu().numpy()) for sums in (self.items, self.users))
        return Ledger(items, users, self.every, self.triples, self.triples / max(1, self.records))
