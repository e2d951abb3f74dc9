"""Which rows of a log go to which part: drawn overall, by item, by user, or carved out of train."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from counterpop.errors import InputError
from counterpop.interactions import BoolArray, IntArray, Interactions, count, places_in_groups

Carve = Literal["auto", "matched", "uniform", "intervened", "random", "temporal"]
Parts = NDArray[np.int8]  # the part of each row of a log, by these codes
Rows = NDArray[np.intp]

TRAIN, INTERVENED, VALID, TEST, ORDINARY, LEFT_OUT = range(6)  # the first four as in `Interactions.part`
MANY_PAIRS = 1 << 26  # above, rows are drawn in one pass where the protocol allows it: see `select`
REDRAWS = 4  # of a test part, to see what an intervened one would look like
STEEPEST, HALVINGS = 4.0, 8  # the search for how a test leans to active users: exponents tried, and how finely
# One random stream for each purpose, shared with no other module, so that no draw depends on another.
TEST_STREAM, VALID_STREAM, ORDINARY_STREAM, CUT_STREAM, MIX_STREAM, GUESS_STREAM = range(100, 106)


def draw_overall(log: Interactions, pool: BoolArray, number: int, how: str, generator: Generator) -> Rows:
    """This many rows of the pool: random ones, or the latest if `how` is "temporal"."""
    if how != "temporal" and len(log) > MANY_PAIRS:
        return select(np.empty(0, np.int32), pool, np.array([number]), generator)
    rows = generator.permutation(np.flatnonzero(pool))
    if how == "temporal":
        if log.time is None or not np.isfinite(log.time).all():
            raise InputError(
                f"a split by time needs a time for every row, but the log has "
                f"{'none' if log.time is None else 'rows without one'}; name the time column (--time), or split "
                "another way"
            )
        rows = rows[np.argsort(-log.time[rows], kind="stable")]
    return rows[:number]


def draw_by_item(
    log: Interactions,
    quota: NDArray[np.int64],
    generator: Generator,
    pool: BoolArray | None = None,
    leaning: float | None = None,
) -> Rows:
    """`quota[i]` rows of each item i in the pool (all if it has fewer): the latest if the log has time, else random.

    With `leaning`, random ones with weights (pairs that the user has in the pool) ** leaning.
    """
    if leaning is None and log.time is None and len(log) > MANY_PAIRS:
        return select(log.item_ix, np.ones(len(log), bool) if pool is None else pool, quota, generator)
    rows = generator.permutation(len(log) if pool is None else np.flatnonzero(pool))
    if leaning is not None:
        sizes = np.bincount(log.user_ix[rows], minlength=log.n_users)[log.user_ix[rows]]
        rows = rows[np.argsort(generator.standard_exponential(len(rows)) / sizes.astype(np.float64) ** leaning)]
    elif log.time is not None:
        rows = rows[np.argsort(-log.time[rows], kind="stable")]
    return _first_of_each(rows, log.item_ix, quota)


def draw_by_user(
    log: Interactions, part: Parts, shares: Mapping[int, float], weights: NDArray[np.float64], generator: Generator
) -> None:
    """Moves the given shares of each user's train rows to other parts, in place.

    The rows are drawn together by item weights (I,) and then divided among the parts at random. Taking the smallest of
    exponential variables divided by the weights is the same as drawing one by one without replacement.
    """
    rows = np.flatnonzero(part == TRAIN)
    have = np.bincount(log.user_ix[rows], minlength=log.n_users)
    # One random offset per user rounds all running shares, so each part is off by less than one row.
    running = np.floor(np.cumsum(list(shares.values()))[:, None] * have + generator.random(log.n_users))
    running = np.minimum(running.astype(np.int64), np.maximum(have - 1, 0))  # (parts, U)
    keys = generator.standard_exponential(len(rows)) / weights[log.item_ix[rows]]
    drawn = _first_of_each(rows[np.argsort(keys)], log.user_ix, running[-1])
    drawn = generator.permutation(drawn)
    for code, last in reversed(list(zip(shares, running, strict=True))):
        part[_first_of_each(drawn, log.user_ix, last)] = code


def draw_ordinary(log: Interactions, part: Parts, share: float, generator: Generator) -> None:
    """Marks this share of the observed train rows as the ordinary part, in place.

    The last train row of an item or of a user is never taken, so that none becomes unknown to the model.
    """
    known = part <= INTERVENED
    spare_of_items, spare_of_users = item_counts(log, known) - 1, count(log.user_ix, log.n_users, known) - 1
    if len(log) > MANY_PAIRS:
        del known
        pool = part == TRAIN
        number = math.ceil(share * np.count_nonzero(pool))
        for group, quota in ((log.item_ix, spare_of_items), (log.user_ix, spare_of_users)):
            spare = select(group, pool, quota, generator)
            pool[:] = False
            pool[spare] = True
        part[select(np.empty(0, np.int32), pool, np.array([number]), generator)] = ORDINARY
        return
    observed = generator.permutation(np.flatnonzero(part == TRAIN))
    spare = _first_of_each(observed, log.item_ix, spare_of_items)
    spare = _first_of_each(generator.permutation(spare), log.user_ix, spare_of_users)
    part[generator.permutation(spare)[: math.ceil(share * len(observed))]] = ORDINARY


def carve(log: Interactions, part: Parts, how: str, cap: float, generator: Generator) -> float | None:
    """Marks a validation part among the train rows, in place; returns the leaning of a matched one."""
    train = part <= INTERVENED
    if how in ("matched", "uniform"):
        have = item_counts(log, train)
        quota = np.where(have > 2, np.minimum(item_counts(log, part == TEST), have // 2), 0)
        leaning = guess_leaning(log, part) if how == "matched" and log.time is None else None
        part[draw_by_item(log, quota, generator, train, leaning)] = VALID
        return leaning
    number = max(1, min((part == TEST).sum() // 2, train.sum() // 4))
    if how == "intervened":
        drawn = np.where(train, TRAIN, LEFT_OUT).astype(np.int8)
        draw_by_user(log, drawn, {VALID: number / train.sum()}, even_weights(log, train, cap), generator)
        part[drawn == VALID] = VALID
    else:
        part[draw_overall(log, train, number, how, generator)] = VALID
    return None


def guess_how_test_was_drawn(log: Interactions, part: Parts, cap: float) -> str:
    """One of the ways to carve, "matched" for a uniform test; `split_as_given` documents the rule.

    The Gini of the test part would mislead: with few pairs even a uniform draw is uneven. The mean of log counts of
    its items has no such bias, and a test of a few hundred pairs is enough to tell.
    """
    train, test = part <= INTERVENED, part == TEST
    if log.time is not None and log.time[test].min() >= log.time[train].max() > log.time[train].min():
        return "temporal"
    have = log.item_counts[log.item_counts > 0]
    present = item_counts(log, test)[log.item_counts > 0]
    for number in (np.bincount(present).argmax(), np.minimum(present.max(), have - 1)):  # or all an item can spare
        if np.max(number) > 0 and (present == number).mean() >= 0.95:
            return "matched"
    popularity = np.log(np.maximum(log.item_counts, 1))[log.item_ix]
    generator, weights = np.random.default_rng(GUESS_STREAM), even_weights(log, train | test, cap)
    redrawn = []
    for _ in range(REDRAWS):
        drawn = np.zeros(len(log), dtype=np.int8)
        draw_by_user(log, drawn, {TEST: test.mean()}, weights, generator)
        redrawn += popularity[drawn == TEST].tolist()
    halfway = (popularity.mean() + np.mean(redrawn or popularity)) / 2
    return "intervened" if popularity[test].mean() < halfway else "random"


def guess_leaning(log: Interactions, part: Parts) -> float:
    """The exponent b with which the test's pairs of each item seem to have been drawn, by (pairs of the user) ** b.

    0 if all users of an item were equally likely. By halving, because the mean log count of the users drawn rises with
    b; every draw uses the same random numbers.
    """
    known = (part <= INTERVENED) | (part == TEST)
    sizes = np.log(np.maximum(np.bincount(log.user_ix[known], minlength=log.n_users), 1))[log.user_ix]
    wanted, quota = sizes[part == TEST].mean(), item_counts(log, part == TEST)
    low, high = -STEEPEST, STEEPEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        drawn = draw_by_item(log, quota, np.random.default_rng(GUESS_STREAM), known, middle)
        low, high = (middle, high) if sizes[drawn].mean() < wanted else (low, middle)
    return (low + high) / 2


def even_weights(log: Interactions, pool: BoolArray, cap: float) -> NDArray[np.float64]:
    """(I,) 1/popularity, capped at the percentile `cap` over the items that have a row in the pool."""
    if not 0 <= cap <= 100:
        raise InputError(f"cap is a percentile and must be from 0 to 100, got {cap}")
    counts = item_counts(log, pool)
    weights = 1 / np.maximum(counts, 1)
    return np.minimum(weights, np.percentile(weights[counts > 0], cap))


def item_counts(log: Interactions, rows: BoolArray) -> NDArray[np.int64]:
    """(I,) how many of these rows each item has."""
    return count(log.item_ix, log.n_items, rows)


def select(group: IntArray, pool: BoolArray, quota: NDArray[np.int64], generator: Generator) -> Rows:
    """`quota[g]` random rows of each group g in the pool (all if it has fewer), in rising order and in one pass.

    The same law as a random order of all rows, of which the first are taken, but other rows at the same seed, and 8
    bytes for each row taken instead of some 50 for each row of the log. An empty group means one for all rows.
    """
    from counterpop.kernels.selection import select_rows

    have = count(group, len(quota), pool) if len(group) else np.array([np.count_nonzero(pool)])
    quota = np.clip(quota, 0, have)
    out = np.empty(int(quota.sum()), dtype=np.intp)
    select_rows(group, pool, quota, have, generator.integers(0, 2**64, 1, dtype=np.uint64), out)
    return out


def _first_of_each(rows: Rows, group: NDArray[np.int32], quota: NDArray[np.int64]) -> Rows:
    """The first `quota[g]` rows of each group g, in the order given."""
    by_group = rows[np.argsort(group[rows], kind="stable")]
    groups = group[by_group]
    return by_group[places_in_groups(np.bincount(groups, minlength=len(quota))) < quota[groups]]
