"""Simulated worlds whose true taste, exposure and conformity are known.

A user's log is drawn item by item, without replacement, with probability proportional to

    exposure_i x (exp((taste_ui - 1) / temperature) + pull x conformity_u x popularity_i)

where taste_ui is the inner product of two unit vectors (at most 1) and popularity_i is exposure_i over the largest
exposure. Exposure is independent of taste, so whatever a model learns about it is bias, and how well the model finds
what users truly like can be measured: `taste_recall`, `taste_percentile`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import IntArray, Interactions, pairs_of, places_in_groups
from counterpop.kernels.alias import alias_table
from counterpop.presentation import Shown

Positions = NDArray[np.integer]
BLOCK = 1 << 22  # numbers in the largest array of a block: 16 MiB in float32
EXACT_ITEMS = 4096  # up to this many, weighing every item for every user is the faster way to draw
SPREAD = 0.7  # standard deviation of log activity: the most active tenth of users makes 28 % of the log
# One random stream for each purpose, shared with no other module: adding users does not change the items.
ITEM_STREAM, USER_STREAM, DRAW_STREAM = range(200, 203)


@dataclass(frozen=True, eq=False, repr=False)
class Truth(Shown):
    """What users truly like and what they are shown: the law that logs are drawn by."""

    user_taste: FloatArray
    """Unit vectors (U, D)."""
    item_taste: FloatArray
    """Unit vectors (I, D)."""
    exposure: NDArray[np.float64]
    """(I,) probability of being seen, summing to 1; by rank it falls as rank ** -exponent."""
    activity: NDArray[np.float64]
    """(U,) expected number of interactions of each user."""
    conformity: NDArray[np.float64]
    """(U,) how much each user follows the crowd, from 0 to 1."""
    temperature: float
    pull: float

    def true_taste(self, users: Positions) -> FloatArray:
        """(B, I) how much each of these users truly likes every item, from -1 to 1."""
        taste: FloatArray = self.user_taste[users] @ self.item_taste.T
        return taste

    def true_top_k(self, k: int, users: Positions | None = None, exclude: Interactions | None = None) -> IntArray:
        """(B, k) the items each user (by default, every user) likes most, best first, without their pairs in `exclude`.

        Ties are broken by position. If a user has fewer than k items left, -1 fills the remaining places.
        """
        asked = np.arange(len(self.user_taste)) if users is None else users
        top = np.full((len(asked), k), -1, dtype=np.int32)
        for at in _blocks(len(asked), len(self.item_taste)):
            taste = self.true_taste(asked[at])
            if exclude is not None:
                taste[pairs_of(exclude, asked[at])] = -np.inf
            best = np.argsort(-taste, axis=1, kind="stable")[:, :k]
            left = np.take_along_axis(taste, best, axis=1) > -np.inf
            top[at, : best.shape[1]] = np.where(left, best, -1)
        return top


@dataclass(frozen=True, eq=False, repr=False)
class World(Truth):
    """A truth, and one log drawn from it."""

    log: Interactions
    """Time runs from 0 to 1; each user's draws are spread over it in order."""


def make_world(
    n_users: int = 3000,
    n_items: int = 1000,
    *,
    mean_activity: float = 35.0,
    dim: int = 6,
    exponent: float = 0.8,
    temperature: float = 0.15,
    pull: float = 0.05,
    seed: int = 0,
) -> World:
    """A world and its log, the same for the same arguments.

    Up to 4,096 items, a weight is computed for every user and item. Above, candidates are drawn by exposure and
    accepted by taste, which has the same distribution and costs about 50 candidates per interaction at the defaults,
    whatever the number of items, and more with a lower `temperature`. A million users with 20,000 items and 20 million
    pairs take two to three minutes and 1 GiB on one core. Activity is log-normal with the given mean; a user has at
    least one pair and at most half of all items.

    >>> world = make_world(100, 50, mean_activity=10)
    >>> world.log.n_users, world.log.n_items, world.true_taste(np.array([3, 4])).shape
    (100, 50, (2, 50))
    """
    if min(n_users, n_items, dim) < 1 or n_items < 2:
        raise InputError(
            f"a world needs at least one user, two items and one dimension of taste, got {n_users}, {n_items} and {dim}"
        )
    # A temperature below 0.05 would leave the range of float32: exp(-2 / 0.05) is 4e-18.
    if not (mean_activity > 0 and temperature >= 0.05 and exponent >= 0 and pull >= 0):
        raise InputError(
            "mean_activity must be above 0, temperature at least 0.05, exponent and pull at least 0, "
            f"got {mean_activity}, {temperature}, {exponent} and {pull}"
        )
    items, users, draws = (np.random.default_rng([seed, s]) for s in (ITEM_STREAM, USER_STREAM, DRAW_STREAM))
    exposure = items.permutation(np.arange(1, n_items + 1) ** -float(exponent))
    exposure /= exposure.sum()
    item_taste, user_taste = _directions(items, n_items, dim), _directions(users, n_users, dim)
    activity = mean_activity * np.exp(users.normal(-(SPREAD**2) / 2, SPREAD, n_users))
    truth = Truth(user_taste, item_taste, exposure, activity, users.random(n_users), temperature, pull)

    counts = np.clip(draws.poisson(activity), 1, n_items // 2)
    drawn = (_draw_exactly if n_items <= EXACT_ITEMS else _draw_by_candidates)(truth, counts, draws)
    user_ix = np.repeat(np.arange(n_users, dtype=np.int32), counts)
    time = (places_in_groups(counts) + draws.random(len(drawn))) / counts[user_ix]
    order = np.argsort(user_ix.astype(np.int64) * n_items + drawn)
    log = Interactions(user_ix, drawn[order], np.arange(n_users), np.arange(n_items), time[order])
    return World(**vars(truth), log=log)


def taste_recall(
    world: Truth, recommended: Positions, users: Positions | None = None, exclude: Interactions | None = None
) -> NDArray[np.float64]:
    """(B,) share of each user's k truly best items that are among their k recommended ones; higher is better.

    `recommended` (B, k) holds item positions, or negative numbers for no item. `exclude` is what the recommender had to
    leave out, usually train. NaN for a user who has no items left.
    """
    truth = world.true_top_k(recommended.shape[1], users, exclude)
    _check_rows(recommended, len(truth))
    hits = np.zeros(len(truth))
    for column in recommended.T:
        hits += ((truth == column[:, None]) & (truth >= 0)).any(axis=1)
    best = (truth >= 0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(hits / best)


def taste_percentile(world: Truth, recommended: Positions, users: Positions | None = None) -> NDArray[np.float64]:
    """(B,) mean share of the other items that a user likes less than a recommended one.

    1 for the favourite, 0.5 for random items. Negative positions are skipped; NaN if all are.
    """
    asked = np.arange(len(world.user_taste)) if users is None else users
    _check_rows(recommended, len(asked))
    share = np.full(len(asked), np.nan)
    for at in _blocks(len(asked), len(world.item_taste)):
        taste = world.true_taste(asked[at])
        mine = np.take_along_axis(taste, np.maximum(recommended[at], 0), axis=1)
        below = np.stack([(taste < column[:, None]).sum(axis=1) for column in mine.T], axis=1)
        real = recommended[at] >= 0
        total = (below * real).sum(axis=1) / (len(world.item_taste) - 1)
        np.divide(total, real.sum(axis=1), out=share[at], where=real.any(axis=1))
    return share


def _draw_exactly(truth: Truth, counts: NDArray[np.int64], generator: Generator) -> IntArray:
    """`counts[u]` items of each user, user by user, in the order drawn.

    Taking the smallest of exponential variables divided by the weights is drawing without replacement.
    """
    exposure = truth.exposure.astype(np.float32)
    popularity = (truth.exposure / truth.exposure.max()).astype(np.float32)
    drawn = []
    for at in _blocks(len(counts), len(exposure)):
        weights = np.exp((truth.user_taste[at] @ truth.item_taste.T - 1) / np.float32(truth.temperature))  # (B, I)
        weights += np.float32(truth.pull) * truth.conformity[at, None].astype(np.float32) * popularity
        weights *= exposure
        keys = generator.standard_exponential(weights.shape, dtype=np.float32) / weights
        most = counts[at].max()
        first = np.argpartition(keys, most - 1, axis=1)[:, :most]
        order = np.argsort(np.take_along_axis(keys, first, axis=1), axis=1)
        first = np.take_along_axis(first, order, axis=1)
        drawn.append(first[np.arange(most) < counts[at, None]].astype(np.int32))
    return np.concatenate(drawn)


def _draw_by_candidates(truth: Truth, counts: NDArray[np.int64], generator: Generator) -> IntArray:
    """The same as `_draw_exactly` without weighing every item.

    The weight is a sum, so a candidate comes from one of two laws: by exposure, accepted with probability
    exp((taste - 1) / temperature), or by exposure x popularity, always accepted. Skipping repeats turns drawing with
    replacement into drawing without.
    """
    exposure, n_items = truth.exposure, len(truth.exposure)
    by_exposure, by_crowd = alias_table(exposure), alias_table(exposure**2)
    mass = truth.pull * truth.conformity * (exposure**2).sum() / exposure.max()  # of the second law; the first has 1
    rate = 8.0  # candidates per new item, as measured so far
    drawn = []
    for at in _blocks(len(counts), 64 * max(1, round(counts.mean()))):
        need, offset = counts[at], at.start
        keys = np.empty(0, dtype=np.int64)  # user of the block x I + item, in the order drawn
        short = np.arange(len(need))
        have = np.zeros(len(need), dtype=np.int64)
        while len(short):
            missing = need[short] - have[short]
            tries = np.ceil(missing * rate).astype(np.int64)
            user = np.repeat(short, tries)
            crowd = generator.random(len(user)) * (1 + mass[offset + user]) > 1
            item = _draw_alias(by_exposure, len(user), generator)
            item[crowd] = _draw_alias(by_crowd, int(crowd.sum()), generator)
            taste = np.einsum("nd,nd->n", truth.user_taste[offset + user], truth.item_taste[item])
            keep = crowd | (generator.random(len(user)) < np.exp((taste - 1) / truth.temperature))
            keys = np.concatenate([keys, user[keep] * n_items + item[keep]])
            keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
            had, have = have.sum(), np.bincount(keys // n_items, minlength=len(need))
            rate = min(64.0, 1.2 * len(user) / max(1, have.sum() - had))
            short = np.flatnonzero(have < need)
        keys = keys[np.argsort(keys // n_items, kind="stable")]
        drawn.append((keys % n_items)[places_in_groups(have) < np.repeat(need, have)].astype(np.int32))
    return np.concatenate(drawn)


def _draw_alias(table: tuple[NDArray[np.float64], IntArray], size: int, generator: Generator) -> NDArray[np.intp]:
    chance, other = table
    item = generator.integers(len(chance), size=size)
    return np.where(generator.random(size) < chance[item], item, other[item])


def _directions(generator: Generator, n: int, dim: int) -> FloatArray:
    vectors = generator.standard_normal((n, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // width)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _check_rows(recommended: Positions, n_users: int) -> None:
    if recommended.ndim != 2 or len(recommended) != n_users:
        raise InputError(
            f"recommended must have one row for each of the {n_users} users, got shape {recommended.shape}"
        )
