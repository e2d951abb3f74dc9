"""DICE: disentangled interest and conformity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.training.methods.contract import Contrast, Method
from counterpop.training.methods.plain import SMALL_START

if TYPE_CHECKING:
    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.native import Objective
    from counterpop.training.settings import Settings

Discrepancy = Literal["dcor", "l1", "l2"]
CORRELATIONS = 8  # distance correlations in an epoch of MF, at least
DCOR_ROWS = 128  # users, and as many items, in one of them


@dataclass(frozen=True)
class DICE(Method):
    """Disentangled interest and conformity: half of each vector for either, scores from both together.

    Negatives are clearly more popular than the seen item (by more than `margin`) or clearly less (below half of it).
    Choosing the less popular of two items is evidence of interest: the seen item's interest score must be the higher
    and its conformity score the lower. Choosing the more popular of two is evidence of conformity only. Loss: BPR on
    the whole score + weight x BPR on the halves as above, - penalty x the discrepancy of the two halves: "l1" and "l2"
    are the mean absolute and the mean squared difference of the halves of every row that a triple touches; "dcor" is
    minus the distance correlation of the halves, of random users and items (at most 128 of each at a time, so memory
    does not grow), 8 times an epoch in MF and in every step of LightGCN; with torch, of users and items of the batch in
    every step, and for MF on a GPU 8 times an epoch as well. Weight and margin shrink by `decay` after every epoch.
    Limit: only popularity decides what counts as conformity, the same for all users; the margin and the small weights
    set how well the halves separate.
    """

    name: ClassVar[str] = "dice"
    title: ClassVar[str] = "DICE"
    losses: ClassVar[tuple[str, ...]] = ("bpr",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mf": {"lr": 0.1, "reg": 1e-2} | SMALL_START,
        "lightgcn": {"lr": 5e-3, "reg": 5e-3} | SMALL_START,
    }
    any_encoder: ClassVar[bool] = False
    weight: float = 0.1
    margin: float = 40.0
    pool: float = 40.0
    """Items that a side needs to be drawn from; where both have fewer, any negative is drawn. If a user has touched all
    of a side, the CPU leaves the triple out, and torch draws any negative."""
    decay: float = 0.9
    discrepancy: Discrepancy = "l1"
    penalty: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = get_args(Discrepancy)
        if self.discrepancy not in kinds:
            raise InputError(f"discrepancy of dice must be one of {', '.join(kinds)}, got {self.discrepancy!r}")
        if self.decay > 1:
            raise InputError(f"decay of dice must be at most 1, got {self.decay}")

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        graph = backbone == "lightgcn"
        few, smaller = cls(pool=4.0), {"reg": 1e-3}
        return (
            {},
            {"method": cls(pool=4.0, margin=10.0)} | smaller,
            {"lr": 5e-3 if graph else 0.05, "reg": 1e-5},
            {"method": few, "negatives": 4, "epochs": 40 if graph else 64, "check_every": 4} | smaller,  # as long
            {"method": few, "lr": 2e-3 if graph else 0.05} | smaller,
            {"method": few, "lr": 0.02 if graph else 0.2} | smaller,
            {"method": few} | smaller,
            {"method": cls(weight=0.5)},
        )

    @property
    def correlates(self) -> bool:
        return self.discrepancy == "dcor" and self.penalty > 0

    def weight_in(self, epoch: int) -> float:
        return self.weight * self.decay**epoch

    def negatives(self, epoch: int) -> Contrast:
        return Contrast(self.margin * self.decay**epoch, self.pool)

    def check(self, settings: Settings) -> None:
        if settings.dim % 2:
            raise InputError(f"dim must be even, half interest and half conformity, got {settings.dim}")

    def native(self, train: Interactions, settings: Settings, threads: int) -> Objective:
        from counterpop.training.methods.dice.native import DICEObjective

        return DICEObjective(train, settings, threads, self)

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        from counterpop.training.methods.dice.torch import DICELoss

        return DICELoss(train, settings, self)
