"""A trained run as a value: the model, what training recorded, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import Embeddings, FloatArray
from counterpop.interactions import Ids
from counterpop.ledger import Ledger
from counterpop.presentation import Pictured, Shown

Strengths = tuple[float, ...]

STRENGTHS: Strengths = tuple(round(0.2 * n, 1) for n in range(11))  # the paper's grid for each side
FIXED: Strengths = (0.0,)  # of a side that is left as it is


@dataclass(frozen=True, eq=False, repr=False)
class Dials(Shown):
    """What `tune` may turn on a trained model without training it again: a grid of strengths for each side."""

    item_strengths: Strengths = FIXED
    user_strengths: Strengths = FIXED
    user_direction: FloatArray | None = None
    """(D,) the unit vector that the user strength works along, if the method has its own (MACR's c)."""


BOTH_SIDES = Dials(STRENGTHS, STRENGTHS)  # the paper's: both directions, each with its whole grid


@dataclass(frozen=True, eq=False, repr=False)
class Model(Shown):
    """Vectors, the ledger if training kept one, and the dials if there is anything to tune."""

    embeddings: Embeddings
    ledger: Ledger | None = None
    dials: Dials | None = None
    """None means none: `tune` leaves such a model as it is."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The model as named arrays, for a file; see `model_of`."""
        found: dict[str, NDArray[Any]] = {
            "user_vectors": self.embeddings.user_vectors,
            "item_vectors": self.embeddings.item_vectors,
        }
        if ledger := self.ledger:
            counts = np.array([ledger.every, ledger.triples, ledger.scale])
            found |= {"ledger_items": ledger.items, "ledger_users": ledger.users, "ledger_counts": counts}
        if dials := self.dials:
            found |= {"dial_items": np.array(dials.item_strengths), "dial_users": np.array(dials.user_strengths)}
            if dials.user_direction is not None:
                found |= {"dial": dials.user_direction}
        return {name: np.ascontiguousarray(value) for name, value in found.items()}


def model_of(tensors: Mapping[str, NDArray[Any]], user_ids: Ids, item_ids: Ids) -> Model:
    """The model that `Model.tensors` gave."""
    ledger = dials = None
    if "ledger_items" in tensors:
        every, triples, scale = tensors["ledger_counts"].tolist()
        ledger = Ledger(tensors["ledger_items"], tensors["ledger_users"], int(every), int(triples), scale)
    if "dial_items" in tensors:
        of_items, of_users = (tuple(tensors[name].tolist()) for name in ("dial_items", "dial_users"))
        dials = Dials(of_items, of_users, tensors.get("dial"))
    return Model(Embeddings(tensors["user_vectors"], tensors["item_vectors"], user_ids, item_ids), ledger, dials)


@dataclass(frozen=True, eq=False, repr=False)
class Run(Pictured):
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
