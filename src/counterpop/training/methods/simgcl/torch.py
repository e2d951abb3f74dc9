"""SimGCL with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from counterpop.interactions import Interactions
from counterpop.training.device.contrast import log_sum_exp
from counterpop.training.device.propagation import Smoothed
from counterpop.training.methods.plain.torch import ScoresLoss
from counterpop.training.methods.simgcl import SimGCL
from counterpop.training.settings import Settings


class SimGCLLoss(ScoresLoss):
    repeats = False  # the number of distinct rows differs from batch to batch

    def __init__(self, train: Interactions, settings: Settings, method: SimGCL) -> None:
        super().__init__(train, settings, method.weights(train.item_counts))
        self._method = method

    def contrast(self, encoder: torch.nn.Module, triples: Tensor) -> Tensor:
        assert isinstance(encoder, Smoothed)
        users, items = (row.unique() for row in triples[:2])
        of_users, of_items = [], []
        for vectors in encoder.noisy(self._method.noise):
            of_users.append(normalize(vectors.index_select(0, users)))
            of_items.append(normalize(vectors.index_select(0, self._train.n_users + items)))
        found = self.contrasts(of_users[0], of_users[1]).mean() + self.contrast_items(of_items[0], of_items[1], items)
        return self._method.weight * triples.shape[1] * found  # the other losses of a batch are sums, this is a mean

    def contrast_items(self, first: Tensor, second: Tensor, items: Tensor) -> Tensor:
        """What the distinct seen items of a batch (N,) add, from their unit vectors in both encodings (N, D)."""
        return self.contrasts(first, second).mean()

    def contrasts(
        self, first: Tensor, second: Tensor, rows: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """(R,) InfoNCE of these rows of `first`, or of all, against all rows of `second` (N, D).

        `bias` (N,) is the log of what each row counts as a negative; 0 by default.
        """
        every = torch.arange(len(second), device=second.device)
        rows, bias = every if rows is None else rows, second.new_zeros(len(second)) if bias is None else bias
        queries = first[rows] / self._method.temperature
        return softplus(log_sum_exp(queries, second, bias, (rows, every)) - (queries * second[rows]).sum(1))
