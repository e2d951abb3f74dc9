"""Made-up worlds whose true taste, exposure and conformity are known.

A user's log is drawn item by item, without replacement, with probability proportional to

    exposure_i x (exp((taste_ui - 1) / temperature) + pull x conformity_u x popularity_i)

where taste_ui is the inner product of two unit vectors (at most 1) and popularity_i is exposure_i over the
largest exposure. Exposure has nothing to do with taste, so what a model learns of it is bias, and how well
it finds what users truly like can be measured: `taste_recall`, `taste_percentile`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpop.embeddings import FloatArray
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.kernels.alias import alias_table

BLOCK = 1 << 22  # numbers in the largest array of a block: 16 MiB in float32
EXACT_ITEMS = 4096  # up to here weighing every item for every user is the faster way to draw
# One random stream for each purpose, shared with no other module: more users leave the items as they are.
ITEM_STREAM, USER_STREAM, DRAW_STREAM = range(200, 203)


@dataclass(frozen=True, eq=False)
class World:
    """What is true (everything but `log`), and the log that came of it."""

    user_taste: FloatArray
    """Unit vectors (U, D)."""
    item_taste: FloatArray
    """Unit vectors (I, D)."""
    exposure: NDArray[np.float64]
    """Chance to be seen (I,), summing to 1; by rank it falls as rank ** -exponent."""
    activity: NDArray[np.float64]
    """Expected number of interactions of each user (U,)."""
    conformity: NDArray[np.float64]
    """How much each user follows the crowd (U,), from 0 to 1."""
    temperature: float
    pull: float
    log: Interactions
    """Time runs from 0 to 1; each user's draws are spread over it in their order."""

    def true_taste(self, users: NDArray[np.integer]) -> FloatArray:
        """How much each of these users truly likes every item (B, I), from -1 to 1."""
        taste: FloatArray = self.user_taste[users] @ self.item_taste.T
        return taste

    def true_top_k(
        self, k: int, users: NDArray[np.integer] | None = None, exclude: Interactions | None = None
    ) -> NDArray[np.int32]:
        """The k items each user likes most (B, k), best first, without their pairs in `exclude`.

        All users where none are given. Equal tastes come in the order of items; -1 fills the places of a
        user to whom fewer than k items are left.
        """
        asked = _all_or(users, len(self.user_taste))
        top = np.empty((len(asked), k), dtype=np.int32)
        for at in _blocks(len(asked), len(self.item_taste)):
            taste = self.true_taste(asked[at])
            if exclude is not None:
                taste[_pairs_of(exclude, asked[at])] = -np.inf
            best = np.argsort(-taste, axis=1, kind="stable")[:, :k]
            left = np.take_along_axis(taste, best, axis=1) > -np.inf
            top[at] = -1
            top[at, : best.shape[1]] = np.where(left, best, -1)
        return top


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

    Up to 4,096 items the cost is one weight for every user and item; above, candidates are drawn by
    exposure and accepted by taste, which has the same distribution and costs about 50 candidates an
    interaction at the defaults, whatever the number of items, and more the lower `temperature` is. A
    million users with 20,000 items and 20 million pairs take two to three minutes and 1 GiB on one core.
    Activity is log-normal with the given mean; a user has at least one pair and at most half of all items.

    >>> world = make_world(100, 50, mean_activity=10)
    >>> world.log.n_users, world.log.n_items, world.true_taste(np.array([3, 4])).shape
    (100, 50, (2, 50))
    """
    if min(n_users, n_items, dim) < 1 or n_items < 2:
        raise InputError(
            f"a world needs at least one user, two items and one dimension of taste, got {n_users}, {n_items} and {dim}"
        )
    # A colder taste than 0.05 would leave float32: exp(-2 / 0.05) is 4e-18.
    if not (mean_activity > 0 and temperature >= 0.05 and exponent >= 0 and pull >= 0):
        raise InputError(
            "mean_activity must be above 0, temperature at least 0.05, exponent and pull at least 0, "
            f"got {mean_activity}, {temperature}, {exponent} and {pull}"
        )
    items = np.random.default_rng([seed, ITEM_STREAM])
    users = np.random.default_rng([seed, USER_STREAM])
    exposure = items.permutation(np.arange(1, n_items + 1) ** -float(exponent))
    exposure /= exposure.sum()
    item_taste = _directions(items, n_items, dim)
    user_taste = _directions(users, n_users, dim)
    spread = 0.7  # of log activity: the busiest tenth makes 28 % of the log
    activity = mean_activity * np.exp(users.normal(-(spread**2) / 2, spread, n_users))
    conformity = users.random(n_users)

    generator = np.random.default_rng([seed, DRAW_STREAM])
    counts = np.clip(generator.poisson(activity), 1, n_items // 2)
    draw = _draw_exactly if n_items <= EXACT_ITEMS else _draw_by_candidates
    drawn = draw(user_taste, item_taste, exposure, conformity, temperature, pull, counts, generator)

    user_ix = np.repeat(np.arange(n_users, dtype=np.int32), counts)
    place = np.arange(len(drawn)) - np.repeat(np.cumsum(counts) - counts, counts)
    time = (place + generator.random(len(drawn))) / counts[user_ix]
    order = np.argsort(user_ix.astype(np.int64) * n_items + drawn)
    log = Interactions(user_ix, drawn[order], np.arange(n_users), np.arange(n_items), time[order])
    return World(user_taste, item_taste, exposure, activity, conformity, temperature, pull, log)


def taste_recall(
    world: World,
    recommended: NDArray[np.integer],
    users: NDArray[np.integer] | None = None,
    exclude: Interactions | None = None,
) -> NDArray[np.float64]:
    """Share of each user's k truly best items that is among their k recommended ones (B,); more is better.

    `recommended` (B, k) holds item positions, negative ones for no item. `exclude` is what the recommender
    had to leave out, usually train. NaN for a user to whom nothing is left.
    """
    truth = world.true_top_k(recommended.shape[1], users, exclude)
    _check_rows(recommended, truth)
    found = np.zeros(len(truth))
    for column in recommended.T:
        found += ((truth == column[:, None]) & (truth >= 0)).any(axis=1)
    wanted = (truth >= 0).sum(axis=1)
    recall = np.full(len(truth), np.nan)
    np.divide(found, wanted, out=recall, where=wanted > 0)
    return recall


def taste_percentile(
    world: World, recommended: NDArray[np.integer], users: NDArray[np.integer] | None = None
) -> NDArray[np.float64]:
    """Mean share of the other items that a user likes less than a recommended one (B,).

    1 is the favourite, 0.5 what random items get. Negative positions are skipped; NaN where all are.
    """
    asked = _all_or(users, len(world.user_taste))
    _check_rows(recommended, asked)
    share = np.full(len(asked), np.nan)
    for at in _blocks(len(asked), len(world.item_taste)):
        taste = world.true_taste(asked[at])
        mine = np.take_along_axis(taste, np.maximum(recommended[at], 0), axis=1)
        below = np.stack([(taste < column[:, None]).sum(axis=1) for column in mine.T], axis=1)
        real = recommended[at] >= 0
        total = (below * real).sum(axis=1) / (len(world.item_taste) - 1)
        np.divide(total, real.sum(axis=1), out=share[at], where=real.any(axis=1))
    return share


def _draw_exactly(
    user_taste: FloatArray,
    item_taste: FloatArray,
    exposure: NDArray[np.float64],
    conformity: NDArray[np.float64],
    temperature: float,
    pull: float,
    counts: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.int32]:
    """Items in the order drawn, user after user: `counts[u]` of each.

    Exponential variables divided by the weights, the smallest first: drawing without replacement.
    """
    seen, crowd = exposure.astype(np.float32), (exposure / exposure.max()).astype(np.float32)
    drawn = []
    for at in _blocks(len(counts), len(exposure)):
        weights = np.exp((user_taste[at] @ item_taste.T - 1) / np.float32(temperature))  # (B, I)
        weights += np.float32(pull) * conformity[at, None].astype(np.float32) * crowd
        weights *= seen
        keys = generator.standard_exponential(weights.shape, dtype=np.float32) / weights
        most = counts[at].max()
        first = np.argpartition(keys, most - 1, axis=1)[:, :most]
        order = np.argsort(np.take_along_axis(keys, first, axis=1), axis=1)
        first = np.take_along_axis(first, order, axis=1)
        drawn.append(first[np.arange(most) < counts[at, None]].astype(np.int32))
    return np.concatenate(drawn)


def _draw_by_candidates(
    user_taste: FloatArray,
    item_taste: FloatArray,
    exposure: NDArray[np.float64],
    conformity: NDArray[np.float64],
    temperature: float,
    pull: float,
    counts: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.int32]:
    """The same as `_draw_exactly` without weighing every item.

    The weight is a sum, so a candidate comes from one of two laws: by exposure, to be kept with
    probability exp((taste - 1) / temperature), or by exposure x popularity, always kept. Repeats are
    skipped: drawing with replacement and skipping repeats is drawing without.
    """
    n_items = len(exposure)
    by_exposure = alias_table(exposure)
    by_crowd = alias_table(exposure**2)
    mass = pull * conformity * (exposure**2).sum() / exposure.max()  # of the second law; the first has 1
    rate = 8.0  # candidates for one new item, as measured so far
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
            taste = np.einsum("nd,nd->n", user_taste[offset + user], item_taste[item])
            keep = crowd | (generator.random(len(user)) < np.exp((taste - 1) / temperature))
            keys = np.concatenate([keys, user[keep] * n_items + item[keep]])
            keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
            had, have = have.sum(), np.bincount(keys // n_items, minlength=len(need))
            rate = min(64.0, 1.2 * len(user) / max(1, have.sum() - had))
            short = np.flatnonzero(have < need)
        keys = keys[np.argsort(keys // n_items, kind="stable")]
        place = np.arange(len(keys)) - np.repeat(np.cumsum(have) - have, have)
        drawn.append((keys % n_items)[place < np.repeat(need, have)].astype(np.int32))
    return np.concatenate(drawn)


def _draw_alias(
    table: tuple[NDArray[np.float64], NDArray[np.int32]], size: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    chance, other = table
    item = generator.integers(len(chance), size=size)
    return np.where(generator.random(size) < chance[item], item, other[item])


def _directions(generator: np.random.Generator, n: int, dim: int) -> FloatArray:
    vectors = generator.standard_normal((n, dim), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // width)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _all_or(users: NDArray[np.integer] | None, n_users: int) -> NDArray[np.integer]:
    return np.arange(n_users) if users is None else users


def _pairs_of(log: Interactions, users: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Row of the block and item of every pair these users have in the log."""
    have = log.user_counts[users]
    row = np.repeat(np.arange(len(users)), have)
    place = np.arange(len(row)) - np.repeat(np.cumsum(have) - have, have)
    return row, log.item_ix[log.user_starts[users][row] + place]


def _check_rows(recommended: NDArray[np.integer], users: NDArray[np.integer]) -> None:
    if recommended.ndim != 2 or len(recommended) != len(users):
        raise InputError(
            f"recommendations must have one row for each of the {len(users)} users, got shape {recommended.shape}"
        )
