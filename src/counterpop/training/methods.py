"""The methods with settings of their own, each as a value: `train(split, method=DICE(margin=20))`.

"plain" and "gradient" have none. Weights and margins are those of the papers unless said otherwise.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError

Discrepancy = Literal["dcor", "l1", "l2"]


class _Options:
    name: ClassVar[str]

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():  # type: ignore[call-overload]
            wants_number = isinstance(getattr(type(self), name), float)
            if wants_number and (
                isinstance(value, bool | str) or not isinstance(value, float | int) or not 0 <= value < math.inf
            ):
                raise InputError(f"{name} of {self.name} must be a finite number of at least 0, got {value!r}")


@dataclass(frozen=True)
class IPS(_Options):
    """Inverse propensity scores: a positive's loss counts the more, the less popular its item is.

    w_i = (largest popularity / popularity of i) ** power, capped at a quantile of the weights of all items,
    divided by the largest that is left. The usual variants: plain `IPS(1, clip=1, normalised=False)`, which
    wants a learning rate smaller by about the largest weight; clipped `IPS(1, normalised=False)`; normalised
    `IPS(1, clip=1)`; clipped and normalised `IPS(1)`; all of it and smoothed, the default.
    Limit: popularity stands for the chance to be seen, so an item that is popular for being good is held back
    with the rest; rare items get large weights on little evidence, and clipping only hides that.
    """

    name: ClassVar[str] = "ips"
    power: float = 0.25
    """Below 1 the weights are smoothed; 0 is plain training. At 1 popular items are hardly trained at all.
    Validation recall of MF at .5, .25 and 0: Adressa .142, .184, .207; ML-10M .141, .147, .155
    (experiments/baselines.md)."""
    clip: float = 0.5
    """The quantile of the weights at which they are capped: 0.5 is their median, 1 caps nothing."""
    normalised: bool = True
    """Divide by the largest weight, so that none is above 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip > 1:
            raise InputError(f"clip of ips is a quantile, from 0 to 1, got {self.clip}")

    def weights(self, counts: NDArray[np.int64]) -> FloatArray:
        """(I,) the weight of every item; one without interactions counts as having one.

        >>> IPS(power=1).weights(np.array([8, 4, 2, 1, 1])).tolist()
        [0.25, 0.5, 1.0, 1.0, 1.0]
        """
        weights = (max(1, int(counts.max())) / np.maximum(counts, 1)) ** self.power
        weights = np.minimum(weights, np.quantile(weights, self.clip))
        return (weights / weights.max() if self.normalised else weights).astype(np.float32)


@dataclass(frozen=True)
class CausE(_Options):
    """Causal embeddings: an item has a control and a treatment vector, held near each other.

    Control vectors learn from the observed part of train, treatment vectors from the part drawn by
    intervention, users from both; ranking takes the control vectors. Loss: BPR (or BCE) on each part, +
    penalty x the squared distance of the two vectors of each item of the triple. LightGCN propagates the two
    over a graph each. Both begin alike.
    Limit: needs a split with an intervened part, and that part is small, so treatment vectors know little
    that could correct the control ones.
    """

    name: ClassVar[str] = "cause"
    penalty: float = 0.01


@dataclass(frozen=True)
class DICE(_Options):
    """Disentangled interest and conformity: half of each vector for either, scores from both together.

    Negatives are clearly more popular than the seen item (by more than `margin`) or clearly less (below half
    of it). Someone who took the less popular of two did so out of interest: its interest score must be the
    higher and its conformity score the lower one. Who took the more popular of two tells of conformity alone.
    Loss: BPR on the whole score + weight x BPR on the halves so, - penalty x the discrepancy of the two
    halves: "l1" and "l2" are the mean absolute and mean squared difference of the halves of every row that a
    triple touches; "dcor" is minus the distance correlation of the halves, of random users and items (at most
    128 of each at a time, so memory does not grow), 8 times an epoch in MF and in every step of LightGCN;
    with torch of users and items of the batch in every step, of MF on a GPU 8 times an epoch as well.
    Weight and margin shrink by `decay` after every epoch.
    Limit: popularity alone decides what counts as conformity, the same for all users; the halves are only as
    apart as the margin and the small weights make them.
    """

    name: ClassVar[str] = "dice"
    weight: float = 0.1
    margin: float = 40.0
    pool: float = 40.0
    """Items that a side must have to be drawn from; where both have fewer, any negative is drawn. Where a
    user has touched all of a side, the CPU leaves the triple out, and torch draws any negative."""
    decay: float = 0.9
    discrepancy: Discrepancy = "l1"
    penalty: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discrepancy not in get_args(Discrepancy):
            raise InputError(
                f"discrepancy of dice must be one of {', '.join(get_args(Discrepancy))}, got {self.discrepancy!r}"
            )
        if self.decay > 1:
            raise InputError(f"decay of dice must be at most 1, got {self.decay}")


@dataclass(frozen=True)
class MACR(_Options):
    """Model-agnostic counterfactual reasoning: a score is match x how easily its user and its item click.

    z_u = sg(w_user.P_u), z_i = sg(w_item.Q_i). Loss: BCE of s z_u z_i + item_weight x BCE of z_i +
    user_weight x BCE of z_u. Ranks with (s - c) z_u z_i. For one user z_u is the same everywhere, so that is
    an inner product of [P_u, -c] and [z_i Q_i, z_i]: the run holds such vectors, c is its user strength
    (times the mean best score, so that 1 is of the size of the scores), and `tune` chooses it on validation.
    Limit: one number per item and one c for all users; c is not learnt, and at a wrong one the lists turn to
    the least popular items of all.
    """

    name: ClassVar[str] = "macr"
    item_weight: float = 0.3
    """The paper has 1e-3 for both, LightGCN 1e-2 of items. Our steps want more (experiments/baselines.md);
    LightGCN, where no options are given, takes .1 for both."""
    user_weight: float = 0.3


Options = IPS | CausE | DICE | MACR
OPTIONS: dict[str, type[Options]] = {kind.name: kind for kind in (IPS, CausE, DICE, MACR)}


def read_options(method: str, given: dict[str, Any]) -> Options | None:
    """The method's settings from names and values; says which there are where one is unknown."""
    kind = OPTIONS.get(method)
    known = [field.name for field in fields(kind)] if kind else []
    unknown = [name for name in given if name not in known]
    if unknown:
        raise InputError(f"{unknown[0]!r} is not an option of {method}; it has {', '.join(known) or 'none'}")
    return kind(**given) if kind else None
