"""The ledger of a model in training, on the device."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from counterpop.interactions import Interactions
from counterpop.ledger import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE, Ledger


class DeviceLedger:
    """The sums of a `Ledger` on the device."""

    def __init__(self, train: Interactions, dim: int, every: int, device: torch.device) -> None:
        self.items = torch.zeros(train.n_items, 4, dim, device=device)
        self.users = torch.zeros(train.n_users, 4, dim, device=device)
        self.every, self.triples, self.records = every, 0, 0

    def record(self, triples: Tensor, p: Tensor, A: Tensor, B: Tensor, slopes: tuple[Tensor, Tensor]) -> None:
        """Adds these triples: users p, normalised where training normalises, seen items A, negatives B, each (B, D)."""
        u, i, j = triples
        g_i, g_j = (g[:, None] for g in slopes)
        steps = (
            (self.items, i, PULL, p),
            (self.items, j, PUSH, p),
            (self.items, i, PULL_SLOPE, g_i * p),
            (self.items, j, PUSH_SLOPE, g_j * p),
            (self.users, u, PULL, A),
            (self.users, u, PUSH, B),
            (self.users, u, PULL_SLOPE, g_i * A),
            (self.users, u, PUSH_SLOPE, g_j * B),
        )
        self._add(steps)

    def record_shared(
        self,
        pairs: tuple[Tensor, Tensor, Tensor, Tensor],
        negatives: tuple[Tensor, Tensor],
        counts: Tensor,
        slopes: Tensor,
    ) -> None:
        """Adds pairs that share their negatives: rows and vectors of users and seen items, and of the negatives.

        counts, slopes (B, N): whether a negative counts for a pair, and its slope. By count, a pair counts one as a
        pull and one as a push, which its negatives share; the slope of its pull is the sum of its negatives' slopes.
        """
        (u, i, p, A), (j, V) = pairs, negatives
        pulls, even = slopes.sum(1, keepdim=True), counts / counts.sum(1, keepdim=True).clamp(min=1)
        steps = (
            (self.items, i, PULL, p),
            (self.items, j, PUSH, even.T @ p),
            (self.items, i, PULL_SLOPE, pulls * p),
            (self.items, j, PUSH_SLOPE, slopes.T @ p),
            (self.users, u, PULL, A),
            (self.users, u, PUSH, even @ V),
            (self.users, u, PULL_SLOPE, pulls * A),
            (self.users, u, PUSH_SLOPE, slopes @ V),
        )
        self._add(steps)

    def _add(self, steps: Iterable[tuple[Tensor, Tensor, int, Tensor]]) -> None:
        for table, rows, which, step in steps:
            table[:, which].index_add_(0, rows, step.float())

    def count(self, size: int, batches: int = 1) -> None:
        """Notes that this many batches of this size have been recorded."""
        self.triples += size * batches
        self.records += -(-size // self.every) * batches

    def net(self, side: Tensor, rows: Tensor) -> Tensor:
        """(D,) the mean over these rows of pull - push by slope."""
        return side[rows, PULL_SLOPE].double().mean(0) - side[rows, PUSH_SLOPE].double().mean(0)

    def on_host(self) -> Ledger:
        """A copy as a value."""
        items, users = (sums.cpu().numpy().copy() for sums in (self.items, self.users))
        return Ledger(items, users, self.every, self.triples, self.triples / max(1, self.records))
