"""What the methods minimise, with torch: autograd carries it to the vectors and to a method's own parameters.

Plain, gradient and IPS are in `triples`, their gradient by hand, because the ledger is made of its parts.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from counterpop.embeddings import Embeddings
from counterpop.interactions import Interactions
from counterpop.runs import Model
from counterpop.training.branches import first_branches, with_branch
from counterpop.training.methods import DICE, MACR, CausE
from counterpop.training.settings import Settings

DCOR_ROWS = 128  # of a batch that a distance correlation is taken of, users and seen items apart
OWN_RATE = 1 / 256  # of a method's own parameters, which every triple moves, as in `training.objectives`


class MethodLoss(torch.nn.Module):
    """The loss of a batch; its parameters are the method's own."""

    copies = 1
    """Rows for each item."""

    def __init__(self, train: Interactions, settings: Settings) -> None:
        super().__init__()
        self._train, self._settings = train, settings
        self._reg, self._bce = settings.reg, settings.loss == "bce"

    def sampling(self, epoch: int) -> dict[str, float]:
        """What the sampler must know of this epoch, counted from 0."""
        return {}

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """All that is minimised, summed over the batch (3, B), and the losses (B,) without penalties."""

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor | None:
        """Takes the steps of a whole epoch of MF in a kernel on a GPU; returns the mean loss.

        None where the method has no such kernel: then it goes batch by batch.
        """
        return None

    def model(self, vectors: Embeddings) -> Model:
        """The model that ranks."""
        return Model(vectors)

    def _rows(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The vectors of users, seen items and negatives, and their L2."""
        u, i, j = triples
        # index_select adds up in its backward; users[u] would sort first
        P, A, B = (rows.index_select(0, at) for rows, at in ((users, u), (items, i), (items, j)))
        return P, A, B, 0.5 * self._reg * (P.square().sum() + A.square().sum() + B.square().sum())


class CausELoss(MethodLoss):
    copies = 2

    def __init__(self, train: Interactions, settings: Settings) -> None:
        super().__init__(train, settings)
        assert isinstance(settings.options, CausE)
        self._penalty = settings.options.penalty

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        u, i, j = triples
        if len(users) > self._train.n_users:  # a second graph has its own vector of the same user
            u = u + (i >= self._train.n_items) * self._train.n_users
        P, A, B, reg = self._rows(users, items, torch.stack([u, i, j]))
        s_i, s_j = (P * A).sum(1), (P * B).sum(1)
        losses = softplus(-s_i) + softplus(s_j) if self._bce else softplus(s_j - s_i)
        other = [items.index_select(0, (row + self._train.n_items) % len(items)) for row in (i, j)]
        apart = (A - other[0]).square().sum() + (B - other[1]).square().sum()
        return losses.sum() + reg + self._penalty * apart, losses

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.device.fused import cause

        return cause.step_epoch(users, items, triples, lr, self._settings, self._penalty)


class DICELoss(MethodLoss):
    _counts: Tensor
    _weight: Tensor

    def __init__(self, train: Interactions, settings: Settings) -> None:
        super().__init__(train, settings)
        assert isinstance(settings.options, DICE)
        self._options = settings.options
        self.register_buffer("_counts", torch.from_numpy(train.item_counts))
        weight = torch.tensor(float(self._options.weight))
        self.register_buffer("_weight", weight)  # a buffer: see DeviceEncoder

    def sampling(self, epoch: int) -> dict[str, float]:
        shrunk = self._options.decay**epoch
        self._weight.fill_(self._options.weight * shrunk)
        return {"margin": self._options.margin * shrunk, "pool": self._options.pool}

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        P, A, B, reg = self._rows(users, items, triples)
        x, y = (half.sum(1) for half in (P * (A - B)).chunk(2, dim=1))
        more = self._counts[triples[2]] > self._counts[triples[1]]
        told = torch.where(more, softplus(-x) + softplus(y), softplus(-y))
        losses = softplus(-x - y) + self._weight * told
        if not self._options.penalty:
            apart = torch.zeros_like(reg)
        elif self._options.discrepancy == "dcor":
            users, items = (distance_correlation(*rows[:DCOR_ROWS].chunk(2, dim=1)) for rows in (P, A))
            apart = -len(x) * (users + items)
        else:
            halves = [half_a - half_b for half_a, half_b in (row.chunk(2, dim=1) for row in (P, A, B))]
            far = torch.abs if self._options.discrepancy == "l1" else torch.square
            apart = torch.stack([far(difference).mean(1).sum() for difference in halves]).sum()
        return losses.sum() + reg - self._options.penalty * apart, losses

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.device.fused import dice

        return dice.step_epoch(users, items, triples, lr, self._settings, self._counts, self._weight, self._options)


class MACRLoss(MethodLoss):
    def __init__(self, train: Interactions, settings: Settings) -> None:
        super().__init__(train, settings)
        assert isinstance(settings.options, MACR)
        self._options = settings.options
        self.branches = torch.nn.Parameter(torch.from_numpy(first_branches(settings)))  # (2, D)

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        P, A, B, reg = self._rows(users, items, triples)
        w_user, w_item = self.branches
        at_u, at_i, at_j = P @ w_user, A @ w_item, B @ w_item
        z_u = torch.sigmoid(at_u)
        y_i, y_j = (P * A).sum(1) * z_u * torch.sigmoid(at_i), (P * B).sum(1) * z_u * torch.sigmoid(at_j)
        losses = softplus(-y_i) + softplus(y_j)
        losses = losses - self._options.item_weight * (logsigmoid(at_i) + logsigmoid(-at_j))
        losses = losses - self._options.user_weight * (logsigmoid(at_u) + logsigmoid(-at_u))
        return losses.sum() + reg, losses

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor:
        from counterpop.training.device.fused import macr

        branches = self.branches.detach()
        return macr.step_epoch(users, items, triples, lr, self._settings, branches, self._options)

    def model(self, vectors: Embeddings) -> Model:
        return with_branch(vectors, self.branches[1].detach().cpu().numpy())


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """As `training.discrepancy`, with the slopes left to autograd."""
    A, B = (_centred(torch.cdist(rows, rows)) for rows in (x, y))
    v_xy, v_xx, v_yy = (product.mean().clamp(min=1e-12) for product in (A * B, A * A, B * B))
    return (v_xy.square() / (v_xx * v_yy)) ** 0.25


def _centred(distances: Tensor) -> Tensor:
    return distances - distances.mean(0) - distances.mean(1, keepdim=True) + distances.mean()


LOSSES: dict[str, type[MethodLoss]] = {"cause": CausELoss, "dice": DICELoss, "macr": MACRLoss}
