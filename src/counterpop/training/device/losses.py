"""The interface between a method and torch: a loss of a batch of triples, differentiated by autograd.

This loss is what every other engine is tested against.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.runs import Model
from counterpop.training.device.ledger import DeviceLedger
from counterpop.training.settings import Settings

OWN_RATE = 1 / 256  # of the learning rate, for a method's own parameters in MF: every triple moves them


class TripleLoss(torch.nn.Module):
    """The loss of a batch; its parameters are the method's own."""

    ranks_as_trained = True
    """Whether the vectors that rank are the vectors in training."""
    by_triple = True
    """Whether it is a sum over triples, and none of them sees the others of its batch."""
    repeats = True
    """Whether every batch takes the same operations on the same shapes, so that a GPU may record and repeat a step.

    What changes from epoch to epoch must then be a buffer that is filled in place: a number would stay as recorded.
    """
    ledger: DeviceLedger | None = None

    def __init__(self, train: Interactions, settings: Settings) -> None:
        super().__init__()
        self._train, self._settings = train, settings
        self._bce = settings.loss == "bce"

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch, counted from 0."""

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of everything that is minimised over the batch (3, B), and the losses (B,) without penalties."""

    def contrast(self, encoder: torch.nn.Module, users: Tensor, items: Tensor, triples: Tensor) -> Tensor | None:
        """What the loss of a batch adds that needs the encoder itself, such as noisy encodings set against each other.

        `users` and `items` are the vectors that it has returned for this step. None for nothing. See
        `device.contrast.log_sum_exp`. MF has no encoder and does not call it.
        """
        return None

    def step_epoch(self, users: Tensor, items: Tensor, triples: Tensor, lr: float) -> Tensor | None:
        """Takes the steps of a whole epoch of MF in kernels on a GPU; returns the mean loss.

        None if the method has no such kernel: then it goes batch by batch.
        """
        return None

    def step_batch(self, users: Tensor, items: Tensor, triples: Tensor, lr: Tensor) -> Tensor | None:
        """Takes one step of MF along a batch in kernels on a GPU; returns its losses. lr (): on the device.

        None if the method has no such kernel: then autograd takes it.
        """
        return None

    def add_gradient(self, users: Tensor, items: Tensor, triples: Tensor, into: tuple[Tensor, Tensor]) -> Tensor | None:
        """Adds the gradient at these vectors to `into` in a kernel; returns the mean loss, or None if it has none."""
        return None

    def ranking(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors that rank, from those in training."""
        return users, items

    def model(self, vectors: Embeddings) -> Model:
        """The model that ranks."""
        return Model(vectors, self.ledger.on_host() if self.ledger else None, self._settings.method.dials)

    def _rows(
        self, users: Tensor, items: Tensor, triples: Tensor | tuple[Tensor, Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The vectors of users, seen items and negatives, and their L2."""
        u, i, j = triples
        # index_select adds up in its backward; users[u] would sort first
        P, A, B = (rows.index_select(0, at) for rows, at in ((users, u), (items, i), (items, j)))
        return P, A, B, 0.5 * self._settings.reg * (P.square().sum() + A.square().sum() + B.square().sum())


class OwnLoss(TripleLoss):
    """The loss of a method that only defines `loss_of`."""

    def forward(self, users: Tensor, items: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        P, A, B, reg = self._rows(users, items, triples)
        losses = self._settings.method.loss_of(P, A, B)
        if losses.shape != P.shape[:1]:
            shapes = f"one number for each of the {len(P)} triples, got shape {tuple(losses.shape)}"
            raise InputError(f"loss_of of {self._settings.method.name} must return {shapes}")
        return losses.sum() + reg, losses
