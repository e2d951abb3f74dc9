"""The ledger's four sums stand where they say, and the picture made of them is right."""

from __future__ import annotations

import numpy as np
import pytest

from counterpop.ledger import Ledger, gradient_picture


def small_ledger() -> Ledger:
    """Every sum of every row another number, so that none can be taken for another."""
    return Ledger(
        np.arange(24, dtype=np.float32).reshape(3, 4, 2), -np.arange(16, dtype=np.float32).reshape(2, 4, 2), 1, 9
    )


def test_each_sum_is_found_by_its_name() -> None:
    ledger = small_ledger()
    assert ledger.item_pull("count")[1].tolist() == [8, 9]
    assert ledger.item_push("count")[1].tolist() == [10, 11]
    assert ledger.item_pull("slope")[1].tolist() == [12, 13]
    assert ledger.item_push("slope")[1].tolist() == [14, 15]
    assert ledger.user_pull("count")[0].tolist() == [0, -1]
    assert ledger.user_push("count")[0].tolist() == [-2, -3]
    assert ledger.user_pull("slope")[0].tolist() == [-4, -5]
    assert ledger.user_push("slope")[0].tolist() == [-6, -7]


def test_the_slope_is_the_default() -> None:
    ledger = small_ledger()
    for name in ("item_pull", "item_push", "user_pull", "user_push"):
        assert np.array_equal(getattr(ledger, name)(), getattr(ledger, name)("slope"))


def test_the_picture_by_hand() -> None:
    # item 0: pull (3, 0), push (0, 4): the whole is (3, -4). Item 1: push alone. Item 2: nothing.
    items = np.zeros((3, 4, 2), np.float32)
    items[0, 2], items[0, 3] = (3, 0), (0, 4)
    items[1, 3] = (1, 0)
    items[:, 0] = 7  # by count: not asked for
    picture = gradient_picture(Ledger(items, np.zeros((0, 4, 2), np.float32), 1, 1))
    assert picture.norm_pull.tolist() == [3, 0, 0]
    assert picture.norm_push.tolist() == [4, 1, 0]
    assert picture.cosine_pull[0] == pytest.approx(3 / 5)
    assert picture.cosine_push[0] == pytest.approx(4 / 5)
    assert picture.cosine_push[1] == pytest.approx(1)
    assert np.isnan(picture.cosine_pull[1:]).all() and np.isnan(picture.cosine_push[2])


def test_the_picture_by_count_takes_the_other_sums() -> None:
    items = np.zeros((1, 4, 2), np.float32)
    items[0] = [(0, 2), (0, 1), (9, 9), (9, 0)]
    picture = gradient_picture(Ledger(items, np.zeros((0, 4, 2), np.float32), 1, 1), "count")
    assert (picture.norm_pull[0], picture.norm_push[0]) == (2, 1)
    assert (picture.cosine_pull[0], picture.cosine_push[0]) == (1, -1)
