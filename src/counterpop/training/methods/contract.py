"""What a method is: its options, what it asks of training, and its mathematics for each engine.

A built-in method is a folder beside this file and a line in the list of `methods/__init__.py`. A method of your own is
a class in a notebook; a loss is enough:

    @dataclass(frozen=True)
    class Hinge(cp.Method):
        name: ClassVar[str] = "hinge"
        margin: float = 1.0

        def loss_of(self, users, seen, negatives):  # torch tensors (B, D) -> (B,)
            return (self.margin - (users * (seen - negatives)).sum(1)).relu()

    cp.train(split, method=Hinge(margin=0.5))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.runs import FIXED, Dials, Strengths

if TYPE_CHECKING:
    from torch import Tensor

    from counterpop.training.device.losses import TripleLoss
    from counterpop.training.native import Objective
    from counterpop.training.settings import Settings


class Contrast(NamedTuple):
    """Negatives that differ clearly in popularity from the seen item: half of them more popular, half less."""

    margin: float
    """More popular means by more than this many interactions; less popular means below half of the seen item's."""
    pool: float
    """Items that a side needs to be drawn from; where both have fewer, any negative is drawn."""


@dataclass(frozen=True)
class Method:
    """A way to train. Its fields are its options; numbers must be finite and at least 0.

    Write `loss_of` (or `torch`) for torch on any device. `native` adds numba kernels for the CPU; a method without
    them trains with torch there.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    losses: ClassVar[tuple[str, ...]] = ("own",)
    """The losses it can be trained with. `train` chooses among `raced` by validation; `Settings` takes the first."""
    raced: ClassVar[tuple[str, ...]] = ()
    """The losses that `train` chooses among, if these are not all of them: others cost too much for a race."""
    powers: ClassVar[Mapping[str, tuple[float, ...]]] = {}
    """By loss: the values of `negative_power` that `train` chooses among in the same way; 0 if there are none."""
    slow: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """Settings, each with a loss, that `train` races as well where that takes minutes: MF on the CPU, no large log."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By backbone: settings that differ from the backbone's own defaults."""
    loss_defaults: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    """By loss and backbone: settings that differ from those, if training uses this loss."""
    normalises: ClassVar[bool] = False
    """Whether user vectors are normalised in training."""
    keeps_ledger: ClassVar[bool] = False
    takes_scores: ClassVar[bool] = False
    """Whether the loss sees only the two scores of a triple, so that `normalised` and `ledger` may be switched on."""
    any_encoder: ClassVar[bool] = True
    """Whether it trains an encoder of the user's own."""
    needs_graph: ClassVar[bool] = False
    """Whether it trains only a backbone with a graph."""
    skips_input: ClassVar[bool] = False
    """Whether the mean over layers leaves out layer 0, the tables themselves (torch only)."""
    needs_intervened: ClassVar[bool] = False
    """Whether a part of train must have been drawn by intervention. Every item then has a second row for that part, I
    rows after its first, which ranks."""
    dials: ClassVar[Dials | None] = None
    """What `tune` searches afterwards; None if there is nothing to tune."""
    looks: ClassVar[tuple[Strengths, Strengths]] = (FIXED, FIXED)
    """The strengths of items and users that a look at validation tries during training."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A class with a new loss does not inherit another loss for the other engines: it would train that instead."""
        super().__init_subclass__(**kwargs)
        if "loss_of" in vars(cls) and "torch" not in vars(cls):
            cls.torch, cls.takes_scores = Method.torch, False  # type: ignore[method-assign]
        if {"loss_of", "torch"} & vars(cls).keys() and "native" not in vars(cls):
            cls.native = Method.native  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        if not getattr(self, "name", ""):
            raise InputError(
                f'a method needs a name, as in name: ClassVar[str] = "hinge"; {type(self).__name__} has none'
            )
        for name, value in asdict(self).items():
            is_number = isinstance(value, float | int) and not isinstance(value, bool)
            if isinstance(getattr(type(self), name, None), float) and not (is_number and 0 <= value < math.inf):
                raise InputError(f"{name} of {self.name} must be a finite number of at least 0, got {value!r}")

    @classmethod
    def default_for(cls, backbone: str) -> Method:
        """The method with the options that suit a backbone."""
        return cls()

    @classmethod
    def candidates(cls, backbone: str) -> tuple[Mapping[str, Any], ...]:
        """Settings that a search tries, most promising first, each laid over the defaults; built-in methods have 8."""
        return tuple({"loss": loss} for loss in cls.losses)

    def check(self, settings: Settings) -> None:
        """Raises `InputError` if these settings do not go with the method."""

    def negatives(self, epoch: int) -> Contrast | None:
        """How negatives are drawn in this epoch, counted from 0; None to draw them as the settings say."""
        return None

    def loss_of(self, users: Tensor, seen: Tensor, negatives: Tensor) -> Tensor:
        """(B,) the loss of each triple from its three vectors (B, D); L2 is added by the caller."""
        raise InputError(
            f"method {self.name} has no mathematics for engine torch: it must define loss_of(users, seen, negatives), "
            "or torch(train, settings)"
        )

    def torch(self, train: Interactions, settings: Settings) -> TripleLoss:
        """The loss as a torch module, with whatever parameters belong to no row."""
        from counterpop.training.device.losses import OwnLoss

        return OwnLoss(train, settings)

    def native(self, train: Interactions, settings: Settings, threads: int) -> Objective:
        """The same for the CPU's own kernels."""
        raise InputError(
            f"method {self.name} has no mathematics for engine native; train it with engine torch, or define "
            "native(train, settings, threads)"
        )

    @property
    def has_native(self) -> bool:
        return type(self).native is not Method.native

    @property
    def draws_negatives(self) -> bool:
        """Whether it says how negatives are drawn, so that `negative_power` would have no effect."""
        return type(self).negatives is not Method.negatives

    @property
    def item_copies(self) -> int:
        return 2 if self.needs_intervened else 1
