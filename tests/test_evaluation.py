"""Metrics of lists computed by hand; intervals and comparisons checked against theory."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from builders import make_log, vectors_for
from counterpop.adjustment import adjust
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.evaluation import Measures, contrast, evaluate, measure, measure_model, relative_change
from counterpop.interactions import Interactions, head
from counterpop.metrics.resampling import PER_USER
from counterpop.recommender import Recommender
from counterpop.runs import Model
from counterpop.splits import Split

# --- one set of lists ---


def hand_made() -> Measures:
    # 40 items: groups of 2, 2, 2, 2 and 32. Item 0 is touched by all ten users, ... item 9 by one.
    train = make_log([(u, i) for i in range(10) for u in range(10 - i)], 10, 40)
    held = make_log([(7, 0), (7, 20), (8, 3), (8, 8), (8, 9), (8, 30)], 10, 40)
    lists = np.array([[20, 5, 4], [3, 4, -1]], np.int32)
    return measure(lists, np.array([7, 8], np.int32), train, held, resamples=0)


def test_measures_by_hand() -> None:
    found = hand_made()
    second, third = 1 / math.log2(3), 1 / 2
    assert found.per_user["recall"].tolist() == [1 / 2, 1 / 4]
    assert found.recall == 3 / 8
    assert found.hit_rate == 1
    assert found.ndcg == pytest.approx((1 / (1 + second) + 1 / (1 + second + third)) / 2)
    assert found.per_user["average_popularity"].tolist() == [(0 + 5 + 6) / 3, (7 + 6) / 2]
    # 55 rows: items 0 to 5 hold 45 of them, more than 80 % (44), so the head is 0 to 4
    assert found.per_user["tail_share"].tolist() == [2 / 3, 0]
    assert found.coverage == 4 / 40
    exposed = np.zeros(40)
    exposed[[20, 5, 3, 4]] = [1, 1, 1, 2]
    assert np.array_equal(found.exposure, exposed)
    assert found.gini == pytest.approx(np.abs(exposed[:, None] - exposed).sum() / (2 * 40 * 5))
    assert found.intervals == {}
    assert found.users.tolist() == [7, 8]


def test_groups_by_hand() -> None:
    groups = hand_made().groups
    assert [g["items"] for g in groups] == [2, 2, 2, 2, 32]
    assert [g["frequency"] for g in groups] == [0, 1 / 5, 3 / 5, 0, 1 / 5]  # item 3; 5, 4, 4; 20
    assert [g["recall"] for g in groups] == [0, 1, None, None, 1 / 4]  # of 0; 3; none; none; 8, 9, 20, 30


def test_no_users_to_measure_is_an_error() -> None:
    log = make_log([(0, 0)], 1, 3)
    with pytest.raises(InputError, match="nothing to measure: no user has a held-out item"):
        measure(np.empty((0, 2), np.int32), np.empty(0, np.int32), log, log)


# --- intervals ---


def many_lists(n_users: int = 500, n_items: int = 60, seed: int = 0) -> tuple:
    draw = np.random.default_rng(seed)
    train = make_log(np.argwhere(draw.random((n_users, n_items)) < 0.1), n_users, n_items)
    held = make_log(np.argwhere(draw.random((n_users, n_items)) < 0.1), n_users, n_items)
    users = np.flatnonzero(held.user_counts).astype(np.int32)
    weight = 1 / np.arange(1, n_items + 1)
    lists = np.argsort(draw.exponential(size=(len(users), n_items)) / weight, axis=1)[:, :10].astype(np.int32)
    return lists, users, train, held


def test_bootstrap_intervals_are_those_of_a_mean() -> None:
    found = measure(*many_lists())
    for name in PER_USER:
        values = found.per_user[name]
        error = 1.96 * values.std() / math.sqrt(len(values))
        low, high = found.intervals[name]
        assert (high - low) / 2 == pytest.approx(error, rel=0.08), name
        assert (high + low) / 2 == pytest.approx(values.mean(), abs=0.15 * error), name


def test_intervals_of_groups_are_those_of_a_share() -> None:
    lists, users, train, held = many_lists()
    found = measure(lists, users, train, held)
    for g, group in enumerate(found.groups, start=1):
        low, high = found.intervals[f"group_{g}_frequency"]
        assert low < group["frequency"] < high
        low, high = found.intervals[f"group_{g}_recall"]
        assert low < group["recall"] < high
    # every list has ten places, so the last group's share is a mean over users as well
    top = np.argsort(-train.item_counts, kind="stable")[:12]
    share = (~np.isin(lists, top)).mean(axis=1)
    low, high = found.intervals["group_5_frequency"]
    assert found.groups[4]["frequency"] == pytest.approx(share.mean())
    assert high - low == pytest.approx(2 * 1.96 * share.std() / math.sqrt(len(users)), rel=0.08)


def test_intervals_of_coverage_and_gini_hold_the_value_and_the_spread_of_new_users() -> None:
    found = measure(*many_lists(n_users=150, n_items=400))
    fresh = [measure(*many_lists(n_users=150, n_items=400, seed=s), resamples=0) for s in range(1, 101)]
    for name in ("coverage", "gini"):
        low, high = found.intervals[name]
        assert low < getattr(found, name) < high
        spread = np.std([getattr(other, name) for other in fresh])
        assert (high - low) / (2 * 1.96) == pytest.approx(spread, rel=0.3), name


def test_a_weight_is_a_number_of_equal_users() -> None:
    """If all pairs of a user weigh n, metrics and tests are those of a log that has the user n times."""
    lists, users, train, held = many_lists(n_users=80)
    times = np.random.default_rng(5).integers(1, 4, held.n_users)
    weighted = dataclasses.replace(held, weight=times[held.user_ix].astype(np.float32))
    copies = np.repeat(users, times[users])
    old, again = np.arange(len(copies), dtype=np.int32), np.repeat(lists, times[users], axis=0)
    many = make_log([(u, i) for u in old for i in held.item_ix[held.user_ix == copies[u]]], len(old), held.n_items)
    other = np.roll(lists, 1, axis=1) % 7
    mine, theirs = (
        [measure(show, who, train, pairs) for show in shown]
        for shown, who, pairs in (
            ((lists, other), users, weighted),
            ((again, np.repeat(other, times[users], axis=0)), old, many),
        )
    )
    for name in PER_USER:
        assert getattr(mine[0], name) == pytest.approx(getattr(theirs[0], name)), name
        first, second = (contrast(*found)[name]["difference"] for found in (mine, theirs))
        assert first == pytest.approx(second), name
    assert relative_change(*mine)["change"] == pytest.approx(relative_change(*theirs)["change"])
    with pytest.raises(InputError, match="same users"):
        contrast(mine[0], measure(lists, users, train, held))


def test_the_same_seed_gives_the_same_intervals() -> None:
    lists = many_lists()
    first, again, other = (measure(*lists, seed=seed) for seed in (1, 1, 2))
    assert first.intervals == again.intervals != other.intervals
    assert first.recall == other.recall


def test_an_empty_list_counts_for_accuracy_but_has_no_popularity() -> None:
    lists, users, train, held = many_lists()
    lists[:250] = -1
    found = measure(lists, users, train, held)
    half = measure(lists[250:], users[250:], train, held)
    assert found.average_popularity == pytest.approx(half.average_popularity)
    assert found.recall == pytest.approx(half.recall * len(users[250:]) / len(users))
    for name in ("recall", "average_popularity", "tail_share"):
        low, high = found.intervals[name]
        assert low < getattr(found, name) < high, name


# --- comparison ---


def measures_of(recall: np.ndarray) -> Measures:
    """Measures with these values for recall and zeros for the other metrics."""
    n = len(recall)
    per_user = {name: np.zeros(n) for name in PER_USER} | {"recall": np.asarray(recall, dtype=np.float64)}
    return Measures(
        *[0.0] * 7,
        groups=(),
        intervals={},
        per_user=per_user,
        exposure=np.zeros(1, np.int64),
        users=np.arange(n, dtype=np.int32),
        weights=np.ones(n),
        held="the same",
    )


def test_a_planted_difference_is_found_and_no_other() -> None:
    draw = np.random.default_rng(0)
    base = draw.random(300)
    better = base + 0.05 + 0.1 * draw.normal(size=300)
    found = contrast(measures_of(better), measures_of(base))
    row = found["recall"]
    assert set(found) == set(PER_USER)
    assert row["p_value"] == pytest.approx(1 / 2001)
    assert row["difference"] == pytest.approx((better - base).mean())
    error = 1.96 * (better - base).std() / math.sqrt(300)
    assert (row["high"] - row["low"]) / 2 == pytest.approx(error, rel=0.08)
    assert found["ndcg"] == {"difference": 0, "low": 0, "high": 0, "p_value": 1}


def test_the_p_value_equals_that_of_all_signs() -> None:
    difference = np.array([0.3, -0.1, 0.25, 0.05, 0.4, -0.2, 0.15, 0.1])
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    exact = (np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12).mean()
    found = contrast(measures_of(difference), measures_of(np.zeros(8)), rounds=20_000)["recall"]["p_value"]
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))


def test_without_a_difference_p_values_are_uniform() -> None:
    draw = np.random.default_rng(1)
    p_values = [
        contrast(measures_of(draw.normal(size=60)), measures_of(draw.normal(size=60)), rounds=200, seed=s)["recall"][
            "p_value"
        ]
        for s in range(150)
    ]
    assert np.mean(p_values) == pytest.approx(0.5, abs=4 * math.sqrt(1 / 12 / 150))
    assert np.mean(np.array(p_values) < 0.1) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 150))


def test_swapping_the_sides_reverses_a_comparison() -> None:
    draw = np.random.default_rng(2)
    one, two = measures_of(draw.random(80)), measures_of(draw.random(80))
    there, back = contrast(one, two)["recall"], contrast(two, one)["recall"]
    assert there["difference"] == -back["difference"]
    assert there["p_value"] == back["p_value"]
    assert (there["low"], there["high"]) == pytest.approx((-back["high"], -back["low"]), rel=1e-6)


def test_only_the_same_users_can_be_compared() -> None:
    one = measures_of(np.ones(3))
    other = dataclasses.replace(one, users=np.array([0, 1, 3], np.int32))
    for different in (other, dataclasses.replace(one, held="another part")):
        with pytest.raises(InputError, match="only measures of the same users, held-out pairs and k can be"):
            contrast(one, different)


# --- a model ---


@pytest.fixture(scope="module")
def adjustment(split: Split) -> Recommender:
    vectors = vectors_for(split.train)
    found = find_directions(Model(vectors), split.train)
    return Recommender(found.item, found.user, 0.6, 1.4, embeddings=vectors, seen=split.train)


def test_evaluation_measures_plain_and_adjusted_on_the_same_users(adjustment: Recommender, split: Split) -> None:
    for on, held in (("test", split.test), ("valid", split.valid)):
        found = evaluate(adjustment, split, on=on, k=7, resamples=0)
        plain_model = adjustment.with_strengths(0, 0)
        stored = dataclasses.replace(plain_model, embeddings=adjust(adjustment.embeddings, adjustment))
        by_vectors = measure_model(stored, held, 7, resamples=0)
        plain = measure_model(plain_model, held, 7, resamples=0)
        for name in PER_USER:
            assert getattr(found.adjusted, name) == pytest.approx(getattr(by_vectors, name), abs=1e-3)
            assert getattr(found.plain, name) == getattr(plain, name)
            difference = getattr(found.adjusted, name) - getattr(found.plain, name)
            assert found.comparison[name]["difference"] == pytest.approx(difference)
        assert found.adjusted.recall != found.plain.recall
        assert (found.k, found.on, found.item_strength, found.user_strength) == (7, on, 0.6, 1.4)


def test_with_or_without_a_refit_lists_on_test_leave_out_all_that_is_known(
    adjustment: Recommender, split: Split
) -> None:
    known = dataclasses.replace(adjustment, seen=split.development.refit_train())
    again = dataclasses.replace(known, refit=True)
    first, second = (evaluate(a, split, k=30, resamples=0).plain for a in (known, again))
    assert second.recall == first.recall == measure_model(known.with_strengths(0, 0), split.test, 30).recall
    assert second.recall > evaluate(adjustment, split, k=30, resamples=0).plain.recall  # fewer items compete
    assert second.average_popularity > first.average_popularity  # counted in what the model was trained on
    with pytest.raises(InputError, match="trained on the valid pairs and has no `trial`; evaluate it on test"):
        evaluate(again, split, on="valid")
    with pytest.raises(InputError, match=f"leave out, but {len(split.test)} of {len(split.test)} are"):
        evaluate(dataclasses.replace(adjustment, seen=split.test), split)


def test_json_has_the_documented_keys(adjustment: Recommender, split: Split) -> None:
    found = json.loads(json.dumps(evaluate(adjustment, split, resamples=60).to_json()))
    assert {"k", "users", "item_strength", "user_strength", "adjusted", "plain"} <= set(found)
    assert found["users"] == np.count_nonzero(split.test.user_counts)
    for side in ("adjusted", "plain"):
        names = {"recall", "hit_rate", "ndcg", "average_popularity", "tail_share", "coverage", "gini"}
        assert names | {"groups"} <= set(found[side])
        assert names <= set(found[side]["intervals"])
        assert len(found[side]["groups"]) == 5
    for row in found["comparison"].values():
        assert set(row) == {"difference", "low", "high", "p_value"}


def test_the_tail_is_that_of_the_train_part(adjustment: Recommender, split: Split) -> None:
    found = evaluate(adjustment, split, resamples=0).plain
    tail = ~head(split.train.item_counts)
    assert found.tail_share == pytest.approx(found.exposure[tail].sum() / found.exposure.sum())


def by_hand(model: Recommender, train: Interactions, held: Interactions, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Recall of every user with a held-out pair, plain and adjusted, with nothing of the package but the vectors."""
    P, Q = (v.astype(np.float64) for v in (model.embeddings.user_vectors, model.embeddings.item_vectors))
    p, q = (d.astype(np.float64) for d in (model.user_direction, model.item_direction))
    found = []
    for a, b in ((0.0, 0.0), (model.item_strength, model.user_strength)):
        scores = (P - b * np.outer(P @ p, p)) @ (Q - a * np.outer(Q @ q, q)).T
        scores[train.user_ix, train.item_ix] = -np.inf
        best = np.argsort(-scores, axis=1)[:, :k]
        found.append(
            np.array([np.isin(held.item_ix[held.user_ix == u], best[u]).mean() for u in np.unique(held.user_ix)])
        )
    return found[0], found[1]


@pytest.mark.parametrize("refit", [False, True])
def test_gain_and_price_against_plain_numpy(adjustment: Recommender, split: Split, refit: bool) -> None:
    known = split.development
    model = first = dataclasses.replace(adjustment, seen=known.refit_train())
    if refit:  # the refit model knows the ordinary pairs, so another one is measured on them
        again = vectors_for(split.train, seed=1)
        model = dataclasses.replace(model, embeddings=again, refit=True, trial=first.with_strengths(0.1, 0.1))
    found = evaluate(model, split, k=10)
    plain, adjusted = by_hand(model, known.refit_train(), split.test, 10)
    assert (found.plain.recall, found.adjusted.recall) == pytest.approx((plain.mean(), adjusted.mean()))
    assert found.gain["change"] == pytest.approx(adjusted.mean() / plain.mean() - 1)
    assert found.even and not found.before_refit
    ordinary = found.ordinary
    plain, adjusted = by_hand(first, known.train, known.ordinary, 10)  # at the strengths of the model, not the trial's
    assert (ordinary.plain.recall, ordinary.adjusted.recall) == pytest.approx((plain.mean(), adjusted.mean()))
    assert np.array_equal(ordinary.plain.users, np.unique(known.ordinary.user_ix))
    assert found.price["lost"] == pytest.approx(1 - adjusted.mean() / plain.mean()) and plain.mean() > 0
    assert ordinary.before_refit == refit and not ordinary.even and ordinary.ordinary is None
    # the interval of a ratio of means: the delta method
    part = (adjusted - adjusted.mean() / plain.mean() * plain) / plain.mean()
    error = 1.96 * part.std() / math.sqrt(len(part))
    assert (found.price["high"] - found.price["low"]) / 2 == pytest.approx(error, rel=0.15)
    printed = json.loads(json.dumps(found.to_json()))
    assert printed["price"] == found.price and printed["ordinary"]["before_refit"] == refit
    for side in ("plain", "adjusted"):
        assert printed["ordinary"][side].keys() == printed[side].keys()
    assert evaluate(model, split, "valid", 10).price == found.price  # one price for one model


def test_without_ordinary_pairs_there_is_no_price(adjustment: Recommender, split: Split) -> None:
    without = dataclasses.replace(split, development=dataclasses.replace(split.development, ordinary=None))
    found = evaluate(adjustment, without, resamples=0)
    assert found.ordinary is found.price is found.to_json()["price"] is None
    # a refit model that came without the one before it was trained on them
    unknown = evaluate(dataclasses.replace(adjustment, refit=True), split, resamples=0)
    assert unknown.ordinary is None
    nothing = measures_of(np.zeros(4))
    assert relative_change(measures_of(np.ones(4)), nothing) is None


def test_wrong_requests_are_rejected(adjustment: Recommender, split: Split) -> None:
    with pytest.raises(InputError, match="on must be 'test' or 'valid' or 'ordinary' for this split, got 'train'"):
        evaluate(adjustment, split, on="train")
    with pytest.raises(InputError, match=r"evaluate takes what tune\(run, split\) or load returns, got Split"):
        evaluate(split, split)  # type: ignore[arg-type]
