"""SimGCL with torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from counterpop.interactions import Interactions
from counterpop.training.device.contrast import LOWEST, is_new, log_sum_exp
from counterpop.training.device.propagation import Smoothed
from counterpop.training.methods.plain.torch import ScoresLoss
from counterpop.training.methods.simgcl import SimGCL
from counterpop.training.settings import Settings


class SimGCLLoss(ScoresLoss):
    """A batch's rows are sorted, and each distinct one counts once.

    On a GPU its repeats stay, without weight, because a recorded step needs the same shapes for every batch.
    """

    def __init__(self, train: Interactions, settings: Settings, method: SimGCL) -> None:
        super().__init__(train, settings, method.weights(train.item_counts))
        self._method = method
        self.keeps_shapes = settings.device == "cuda"

    def contrast(self, encoder: torch.nn.Module, users: Tensor, items: Tensor, triples: Tensor) -> Tensor:
        assert isinstance(encoder, Smoothed)
        u, i = triples[:2].sort().values
        if not self.keeps_shapes:
            u, i = u[is_new(u)], i[is_new(i)]
        noisy = encoder.noisy((users, items), (u, i), self._method.noise)
        (P, Q), (P2, Q2) = (normalize(rows).split([len(u), len(i)]) for rows in noisy)
        found = self.contrast_users(P, P2, u) + self.contrast_items(Q, Q2, i)
        return self._method.weight * triples.shape[1] * found  # the other losses of a batch are sums, this is a mean

    def contrast_users(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        """What the distinct users add, from sorted positions (B,) and their unit vectors (B, D) in both encodings."""
        once = is_new(rows)
        bias = torch.zeros_like(first[:, 0]).masked_fill(~once, LOWEST)
        return (self.contrasts(first, second, rows, bias) * once).sum() / once.sum()

    def contrast_items(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        """The same of its distinct seen items."""
        return self.contrast_users(first, second, rows)

    def contrasts(
        self, first: Tensor, second: Tensor, labels: Tensor, bias: Tensor, kinds: Tensor | None = None
    ) -> Tensor:
        """(B,) InfoNCE of each row of `first` against all rows of `second` (B, D), its own label's once.

        `bias` is the log of what each row counts as a negative: (B,), or (K, B) with `kinds` (B,).
        """
        queries = first / self._method.temperature
        return softplus(log_sum_exp(queries, second, bias, (labels, labels), kinds) - (queries * second).sum(1))
