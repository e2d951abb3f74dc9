"""How certain a measure is, and whether a change between two audits is more than noise.

Measured again without each fold of users in turn (a delete-a-group jackknife), a measure shows how much it depends on
who was there. The same user is in the same fold in every audit, so the difference of two audits, taken without the
same fold in both, is a paired comparison wherever the users are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from counterpop.auditing.definitions import DEFINITIONS

LEVEL = 0.95
LEAST_FOLDS = 20  # with users in fewer folds there is no interval


class Interval(NamedTuple):
    """A 95 % interval and its standard error."""

    low: float
    high: float
    standard_error: float


class Change(NamedTuple):
    """A measure in two audits, and whether it moved by more than noise."""

    name: str
    before: float
    after: float
    difference: float
    low: float
    high: float
    """The 95 % interval of the difference; NaN if there is none."""
    p_value: float
    moved: bool
    """Whether the difference is significant at 5 %, corrected for the number of measures (Holm)."""


def standard_error(without: ArrayLike) -> float:
    """The standard error of a measure, from its values without each fold; NaN with too few folds or values."""
    values = np.asarray(without, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all():
        return float("nan")
    n = len(values)
    spread = values - values.mean()
    if np.count_nonzero(spread) < LEAST_FOLDS and np.any(spread):
        return float("nan")
    return float(np.sqrt((n - 1) / n * (spread**2).sum()))


def interval_of(name: str, value: float, without: ArrayLike) -> Interval | None:
    """The 95 % interval of a measure; None if there is none. Shares stay between 0 and 1."""
    error = standard_error(without)
    if not np.isfinite(error) or not np.isfinite(value):
        return None
    reach = error * stdtrit(np.size(without) - 1, (1 + LEVEL) / 2)
    low, high = value - reach, value + reach
    if DEFINITIONS[name].kind == "share":
        low, high = max(low, min(0.0, value)), min(high, max(1.0, value))
    return Interval(float(low), float(high), error)


def compare_audits(
    before: Mapping[str, float | None],
    after: Mapping[str, float | None],
    without_before: Mapping[str, ArrayLike],
    without_after: Mapping[str, ArrayLike],
) -> list[Change]:
    """What moved between two audits, by the names of `DEFINITIONS`; measures that either lacks are left out."""
    rows = []
    for name in DEFINITIONS:
        first, second = before.get(name), after.get(name)
        if first is None or second is None or not np.isfinite([first, second]).all():
            continue
        old, new = (np.asarray(kept.get(name, ()), dtype=np.float64) for kept in (without_before, without_after))
        difference, low, high, p_value = second - first, float("nan"), float("nan"), float("nan")
        error = standard_error(new - old) if len(old) == len(new) else float("nan")
        if np.isfinite(error):
            freedom = len(new) - 1
            reach = error * stdtrit(freedom, (1 + LEVEL) / 2)
            low, high = difference - reach, difference + reach
            p_value = 2 * float(stdtr(freedom, -abs(difference) / error)) if error else float(difference == 0)
        rows.append(Change(name, first, second, difference, low, high, p_value, False))
    significant = _holm([row.p_value for row in rows])
    return [row._replace(moved=moved) for row, moved in zip(rows, significant, strict=True)]


def _holm(p_values: list[float]) -> list[bool]:
    """Which of many tests are significant at 5 % together; NaN is none."""
    known = [n for n, p in enumerate(p_values) if np.isfinite(p)]
    significant = [False] * len(p_values)
    for place, n in enumerate(sorted(known, key=lambda n: p_values[n])):
        if p_values[n] > (1 - LEVEL) / (len(known) - place):
            break
        significant[n] = True
    return significant
