"""MACR with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from counterpop.embeddings import Embeddings
from counterpop.interactions import Interactions
from counterpop.runs import Model
from counterpop.training.device.losses import TripleLoss
from counterpop.training.methods.macr import MACR, first_branches, with_branch
from counterpop.training.settings import Settings


class MACRLoss(TripleLoss):
    ranks_as_trained = False

    def __init__(self, train: Interactions, settings: Settings, method: MACR) -> None:
        super().__init__(train, settings)
        self._method = method
        self.branches = torch.nn.Parameter(torch.from_numpy(first_branches(settings)))  # (2, D)

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        P, A, B, reg = self._rows(users, items, triples)
        w_user, w_item = self.branches
        at_u, at_i, at_j = P @ w_user, A @ w_item, B @ w_item
        z_u = torch.sigmoid(at_u)
        y_i, y_j = (P * A).sum(1) * z_u * torch.sigmoid(at_i), (P * B).sum(1) * z_u * torch.sigmoid(at_j)
        losses = softplus(-y_i) + softplus(y_j)
        losses = losses - self._method.item_weight * (logsigmoid(at_i) + logsigmoid(-at_j))
        losses = losses - self._method.user_weight * (logsigmoid(at_u) + logsigmoid(-at_u))
        return losses.sum() + reg, losses

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.methods.macr import fused

        branches = self.branches.detach()
        return fused.step_epoch((users, items), triples, lr, self._settings, self._method, branches)

    def model(self, vectors: Embeddings) -> Model:
        return with_branch(vectors, self.branches[1].detach().cpu().numpy())
