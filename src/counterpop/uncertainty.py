"""How far figures are certain: test users and seeds are drawn again together, the same users for every method.

Each run keeps the means of its metrics over 2,000 draws of the test users. The users of draw b are the same for every
run on one data set, so the difference of two runs' draws is a paired comparison over users. Several seeds are averaged
within each draw, and their own scatter is added by drawing seeds as well. A figure, a difference and a gain therefore
all have intervals of one kind, with one seed or with many.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
USER_STREAM, SEED_STREAM = 702, 703  # of the seed
LEVELS = (0.05, 0.01, 0.001)  # one star for each that a corrected p-value is below
LEAST_SHARE = 0.01  # of its mean that the smaller side of a ratio has in every draw
_BATCH = 2_000_000  # users drawn at a time, over all draws

Values = NDArray[np.float64]


def resample(per_user: Mapping[str, Values], weights: Values | None = None) -> dict[str, Any]:
    """The means of each metric over draws of the users, less the mean over all, packed; see `over_seeds`.

    `weights` are how much each user counts; by default all count the same.
    """
    names, columns = list(per_user), np.column_stack(list(per_user.values()))
    number, means = len(columns), []
    worth = np.ones(number) if weights is None else weights
    generator = np.random.default_rng([USER_STREAM, number])
    most = max(1, _BATCH // number)
    for first in range(0, RESAMPLES, most):
        drawn = generator.integers(0, number, (min(most, RESAMPLES - first), number), dtype=np.int32)
        times = np.stack([np.bincount(row, minlength=number) for row in drawn])
        means.append(times @ (columns * worth[:, None]) / (times @ worth)[:, None])
    drawn_means = np.concatenate(means)
    whole = columns.mean(axis=0) if weights is None else np.average(columns, axis=0, weights=weights)
    return {name: pack(drawn_means[:, n] - whole[n]) for n, name in enumerate(names)}


def pack(values: Values) -> dict[str, Any]:
    """Numbers as text: 16 bits each, as multiples of a step."""
    step = float(np.abs(values).max()) / 32767 or 1.0
    text = base64.b64encode(np.round(values / step).astype("<i2").tobytes()).decode()
    return {"step": step, "shape": values.shape, "values": text}


def unpack(packed: Mapping[str, Any]) -> Values:
    """What `pack` packed, to a 32,767th of the largest.

    >>> unpack(pack(np.array([[-1.0, 0.5]]))).round(3).tolist()
    [[-1.0, 0.5]]
    """
    numbers = np.frombuffer(base64.b64decode(packed["values"]), dtype="<i2")
    return numbers.reshape(packed["shape"]) * float(packed["step"])


@dataclass(frozen=True, eq=False)
class Spread:
    """A figure and its draws: what it would have been with other users and seeds."""

    mean: float
    draws: Values  # (R,)
    seeds: int = 1

    @property
    def low(self) -> float:
        return float(np.quantile(self.draws, 0.025))

    @property
    def high(self) -> float:
        return float(np.quantile(self.draws, 0.975))

    @property
    def p_value(self) -> float:
        """Two-sided, of the hypothesis that it is 0: by its distance from 0 in standard errors of the draws."""
        from scipy.stats import norm

        error = float(self.draws.std())
        if error == 0:
            return float(self.mean == 0)
        return float(2 * norm.sf(abs(self.mean) / error))

    def to_json(self) -> dict[str, Any]:
        """As `table3.json` holds a figure."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": self.seeds}

    def minus(self, other: Spread) -> Spread:
        return Spread(self.mean - other.mean, self.draws - other.draws, min(self.seeds, other.seeds))

    def over(self, other: Spread) -> Spread:
        """By which share it is above the other, whose mean must be above 0; a draw without hits counts as a few."""
        draws = self.draws / np.maximum(other.draws, LEAST_SHARE * other.mean) - 1
        return Spread(self.mean / other.mean - 1, draws, min(self.seeds, other.seeds))

    def times(self, factor: float) -> Spread:
        return Spread(self.mean * factor, self.draws * factor, self.seeds)


def over_seeds(figures: Sequence[float], packed: Sequence[Mapping[str, Any]], key: str) -> Spread:
    """The spread of the mean of a figure over seeds, from each seed's figure and draws.

    The scatter of S seeds is scaled by sqrt(S / (S - 1)), which makes its variance unbiased. `key` names the row, so
    that seeds of different rows are drawn independently: seed 1 of two methods have nothing in common.
    """
    values, number = np.array(figures, dtype=np.float64), len(figures)
    users = np.mean([unpack(one) for one in packed], axis=0)
    seeds = np.zeros(RESAMPLES)
    if number > 1:
        generator = np.random.default_rng([SEED_STREAM, zlib.crc32(key.encode())])
        drawn = generator.integers(0, number, (RESAMPLES, number))
        seeds = (values - values.mean())[drawn].mean(axis=1) * np.sqrt(number / (number - 1))
    mean = float(values.mean())
    return Spread(mean, mean + users + seeds, number)


def average(spreads: Sequence[Spread]) -> Spread:
    """The mean of several figures, such as the gain on four data sets."""
    number = len(spreads)
    draws = reduce(np.add, (one.draws for one in spreads)) / number
    return Spread(float(np.mean([one.mean for one in spreads])), draws, min(one.seeds for one in spreads))


def normal(mean: float, error: float, key: str) -> Spread:
    """The spread of a figure that is known with a standard error only."""
    generator = np.random.default_rng([SEED_STREAM, zlib.crc32(key.encode())])
    return Spread(mean, mean + error * generator.standard_normal(RESAMPLES))


def correct(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: p-values that stay honest when many are looked at.

    >>> correct([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for n, at in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - n) * p_values[at]))
        corrected[at] = largest
    return corrected


def stars(p_value: float) -> str:
    """
    >>> stars(0.2), stars(0.03), stars(0.0001)
    ('', '*', '***')
    """
    return "*" * sum(p_value < level for level in LEVELS)
