"""SimGCL: two noisy encodings of the same graph, set against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.training.methods.plain import SMALL_START, Plain

if TYPE_CHECKING:
    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.settings import Settings


@dataclass(frozen=True)
class SimGCL(Plain):
    """Simple graph contrastive learning: BPR + weight x (InfoNCE of the batch's users + InfoNCE of its seen items).

    All vectors are encoded twice with noise: in every layer each moves by a random vector of length `noise` in its own
    orthant. InfoNCE of distinct rows, with z and z' their unit vectors in the two encodings, is the mean over rows i of
    -log(exp(z_i.z'_i / temperature) / sum over rows j of exp(z_i.z'_j / temperature)). It spreads vectors evenly over
    the sphere, which leaves less room for popularity. No encoding contains layer 0. Ranks without noise.
    Limit: LightGCN with torch only; a step encodes everything three times, so use a GPU unless the data are
    small.
    """

    name: ClassVar[str] = "simgcl"
    title: ClassVar[str] = "SimGCL"
    losses: ClassVar[tuple[str, ...]] = ("bpr",)
    raced: ClassVar[tuple[str, ...]] = losses
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "lightgcn": {"lr": 2e-3, "reg": 1e-4, "batch": 8192, "epochs": 60} | SMALL_START
    }
    loss_defaults: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    takes_scores: ClassVar[bool] = False
    needs_graph: ClassVar[bool] = True
    skips_input: ClassVar[bool] = True
    weight: float = 0.5
    noise: float = 0.1
    temperature: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature == 0:
            raise InputError(f"temperature of {self.name} must be above 0, got 0")

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        return (
            {},
            {"method": cls(0.1), "lr": 5e-3},
            {"method": cls(5.0, noise=0.2)},
            {"method": cls(0.02), "lr": 5e-3},
            {"method": cls(2.0)},
            {"method": cls(0.5, noise=0.2), "lr": 1e-3},
            {"method": cls(0.1, temperature=0.1), "lr": 5e-3},
            {"method": cls(0.1), "lr": 5e-3, "reg": 1e-3},
        )

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        from counterpop.training.methods.simgcl.torch import SimGCLLoss

        return SimGCLLoss(train, settings, self)
