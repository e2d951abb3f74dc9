"""Lists equal a full sort for any blocks, threads, ties and order of items."""

from __future__ import annotations

import numpy as np
import pytest

import twins
from builders import make_log, random_log
from counterpop import ranking
from counterpop.errors import InputError
from counterpop.kernels.topk import LEFT_OUT
from counterpop.ranking import rank, tie_order


def whole_vectors(n: int, dim: int, seed: int, largest: int = 2) -> np.ndarray:
    """Vectors of small whole numbers: inner products are exact and many are equal."""
    return np.random.default_rng(seed).integers(-largest, largest + 1, (n, dim)).astype(np.float32)


def by_full_sort(queries, items, k, users, seen, ties):
    scores = queries.astype(np.float64) @ items.T.astype(np.float64)
    for log in seen:
        twins.leave_out(scores, log.user_starts, log.item_ix, users)
    lists = twins.top_k(scores, ties, k)
    best = np.where(lists < 0, LEFT_OUT, np.take_along_axis(scores, np.maximum(lists, 0), axis=1))
    return lists, best


@pytest.mark.parametrize("k", [1, 6, 50])
@pytest.mark.parametrize("block_rows", [1, 3, 1000])
@pytest.mark.parametrize("threads", [1, 2, None])
def test_lists_equal_a_full_sort(k: int, block_rows: int, threads: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    n_users, n_items = 20, 50
    monkeypatch.setattr(ranking, "BLOCK_BYTES", 4 * n_items * block_rows)
    seen = [random_log(n_users, n_items, 0.3), random_log(n_users, n_items, 0.1, seed=1)]
    users = np.random.default_rng(2).permutation(n_users).astype(np.int32)[:17]
    queries, items = whole_vectors(17, 4, 3), whole_vectors(n_items, 4, 4)
    ties = tie_order(np.arange(n_items))
    lists, scores = rank(queries, items, k, users=users, seen=seen, ties=ties, threads=threads)
    expected, best = by_full_sort(queries, items, k, users, seen, ties)
    assert np.array_equal(lists, expected)
    assert np.array_equal(scores, best.astype(np.float32))
    assert (lists.dtype, scores.dtype) == (np.int32, np.float32)


def test_a_large_catalogue_of_real_numbers() -> None:
    draw = np.random.default_rng(0)
    queries, items = (draw.normal(size=(n, 16)).astype(np.float32) for n in (30, 5000))
    users, log = np.arange(30, dtype=np.int32), random_log(30, 5000, 0.02)
    ties = tie_order(np.arange(5000))
    lists, _ = rank(queries, items, 20, users=users, seen=[log], ties=ties)
    assert np.array_equal(lists, by_full_sort(queries, items, 20, users, [log], ties)[0])


def test_minus_one_fills_short_lists() -> None:
    seen = make_log([(0, 0), (0, 1), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)], 3, 4)
    items = np.array([[4], [3], [2], [1]], np.float32)
    lists, scores = rank(
        np.ones((3, 1), np.float32),
        items,
        3,
        users=np.arange(3, dtype=np.int32),
        seen=[seen],
        ties=tie_order(np.arange(4)),
    )
    assert lists.tolist() == [[2, -1, -1], [-1, -1, -1], [0, 1, 2]]
    assert scores[0, 0] == 2 and (scores[lists < 0] == LEFT_OUT).all()


def test_lists_are_never_longer_than_the_catalogue() -> None:
    items = whole_vectors(6, 3, 0)
    lists, _ = rank(
        whole_vectors(2, 3, 1), items, 9, users=np.arange(2, dtype=np.int32), seen=[], ties=tie_order(np.arange(6))
    )
    assert np.sort(lists, axis=1).tolist() == [list(range(6))] * 2


@pytest.mark.parametrize("as_text", [False, True])
def test_the_order_of_items_does_not_matter(as_text: bool) -> None:
    n_items, users = 300, np.arange(15, dtype=np.int32)
    ids = np.arange(1000, 1000 + n_items)
    ids = np.array([f"item {i}" for i in ids], dtype=object) if as_text else ids
    queries, items = whole_vectors(15, 3, 0, largest=1), whole_vectors(n_items, 3, 1, largest=1)
    log = random_log(15, n_items, 0.2)
    lists, _ = rank(queries, items, 20, users=users, seen=[log], ties=tie_order(ids))
    order = np.random.default_rng(5).permutation(n_items)
    place = np.argsort(order)
    moved = make_log(np.column_stack([log.user_ix, place[log.item_ix]]), 15, n_items)
    again, _ = rank(queries, items[order], 20, users=users, seen=[moved], ties=tie_order(ids[order]))
    assert np.array_equal(ids[lists], ids[order][again])
    in_order, _ = rank(queries, items, 20, users=users, seen=[log], ties=np.arange(n_items))
    assert not np.array_equal(lists, in_order)  # there are ties to break


@pytest.mark.parametrize(
    "ids", [np.arange(-500, 500), np.array([f"ü{n}" for n in range(1000)], dtype=object)], ids=["int", "str"]
)
def test_tie_order_is_a_shuffle_that_depends_only_on_the_id(ids: np.ndarray) -> None:
    ties = tie_order(ids)
    assert np.array_equal(np.sort(ties), np.arange(1000))
    assert abs(np.corrcoef(ties, np.arange(1000))[0, 1]) < 0.1
    # removing items keeps the order of the others
    some = np.sort(np.random.default_rng(0).choice(1000, 200, replace=False))
    assert np.array_equal(np.argsort(tie_order(ids[some])), np.argsort(ties[some]))


def test_k_must_be_positive() -> None:
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        rank(
            np.ones((1, 1), np.float32),
            np.ones((2, 1), np.float32),
            0,
            users=np.zeros(1, np.int32),
            seen=[],
            ties=np.arange(2),
        )


def test_no_queries_give_no_lists() -> None:
    lists, scores = rank(
        np.empty((0, 2), np.float32),
        np.ones((3, 2), np.float32),
        2,
        users=np.empty(0, np.int32),
        seen=[],
        ties=np.arange(3),
    )
    assert lists.shape == scores.shape == (0, 2)
