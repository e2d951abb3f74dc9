"""DICE with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from counterpop.interactions import Interactions
from counterpop.training.device.losses import TripleLoss
from counterpop.training.methods.dice import DCOR_ROWS, DICE
from counterpop.training.settings import Settings


class DICELoss(TripleLoss):
    counts: Tensor
    weight: Tensor

    def __init__(self, train: Interactions, settings: Settings, method: DICE) -> None:
        super().__init__(train, settings)
        self._method = method
        self.by_triple = not method.penalty or method.discrepancy != "dcor"
        self.register_buffer("counts", torch.from_numpy(train.item_counts))
        # a buffer, so that a recorded step sees its new value in every epoch
        self.register_buffer("weight", torch.tensor(float(method.weight)))

    def begin_epoch(self, epoch: int) -> None:
        self.weight.fill_(self._method.weight_in(epoch))

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        P, A, B, reg = self._rows(users, items, triples)
        x, y = (half.sum(1) for half in (P * (A - B)).chunk(2, dim=1))
        more = self.counts[triples[2]] > self.counts[triples[1]]
        by_halves = torch.where(more, softplus(-x) + softplus(y), softplus(-y))
        losses = softplus(-x - y) + self.weight * by_halves
        if not self._method.penalty:
            distance = torch.zeros_like(reg)
        elif self._method.discrepancy == "dcor":
            of_users, of_items = (distance_correlation(*rows[:DCOR_ROWS].chunk(2, dim=1)) for rows in (P, A))
            distance = -len(x) * (of_users + of_items)
        else:
            halves = [half_a - half_b for half_a, half_b in (row.chunk(2, dim=1) for row in (P, A, B))]
            far = torch.abs if self._method.discrepancy == "l1" else torch.square
            distance = torch.stack([far(difference).mean(1).sum() for difference in halves]).sum()
        return losses.sum() + reg - self._method.penalty * distance, losses

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.methods.dice import fused

        return fused.step_epoch((users, items), triples, lr, self._settings, self._method, (self.counts, self.weight))


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """As in `dice.native`, with the slopes left to autograd."""
    A, B = (_centred(torch.cdist(rows, rows)) for rows in (x, y))
    v_xy, v_xx, v_yy = (product.mean().clamp(min=1e-12) for product in (A * B, A * A, B * B))
    return (v_xy.square() / (v_xx * v_yy)) ** 0.25


def _centred(distances: Tensor) -> Tensor:
    return distances - distances.mean(0) - distances.mean(1, keepdim=True) + distances.mean()
