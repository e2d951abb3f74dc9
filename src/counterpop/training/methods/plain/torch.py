"""BPR and BCE on inner products with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from counterpop.embeddings import FloatArray
from counterpop.interactions import Interactions
from counterpop.training.device.losses import TripleLoss
from counterpop.training.settings import Settings


class ScoresLoss(TripleLoss):
    """Plain training, the gradient method and IPS: a loss of two scores, recorded in the ledger if one is kept."""

    _weights: Tensor | None

    def __init__(self, train: Interactions, settings: Settings, weights: FloatArray) -> None:
        super().__init__(train, settings)
        self.register_buffer("_weights", torch.from_numpy(weights) if len(weights) else None)

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        P, A, B, reg = self._rows(users, items, triples)
        if self._settings.normalises:
            P = P * P.square().sum(1, keepdim=True).add(1e-12).rsqrt()
        s_i, s_j = (P * A).sum(1), (P * B).sum(1)
        weights = torch.ones_like(s_i) if self._weights is None else self._weights[triples[1]]
        losses = self.losses_of(s_i, s_j, weights)
        if self.ledger and torch.is_grad_enabled():
            taken = slice(None, None, self.ledger.every)
            at_i, at_j = (s[taken].detach().requires_grad_() for s in (s_i, s_j))
            pulled, pushed = torch.autograd.grad(self.losses_of(at_i, at_j, weights[taken]).sum(), (at_i, at_j))
            p, seen, others = (rows[taken].detach() for rows in (P, A, B))
            self.ledger.record(triples[:, taken], p, seen, others, (-pulled, pushed))
        return losses.sum() + reg, losses

    def losses_of(self, s_i: Tensor, s_j: Tensor, weights: Tensor) -> Tensor:
        """(B,) from the scores of seen items and negatives, and the seen items' weights."""
        if self._bce:
            return weights * softplus(-s_i) + softplus(s_j)
        return weights * softplus(s_j - s_i)

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.methods.plain import fused

        if self.ledger:
            self.ledger.count(triples.shape[1])
        return fused.step((users, items), triples, lr, self._settings, self._weights, self.ledger)

    def add_gradient(self, users: Tensor, items: Tensor, triples: Tensor, into: tuple[Tensor, Tensor]) -> Tensor | None:
        from counterpop.training.methods.plain import fused

        return fused.step((users, items), triples, -1.0, self._settings, self._weights, self.ledger, into)
