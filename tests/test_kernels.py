"""The kernels that draw and rank do what their plain twins do."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

import twins
from builders import make_log, random_log
from counterpop.interactions import Interactions
from counterpop.kernels.alias import alias_table
from counterpop.kernels.drawing import Blocks, Law, Rows, Triples, draw_triples
from counterpop.kernels.grid import search_grid
from counterpop.kernels.threads import stretches
from counterpop.kernels.topk import LEFT_OUT, leave_out, top_k
from counterpop.metrics.accuracy import ideal_dcg
from counterpop.training.backbones.contract import Start
from counterpop.training.sampling import TripleSampler
from counterpop.training.settings import Settings

# --- triples ---


def draw_once(log: Interactions, *, draws=0.0, negatives=1, law=None, n_blocks=1, low=0, high=None, seed=0):
    """The arguments of `twins.broken_rules` after one epoch drawn by the kernel."""
    users = low, log.n_users if high is None else high
    block_of = np.arange(log.n_items, dtype=np.int32) % n_blocks
    members = np.argsort(block_of, kind="stable").astype(np.int32)
    blocks = Blocks(block_of, members, np.searchsorted(block_of[members], np.arange(n_blocks + 1)))
    size = int(max(np.ceil(draws), log.user_counts.max())) * log.n_users * negatives
    out = Triples(*(np.full(size, -7, np.int32) for _ in range(4)), np.zeros(n_blocks + 1, np.int64))
    any_item = np.zeros(0, np.int64)
    how = Law(*alias_table(np.empty(0) if law is None else law), any_item, any_item, 0.0)
    rows = Rows(log.user_starts, log.item_ix, np.zeros(0, bool))
    state = np.random.default_rng(seed).integers(0, 2**64, 1, dtype=np.uint64)
    n = draw_triples(*users, rows, blocks, how, draws, negatives, 1 << 15, state, out)
    assert n == out.block_starts[-1]
    return users, rows, blocks, draws, negatives, out


def drawn_of(*asked, **given) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, positives and negatives of `draw_once`."""
    out = draw_once(*asked, **given)[-1]
    n = out.block_starts[-1]
    return out.users[:n], out.items[:n], out.negatives[:n]


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
    *asked, out = draw_once(log, n_blocks=2)
    block_of, seen, unseen = asked[2].block_of, out.items, out.negatives

    def rules(**change):
        return " ".join(twins.broken_rules(*asked, out._replace(**change)))

    other = next(m for m in range(len(seen)) if block_of[seen[m]] != block_of[seen[0]])
    assert rules() == ""
    assert "has touched" in rules(negatives=seen)
    assert "has not touched" in rules(items=unseen)
    assert "different blocks" in rules(negatives=np.where(np.arange(len(seen)) == 0, unseen[other], unseen))
    assert "not a permutation" in rules(order=np.zeros_like(out.order))


def unseen_of(log: Interactions, user: int) -> np.ndarray:
    return np.setdiff1d(np.arange(log.n_items), log.item_ix[log.user_ix == user])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_negatives_follow_their_law_over_the_unseen_items(power: float, n_blocks: int) -> None:
    log = random_log(200, 20, np.linspace(0.05, 0.6, 20), seed=3)
    user = int(np.argmax(log.user_counts < 12))
    law = log.item_counts.astype(np.float64) ** power
    given = {"draws": 20_000.0, "law": law if power else None, "low": user, "high": user + 1, "seed": 11}
    _, _, negatives = drawn_of(log, n_blocks=n_blocks, **given)
    block_of = np.arange(log.n_items) % n_blocks
    unseen = unseen_of(log, user)
    for block in range(n_blocks):
        mine = unseen[block_of[unseen] == block]
        found = np.bincount(negatives[block_of[negatives] == block], minlength=log.n_items)[mine]
        assert found.sum() > 5000
        assert chisquare(found, found.sum() * law[mine] / law[mine].sum()).pvalue > 0.01


def test_user_sampling_draws_users_and_their_items_equally_often() -> None:
    log = random_log(40, 30, np.linspace(0.05, 0.5, 30), seed=2)
    times, items = np.zeros(40), np.zeros(len(log))
    for seed in range(400):
        users, positives, _ = drawn_of(log, draws=3.25, seed=seed)
        times += np.bincount(users, minlength=40)
        rows = np.searchsorted(log.user_ix * 30 + log.item_ix, users * 30 + positives)
        items += np.bincount(rows, minlength=len(log))
    active = log.user_counts > 0
    assert not times[~active].any()
    assert abs(times[active].mean() / 400 - 3.25) < 4 * np.sqrt(0.25 * 0.75 / 400 / active.sum())
    assert abs(times[active] / 400 - 3.25).max() < 5 * np.sqrt(0.25 * 0.75 / 400)
    assert chisquare(items, times[log.user_ix] / log.user_counts[log.user_ix]).pvalue > 0.01


def test_the_order_of_a_block_is_any_permutation_equally_often() -> None:
    log = make_log([(0, 0), (1, 1), (2, 2)], 3, 6)
    orders = Counter(tuple(draw_once(log, seed=seed)[-1].order[:3].tolist()) for seed in range(3000))
    assert len(orders) == 6
    assert chisquare(list(orders.values())).pvalue > 0.01


@pytest.mark.parametrize("by_popularity", [False, True])
def test_a_user_who_has_touched_a_whole_block_loses_only_those_triples(by_popularity: bool) -> None:
    # blocks are the even and the odd items; user 0 has all even ones and one odd
    log = make_log([(0, 0), (0, 2), (0, 4), (0, 1), (1, 3), (1, 0), (2, 5)], 3, 6)
    law = log.item_counts.astype(np.float64) if by_popularity else None
    out = draw_once(log, law=law, n_blocks=2)[-1]
    n = out.block_starts[-1]
    pairs = sorted(zip(out.users[:n].tolist(), out.items[:n].tolist(), strict=True))
    assert pairs == [(0, 1), (1, 0), (1, 3), (2, 5)]
    assert sorted(out.order[:n].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("sampling", ["interactions", "users"])
def test_threads_never_share_a_row_and_together_miss_none(sampling: str) -> None:
    log = random_log(50, 40, np.linspace(0.02, 0.5, 40), seed=1)
    threads = 3
    sampler = TripleSampler(Start(log, Settings(sampling=sampling)), threads)
    met = set()
    for epoch in range(80):
        drawn = sampler.epoch(epoch)
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
