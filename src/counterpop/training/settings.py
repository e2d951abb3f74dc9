"""Everything that decides how a model is trained, as one value."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from counterpop.errors import InputError
from counterpop.training.backbones import find_backbone
from counterpop.training.methods import Method, as_method

Sampling = Literal["interactions", "users"]
Schedule = Literal["constant", "linear", "cosine"]
Device = Literal["cpu", "cuda"]
Engine = Literal["native", "torch"]

LEAST_STEPS = 64  # in an epoch: otherwise small data would be learned in a handful of steps
SOFTMAX_ONLY = ("temperature", "logq", "shared_negatives")
STREAMS = {"initial": 400, "sampling": 401, "check": 402, "dropout": 403, "method": 404}  # of the seed


class TrainOptions(TypedDict, total=False):
    """The fields of `Settings` as keywords of `train` and `search`, for type checkers; None is the default."""

    backbone: str
    method: Method | str
    loss: str | None
    dim: int | None
    epochs: int | None
    lr: float | None
    schedule: Schedule
    reg: float | None
    layers: int | None
    edge_dropout: float
    batch: int | None
    negatives: int
    negative_power: float
    temperature: float | None
    logq: float | None
    shared_negatives: int | None
    sampling: Sampling | None
    normalised: bool | None
    ledger: bool | None
    ledger_every: int
    initial_scale: float | None
    check_every: int
    patience: int
    threads: int | None
    device: Device
    engine: Engine | None
    seed: int


@dataclass(frozen=True)
class Settings:
    """The settings of a training run; the defaults are those that our published figures were reached with.

    What is None by default depends on the backbone and the method.
    """

    backbone: str = "mf"
    method: Method = field(default="gradient")  # type: ignore[assignment]
    """A method, or the name of a built-in one."""
    loss: str = None  # type: ignore[assignment]
    """"bpr", "bce" or "softmax"; the first that the method can be trained with by default."""
    dim: int = None  # type: ignore[assignment]
    epochs: int = None  # type: ignore[assignment]
    lr: float = None  # type: ignore[assignment]
    schedule: Schedule = "linear"
    reg: float = None  # type: ignore[assignment]
    """L2: each triple adds reg/2 times the squared length of the three vectors it touches; with softmax each pair those
    of its two, and each drawn negative its own."""
    layers: int = None  # type: ignore[assignment]
    """Propagations over the graph of users and items: 1 to 4 for LightGCN, none for MF."""
    edge_dropout: float = 0.0
    """Share of the graph's edges that LightGCN leaves out at random in each step."""
    batch: int = None  # type: ignore[assignment]
    """Triples in a step, at most a 64th of an epoch. Native MF steps after every triple, but after a batch with
    softmax."""
    negatives: int = 1
    """Negatives for each positive; an epoch has this many times as many triples."""
    negative_power: float = 0.0
    """Negatives are drawn in proportion to popularity ** negative_power: 0 is uniform. Never a seen item."""
    temperature: float | None = None
    """Softmax: what scores are divided by; the smaller, the more the hardest negatives count."""
    logq: float | None = None
    """Softmax: which negatives count. 1 stands for uniform ones, 0 for those by popularity, less for steeper still."""
    shared_negatives: int | None = None
    """Softmax: negatives that are drawn for each batch, at most `batch`; 0 takes the batch's other seen items."""
    sampling: Sampling = None  # type: ignore[assignment]
    """Positives: every interaction once an epoch (softmax), or the same number for every user, drawn from their items
    (other losses)."""
    normalised: bool | None = None
    """Whether user vectors are normalised in training; by default the method decides. With softmax, users and items
    are normalised (cosines) in every method unless this is False."""
    ledger: bool | None = None
    """Whether a ledger is kept; by default the method decides."""
    ledger_every: int = 256
    """One triple in this many goes into the ledger; 1 records them all, at about twice the time."""
    initial_scale: float = None  # type: ignore[assignment]
    """Standard deviation of the first values."""
    check_every: int = 10
    """Epochs between two looks at the validation part."""
    patience: int = 10
    """Looks without an improvement before training stops."""
    threads: int | None = None
    """Threads of the native engine; all cores by default. The same number gives the same bits on every machine of one
    kind."""
    device: Device = "cpu"
    engine: Engine = None  # type: ignore[assignment]
    """Own kernels ("native", CPU only) or torch; by default native on the CPU if the method has kernels."""
    seed: int = 0

    def __post_init__(self) -> None:
        backbone = find_backbone(self.backbone)
        object.__setattr__(self, "method", as_method(self.method, self.backbone))
        native = self.device == "cpu" and self.method.has_native and backbone.native is not None
        by_default: dict[str, Any] = {
            "loss": self.method.losses[0],
            "engine": "native" if native else "torch",
            "initial_scale": 0.1,
            "sampling": "users",
        }
        by_default |= {**backbone.defaults, **self.method.defaults.get(self.backbone, {})}
        loss = self.loss or by_default["loss"]
        by_default |= self.method.loss_defaults.get(loss, {}).get(self.backbone, {})
        for name, value in by_default.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        self._check_values()
        backbone.check(self)
        self._check_method()
        self.method.check(self)

    def _check_values(self) -> None:
        """Checks each setting on its own."""
        for name, kind in (("sampling", Sampling), ("schedule", Schedule), ("device", Device), ("engine", Engine)):
            if getattr(self, name) not in get_args(kind):
                raise InputError(f"{name} must be one of {', '.join(get_args(kind))}, got {getattr(self, name)!r}")
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
            raise InputError("lr and initial_scale must be above 0, or nothing is learned")
        if self.reg * self.lr >= 1:
            raise InputError(f"reg must be below 1/lr = {1 / self.lr:g}, got {self.reg}")
        if self.device == "cuda" and self.engine == "native":
            raise InputError("the native engine runs on the CPU only; use engine torch for cuda")

    def _check_method(self) -> None:
        """Checks what the method allows."""
        method = self.method
        if self.loss not in method.losses:
            raise InputError(f"the loss of {method.name} must be {' or '.join(method.losses)}, got {self.loss!r}")
        if not method.takes_scores and (self.normalises or self.keeps_ledger):
            raise InputError(f"{method.name} supports neither normalised users nor a ledger; switch both off")
        self._check_softmax()
        if method.draws_negatives and self.negative_power:
            raise InputError(f"{method.name} draws its negatives by its own rule; leave negative_power out")

    def _check_softmax(self) -> None:
        """Checks the settings that belong to the softmax loss, and those that have no effect on it."""
        if self.loss != "softmax":
            for name in SOFTMAX_ONLY:
                if getattr(self, name) is not None:
                    raise InputError(f"{name} belongs to loss softmax and has no effect on {self.loss}; leave it out")
            return
        temperature, logq, shared = (getattr(self, name) for name in SOFTMAX_ONLY)
        for name, value, least in (("temperature", temperature, 0.0), ("logq", logq, -math.inf)):
            if not isinstance(value, int | float | np.floating) or not least < value < math.inf:
                bound = " above 0" if least == 0 else ""
                raise InputError(f"{name} must be a finite number{bound}, got {value!r}")
        if not isinstance(shared, int | np.integer) or shared is True or not 0 <= shared <= self.batch:
            raise InputError(f"shared_negatives must be a whole number from 0 to batch ({self.batch}), got {shared!r}")
        if self.negatives != 1:
            raise InputError(
                "softmax shares its negatives within a batch; set batch= or shared_negatives=, not negatives="
            )
        if self.negative_power and not shared:
            raise InputError(
                "negative_power has no effect on softmax with the batch's own items as negatives; set logq "
                "(1 - logq is its twin), or draw negatives with shared_negatives"
            )

    def steps(self, triples: int) -> int:
        """How many batches an epoch of this many triples is cut into."""
        return max(1, min(LEAST_STEPS, triples), round(triples / self.batch))

    @property
    def normalises(self) -> bool:
        return self.method.normalises if self.normalised is None else self.normalised

    @property
    def keeps_ledger(self) -> bool:
        return self.method.keeps_ledger if self.ledger is None else self.ledger

    def generator(self, stream: str) -> np.random.Generator:
        """A fresh generator of one of the seed's streams, so that one purpose does not disturb another."""
        return np.random.default_rng([self.seed, STREAMS[stream]])

    def to_json(self) -> dict[str, Any]:
        """All settings by name as a run folder holds them: the method's name, and its options under "options"."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"method": self.method.name, "options": asdict(self.method) or None}
