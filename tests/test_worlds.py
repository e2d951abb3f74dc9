"""The laws of a world are recovered from its log, and its true ranking equals brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from counterpop import splits, worlds
from counterpop.errors import InputError
from counterpop.worlds import Truth, World, make_world, taste_percentile, taste_recall

DRAWS = [worlds._draw_exactly, worlds._draw_by_candidates]


def small_world(seed: int = 0) -> World:
    return make_world(100, 60, mean_activity=12, seed=seed)


def mean_taste(world: World) -> float:
    """How much users like the items in their log, on average."""
    log = world.log
    return float((world.user_taste[log.user_ix] * world.item_taste[log.item_ix]).sum(axis=1).mean())


def test_the_world_depends_only_on_the_seed() -> None:
    first, again, other = (small_world(seed) for seed in (1, 1, 2))
    for name in ("user_taste", "item_taste", "exposure", "activity", "conformity"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))
    assert np.array_equal(first.log.item_ix, again.log.item_ix)
    assert np.array_equal(first.log.time, again.log.time)


def test_a_world_s_parts_have_their_stated_ranges() -> None:
    world = make_world()
    assert 80_000 < len(world.log) < 120_000
    assert np.allclose(np.linalg.norm(world.user_taste, axis=1), 1, atol=1e-6)
    assert np.allclose(np.linalg.norm(world.item_taste, axis=1), 1, atol=1e-6)
    assert world.user_taste.dtype == world.item_taste.dtype == np.float32
    assert world.exposure.sum() == pytest.approx(1)
    assert 0 <= world.conformity.min() < 0.05 and 0.95 < world.conformity.max() <= 1
    assert world.activity.mean() == pytest.approx(35, rel=0.05)
    assert world.log.user_counts.min() >= 1 and world.log.user_counts.max() <= 500
    assert np.corrcoef(world.activity, world.log.user_counts)[0, 1] > 0.95
    keys = world.log.user_ix.astype(np.int64) * 1000 + world.log.item_ix
    assert (np.diff(keys) > 0).all()  # sorted rows, each pair once


@pytest.mark.parametrize("exponent", [0.6, 1.0])
def test_exposure_exponent_is_recovered_from_the_log(exponent: float) -> None:
    # One pair per user, no conformity and no influence of taste: counts follow exposure.
    world = make_world(40_000, 200, mean_activity=1e-3, exponent=exponent, temperature=1e6, pull=0.0)
    assert (world.log.user_counts == 1).all()
    rank = np.argsort(np.argsort(-world.exposure)) + 1
    weight = world.log.item_counts
    x, y = np.log(rank), np.log(np.maximum(weight, 1))
    slope = np.polyfit(x, y, 1, w=np.sqrt(weight))[0]
    assert -slope == pytest.approx(exponent, abs=0.03)
    assert np.allclose(world.exposure * rank**exponent, world.exposure.max())


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_follow_the_stated_probabilities(draw: Callable[..., np.ndarray]) -> None:
    """Ordered pairs drawn without replacement, many times for one user, against their exact probabilities."""
    generator = np.random.default_rng(7)
    user = np.array([0.6, 0.8], dtype=np.float32)
    items = np.array([[1, 0], [0, 1], [-0.6, 0.8], [0.8, -0.6]], dtype=np.float32)
    exposure = np.array([0.4, 0.1, 0.3, 0.2])
    conformity, temperature, pull, n = 0.5, 0.7, 0.8, 60_000
    weights = exposure * (np.exp((items @ user - 1) / temperature) + pull * conformity * exposure / 0.4)
    chances = weights / weights.sum()
    truth = Truth(np.tile(user, (n, 1)), items, exposure, np.ones(n), np.full(n, conformity), temperature, pull)
    drawn = draw(truth, np.full(n, 2), generator).reshape(n, 2)
    pairs = list(itertools.permutations(range(4), 2))
    expected = n * np.array([chances[i] * chances[j] / (1 - chances[i]) for i, j in pairs])
    got = np.array([(drawn == pair).all(axis=1).sum() for pair in pairs])
    assert got.sum() == n
    assert ((got - expected) ** 2 / expected).sum() < 31.3  # chi-square with 11 degrees of freedom at 0.001


def test_candidates_draw_the_same_world_as_weighing_every_item(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = make_world(3000, 50, mean_activity=6, seed=3)
    monkeypatch.setattr(worlds, "EXACT_ITEMS", 0)
    candidates = make_world(3000, 50, mean_activity=6, seed=3)
    assert np.array_equal(exact.log.user_counts, candidates.log.user_counts)
    assert not np.array_equal(exact.log.item_ix, candidates.log.item_ix)
    # Item counts of two independent draws differ by less than those of two Poisson variables.
    a, b = exact.log.item_counts, candidates.log.item_counts
    assert ((a - b) ** 2 / (a + b)).sum() < 86.7  # chi-square with 50 degrees of freedom at 0.001
    assert mean_taste(exact) == pytest.approx(mean_taste(candidates), abs=0.012)  # four standard errors
    follows = [
        (world.conformity[world.log.user_ix] * world.exposure[world.log.item_ix]).mean()
        for world in (exact, candidates)
    ]
    assert follows[0] == pytest.approx(follows[1], rel=0.03)


def test_a_large_catalogue_needs_no_full_matrix() -> None:
    world = make_world(300, 200_000, mean_activity=20)
    assert world.log.n_items == 200_000 and (world.log.user_counts >= 1).all()
    assert mean_taste(world) > 0.2  # random pairs: 0


def test_time_is_the_order_of_the_draws() -> None:
    world = make_world(2000, 300, mean_activity=20)
    assert world.log.time is not None
    assert world.log.time.min() >= 0 and world.log.time.max() < 1
    split = splits.split_temporal(world.log)
    assert split.test.user_counts.sum() and (split.train.user_counts > 0).mean() > 0.95
    # The most exposed items are drawn first, and cannot be drawn again.
    early, late = (world.exposure[part.item_ix].mean() for part in (split.train, split.test))
    assert early > 1.2 * late


def test_true_ranking_equals_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    world = small_world()
    seen = [set(world.log.item_ix[world.log.user_ix == u].tolist()) for u in range(100)]
    users = np.array([7, 3, 99, 7])
    monkeypatch.setattr(worlds, "BLOCK", 130)  # blocks of two users
    for asked, exclude, k in itertools.product((None, users), (None, world.log), (1, 5, 60)):
        top = world.true_top_k(k, asked, exclude)
        for row, u in zip(top, range(100) if asked is None else asked, strict=True):
            taste = [float(np.dot(world.user_taste[u], vector)) for vector in world.item_taste]
            left = [i for i in range(60) if exclude is None or i not in seen[u]]
            best = sorted(left, key=lambda i: -taste[i])[:k]
            assert row.tolist() == best + [-1] * (k - len(best))


def test_recommendations_are_scored_against_the_truth() -> None:
    world = small_world()
    truth = world.true_top_k(10, exclude=world.log)
    assert (taste_recall(world, truth[:, ::-1], exclude=world.log) == 1).all()
    half = np.where(np.arange(10) < 5, truth, -1)
    assert np.allclose(taste_recall(world, half, exclude=world.log), 0.5)
    users = np.array([4, 8])
    assert taste_recall(world, truth[users], users, world.log).tolist() == [1, 1]
    favourite, worst = world.true_top_k(60)[:, :1], world.true_top_k(60)[:, -1:]
    assert (taste_percentile(world, favourite) == 1).all() and (taste_percentile(world, worst) == 0).all()
    everything = np.tile(np.arange(60), (2, 1))
    assert np.allclose(taste_percentile(world, everything, users), 0.5)
    padded = np.array([[favourite[4, 0], -1], [-1, -1]])
    assert taste_percentile(world, padded, users)[0] == 1
    assert np.isnan(taste_percentile(world, padded, users)[1])


def test_popularity_misleads_and_removing_it_helps() -> None:
    """Plain factors of the log (truncated SVD) against the truth, with and without the popular direction."""
    world = make_world(1000, 400, mean_activity=30)
    log = world.log
    seen = np.zeros((1000, 400), dtype=np.float32)
    seen[log.user_ix, log.item_ix] = 1
    left, values, right = np.linalg.svd(seen, full_matrices=False)
    users, items = left[:, :9] * values[:9], right[:9].T

    def recall(strength: float) -> float:
        popular = np.argsort(-log.item_counts)[:40]
        direction = items[popular].mean(axis=0)
        direction /= np.linalg.norm(direction)
        scores = users @ (items - strength * np.outer(items @ direction, direction)).T
        scores[log.user_ix, log.item_ix] = -np.inf
        return float(taste_recall(world, np.argsort(-scores, axis=1)[:, :20], exclude=log).mean())

    chance = 20 / 400
    assert recall(0.0) > 1.5 * chance
    assert recall(1.0) > 1.2 * recall(0.0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_users": 0}, "at least one user"),
        ({"n_items": 1}, "two items"),
        ({"temperature": 0.0}, "temperature at least 0.05"),
        ({"mean_activity": float("nan")}, "must be above 0"),
        ({"pull": -1.0}, "pull at least 0"),
    ],
)
def test_errors_state_what_must_hold(arguments: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_world(**arguments)  # type: ignore[arg-type]


def test_recommendations_need_a_row_for_each_user() -> None:
    with pytest.raises(InputError, match="each of the 100 users, got shape"):
        taste_recall(small_world(), np.zeros((3, 5), dtype=int))
