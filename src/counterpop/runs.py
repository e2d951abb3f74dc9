"""A trained run as a value: the model, what training recorded of it, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.ledger import Ledger


@dataclass(frozen=True, eq=False)
class Model:
    """Vectors and, where training kept one, the ledger."""

    embeddings: Embeddings
    ledger: Ledger | None = None
    dial: FloatArray | None = None
    """(D,) the unit vector along which the method's own user strength works, where it has one (MACR's c)."""


@dataclass(frozen=True, eq=False)
class Run:
    """What `train` gives back.

    `model` was trained on the train part: strengths are tuned on it. With a refit, `refit` was trained again
    on train + validation for as many epochs, and is the one that is evaluated and served.
    """

    model: Model
    refit: Model | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    history: tuple[dict[str, float], ...] = ()
    """One entry for each epoch: epoch, loss, seconds, and the validation metric where it was measured."""

    @property
    def final(self) -> Model:
        """The model to evaluate and serve."""
        return self.refit or self.model

    @property
    def embeddings(self) -> Embeddings:
        return self.final.embeddings

    @property
    def ledger(self) -> Ledger | None:
        return self.final.ledger
