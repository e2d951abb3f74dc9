"""CausE with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from counterpop.interactions import Interactions
from counterpop.training.device.losses import TripleLoss
from counterpop.training.settings import Settings


class CausELoss(TripleLoss):
    """Control rows of items first, then treatment rows; LightGCN's users have a second row too."""

    def __init__(self, train: Interactions, settings: Settings, penalty: float) -> None:
        super().__init__(train, settings)
        self._penalty = penalty

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        u, i, j = triples
        if len(users) > self._train.n_users:  # a second graph has its own vector of the same user
            u = u + (i >= self._train.n_items) * self._train.n_users
        P, A, B, reg = self._rows(users, items, torch.stack([u, i, j]))
        s_i, s_j = (P * A).sum(1), (P * B).sum(1)
        losses = softplus(-s_i) + softplus(s_j) if self._bce else softplus(s_j - s_i)
        other = [items.index_select(0, (row + self._train.n_items) % len(items)) for row in (i, j)]
        distance = (A - other[0]).square().sum() + (B - other[1]).square().sum()
        return losses.sum() + reg + self._penalty * distance / items.shape[1], losses

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.methods.cause import fused

        return fused.step_epoch((users, items), triples, lr, self._settings, self._penalty)
