"""PAAC: popularity-aware alignment and contrast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.training.methods.simgcl import SimGCL

if TYPE_CHECKING:
    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.settings import Settings


@dataclass(frozen=True)
class PAAC(SimGCL):
    """SimGCL with popular and other items contrasted separately, and both kinds aligned if one user has seen them.

    The `share` of a batch's distinct seen items with the most train pairs is popular. InfoNCE of items becomes
    popular_weight x that of popular items + (1 - popular_weight) x that of the others; a negative of the other kind
    counts `across` times. Alignment adds, for each user of the batch, align / (their number of seen items in the batch)
    x the sum over pairs of a popular and another of these items of the squared distance of their vectors.
    Limit: as SimGCL; and aligning moves rare items towards popular ones, whatever else sets them apart.
    """

    name: ClassVar[str] = "paac"
    title: ClassVar[str] = "PAAC"
    align: float = 1.0
    popular_weight: float = 0.2
    across: float = 0.2
    share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("popular_weight", "share"):
            if getattr(self, name) > 1:
                raise InputError(f"{name} of paac is a share, from 0 to 1, got {getattr(self, name)}")

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        return (
            *super().candidates(backbone)[:5],
            {"method": cls(0.1, align=10.0), "lr": 5e-3},
            {"method": cls(0.1, popular_weight=0.5, across=0.6), "lr": 5e-3},
            {"method": cls(0.5, noise=0.2), "lr": 1e-3},
        )

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        from counterpop.training.methods.paac.torch import PAACLoss

        return PAACLoss(train, settings, self)
