"""PAAC with torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from counterpop.interactions import Interactions
from counterpop.training.device.contrast import LOWEST
from counterpop.training.methods.paac import PAAC
from counterpop.training.methods.simgcl.torch import SimGCLLoss
from counterpop.training.settings import Settings


class PAACLoss(SimGCLLoss):
    _method: PAAC
    _counts: Tensor

    def __init__(self, train: Interactions, settings: Settings, method: PAAC) -> None:
        super().__init__(train, settings, method)
        self.register_buffer("_counts", torch.from_numpy(train.item_counts.copy()), persistent=False)
        self._log_across = math.log(method.across) if method.across else LOWEST

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        total, losses = super().forward(users, items, triples)
        return total + self._method.align * self.distances(items, triples), losses

    def add_gradient(self, users: Tensor, items: Tensor, triples: Tensor, into: tuple[Tensor, Tensor]) -> None:
        """None: a kernel of triples does not know the pairs of items."""

    def contrast_items(self, first: Tensor, second: Tensor, items: Tensor) -> Tensor:
        popular, total = self.is_popular(items), first.new_zeros(())
        for kind, weight in ((popular, self._method.popular_weight), (~popular, 1 - self._method.popular_weight)):
            rows = kind.nonzero()[:, 0]
            if len(rows):
                bias = torch.where(kind, 0.0, self._log_across).to(first.dtype)
                total = total + weight * self.contrasts(first, second, rows, bias).mean()
        return total

    def is_popular(self, items: Tensor) -> Tensor:
        """(N,) which of these distinct items have the most train pairs; ties go to the first."""
        order = self._counts[items].argsort(descending=True, stable=True)
        found = torch.zeros_like(items, dtype=torch.bool)
        found[order[: round(self._method.share * len(items))]] = True
        return found

    def distances(self, items: Tensor, triples: Tensor) -> Tensor:
        """The squared distances of alignment, summed over users; each seen pair of the batch counts once.

        Over all pairs of a popular a and another b they are n_b sum |a|^2 + n_a sum |b|^2 - 2 (sum a).(sum b).
        """
        n = self._train.n_items
        pairs = (triples[0] * n + triples[1]).unique()
        users, of = (pairs // n).unique(return_inverse=True)
        distinct, item = (pairs % n).unique(return_inverse=True)
        kind = self.is_popular(distinct)[item].long()
        V = items.index_select(0, pairs % n)
        place, size = 2 * of + kind, 2 * len(users)  # two rows for each user: other items, popular ones
        number = V.new_zeros(size).index_add(0, place, V.new_ones(len(V))).view(-1, 2)
        squares = V.new_zeros(size).index_add(0, place, V.square().sum(1)).view(-1, 2)
        sums = V.new_zeros(size, V.shape[1]).index_add(0, place, V).view(-1, 2, V.shape[1])
        whole = (number.flip(1) * squares).sum(1) - 2 * (sums[:, 0] * sums[:, 1]).sum(1)
        return (whole / number.sum(1)).sum()
