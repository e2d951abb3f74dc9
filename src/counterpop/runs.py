"""A trained run as a value: the model, what training recorded, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.ledger import Ledger

Strengths = tuple[float, ...]

STRENGTHS: Strengths = tuple(round(0.2 * n, 1) for n in range(11))  # the paper's grid for each side
FIXED: Strengths = (0.0,)  # of a side that is left as it is


@dataclass(frozen=True, eq=False)
class Dials:
    """What `tune` may turn on a trained model without training it again: a grid of strengths for each side."""

    item_strengths: Strengths = FIXED
    user_strengths: Strengths = FIXED
    user_direction: FloatArray | None = None
    """(D,) the unit vector that the user strength works along, if the method has its own (MACR's c)."""


BOTH_SIDES = Dials(STRENGTHS, STRENGTHS)  # the paper's: both directions, each with its whole grid


@dataclass(frozen=True, eq=False)
class Model:
    """Vectors, the ledger if training kept one, and the dials if there is anything to tune."""

    embeddings: Embeddings
    ledger: Ledger | None = None
    dials: Dials | None = None
    """None means none: `tune` leaves such a model as it is."""


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
