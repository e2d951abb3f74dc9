"""The softmax loss with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from counterpop.embeddings import FloatArray
from counterpop.interactions import Interactions
from counterpop.training.device import has_kernels
from counterpop.training.device.contrast import LOWEST, fit_kernels, log_sum_exp, scores_of
from counterpop.training.device.ledger import DeviceLedger
from counterpop.training.device.losses import TripleLoss
from counterpop.training.methods.plain.softmax import log_weights
from counterpop.training.settings import Settings


class SoftmaxLoss(TripleLoss):
    """The seen item of each pair against the negatives that the batch shares."""

    by_triple = False
    _weights: Tensor | None
    _as_positive: Tensor
    _as_negative: Tensor

    def __init__(self, train: Interactions, settings: Settings, weights: FloatArray) -> None:
        super().__init__(train, settings)
        self.register_buffer("_weights", torch.from_numpy(weights) if len(weights) else None)
        assert settings.temperature is not None
        self._temperature = settings.temperature
        for name, values in zip(("_as_positive", "_as_negative"), log_weights(train, settings), strict=True):
            self.register_buffer(name, torch.from_numpy(values))

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        shared, (u, i, j) = self._settings.shared_negatives, triples
        drawn = j[:shared] if shared else i
        P, A, B, reg = self._rows(users, items, (u, i, drawn[: shared or 0]))
        (P, A), (_, B) = self.ranking(P, A), self.ranking(P, B)
        V = B if shared else A
        scale = 1 / self._temperature
        own = (P * A).sum(1) * scale + self._as_positive[i]
        bias, labels = self._as_negative[drawn].to(P.dtype), (i, drawn)
        weights = torch.ones_like(own) if self._weights is None else self._weights[i]
        others = log_sum_exp(P * scale, V, bias, labels)
        losses = weights * softplus(others - own)
        if self.ledger and torch.is_grad_enabled():
            in_kernel = has_kernels(P.device) and all(map(fit_kernels, (P, A, V)))
            self._record(self.ledger, (u, i, P, A), (drawn, V, bias), (own, others), in_kernel)
        return losses.sum() + reg, losses

    def step_batch(self, users: Tensor, items: Tensor, triples: Tensor, lr: Tensor) -> Tensor | None:
        if not fit_kernels(users):
            return None
        from counterpop.training.methods.plain.softmax import fused

        shared, (u, i, j) = self._settings.shared_negatives, triples
        step = fused.Step(lr, float(self._settings.reg), 1 / self._temperature, self._settings.normalises)
        laws = self._as_positive, self._as_negative
        taken = step.take((users, items), (u, i), j[:shared] if shared else None, laws, self._weights)
        P, A, B = taken[:3]
        if self.ledger:
            pairs, negatives = (u, i, P.vectors, A.vectors), (B.at, B.vectors, taken.bias)
            self._record(self.ledger, pairs, negatives, (taken.own, taken.others), True)
        return taken.losses

    @torch.no_grad()
    def _record(
        self,
        ledger: DeviceLedger,
        pairs: tuple[Tensor, Tensor, Tensor, Tensor],
        negatives: tuple[Tensor, Tensor, Tensor],
        known: tuple[Tensor, Tensor],
        in_kernel: bool,
    ) -> None:
        """Adds some pairs to the ledger.

        Rows and vectors of users and seen items; of the negatives, and what is added to their scores; the pairs' own
        scores and the log-sum-exps of the others.
        """
        scale, (drawn, V, bias) = 1 / self._temperature, negatives
        if in_kernel:
            from counterpop.training.methods.plain.softmax import fused

            tables = ledger.users, ledger.items
            fused.record(tables, pairs, negatives, (*known, self._weights), scale, ledger.every)
            return
        u, i, P, A, own, others = (values[:: ledger.every] for values in (*pairs, *known))
        whole = torch.logaddexp(others, own)[:, None]
        weights = None if self._weights is None else self._weights[i, None]
        for rows, scores in scores_of(P * scale, V, bias, (i, drawn)):
            pushes = scores.sub(whole[rows]).exp_().mul_(scale if weights is None else scale * weights[rows])
            counts = (scores > LOWEST).to(pushes.dtype)
            ledger.record_shared((u[rows], i[rows], P[rows], A[rows]), (drawn, V), counts, pushes)

    def ranking(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """With cosines, unit vectors rank."""
        if not self._settings.normalises:
            return users, items
        return unit(users), unit(items)


def unit(rows: Tensor) -> Tensor:
    return rows * rows.square().sum(1, keepdim=True).add(1e-12).rsqrt()
