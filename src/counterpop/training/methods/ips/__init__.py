"""Inverse propensity scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.training.methods.plain import SMALL_START, Plain


@dataclass(frozen=True)
class IPS(Plain):
    """Inverse propensity scores: the less popular its item, the more a positive's loss counts.

    w_i = (largest popularity / popularity of i) ** power, capped at a quantile of all items' weights, divided by the
    largest that is left. The usual variants: plain `IPS(1, clip=1, normalised=False)`, which needs a learning rate
    smaller by about the largest weight; clipped `IPS(1, normalised=False)`; normalised `IPS(1, clip=1)`; clipped and
    normalised `IPS(1)`; all of these and smoothed, the default.
    Limit: popularity stands in for the chance of being seen, so an item that is popular because it is good is held
    back with the rest; rare items get large weights on little evidence, and clipping only hides that.
    """

    name: ClassVar[str] = "ips"
    title: ClassVar[str] = "IPS"
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mf": {"lr": 0.1, "reg": 1e-5} | SMALL_START,
        "lightgcn": {"lr": 5e-3, "reg": 1e-5} | SMALL_START,
    }
    power: float = 0.25
    """Below 1 the weights are smoothed; 0 is plain training. At 1 popular items are hardly trained.
    Validation recall of MF at .5, .25 and 0: Adressa .142, .184, .207; ML-10M .141, .147, .155
    (experiments/baselines.md)."""
    clip: float = 0.5
    """The quantile at which weights are capped: 0.5 is their median, 1 caps nothing."""
    normalised: bool = True
    """Divide by the largest weight, so that none is above 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip > 1:
            raise InputError(f"clip of ips is a quantile, from 0 to 1, got {self.clip}")

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        slower = 2e-3 if backbone == "lightgcn" else 0.05
        return (
            {"loss": "bpr"},
            {"loss": "bce"},
            {"loss": "bce", "method": cls(power=0.1), "lr": slower},
            {"loss": "bpr", "method": cls(power=0.1), "lr": slower},
            {"loss": "bce", "method": cls(power=0.5)},
            {"loss": "bpr", "method": cls(power=0.5)},
            {"loss": "bpr", "method": cls(power=1.0)},
            {"loss": "bpr", "method": cls(clip=1.0)},
        )

    def weights(self, counts: NDArray[np.int64]) -> FloatArray:
        """(I,) the weight of every item; one without interactions counts as having one.

        >>> IPS(power=1).weights(np.array([8, 4, 2, 1, 1])).tolist()
        [0.25, 0.5, 1.0, 1.0, 1.0]
        """
        weights = (max(1, int(counts.max())) / np.maximum(counts, 1)) ** self.power
        weights = np.minimum(weights, np.quantile(weights, self.clip))
        return (weights / weights.max() if self.normalised else weights).astype(np.float32)
