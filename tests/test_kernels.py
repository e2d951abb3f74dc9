"""Every kernel does what its plain twin does, and the twins do what the formulas say."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from builders import make_log, random_log
from counterpop.interactions import Interactions
from counterpop.kernels import twins
from counterpop.kernels.alias import alias_table
from counterpop.kernels.grid import search_grid
from counterpop.kernels.mf import draw_triples, step_triples
from counterpop.kernels.threads import stretches
from counterpop.kernels.topk import LEFT_OUT, leave_out, top_k
from counterpop.metrics.accuracy import ideal_dcg
from counterpop.training.sampling import TripleSampler

LOSSES = list(itertools.product([False, True], [False, True]))  # bce, normalised
NO_LEDGER = np.zeros((0, 0, 0), np.float32)
NO_WEIGHTS = np.zeros(0, np.float32)
ANY_ITEM = np.zeros(0, np.int64), np.zeros(0, np.int64), 0.0  # no rule of DICE's


# --- steps ---


def true_loss(P, A, B, reg, bce, normalised):
    """The loss as METHOD.md states it, for one triple."""
    p = P / np.sqrt((P**2).sum()) if normalised else P
    sg = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    fit = -np.log(sg(p @ A)) - np.log(1 - sg(p @ B)) if bce else -np.log(sg(p @ A - p @ B))
    return fit + reg / 2 * ((P**2).sum() + (A**2).sum() + (B**2).sum())


def one_step(rows, lr, reg, bce, normalised, step=step_triples):
    """The three rows after one triple, the loss, and the number of recorded triples."""
    users, items = rows[:1].copy(), rows[1:].copy()
    zero, one = np.array([0], np.int32), np.array([1], np.int32)
    lr, reg = rows.dtype.type(lr), rows.dtype.type(reg)
    found = step(users, items, zero, zero, one, zero, lr, reg, bce, normalised, NO_LEDGER, NO_LEDGER, 1, NO_WEIGHTS)
    return np.concatenate([users, items]), *found


@pytest.mark.parametrize(("bce", "normalised"), LOSSES)
@pytest.mark.parametrize("reg", [0.0, 0.3])
def test_a_step_goes_down_the_slope_of_the_stated_loss(bce: bool, normalised: bool, reg: float) -> None:
    rows = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    lr = 0.5
    after, loss, recorded = one_step(rows, lr, reg, bce, normalised)
    slope, small = np.empty((3, 5)), 1e-6
    for at in np.ndindex(3, 5):
        up, down = rows.astype(np.float64), rows.astype(np.float64)
        up[at] += small
        down[at] -= small
        rise = true_loss(*up, reg, bce, normalised) - true_loss(*down, reg, bce, normalised)
        slope[at] = rise / (2 * small)
    assert np.allclose((rows - after) / lr, slope, rtol=1e-5, atol=1e-6)
    assert loss == pytest.approx(true_loss(*rows.astype(np.float64), 0.0, bce, normalised), rel=1e-6)
    assert recorded == 1
    twin, twin_loss, _ = one_step(rows.astype(np.float64), lr, reg, bce, normalised, twins.step_triples)
    assert np.allclose((rows - twin) / lr, slope, rtol=1e-8, atol=1e-8)
    assert loss == pytest.approx(twin_loss, rel=1e-6)


def test_a_bpr_step_by_hand() -> None:
    # p = (1, 0), s_i = 0, s_j = 0: the slope is 1/2, so with lr 1 each item moves by half of p
    rows = np.array([[2, 0], [0, 4], [0, 2]], np.float32)
    after, loss, _ = one_step(rows, 1.0, 0.0, False, True)
    assert loss == pytest.approx(np.log(2))
    assert np.allclose(after, [[2, 0.5], [0.5, 4], [-0.5, 2]])  # P: (2 - 1) / |P| along the second axis


@pytest.mark.parametrize(("bce", "normalised"), LOSSES)
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_and_ledger_are_those_of_the_twin(bce: bool, normalised: bool, every: int, weighted: bool) -> None:
    draw = np.random.default_rng(2)
    n_users, n_items, dim, n = 12, 15, 9, 300
    users = draw.integers(n_users, size=n, dtype=np.int32)
    items = draw.integers(n_items, size=n, dtype=np.int32)
    negatives = ((items + draw.integers(1, n_items, size=n)) % n_items).astype(np.int32)
    order = draw.permutation(n).astype(np.int32)
    first = [draw.normal(size=(rows, dim)).astype(np.float32) for rows in (n_users, n_items)]
    weights = draw.random(n_items if weighted else 0, dtype=np.float32)

    def run(step, dtype):
        P, Q = (vectors.astype(dtype) for vectors in first)
        ledgers = np.zeros((n_items, 4, dim), dtype), np.zeros((n_users, 4, dim), dtype)
        lr, reg = np.float32(0.05), np.float32(0.01)
        found = step(P, Q, users, items, negatives, order, lr, reg, bce, normalised, *ledgers, every, weights)
        return P, Q, *ledgers, *found

    fast, slow = run(step_triples, np.float32), run(twins.step_triples, np.float64)
    for kernel, twin in zip(fast[:4], slow[:4], strict=True):
        assert np.allclose(kernel, twin, rtol=1e-4, atol=1e-4 * np.abs(twin).max())
    assert fast[4] == pytest.approx(slow[4], rel=1e-5)
    assert fast[5] == slow[5] == len(range(0, n, every))


def test_the_ledger_records_every_nth_triple_and_no_other() -> None:
    # one item pair and one user for each triple; the k-th triple's row is recorded where k % 3 == 0
    n, dim = 10, 4
    ix, order = np.arange(n, dtype=np.int32), np.random.default_rng(0).permutation(n).astype(np.int32)
    P, Q = np.ones((n, dim), np.float32), np.ones((2 * n, dim), np.float32)
    items, users = np.zeros((2 * n, 4, dim), np.float32), np.zeros((n, 4, dim), np.float32)
    lr = np.float32(0.1)
    _, recorded = step_triples(P, Q, ix, ix, ix + n, order, lr, lr, False, True, items, users, 3, NO_WEIGHTS)
    expected = sorted(order[[0, 3, 6, 9]])
    assert recorded == 4
    assert np.flatnonzero(users[:, 0].any(axis=1)).tolist() == expected
    assert np.flatnonzero(items[:, 0].any(axis=1)).tolist() == expected
    assert np.flatnonzero(items[:, 1].any(axis=1)).tolist() == [n + at for at in expected]
    assert np.allclose(items[expected, 0], 0.5)  # p of (1, 1, 1, 1)
    assert np.allclose(items[expected, 2], 0.25)  # slope 1/2 of equal scores


# --- triples ---


def draw_once(log: Interactions, *, draws=0.0, negatives=1, law=None, n_blocks=1, low=0, high=None, seed=0):
    """The arguments of `twins.broken_rules` after one epoch drawn by the kernel."""
    high = log.n_users if high is None else high
    block_of = np.arange(log.n_items, dtype=np.int32) % n_blocks
    members = np.argsort(block_of, kind="stable").astype(np.int32)
    starts = np.searchsorted(block_of[members], np.arange(n_blocks + 1))
    size = int(max(np.ceil(draws), log.user_counts.max())) * log.n_users * negatives
    out = [np.full(size, -7, np.int32) for _ in range(4)]
    order_starts = np.zeros(n_blocks + 1, np.int64)
    accept, alias = alias_table(np.empty(0) if law is None else law)
    state = np.random.default_rng(seed).integers(0, 2**64, 1, dtype=np.uint64)
    n = draw_triples(
        low,
        high,
        log.user_starts,
        log.item_ix,
        1 << 15,
        draws,
        negatives,
        accept,
        alias,
        block_of,
        members,
        starts,
        *ANY_ITEM,
        np.zeros(0, bool),
        state,
        *out,
        order_starts,
    )
    assert n == order_starts[-1]
    return low, high, log.user_starts, log.item_ix, draws, negatives, block_of, *out, order_starts


@pytest.mark.parametrize("n_blocks", [1, 3])
@pytest.mark.parametrize("draws", [0.0, 2.5])
@pytest.mark.parametrize("by_popularity", [False, True])
@pytest.mark.parametrize("negatives", [1, 3])
def test_triples_keep_their_contract(n_blocks: int, draws: float, by_popularity: bool, negatives: int) -> None:
    log = random_log(30, 24, 0.25)
    law = log.item_counts.astype(np.float64) if by_popularity else None
    for seed, (low, high) in enumerate([(0, 30), (7, 19)]):
        drawn = draw_once(
            log, draws=draws, negatives=negatives, law=law, n_blocks=n_blocks, low=low, high=high, seed=seed
        )
        assert twins.broken_rules(*drawn) == []


def test_broken_rules_are_seen() -> None:
    log = random_log(30, 24, 0.25)
    *asked, block_of, users, seen, unseen, order, order_starts = draw_once(log, n_blocks=2)

    def rules(**change):
        arrays = {"users": users, "seen": seen, "unseen": unseen, "order": order} | change
        return " ".join(twins.broken_rules(*asked, block_of, *arrays.values(), order_starts))

    other = next(m for m in range(len(seen)) if block_of[seen[m]] != block_of[seen[0]])
    assert rules() == ""
    assert "has touched" in rules(unseen=seen)
    assert "has not touched" in rules(seen=unseen)
    assert "different blocks" in rules(unseen=np.where(np.arange(len(seen)) == 0, unseen[other], unseen))
    assert "not a permutation" in rules(order=np.zeros_like(order))


def unseen_of(log: Interactions, user: int) -> np.ndarray:
    return np.setdiff1d(np.arange(log.n_items), log.item_ix[log.user_ix == user])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_negatives_follow_their_law_over_the_unseen_items(power: float, n_blocks: int) -> None:
    log = random_log(200, 20, np.linspace(0.05, 0.6, 20), seed=3)
    user = int(np.argmax(log.user_counts < 12))
    law = log.item_counts.astype(np.float64) ** power
    drawn = draw_once(
        log, draws=20_000.0, law=law if power else None, n_blocks=n_blocks, low=user, high=user + 1, seed=11
    )
    negatives, block_of, n = drawn[9], drawn[6], drawn[-1][-1]
    unseen = unseen_of(log, user)
    for block in range(n_blocks):
        mine = unseen[block_of[unseen] == block]
        found = np.bincount(negatives[:n][block_of[negatives[:n]] == block], minlength=log.n_items)[mine]
        assert found.sum() > 5000
        assert chisquare(found, found.sum() * law[mine] / law[mine].sum()).pvalue > 0.01


def test_user_sampling_draws_users_and_their_items_equally_often() -> None:
    log = random_log(40, 30, np.linspace(0.05, 0.5, 30), seed=2)
    times, items = np.zeros(40), np.zeros(len(log))
    for seed in range(400):
        drawn = draw_once(log, draws=3.25, seed=seed)
        n = drawn[-1][-1]
        times += np.bincount(drawn[7][:n], minlength=40)
        rows = np.searchsorted(log.user_ix * 30 + log.item_ix, drawn[7][:n] * 30 + drawn[8][:n])
        items += np.bincount(rows, minlength=len(log))
    active = log.user_counts > 0
    assert not times[~active].any()
    assert abs(times[active].mean() / 400 - 3.25) < 4 * np.sqrt(0.25 * 0.75 / 400 / active.sum())
    assert abs(times[active] / 400 - 3.25).max() < 5 * np.sqrt(0.25 * 0.75 / 400)
    assert chisquare(items, times[log.user_ix] / log.user_counts[log.user_ix]).pvalue > 0.01


def test_the_order_of_a_block_is_any_permutation_equally_often() -> None:
    log = make_log([(0, 0), (1, 1), (2, 2)], 3, 6)
    orders = Counter(tuple(draw_once(log, seed=seed)[10][:3].tolist()) for seed in range(3000))
    assert len(orders) == 6
    assert chisquare(list(orders.values())).pvalue > 0.01


@pytest.mark.parametrize("by_popularity", [False, True])
def test_a_user_who_has_touched_a_whole_block_loses_only_those_triples(by_popularity: bool) -> None:
    # blocks are the even and the odd items; user 0 has all even ones and one odd
    log = make_log([(0, 0), (0, 2), (0, 4), (0, 1), (1, 3), (1, 0), (2, 5)], 3, 6)
    law = log.item_counts.astype(np.float64) if by_popularity else None
    drawn = draw_once(log, law=law, n_blocks=2)
    n = drawn[-1][-1]
    pairs = sorted(zip(drawn[7][:n].tolist(), drawn[8][:n].tolist(), strict=True))
    assert pairs == [(0, 1), (1, 0), (1, 3), (2, 5)]
    assert sorted(drawn[10][:n].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("sampling", ["interactions", "users"])
def test_threads_never_share_a_row_and_together_miss_none(sampling: str) -> None:
    log = random_log(50, 40, np.linspace(0.02, 0.5, 40), seed=1)
    threads = 3
    sampler = TripleSampler(
        log, sampling=sampling, negatives=1, negative_power=0.0, threads=threads, generator=np.random.default_rng(0)
    )
    met = set()
    for _ in range(80):
        drawn = sampler.epoch()
        for turn in range(threads):
            users, items = [], []
            for part, triples in enumerate(drawn):
                at = triples.block((part + turn) % threads)
                users.append(set(triples.users[at].tolist()))
                items.append(set(triples.items[at].tolist()) | set(triples.negatives[at].tolist()))
            for one, other in itertools.combinations(range(threads), 2):
                assert not users[one] & users[other]
                assert not items[one] & items[other]
        if sampling == "interactions":
            n = [triples.block_starts[-1] for triples in drawn]
            pairs = {
                (u, i)
                for t, m in zip(drawn, n, strict=True)
                for u, i in zip(t.users[:m].tolist(), t.items[:m].tolist(), strict=True)
            }
            assert sum(n) == len(log) == len(pairs)
        for t in drawn:
            m = t.block_starts[-1]
            met |= set(zip(t.items[:m].tolist(), t.negatives[:m].tolist(), strict=True))
    by_count = np.argsort(-log.item_counts, kind="stable")
    # neighbours in popularity are dealt to different blocks, but the deal begins anew elsewhere
    assert all((by_count[n], by_count[n + 1]) in met for n in range(10))


def test_alias_table_is_the_law() -> None:
    law = np.random.default_rng(0).exponential(size=50) * (np.arange(50) % 4 > 0)
    accept, alias = alias_table(law)
    chance = accept / 50 + np.bincount(alias, (1 - accept) / 50, minlength=50)
    assert np.allclose(chance, law / law.sum(), atol=1e-12)


# --- top-k ---


@pytest.mark.parametrize("n_items", [1, 7, 64, 300, 1500])
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("levels", [3, 1_000_000])
def test_top_k_is_the_full_sort(n_items: int, k: int, levels: int) -> None:
    draw = np.random.default_rng([n_items, k, levels])
    log = random_log(9, n_items, np.linspace(0, 1, n_items))  # the last item is seen by all
    users = draw.permutation(9).astype(np.int32)[:7]
    scores = draw.integers(-levels, levels, (7, n_items)).astype(np.float32)
    scores[3, 1:] = LEFT_OUT  # at most one item left
    tie = draw.permutation(n_items)
    twin = scores.copy()
    leave_out(scores, log.user_starts, log.item_ix, users)
    twins.leave_out(twin, log.user_starts, log.item_ix, users)
    assert np.array_equal(scores, twin)
    best, items = np.empty((7, k), np.float32), np.empty((7, k), np.int32)
    top_k(scores, tie, 0, 4, best, items)  # in two stretches, as two threads would
    top_k(scores, tie, 4, 7, best, items)
    assert np.array_equal(items, twins.top_k(twin, tie, k))
    padded = np.concatenate([scores, np.full((7, 1), LEFT_OUT, np.float32)], axis=1)
    assert np.array_equal(best, np.take_along_axis(padded, items.astype(np.int64), axis=1))


# --- grid ---


def grid_case(seed: int, n_items: int, spread: int, levels: int, chance: float = 0.1):
    """Whole numbers throughout, so that float32 is exact and ties are real."""
    draw = np.random.default_rng([seed, 1])
    n_users = 12
    train = random_log(n_users, n_items, chance, seed)
    free = np.ones((n_users, n_items), bool)
    free[train.user_ix, train.item_ix] = False
    held = make_log(np.argwhere(free & (draw.random(free.shape) < 0.05 + 2 / n_items)), n_users, n_items)
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    scores = draw.integers(-levels, levels + 1, (len(users), n_items)).astype(np.float32)
    leave_out(scores, train.user_starts, train.item_ix, users)
    shifts = draw.integers(-spread, spread + 1, (2, len(users), 16)).astype(np.float32)
    # along each component a few items stand far out
    parts = (draw.integers(-3, 4, (2, n_items)) * draw.choice([1, 1, 1, 50], (2, n_items))).astype(np.float32)
    return draw, train, held, users, scores, shifts, parts


def cells_of(parts: np.ndarray, n_cells: int, draw: np.random.Generator):
    """Any cut of the items into cells is allowed as long as the boxes hold them."""
    n_items = parts.shape[1]
    inner = np.sort(draw.choice(np.arange(1, n_items), n_cells - 1, replace=False)) if n_cells > 1 else []
    starts = np.concatenate([[0], inner, [n_items]]).astype(np.int64)
    cells = list(itertools.pairwise(starts))
    boxes = [[f(part[a:b]) for a, b in cells] for part in parts for f in (np.min, np.max)]
    return starts, np.array(boxes, np.float32)


def run_grid(case, cells, anchors, k, tie, tail, weights):
    """Sums, weight, exposure and items looked at, in two stretches as two threads would."""
    _, train, held, users, scores, shifts, parts = case
    n_grid, n_items = shifts.shape[2], scores.shape[1]
    sums, weight, exposure = np.zeros((n_grid, 5)), np.zeros(1), np.zeros((n_items, n_grid), np.int32)
    given = {
        "scores": scores,
        "item_shift": shifts[0],
        "user_shift": shifts[1],
        "item_part": parts[0],
        "user_part": parts[1],
        "cell_starts": cells[0],
        "boxes": cells[1],
        "anchors": np.array(anchors),
        "near": np.tile(np.arange(len(anchors)), (n_grid, 1)),
        "tie": tie,
        "counts": train.item_counts,
        "tail": tail,
        "held_starts": held.user_starts,
        "held_items": held.item_ix,
        "held_weights": weights,
        "users": users,
        "ideal": ideal_dcg(k),
        "k": k,
        "sums": sums,
        "weight": weight,
        "exposure": exposure,
    }
    names = inspect.signature(search_grid.py_func).parameters
    looked_at = 0
    for low, high in stretches(len(users), 2):
        given |= {"low": low, "high": high}
        looked_at += search_grid(*[given[name] for name in names])
    return sums, weight[0], exposure.T, looked_at


@pytest.mark.parametrize("n_items", [6, 60, 700])
@pytest.mark.parametrize(("spread", "levels"), [(2, 3), (40, 3), (40, 2000), (0, 2), (0, 0)])
@pytest.mark.parametrize(("n_cells", "anchors"), [(1, [0]), (5, [3, 7, 12]), (6, list(range(16)))])
def test_grid_misses_no_item(n_items: int, spread: int, levels: int, n_cells: int, anchors: list[int]) -> None:
    case = draw, train, held, users, scores, shifts, parts = grid_case(n_items, n_items, spread, levels)
    tie, tail = draw.permutation(n_items), draw.random(n_items) < 0.5
    weights = draw.integers(1, 5, len(held)).astype(np.float32)
    found = run_grid(case, cells_of(parts, n_cells, draw), anchors, 5, tie, tail, weights)
    sums, weight, exposure = twins.search_grid(
        scores, *shifts, *parts, tie, train.item_counts, tail, held.user_starts, held.item_ix, weights, users, 5
    )
    assert np.array_equal(found[2], exposure)
    assert np.allclose(found[0], sums, rtol=1e-6)
    assert found[1] == pytest.approx(weight, rel=1e-6)


def test_grid_rules_most_items_out() -> None:
    """Otherwise the test above would pass with cells that exclude nothing."""
    n_items, k = 2000, 5
    case = draw, _, held, users, *_, parts = grid_case(0, n_items, 1, 100_000)
    parts.sort(axis=1)
    cells, ones = cells_of(parts, 20, draw), np.ones(len(held), np.float32)
    *_, looked_at = run_grid(case, cells, [0, 8], k, draw.permutation(n_items), np.zeros(n_items, bool), ones)
    assert k * len(users) <= looked_at < 0.05 * n_items * len(users)
