"""Metrics against other implementations, slow references and examples worked by hand."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import ndcg_score

from builders import make_log, random_log
from counterpop.interactions import gini
from counterpop.metrics.accuracy import discounts, find_hits, hit_rate, ideal_dcg, ndcg, recall
from counterpop.metrics.popularity import average_popularity, coverage, exposure, popularity_groups, tail_share

counts_of_items = arrays(np.int64, st.integers(1, 60), elements=st.integers(0, 9))


def some_lists(n_users: int, n_items: int, k: int, seed: int = 0) -> np.ndarray:
    """(B, K) lists without repeats; every third is cut short with -1."""
    draw = np.random.default_rng(seed)
    lists = np.stack([draw.permutation(n_items)[:k] for _ in range(n_users)]).astype(np.int32)
    lists[::3, k // 2 :] = -1
    return lists


RANX = """
import json, sys
import numpy as np
from ranx.metrics import hit_rate, ndcg, recall

wanted, listed, k = json.load(sys.stdin)
found = {metric.__name__: [] for metric in (recall, hit_rate, ndcg)}
for want, list_ in zip(wanted, listed):
    qrels = np.array([[[item, 1.0] for item in want]])
    run = np.array([[[item, float(k - place)] for place, item in enumerate(list_)]])
    for metric in (recall, hit_rate, ndcg):
        found[metric.__name__].append(float(metric(qrels, run, k)[0]))
print(json.dumps(found))
"""


def test_accuracy_against_ranx() -> None:
    n_users, n_items, k = 40, 50, 10
    held = random_log(n_users, n_items, 0.15)
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    lists = some_lists(len(users), n_items, k)
    wanted = [held.item_ix[held.user_ix == u].tolist() for u in users]
    listed = [row[row >= 0].tolist() for row in lists]
    # compiling ranx takes a minute; as plain Python, in a separate process, it takes seconds
    done = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps([wanted, listed, k]),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )
    outside = json.loads(done.stdout)
    hits, n_held = find_hits(lists, users, held), held.user_counts[users]
    assert n_held.max() > k > n_held.min()
    for name, value in (("recall", recall(hits, n_held)), ("hit_rate", hit_rate(hits)), ("ndcg", ndcg(hits, n_held))):
        assert np.allclose(value, outside[name], atol=1e-12), name
        assert 0 < value.mean() < 1


def test_ndcg_against_scikit_learn() -> None:
    n_items, k = 30, 7
    held = random_log(25, n_items, 0.2, seed=1)
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    lists = np.stack([np.random.default_rng(u).permutation(n_items) for u in users]).astype(np.int32)
    truth = np.zeros((len(users), n_items))
    for row, u in enumerate(users):
        truth[row, held.item_ix[held.user_ix == u]] = 1
    score = -np.argsort(lists, axis=1)  # the place of each item in the list
    ours = ndcg(find_hits(lists[:, :k], users, held), held.user_counts[users])
    outside = [ndcg_score(truth[[row]], score[[row]], k=k) for row in range(len(users))]
    assert np.allclose(ours, outside, atol=1e-12)


def test_accuracy_by_hand() -> None:
    held = make_log([(0, 1), (0, 4), (0, 5), (2, 3)], 4, 6)
    users = np.array([0, 2, 3], np.int32)
    lists = np.array([[4, 0, 1], [0, 3, -1], [5, 3, -1]], np.int32)
    hits = find_hits(lists, users, held)
    assert hits.tolist() == [[True, False, True], [False, True, False], [False, False, False]]
    n_held = held.user_counts[users]
    assert recall(hits, n_held)[:2].tolist() == [2 / 3, 1.0]
    assert hit_rate(hits).tolist() == [1.0, 1.0, 0.0]
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert ndcg(hits, n_held)[:2] == pytest.approx([(1 + 1 / 2) / ideal, 1 / math.log2(3)])
    # NaN for a user without held-out items
    assert np.isnan(recall(hits, n_held)[2]) and np.isnan(ndcg(hits, n_held)[2])


def test_an_empty_place_is_never_a_hit() -> None:
    # user 1 with item -1 has the same key as user 0 with the last item
    held = make_log([(0, 5), (1, 0)], 2, 6)
    assert not find_hits(np.array([[-1]], np.int32), np.array([1], np.int32), held).any()
    nothing = make_log([], 2, 6)
    assert not find_hits(np.array([[3, -1]], np.int32), np.array([1], np.int32), nothing).any()


def test_ideal_dcg_is_that_of_a_perfect_list() -> None:
    assert discounts(3) == pytest.approx([1, 1 / math.log2(3), 0.5])
    assert ideal_dcg(3) == pytest.approx([0, 1, 1 + 1 / math.log2(3), 1.5 + 1 / math.log2(3)])


@given(counts_of_items)
def test_gini_is_the_mean_difference_of_all_pairs(counts: np.ndarray) -> None:
    total = counts.sum()
    if not total:
        assert math.isnan(gini(counts))
        return
    pairs = sum(abs(int(a) - int(b)) for a, b in itertools.product(counts, counts))
    assert gini(counts) == pytest.approx(pairs / (2 * len(counts) * total), abs=1e-12)
    assert coverage(counts) == sum(c > 0 for c in counts) / len(counts)


@given(st.data())
def test_exposure_and_means_in_lists_by_counting(data: st.DataObject) -> None:
    counts = data.draw(counts_of_items)
    n_items = len(counts)
    place = st.integers(-1, n_items - 1)
    lists = data.draw(arrays(np.int32, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=place))
    head = data.draw(arrays(np.bool_, n_items))
    listed = [[int(i) for i in row if i >= 0] for row in lists]
    everything = [i for row in listed for i in row]
    assert exposure(lists, n_items).tolist() == [everything.count(i) for i in range(n_items)]
    for popularity, share, row in zip(average_popularity(lists, counts), tail_share(lists, head), listed, strict=True):
        if row:
            assert popularity == pytest.approx(sum(counts[i] for i in row) / len(row))
            assert share == pytest.approx(sum(not head[i] for i in row) / len(row))
        else:
            assert math.isnan(popularity) and math.isnan(share)


@pytest.mark.parametrize("n_items", [100, 1000, 999])
def test_four_groups_hold_5_percent_of_the_items_each(n_items: int) -> None:
    counts = np.random.default_rng(0).integers(0, 50, n_items)
    group = popularity_groups(counts)
    sizes = np.bincount(group)
    assert len(sizes) == 5
    assert np.abs(sizes[:4] - 0.05 * n_items).max() < 1
    assert np.abs(np.cumsum(sizes)[:4] - 0.05 * n_items * np.arange(1, 5)).max() < 1
    for g in range(4):
        assert counts[group == g].min() >= counts[group == g + 1].max()


def test_groups_of_a_small_catalogue_hold_one_item_each() -> None:
    assert popularity_groups(np.array([1, 9, 3, 9, 0, 2, 2])).tolist() == [4, 0, 2, 1, 4, 3, 4]
