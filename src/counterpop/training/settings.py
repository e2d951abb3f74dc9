"""Everything that decides how a model is trained, as one value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from counterpop.errors import InputError
from counterpop.training.methods import MACR, OPTIONS, Options

Backbone = Literal["mf", "lightgcn", "encoder"]
Method = Literal["plain", "gradient", "ips", "cause", "dice", "macr"]
Loss = Literal["bpr", "bce"]
Sampling = Literal["interactions", "users"]
Schedule = Literal["constant", "linear", "cosine"]
Device = Literal["cpu", "cuda"]
Engine = Literal["native", "torch"]

LEAST_STEPS = 64  # of an epoch: small data would else be learnt in a handful of steps
INITIAL_STREAM, SAMPLING_STREAM, DROPOUT_STREAM, METHOD_STREAM = 400, 401, 403, 404  # of the seed

# What a setting is where it was not given. MF takes one SGD step for each triple, LightGCN one step of Adam
# for each batch: hence other rates. An encoder of one's own comes with its dim and layers.
BY_BACKBONE: dict[Backbone, dict[str, float]] = {
    "mf": {"dim": 128, "epochs": 250, "lr": 0.2, "reg": 1e-3, "layers": 0, "batch": 4096},
    "lightgcn": {"dim": 128, "epochs": 150, "lr": 0.02, "reg": 3e-4, "layers": 2, "batch": 16384},
    "encoder": {"dim": 1, "epochs": 100, "lr": 1e-3, "reg": 1e-4, "layers": 0, "batch": 4096},
}
INITIAL_SCALE = 0.1

# And what a method wants otherwise; chosen on validation, see experiments/baselines.md. With little L2, what
# a rare item began with stays in its scores: then it had better begin near 0. MF's MACR does not care.
SMALL = {"initial_scale": 0.01}
BY_METHOD: dict[tuple[str, str], dict[str, float]] = {
    ("mf", "plain"): {"lr": 0.05, "reg": 1e-5} | SMALL,
    ("mf", "ips"): {"lr": 0.1, "reg": 1e-5} | SMALL,
    ("mf", "cause"): {"lr": 0.05, "reg": 1e-5} | SMALL,
    ("mf", "dice"): {"lr": 0.1, "reg": 1e-2} | SMALL,
    ("lightgcn", "plain"): {"lr": 5e-3, "reg": 1e-5} | SMALL,
    ("lightgcn", "ips"): {"lr": 5e-3, "reg": 1e-5} | SMALL,
    ("lightgcn", "cause"): {"lr": 5e-3, "reg": 1e-5} | SMALL,
    ("lightgcn", "dice"): {"lr": 5e-3, "reg": 5e-3} | SMALL,
    ("lightgcn", "macr"): {"lr": 0.01, "reg": 1e-4} | SMALL,
}
OPTIONS_OF = {("lightgcn", "macr"): MACR(0.1, 0.1)}  # where the method's own defaults are not taken
ONLY_LOSS = {"dice": "bpr", "macr": "bce"}  # their mathematics knows no other
SCORES_ALONE = ("plain", "gradient", "ips")  # methods that take nothing but the scores of a triple


@dataclass(frozen=True)
class Settings:
    """The settings of a training run; the defaults are those that our published figures were reached with.

    `method="gradient"` normalises user vectors in training and keeps the ledger, `"plain"` does neither;
    `normalised` and `ledger` say otherwise. What is None by default depends on the backbone and the method.
    """

    backbone: Backbone = "mf"
    method: Method = "gradient"
    options: Options | None = None
    """What the method alone has to set: a value of `methods.IPS`, `CausE`, `DICE` or `MACR`."""
    loss: Loss = None  # type: ignore[assignment]
    """BPR by default, but MACR has BCE."""
    dim: int = None  # type: ignore[assignment]  # by the backbone, as below
    epochs: int = None  # type: ignore[assignment]
    lr: float = None  # type: ignore[assignment]
    schedule: Schedule = "linear"
    reg: float = None  # type: ignore[assignment]
    """L2: each triple adds reg/2 times the squared length of the three vectors it touches."""
    layers: int = None  # type: ignore[assignment]
    """Propagations over the graph of users and items: 1 to 4 for LightGCN, none for MF."""
    edge_dropout: float = 0.0
    """Share of the graph's edges left out at random in each step of LightGCN."""
    batch: int = None  # type: ignore[assignment]
    """Triples of one step, at most a 64th of an epoch. Native MF steps after every triple."""
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
    initial_scale: float = None  # type: ignore[assignment]
    """Standard deviation of the first values."""
    check_every: int = 10
    """Epochs between two looks at the validation part."""
    patience: int = 10
    """Looks without a better one before training stops."""
    threads: int | None = None
    """Of the native engine; all cores by default. 1, or any other number, gives the same bits on every
    machine of one kind."""
    device: Device = "cpu"
    engine: Engine = None  # type: ignore[assignment]
    """Own kernels ("native", cpu alone) or torch; by default native on the CPU."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.options is None and self.method in OPTIONS:
            usual = OPTIONS_OF.get((self.backbone, self.method), OPTIONS[self.method]())
            object.__setattr__(self, "options", usual)
        by_default: dict[str, Any] = {"loss": ONLY_LOSS.get(self.method, "bpr")}
        by_default["engine"] = "torch" if self.device == "cuda" else "native"
        by_default["initial_scale"] = INITIAL_SCALE
        by_default |= BY_BACKBONE.get(self.backbone, BY_BACKBONE["mf"])
        by_default |= BY_METHOD.get((self.backbone, self.method), {})
        for name, value in by_default.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        for name, options in (
            ("backbone", Backbone),
            ("method", Method),
            ("loss", Loss),
            ("sampling", Sampling),
            ("schedule", Schedule),
            ("device", Device),
            ("engine", Engine),
        ):
            if getattr(self, name) not in get_args(options):
                raise InputError(f"{name} must be one of {', '.join(get_args(options))}, got {getattr(self, name)!r}")
        counts = "dim", "epochs", "batch", "negatives", "ledger_every", "check_every", "patience"
        whole = dict.fromkeys(counts, 1) | {"seed": 0, "layers": 0}
        whole |= {"threads": 1} if self.threads is not None else {}
        for name, least in whole.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value is True or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name in ("lr", "reg", "negative_power", "initial_scale", "edge_dropout"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.floating) or not 0 <= value < math.inf:
                raise InputError(f"{name} must be a finite number of at least 0, got {value!r}")
        if self.lr == 0 or self.initial_scale == 0:
            raise InputError("lr and initial_scale must be above 0, or nothing is learnt")
        least, most = (1, 4) if self.backbone == "lightgcn" else (0, 0)
        if not least <= self.layers <= most:
            raise InputError(f"{self.backbone} has {least} to {most} layers, got {self.layers}")
        if self.edge_dropout >= 1 or (self.edge_dropout and self.backbone == "mf"):
            raise InputError(f"edge_dropout is a share below 1, for LightGCN alone, got {self.edge_dropout}")
        if type(self.options) is not OPTIONS.get(self.method, type(None)):
            raise InputError(f"these options are not those of method {self.method}: {self.options}")
        if self.loss != ONLY_LOSS.get(self.method, self.loss):
            raise InputError(f"the loss of {self.method} is {ONLY_LOSS[self.method]}, got {self.loss}")
        if self.method not in SCORES_ALONE and (self.normalised or self.ledger):
            raise InputError(f"{self.method} has neither normalised users nor a ledger; {', '.join(SCORES_ALONE)} may")
        if self.method not in SCORES_ALONE and self.backbone == "encoder":
            raise InputError(
                f"{self.method} is for mf and lightgcn; your own encoder may have {', '.join(SCORES_ALONE)}"
            )
        if self.method == "dice" and self.dim % 2:
            raise InputError(f"dim must be even, half interest and half conformity, got {self.dim}")
        if self.method == "dice" and self.negative_power:
            raise InputError("dice draws its negatives by its own rule; leave negative_power out")
        if self.device == "cuda" and self.engine == "native":
            raise InputError("the native engine runs on the CPU alone; take engine torch for cuda")
        if self.reg * self.lr >= 1:
            raise InputError(f"reg must be below 1/lr = {1 / self.lr:g}, got {self.reg}")

    def steps(self, triples: int) -> int:
        """How many batches an epoch of so many triples is cut into."""
        return max(1, min(LEAST_STEPS, triples), round(triples / self.batch))

    @property
    def normalises(self) -> bool:
        return self.method == "gradient" if self.normalised is None else self.normalised

    @property
    def keeps_ledger(self) -> bool:
        return self.method == "gradient" if self.ledger is None else self.ledger
