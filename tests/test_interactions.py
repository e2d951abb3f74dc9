"""Positions, parts and the head of a log against slow references."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpop.errors import InputError, UnknownIdError
from counterpop.interactions import Interactions, head, join, pair_keys, positions, restrict

LOG = Interactions(
    user_ix=np.array([0, 0, 1, 3, 3], dtype=np.int32),
    item_ix=np.array([1, 2, 0, 0, 2], dtype=np.int32),
    user_ids=np.array([4, 9, 12, 40]),
    item_ids=np.array(["a", "b", "c"], dtype=object),
    time=np.array([5.0, 4.0, 3.0, 2.0, 1.0]),
    part=np.array([0, 3, 0, 2, 1], dtype=np.int8),
    merged=7,
)


def test_counts_and_starts_include_users_without_rows() -> None:
    assert len(LOG) == 5 and LOG.n_users == 4 and LOG.n_items == 3
    assert LOG.user_counts.tolist() == [2, 1, 0, 2]
    assert LOG.item_counts.tolist() == [2, 1, 2]
    assert LOG.user_starts.tolist() == [0, 2, 3, 3, 5]
    rows = [LOG.item_ix[LOG.user_starts[u] : LOG.user_starts[u + 1]].tolist() for u in range(4)]
    assert rows == [[1, 2], [0], [], [0, 2]]


@pytest.mark.parametrize("keep", [np.array([True, False, False, True, True]), np.array([0, 3, 4])])
def test_rows_keep_their_columns_and_all_ids(keep: Any) -> None:
    kept = LOG.rows(keep)
    assert kept.user_ix.tolist() == [0, 3, 3] and kept.item_ix.tolist() == [1, 0, 2]
    assert kept.time is not None and kept.time.tolist() == [5.0, 2.0, 1.0]
    assert kept.part is not None and kept.part.tolist() == [0, 2, 1]
    assert kept.user_ids is LOG.user_ids and kept.item_ids is LOG.item_ids
    assert kept.merged == 0 and kept.item_counts.tolist() == [1, 1, 1]  # not the counts of the whole log


@given(st.lists(st.booleans(), min_size=5, max_size=5))
def test_two_parts_join_to_the_log(mask: list[bool]) -> None:
    keep = np.array(mask)
    both = join(LOG.rows(keep), LOG.rows(~keep))
    assert both.user_ix.tolist() == LOG.user_ix.tolist() and both.item_ix.tolist() == LOG.item_ix.tolist()
    assert both.time is not None and both.time.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]
    assert both.part is None


def test_pair_keys_are_distinct_beyond_32_bits() -> None:
    big = Interactions(
        user_ix=np.array([0, 2**31 - 2], dtype=np.int32),
        item_ix=np.array([3, 1], dtype=np.int32),
        user_ids=np.broadcast_to(np.int64(0), 2**31 - 1),  # a long array that takes no memory
        item_ids=np.arange(70_000),
    )
    assert pair_keys(big).tolist() == [3, (2**31 - 2) * 70_000 + 1]


@given(st.lists(st.integers(-50, 50), min_size=1, unique=True), st.data())
def test_positions_are_indices_of_the_ids(ids: list[int], data: st.DataObject) -> None:
    known = sorted(ids)
    asked = data.draw(st.lists(st.sampled_from(known)))
    expected = [known.index(i) for i in asked]
    assert positions(np.array(known), asked, "user").tolist() == expected
    assert positions(np.array(known), np.array(asked, dtype=np.int32), "user").tolist() == expected
    assert positions(np.array(known), [str(i) for i in asked], "user").tolist() == expected
    text = np.array(sorted(str(i) for i in known), dtype=object)
    assert positions(text, asked, "user").tolist() == [text.tolist().index(str(i)) for i in asked]


def test_positions_of_uuids_and_on_the_log() -> None:
    ids = [uuid.UUID(int=n) for n in (1, 2**100)]
    known = np.array([str(i) for i in ids], dtype=object)
    assert positions(known, ids[::-1], "user").tolist() == [1, 0]
    assert LOG.user_positions([40, 4]).tolist() == [3, 0]
    assert LOG.item_positions(["c"]).tolist() == [2]


def test_unknown_ids_are_counted_and_the_first_is_reported() -> None:
    with pytest.raises(UnknownIdError, match=r"every user .* 2 of 3 are not \(first: 5\)"):
        LOG.user_positions([4, 5, 99])
    with pytest.raises(UnknownIdError, match=r"every item .* 1 of 1 are not \(first: 'z'\)"):
        LOG.item_positions(["z"])
    with pytest.raises(UnknownIdError, match="1 of 1"):
        positions(np.array([], dtype=np.int64), [3], "item")


@pytest.mark.parametrize("bad", ["x", 4.5, None, "4.0", "--4", 2**70, float("nan"), float("inf")])
def test_ids_of_another_type_are_not_rounded(bad: Any) -> None:
    with pytest.raises(InputError, match=r"user ids of this log are integers, but .* is not one"):
        LOG.user_positions([4, bad])


def slow_head(counts: list[int], share: float) -> set[int]:
    taken: set[int] = set()
    running = 0
    for position in sorted(range(len(counts)), key=lambda p: (-counts[p], p)):
        running += counts[position]
        if sum(counts) and (not taken or running <= share * sum(counts)):
            taken.add(position)
    return taken


@given(st.lists(st.integers(0, 30), max_size=12), st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))
def test_head_equals_a_slow_reference(counts: list[int], share: float) -> None:
    mask = head(np.array(counts, dtype=np.int64), share)
    assert mask.dtype == bool and len(mask) == len(counts)
    assert set(np.flatnonzero(mask).tolist()) == slow_head(counts, share)


def test_head_takes_80_percent_breaks_ties_by_position_and_is_never_empty() -> None:
    assert head(np.array([2, 2, 2, 2, 2])).tolist() == [True, True, True, True, False]
    assert head(np.array([1, 99])).tolist() == [False, True]
    assert not head(np.array([0, 0])).any()


@pytest.mark.parametrize(
    ("users", "items", "sentence"),
    [
        ([1, 0], [0, 0], "sorted by user and then by item"),
        ([0, 0], [1, 0], "sorted by user and then by item"),
        ([0, 0], [1, 1], "each pair once"),
        ([0, 2], [0, 0], "user_ix must hold, for each row, a position among the 2 user ids"),
        ([0, 1], [-1, 0], "item_ix must hold, for each row, a position among the 3 item ids"),
        ([0, 1], [0], "item_ix must hold, for each row"),
    ],
)
def test_unsorted_or_invalid_rows_are_refused(users: list, items: list, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Interactions(np.array(users, np.int32), np.array(items, np.int32), np.arange(2), np.arange(3))


def test_restrict_keeps_rows_whose_user_and_item_are_known() -> None:
    kept = restrict(LOG, np.array([1, 4, 40]), np.array(["a", "aa", "c"], dtype=object))
    ids = zip(kept.user_ids[kept.user_ix], kept.item_ids[kept.item_ix], strict=True)
    assert list(ids) == [(4, "c"), (40, "a"), (40, "c")]
    assert (kept.n_users, kept.n_items) == (3, 3)
    # users as text have other positions in another order
    named = restrict(LOG, np.array(["12", "4", "40", "9"], dtype=object), LOG.item_ids)
    assert named.user_ix.tolist() == [1, 1, 2, 2, 3]
    assert named.item_ix.tolist() == [1, 2, 0, 2, 0]
