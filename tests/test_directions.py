"""Each estimator of a direction on data small enough to follow by hand."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from builders import make_log
from counterpop.directions import RIDGE, ItemDirection, UserDirection, find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.ledger import Ledger
from counterpop.runs import Model

# Item counts 4, 3, 1, 1 and user counts 4, 2, 2, 1 (of 9): the first two of each are the head.
TRAIN = make_log([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)], 4, 4)
USERS = [(1, 1), (3, 1), (0, 4), (0, 0)]
ITEMS = [(2, 0), (0, 2), (4, 0), (2, 0)]


def toy_model(*, with_ledger: bool = True) -> Model:
    vectors = Embeddings(np.array(USERS, np.float32), np.array(ITEMS, np.float32), TRAIN.user_ids, TRAIN.item_ids)
    items, users = np.full((2, 4, 4, 2), 99, np.float32)  # by count: must not be used
    items[:, 2] = [(5, 1), (3, 1), (70, 0), (0, 0)]  # pull
    items[:, 3] = [(1, 0), (1, 8), (0, 70), (0, 0)]  # push
    users[:, 2] = [(0, 3), (0, 1), (50, 50), (0, 0)]
    users[:, 3] = [(3, 0), (3, 0), (0, 0), (9, 9)]
    return Model(vectors, Ledger(items, users, 1, 9) if with_ledger else None)


def unit(x: float, y: float) -> list[float]:
    return pytest.approx([x / np.hypot(x, y), y / np.hypot(x, y)], abs=1e-6)


def test_the_head_of_the_toy_data() -> None:
    assert TRAIN.item_counts.tolist() == [4, 3, 1, 1]
    assert TRAIN.user_counts.tolist() == [4, 2, 2, 1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ledger", (4 - 1, 1 - 4)),  # mean pull of items 0 and 1 less their mean push
        ("ledger-pull", (4, 1)),
        ("head-mean", (1, 1)),
        ("popularity-mean", (4 * 2 + 4 + 2, 3 * 2)),
        ("head-minus-tail", (1 - 3, 1 - 0)),
        ("mean", (8, 2)),
        ("svd", (1, 0)),  # the second moments are 24 and 4, and no product is left over
    ],
)
def test_popular_directions_by_hand(name: ItemDirection, expected: tuple[float, float]) -> None:
    found = find_directions(toy_model(), TRAIN, item=name)
    assert found.item.tolist() == unit(*expected)
    assert found.item.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ledger", (0 - 3, 2 - 0)),  # active users are 0 and 1: 6 of 9 rows; the third would make 8
        ("mean", (4, 6)),
        ("active-mean", (2, 1)),
        ("svd", (1, 1 + 2**0.5)),  # the second moments are 10 and 18, and their product is 4
    ],
)
def test_conformity_directions_by_hand(name: UserDirection, expected: tuple[float, float]) -> None:
    found = find_directions(toy_model(), TRAIN, user=name)
    assert found.user.tolist() == unit(*expected)
    assert found.user.dtype == np.float32


def ridge_twin(target: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Ridge regression as least squares with a row of its own for each penalty."""
    penalty = np.sqrt(RIDGE * np.mean((vectors**2).sum(axis=1)))
    rows = np.vstack([vectors, penalty * np.eye(vectors.shape[1])])
    return np.linalg.lstsq(rows, np.append(target, np.zeros(vectors.shape[1])), rcond=None)[0]


def test_ridge_directions_are_those_of_an_augmented_least_squares() -> None:
    found = find_directions(toy_model(), TRAIN, "ridge", "ridge")
    items, fame = np.array(ITEMS, float), np.log([5, 4, 2, 2])
    assert found.item.tolist() == unit(*ridge_twin(fame - fame.mean(), items - items.mean(axis=0)))
    lean = [np.log([5, 4, 2, 2]).mean(), np.log([5, 4]).mean(), np.log([5, 4]).mean(), np.log(5)]
    assert found.user.tolist() == unit(*ridge_twin(np.array(lean), np.array(USERS, float)))


def test_ridge_finds_the_axis_of_popularity_among_larger_ones() -> None:
    draw = np.random.default_rng(0)
    counts = np.maximum(1, draw.pareto(1.0, 400)).astype(int).clip(max=90)
    log = make_log([(user, item) for item, count in enumerate(counts) for user in range(count)], 90, 400)
    items = draw.normal(size=(400, 8)) * [5, 4, 3, 1, 1, 1, 1, 1]
    items[:, 3] = np.log(counts)
    model = Model(Embeddings(np.ones((90, 8), np.float32), items.astype(np.float32), log.user_ids, log.item_ids))
    assert abs(find_directions(model, log, "ridge").item[3]) > 0.97
    assert abs(find_directions(model, log, "svd").item[3]) < 0.2


def test_singular_directions_point_to_the_side_of_the_mean() -> None:
    for sign in (1, -1):
        vectors = (sign * np.array(side, np.float32) for side in (USERS, ITEMS))
        model = Model(Embeddings(*vectors, TRAIN.user_ids, TRAIN.item_ids))
        found = find_directions(model, TRAIN, "svd", "svd")
        assert sign * found.item[0] > 0.99
        assert sign * found.user[1] > 0.9


def test_every_estimator_gives_unit_vectors() -> None:
    for item in get_args(ItemDirection):
        for user in get_args(UserDirection):
            found = find_directions(toy_model(), TRAIN, item, user)
            assert np.linalg.norm(found.item) == pytest.approx(1, abs=1e-6)
            assert np.linalg.norm(found.user) == pytest.approx(1, abs=1e-6)


def test_the_ledger_is_the_default_where_there_is_one_else_mean_vectors() -> None:
    for model, names in ((toy_model(), ("ledger", "ledger")), (toy_model(with_ledger=False), ("head-mean", "mean"))):
        found, named = find_directions(model, TRAIN), find_directions(model, TRAIN, *names)
        assert np.array_equal(found.item, named.item)
        assert np.array_equal(found.user, named.user)


@pytest.mark.parametrize("names", [{"item": "ledger"}, {"item": "ledger-pull"}, {"user": "ledger"}])
def test_a_model_without_a_ledger_says_so(names: dict[str, str]) -> None:
    with pytest.raises(InputError, match="this model has no ledger; take a direction from mean vectors"):
        find_directions(toy_model(with_ledger=False), TRAIN, **names)


def test_an_unknown_direction_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"item direction must be one of ledger.* got 'north' and 'ledger'"):
        find_directions(toy_model(), TRAIN, item="north")
    with pytest.raises(InputError, match="got 'ledger' and 'south'"):
        find_directions(toy_model(), TRAIN, user="south")


def test_vectors_that_cancel_have_no_direction() -> None:
    vectors = Embeddings(
        np.array([(1, 0), (-1, 0)] * 2, np.float32), np.array(ITEMS, np.float32), TRAIN.user_ids, TRAIN.item_ids
    )
    with pytest.raises(InputError, match="the conformity direction is zero"):
        find_directions(Model(vectors), TRAIN)
    vectors = Embeddings(np.array(USERS, np.float32), np.zeros((4, 2), np.float32), TRAIN.user_ids, TRAIN.item_ids)
    for item in ("head-mean", "svd", "ridge"):
        with pytest.raises(InputError, match="the popular direction is zero"):
            find_directions(Model(vectors), TRAIN, item)
