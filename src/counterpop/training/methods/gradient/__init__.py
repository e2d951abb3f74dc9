"""The paper's method: normalised users and a ledger in training, two directions taken out afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from counterpop.runs import BOTH_SIDES, Dials, Strengths
from counterpop.training.methods.plain import Plain

COARSE: Strengths = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)


@dataclass(frozen=True)
class Gradient(Plain):
    """Plain training with normalised users, which records in a ledger what the gradients do to every item and user.

    `tune` then takes the popular direction out of the items and the conformity direction out of the users. A look at
    validation during training tries a coarse grid of both strengths, because that is how the model will be used.
    Limit: one direction for all items and one for all users.
    """

    name: ClassVar[str] = "gradient"
    title: ClassVar[str] = "gradient"
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # .5 finds more on even data sets, but costs ordinary recall that no strength gives back (experiments/defaults.md)
    powers: ClassVar[Mapping[str, tuple[float, ...]]] = dict.fromkeys(("bpr", "bce"), (0.0, 0.25, 0.5, 0.75))
    slow: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(
        {"loss": "softmax"} | more for more in ({"logq": 1.0}, {"logq": 0.5}, {"logq": -0.5, "temperature": 0.1})
    )
    normalises: ClassVar[bool] = True
    keeps_ledger: ClassVar[bool] = True
    dials: ClassVar[Dials | None] = BOTH_SIDES
    looks: ClassVar[tuple[Strengths, Strengths]] = (COARSE, COARSE)

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        if backbone == "lightgcn":
            tried: tuple[dict[str, Any], ...] = (
                {"loss": "bpr", "reg": 1e-3},
                {"loss": "bce", "reg": 1e-3},
                {"loss": "bpr", "lr": 0.01},
                {"loss": "bce", "lr": 0.05},
                {"loss": "bpr", "lr": 0.03, "reg": 1e-3},
                {"loss": "bce", "lr": 0.01},
            )
        else:
            tried = (
                {"loss": "bce", "lr": 0.4},
                {"loss": "bpr", "lr": 0.4},
                {"loss": "bpr", "reg": 3e-3},
                {"loss": "bce", "lr": 0.4, "reg": 3e-4},
                {"loss": "bpr", "reg": 3e-4},
                {"loss": "bpr", "lr": 0.1, "initial_scale": 0.01},
            )
        return {"loss": "bpr"}, {"loss": "bce"}, *tried
