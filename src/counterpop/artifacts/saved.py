"""A folder that holds a model, of whichever kind: what every command asks of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpop.evaluation import On
from counterpop.interactions import Interactions
from counterpop.ledger import Ledger
from counterpop.presentation import Shown
from counterpop.recommender import Recommender
from counterpop.splits import Development
from counterpop.tuning import Grid

HeldOut = Sequence[tuple[Recommender, Interactions]]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Saved(Shown, ABC):
    """The content of a folder, except its test part (see `load_tested`)."""

    path: Path
    manifest: Mapping[str, Any]
    known: Development
    """What the model was trained and tuned on."""
    grid: Grid | None = None
    """The strengths that were measured, if any were."""

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @abstractmethod
    def recommender(self, on: On = "test") -> Recommender:
        """The model to use on a part, at its tuned strengths; for test it is the one that is served."""

    @abstractmethod
    def trained_on(self, on: On = "test") -> Interactions:
        """The interactions that the model of `recommender` was trained on."""

    @abstractmethod
    def held_out(self) -> HeldOut:
        """Validation pairs and, if there are some, ordinary ones, each with a model that was not trained on them."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """How the model was made."""

    @property
    @abstractmethod
    def tuning(self) -> Mapping[str, Any] | None:
        """How the strengths were chosen, as the command that chose them prints it; None if they were not."""

    @property
    def history(self) -> Sequence[Mapping[str, float]]:
        """One entry for each epoch of training, if that is known."""
        return ()

    @property
    def ledger(self) -> Ledger | None:
        return None
