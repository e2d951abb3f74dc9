"""Everything that decides how a model is trained, as one value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from counterpop.errors import InputError

Backbone = Literal["mf"]
Method = Literal["plain", "gradient"]
Loss = Literal["bpr", "bce"]
Sampling = Literal["interactions", "users"]
Schedule = Literal["constant", "linear", "cosine"]
Device = Literal["cpu"]


@dataclass(frozen=True)
class Settings:
    """The settings of a training run; the defaults are those that our published figures were reached with.

    `method="gradient"` normalises user vectors in training and keeps the ledger, `"plain"` does neither;
    `normalised` and `ledger` say otherwise.
    """

    backbone: Backbone = "mf"
    method: Method = "gradient"
    loss: Loss = "bpr"
    dim: int = 128
    epochs: int = 250
    lr: float = 0.2
    schedule: Schedule = "linear"
    reg: float = 1e-3
    """L2: each step adds reg/2 times the squared length of the three rows it touches."""
    negatives: int = 1
    """Negatives for each positive; an epoch has this many times as many triples."""
    negative_power: float = 0.0
    """Negatives are drawn in proportion to popularity ** negative_power: 0 is uniform. Never a seen item."""
    sampling: Sampling = "users"
    """Positives: every interaction once an epoch, or equally many for every user, drawn from their items."""
    normalised: bool | None = None
    ledger: bool | None = None
    ledger_every: int = 256
    """One triple in so many goes into the ledger; 1 records them all, at about twice the time."""
    initial_scale: float = 0.1
    """Standard deviation of the first values."""
    check_every: int = 10
    """Epochs between two looks at the validation part."""
    patience: int = 10
    """Looks without a better one before training stops."""
    threads: int | None = None
    """All cores by default. 1 gives the same bits on every machine of one kind; so does any fixed number."""
    device: Device = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, options in (
            ("backbone", Backbone), ("method", Method), ("loss", Loss), ("sampling", Sampling),
            ("schedule", Schedule), ("device", Device),
        ):  # fmt: skip
            if getattr(self, name) not in get_args(options):
                raise InputError(
                    f"{name} must be one of {', '.join(get_args(options))}, got {getattr(self, name)!r}"
                )
        whole = dict.fromkeys(("dim", "epochs", "negatives", "ledger_every", "check_every", "patience"), 1)
        whole |= {"seed": 0} | ({"threads": 1} if self.threads is not None else {})
        for name, least in whole.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value is True or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name in ("lr", "reg", "negative_power", "initial_scale"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.floating) or not 0 <= value < math.inf:
                raise InputError(f"{name} must be a finite number of at least 0, got {value!r}")
        if self.lr == 0 or self.initial_scale == 0:
            raise InputError("lr and initial_scale must be above 0, or nothing is learnt")
        if self.reg * self.lr >= 1:
            raise InputError(f"reg must be below 1/lr = {1 / self.lr:g}, got {self.reg}")

    @property
    def normalises(self) -> bool:
        return self.method == "gradient" if self.normalised is None else self.normalised

    @property
    def keeps_ledger(self) -> bool:
        return self.method == "gradient" if self.ledger is None else self.ledger
