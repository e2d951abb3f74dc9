"""CausE: causal embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from counterpop.interactions import Interactions
from counterpop.training.methods.contract import Method
from counterpop.training.methods.plain import Plain

if TYPE_CHECKING:
    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.native import Objective
    from counterpop.training.settings import Settings


@dataclass(frozen=True)
class CausE(Method):
    """Causal embeddings: every item has a control and a treatment vector, held close to each other.

    Control vectors learn from the observed part of train, treatment vectors from the part drawn by intervention, users
    from both; ranking uses the control vectors. Loss: BPR (or BCE) on each part + penalty x the mean squared difference
    over D between the two vectors of each item of the triple. LightGCN propagates the two over a graph each. Both
    start from the same values.
    Limit: needs a split with an intervened part. That part is small, so the treatment vectors learn little that could
    correct the control vectors.
    """

    name: ClassVar[str] = "cause"
    title: ClassVar[str] = "CausE"
    losses: ClassVar[tuple[str, ...]] = ("bpr", "bce")
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = Plain.defaults
    any_encoder: ClassVar[bool] = False
    needs_intervened: ClassVar[bool] = True
    penalty: float = 0.01

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        faster = 0.02 if backbone == "lightgcn" else 0.2
        return (
            {"loss": "bpr", "method": cls(1.0)},
            {"loss": "bce", "method": cls(1.0)},
            {"loss": "bce", "method": cls(1.0), "lr": faster},
            {"loss": "bpr"},
            {"loss": "bce"},
            {"loss": "bpr", "method": cls(0.1)},
            {"loss": "bce", "method": cls(0.1), "lr": faster},
            {"loss": "bpr", "method": cls(1.0), "reg": 1e-4},
        )

    def native(self, train: Interactions, settings: Settings, threads: int) -> Objective:
        from counterpop.training.methods.cause.native import CausEObjective

        return CausEObjective(train, settings, threads, self.penalty)

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        from counterpop.training.methods.cause.torch import CausELoss

        return CausELoss(train, settings, self.penalty)
