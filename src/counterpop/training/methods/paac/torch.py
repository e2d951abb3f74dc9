"""PAAC with torch."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from counterpop.interactions import Interactions
from counterpop.training.device.contrast import LOWEST, is_new
from counterpop.training.methods.paac import PAAC
from counterpop.training.methods.simgcl.torch import SimGCLLoss
from counterpop.training.settings import Settings


class PAACLoss(SimGCLLoss):
    _method: PAAC
    _ranks: Tensor

    def __init__(self, train: Interactions, settings: Settings, method: PAAC) -> None:
        super().__init__(train, settings, method)
        order = np.argsort(-train.item_counts, kind="stable")  # ties go to the first
        self.register_buffer("_ranks", torch.from_numpy(order.argsort()), persistent=False)
        self._log_across = math.log(method.across) if method.across else LOWEST

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        total, losses = super().forward(users, items, triples)
        return total + self._method.align * self.distances(items, triples), losses

    def add_gradient(self, users: Tensor, items: Tensor, triples: Tensor, into: tuple[Tensor, Tensor]) -> None:
        """None: a kernel of triples does not know the pairs of items."""

    def contrast_items(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        popular, once = self.is_popular(rows), is_new(rows)
        halves = torch.stack((~popular, popular))  # (2, B)
        bias = torch.zeros_like(halves, dtype=first.dtype).masked_fill(~halves, self._log_across)
        losses = self.contrasts(first, second, rows, bias.masked_fill(~once, LOWEST), popular.long())
        counted = halves & once
        means = (losses * counted).sum(1) / counted.sum(1).clamp(min=1)  # 0 for a half without items
        return self._method.popular_weight * means[1] + (1 - self._method.popular_weight) * means[0]

    def is_popular(self, items: Tensor) -> Tensor:
        """(B,) whether each is among the `share` of these distinct items with the most train pairs."""
        ranks = self._ranks.index_select(0, items)
        ordered = ranks.sort().values
        place = is_new(ordered).cumsum(0)  # from 1; the last is the number of distinct items
        popular = place <= (self._method.share * place[-1].double()).round()
        return popular.index_select(0, torch.searchsorted(ordered, ranks))

    def distances(self, items: Tensor, triples: Tensor) -> Tensor:
        """The squared distances of alignment, summed over users; each seen pair of the batch counts once.

        Over all pairs of a popular a and another b they are n_b sum |a|^2 + n_a sum |b|^2 - 2 (sum a).(sum b).
        """
        n = self._train.n_items
        pairs = (triples[0] * n + triples[1]).sort().values
        users, seen = pairs // n, pairs % n
        V = items.index_select(0, seen)
        once, size = is_new(pairs).to(V.dtype), 2 * len(pairs)
        # two rows for each user, other items and popular ones; the last are empty if users have several pairs
        place = 2 * (is_new(users).cumsum(0) - 1) + self.is_popular(seen)
        number = V.new_zeros(size).index_add(0, place, once).view(-1, 2)
        squares = V.new_zeros(size).index_add(0, place, once * V.square().sum(1)).view(-1, 2)
        sums = V.new_zeros(size, V.shape[1]).index_add(0, place, once[:, None] * V).view(-1, 2, V.shape[1])
        whole = (number.flip(1) * squares).sum(1) - 2 * (sums[:, 0] * sums[:, 1]).sum(1)
        return (whole / number.sum(1).clamp(min=1)).sum()
