"""Plain training: BPR or BCE on inner products, softmax on cosines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.interactions import Interactions
from counterpop.training.methods.contract import Method

if TYPE_CHECKING:
    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.native import Objective
    from counterpop.training.settings import Settings

# With little L2, a rare item's scores keep what it started with: better to start near 0 (experiments/baselines.md).
SMALL_START = {"initial_scale": 0.01}
COSINE = {"temperature": 0.15, "logq": 0.5, "shared_negatives": 0, "normalised": True, "sampling": "interactions"}
SOFTMAX: Mapping[str, Mapping[str, Any]] = {  # experiments/softmax.md
    "mf": {"lr": 0.05, "reg": 1e-2, "batch": 512, "epochs": 30, "initial_scale": 0.1} | COSINE,
    "lightgcn": {"lr": 5e-3, "reg": 1e-5, "initial_scale": 0.1, "epochs": 50} | COSINE,
    "encoder": COSINE,
}


@dataclass(frozen=True)
class Plain(Method):
    """BPR or BCE on inner products, or softmax on cosines (see `methods/plain/softmax`), nothing else.

    Limit: whatever popularity does to the scores stays in them.
    """

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "plain"
    losses: ClassVar[tuple[str, ...]] = ("bpr", "bce", "softmax")
    raced: ClassVar[tuple[str, ...]] = ("bpr", "bce")
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mf": {"lr": 0.05, "reg": 1e-5} | SMALL_START,
        "lightgcn": {"lr": 5e-3, "reg": 1e-5} | SMALL_START,
    }
    loss_defaults: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {"softmax": SOFTMAX}
    takes_scores: ClassVar[bool] = True

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        if backbone == "lightgcn":
            rates = ("bpr", 2e-3, 1e-5), ("bce", 0.02, 1e-5), ("bpr", 5e-3, 3e-4), ("bce", 2e-3, 1e-5)
            last = ("bpr", 0.02, 3e-4), ("bce", 5e-3, 3e-4)
        else:
            rates = ("bce", 0.2, 1e-5), ("bpr", 0.05, 1e-4), ("bce", 0.1, 1e-5), ("bpr", 0.02, 1e-5)
            last = ("bpr", 0.1, 1e-3), ("bce", 0.2, 1e-3)
        tried = [{"loss": loss, "lr": lr, "reg": reg} for loss, lr, reg in (*rates, *last)]
        return {"loss": "bpr"}, {"loss": "bce"}, *tried

    def weights(self, counts: NDArray[np.int64]) -> FloatArray:
        """(I,) what a triple counts by its seen item; empty if all count the same."""
        return np.empty(0, np.float32)

    def native(self, train: Interactions, settings: Settings, threads: int) -> Objective:
        weights = self.weights(train.item_counts)
        if settings.loss == "softmax":
            from counterpop.training.methods.plain.softmax.native import SoftmaxObjective

            return SoftmaxObjective(train, settings, threads, weights)
        from counterpop.training.methods.plain.native import ScoresObjective

        return ScoresObjective(train, settings, threads, weights)

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        weights = self.weights(train.item_counts)
        if settings.loss == "softmax":
            from counterpop.training.methods.plain.softmax.torch import SoftmaxLoss

            return SoftmaxLoss(train, settings, weights)
        from counterpop.training.methods.plain.torch import ScoresLoss

        return ScoresLoss(train, settings, weights)
