"""Segments of users: found if users differ, and not if they do not."""

from __future__ import annotations

import numpy as np
import pytest

import counterpop as cp
from builders import random_log
from counterpop.adjustment import Segments
from counterpop.debiasing import hold_out, search
from counterpop.directions import find_directions
from counterpop.interactions import Interactions, head
from counterpop.metrics.resampling import PER_USER
from counterpop.runs import Model
from counterpop.segmentation import PARTS, Division, choose_segments, divide
from counterpop.tuning import STRENGTHS, Grid, search_strengths


def made_of(
    leanings: tuple[float, float], n_users: int = 2400, each: int = 15, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, Interactions, Interactions]:
    """Vectors that give all users the same leaning to popular items, and logs of users with these two leanings."""
    draw = np.random.default_rng(seed)
    n_items = 200
    taste = draw.normal(size=(n_users, 6)), draw.normal(size=(n_items, 6)) / 2
    popular = draw.normal(size=n_items)
    leaning = np.resize(leanings, n_users)
    wish = taste[0] @ taste[1].T + leaning[:, None] * popular + draw.gumbel(size=(n_users, n_items))
    order = np.argsort(-wish, axis=1)
    logs = []
    for items in (order[:, : 2 * each : 2], order[:, 1 : 2 * each : 2]):
        rows = np.sort(items, axis=1).astype(np.int32)
        ids = np.arange(n_users), np.arange(n_items)
        logs.append(Interactions(np.repeat(ids[0], each).astype(np.int32), rows.ravel(), *ids))
    users = np.hstack([taste[0], np.full((n_users, 1), 1.5)])
    return users, np.hstack([taste[1], popular[:, None]]), logs[0], logs[1]


def test_users_of_two_kinds_get_their_own_strengths() -> None:
    users, items, log, later = made_of((0.0, 3.0))
    fix = cp.debias(users, items, log, holdout=later)
    assert fix.segments is not None
    assert fix.by_segment is not None
    assert fix.segments.by == "head-taste"
    assert fix.by_segment.comparison["recall"]["low"] > 0
    share = np.bincount(log.user_ix, weights=head(log.item_counts)[log.item_ix]) / log.user_counts
    item, user = fix.segments.strengths_of(share)
    assert fix.query(users, item, user).shape == users.shape
    taken = np.abs(fix.query(users, item, user) - users).sum(axis=1)
    assert taken[::2].mean() > 2 * taken[1::2].mean()  # more from those who do not lean to the popular


def test_users_of_one_kind_share_one_pair() -> None:
    world = cp.make_world(1500, 300, seed=2)
    split = cp.split_uniform(world.log, test=5, valid=5, ordinary=0, seed=0)
    popular = np.log1p(world.log.item_counts)[:, None]
    users = np.hstack([world.user_taste, np.ones((1500, 1))])
    fix = cp.debias(users, np.hstack([world.item_taste, 0.5 * popular]), split.train, holdout=split.valid)
    assert fix.gained
    assert fix.segments is None


@pytest.mark.parametrize("seed", range(2))
def test_pairs_held_out_of_the_log_itself_do_not_divide_users(seed: int) -> None:
    """A user's share of popular items in the whole log would reveal how popular the held-out ones are."""
    users, items, log, _ = made_of((1.0, 1.0), 6000, 4, seed)
    assert cp.debias(users, items, log).segments is None


def test_bounds_are_those_of_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LEAST_AGREEMENT", 0.0)  # these vectors cannot be rebuilt well
    users, items, log, _ = made_of((0.0, 2.0))
    fix = cp.debias(users, items, log, floor={"recall": 0.01})
    assert fix.segments is not None
    assert fix.segments.bounds == divide(log, 0).bounds(fix.segments.by)
    seen = hold_out(log, None, 0).parts[0].seen
    assert fix.segments.bounds != divide(seen, 0).bounds(fix.segments.by)


def test_groups_of_a_grid_equal_grids_of_their_users() -> None:
    log = random_log(120, 60, 0.1, seed=1)
    held = log.rows(np.arange(len(log)) % 5 == 0)
    train = log.rows(np.arange(len(log)) % 5 != 0)
    draw = np.random.default_rng(0)
    vectors = cp.Embeddings(
        *(draw.normal(size=(n, 5)).astype(np.float32) for n in (120, 60)), log.user_ids, log.item_ids
    )
    directions = find_directions(Model(vectors), train)
    groups = (np.arange(120) % 3 * 2).astype(np.int32)  # 0, 2, 4: groups 1 and 3 are empty
    whole = search_strengths(vectors, directions, train, held, user_groups=groups, threads=2)
    plain = search_strengths(vectors, directions, train, held)
    for name in plain.values:
        assert whole.values[name] == pytest.approx(plain.values[name], rel=1e-9)
    assert len(whole.user_groups) == 5
    assert plain.user_groups == ()
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    for group in (0, 2, 4):
        own = search_strengths(vectors, directions, train, held, users=users[groups[users] == group])
        assert whole.user_groups[group].users == own.users
        for name in PER_USER:
            assert whole.user_groups[group].values[name] == pytest.approx(own.values[name], rel=1e-9)
    assert whole.user_groups[1].users == 0


def grid_of(best: list[tuple[int, int]], users: int = 100) -> Grid:
    """Groups (half, activity, taste) whose recall is best at a point that depends only on activity."""
    shape = len(STRENGTHS), len(STRENGTHS)
    groups = []
    for cell in range(2 * PARTS**2):
        value = np.full(shape, 0.1)
        value[best[cell // PARTS % PARTS]] = 0.2
        groups.append(Grid(STRENGTHS, STRENGTHS, dict.fromkeys(PER_USER, value), users, 1.0))
    return Grid(STRENGTHS, STRENGTHS, {}, users * len(groups), 1.0, tuple(groups))


def some_division() -> Division:
    return divide(random_log(300, 40, 0.2, seed=3), seed=0)


def test_segments_are_chosen_if_both_halves_agree() -> None:
    division = some_division()
    grid = grid_of([(0, 0), (5, 0), (0, 5)])
    found = choose_segments([grid, grid], division, "recall", None)
    assert found == Segments("activity", division.bounds("activity"), ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)))
    few = grid_of([(0, 0), (5, 0), (0, 5)], users=10)
    assert choose_segments([few, few], division, "recall", None) is None
    same = grid_of([(5, 0)] * 3)
    assert choose_segments([same, same], division, "recall", None) is None
    assert choose_segments([grid, grid], division, "coverage", None) is None
    assert choose_segments([grid, grid], division, "recall", {"gini": 0.9}) is None


def test_a_cell_encodes_half_activity_and_taste() -> None:
    log = random_log(300, 40, np.linspace(0.02, 0.6, 40), seed=3)
    division = divide(log, seed=0)
    popular = head(log.item_counts)
    for user in (0, 17, 250):
        mine = log.item_ix[log.user_starts[user] : log.user_starts[user + 1]]
        assert division.values["activity"][user] == len(mine)
        assert division.values["head-taste"][user] == pytest.approx(popular[mine].mean())
        rest = division.cells[user] % PARTS**2
        assert rest // PARTS == np.searchsorted(division.bounds("activity"), len(mine), side="right")
        assert rest % PARTS == np.searchsorted(division.bounds("head-taste"), popular[mine].mean(), side="right")
    assert 0.4 < (division.cells // PARTS**2).mean() < 0.6
