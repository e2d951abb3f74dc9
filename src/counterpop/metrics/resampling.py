"""How certain measures of lists are: the bootstrap over users."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from counterpop.interactions import IntArray, gini
from counterpop.metrics.popularity import HEAD_GROUPS

PER_USER = ("recall", "hit_rate", "ndcg", "average_popularity", "tail_share")
RESAMPLES = 1000
_WHOLE_RESAMPLES = 200  # for coverage and Gini, which need all lists in every resample
_COLUMNS = (
    5,
    10,
    11 + HEAD_GROUPS,
    12 + 2 * HEAD_GROUPS,
)  # where parts of `intervals_of` columns begin after the first
_BATCH = 2_000_000  # users drawn at a time, over all resamples
BOOTSTRAP_STREAM = 300

Interval = tuple[float, float]


def resamples_of(n_users: int, resamples: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Bootstrap weights (R, B) in batches: how often each user was drawn. Equal seeds give equal weights."""
    generator = np.random.default_rng([seed, BOOTSTRAP_STREAM])
    for batch in batches(resamples, n_users):
        drawn = generator.integers(0, n_users, (batch, n_users), dtype=np.int32)
        yield np.stack([np.bincount(row, minlength=n_users) for row in drawn]).astype(np.float32)


def batches(rounds: int, n_users: int) -> Iterator[int]:
    """Sizes of batches of rounds that keep memory bounded."""
    most = max(1, _BATCH // n_users)
    for start in range(0, rounds, most):
        yield min(most, rounds - start)


def intervals_of(
    columns: NDArray[np.float32], lists: IntArray, exposed: NDArray[np.int64], resamples: int, seed: int
) -> dict[str, Interval]:
    """95 % intervals by bootstrap over users.

    Resampling repeats some users and drops others, which hides items, so resampled coverage and Gini are biased.
    Their intervals are therefore the spread of the resampled values, centred on the measured value.
    """
    n_users, n_items = len(lists), len(exposed)
    filled = lists >= 0
    rows = np.repeat(np.arange(n_users), filled.sum(axis=1))
    shows = csr_array((np.ones(len(rows), np.float32), (lists[filled], rows)), shape=(n_items, n_users))
    sums = []
    whole: list[tuple[float, float]] = []
    for drawn in resamples_of(n_users, resamples, seed):
        sums.append(drawn @ columns)
        if len(whole) < _WHOLE_RESAMPLES:
            for weight in drawn[: _WHOLE_RESAMPLES - len(whole)]:
                again = shows @ weight
                whole.append((float(np.mean(again > 0)), gini(again)))
    total, known, shown, found, wanted = np.split(np.concatenate(sums), _COLUMNS, axis=1)
    means = total / np.maximum(1e-12, known)
    intervals = {name: quantiles(means[:, n]) for n, name in enumerate(PER_USER)}
    measured = {"coverage": np.mean(exposed > 0), "gini": gini(exposed)}
    for (name, value), resampled in zip(measured.items(), np.array(whole).T, strict=True):
        intervals[name] = quantiles(np.clip(resampled - resampled.mean() + value, 0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        frequency, found = shown / shown.sum(axis=1, keepdims=True), found / wanted
    for g in range(shown.shape[1]):
        intervals[f"group_{g + 1}_frequency"] = quantiles(frequency[:, g])
        if np.isfinite(found[:, g]).all():
            intervals[f"group_{g + 1}_recall"] = quantiles(found[:, g])
    return intervals


def quantiles(values: NDArray[np.floating]) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
