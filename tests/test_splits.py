"""Splits are disjoint and complete, have the stated sizes, and are drawn by the stated law."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpop import splits
from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import Interactions, gini, head, join, pair_keys
from counterpop.readers import read_interactions
from counterpop.splits import Split
from counterpop.worlds import make_world

DATA = Path(os.environ.get("COUNTERPOP_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")


def log_of(users: object, items: object, *, time: object = None, part: object = None) -> Interactions:
    user_ix, item_ix = np.asarray(users, dtype=np.int32), np.asarray(items, dtype=np.int32)
    order = np.lexsort((item_ix, user_ix))
    return Interactions(
        user_ix[order],
        item_ix[order],
        np.arange(100, 101 + user_ix.max()),
        np.arange(500, 501 + item_ix.max()),
        None if time is None else np.asarray(time, dtype=np.float64)[order],
        None if part is None else np.asarray(part, dtype=np.int8)[order],
    )


def popular_log(n_users: int = 300, n_items: int = 80, seed: int = 0) -> Interactions:
    """A log whose item counts fall steeply."""
    generator = np.random.default_rng(seed)
    chance = 0.9 / np.arange(1, n_items + 1) ** 0.7
    users, items = np.nonzero(generator.random((n_users, n_items)) < chance)
    return log_of(users, items, time=generator.integers(0, 50, len(users)))


def given_log(name: str) -> Interactions:
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is missing; set COUNTERPOP_DATA to the folder that holds it")
    with np.load(path, allow_pickle=False) as stored:
        return log_of(stored["user"], stored["item"], part=stored["split"])


@st.composite
def logs(draw: st.DrawFn) -> Interactions:
    n_users, n_items = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    cells = st.integers(0, n_users * n_items - 1)
    keys = np.array(sorted(draw(st.sets(cells, min_size=1))))
    generator = np.random.default_rng(draw(st.integers(0, 9)))
    return log_of(
        keys // n_items,
        keys % n_items,
        time=generator.integers(0, 4, len(keys)),
        part=generator.choice([0, 0, 0, 1, 2, 3], len(keys)) if draw(st.booleans()) else None,
    )


PROTOCOLS: dict[str, Callable[..., Split]] = {
    "random": splits.split_random,
    "temporal": splits.split_temporal,
    "uniform": splits.split_uniform,
    "uniform number": lambda log, **more: splits.split_uniform(log, test=2, valid=1, **more),
    "intervened": splits.split_intervened,
    "mixed": lambda log, **more: splits.split_mixed(log, 0.75, **more),
    "as given": splits.split_as_given,
}


def parts_of(split: Split) -> list[Interactions]:
    ordinary = split.development.ordinary
    return [split.train, split.valid, split.test] + ([] if ordinary is None else [ordinary])


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(log=logs(), seed=st.integers(0, 3), ordinary=st.sampled_from([0.0, 0.2]))
def test_parts_are_disjoint_and_make_up_the_log(protocol: str, log: Interactions, seed: int, ordinary: float) -> None:
    try:
        split = PROTOCOLS[protocol](log, seed=seed, ordinary=ordinary)
    except InputError as error:  # a log too small for three parts, or without a split column
        assert re.search("got none of the log's|no split column", str(error))
        return
    parts = parts_of(split)
    keys = np.concatenate([pair_keys(part) for part in parts])
    assert len(np.unique(keys)) == len(keys)
    assert np.isin(keys, pair_keys(log)).all()
    assert len(keys) + split.manifest.counts["left_out"] == len(log)
    assert protocol == "mixed" or split.manifest.counts["left_out"] == 0
    for name, part in zip(("train", "valid", "test", "ordinary"), parts, strict=False):
        assert split.manifest.counts[name] == len(part)
        assert (np.diff(pair_keys(part)) > 0).all()
        assert part.user_ids is log.user_ids and part.item_ids is log.item_ids
    outside_test = np.concatenate([pair_keys(part) for part in parts if part is not split.test])
    assert np.array_equal(pair_keys(split.development.refit_train()), np.sort(outside_test))
    marks = split.development.intervened
    assert (0 if marks is None else marks.sum()) == split.manifest.counts["intervened"]
    assert marks is None or len(marks) == len(split.train)
    json.dumps(dataclasses.asdict(split.manifest), allow_nan=False)


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "as given"])
def test_the_split_depends_only_on_the_seed(protocol: str) -> None:
    log = popular_log()
    tests = [pair_keys(PROTOCOLS[protocol](log, seed=seed).test).tolist() for seed in (3, 3, 4)]
    assert tests[0] == tests[1] != tests[2]


def test_random_split_has_the_shares_and_the_bias_of_the_log() -> None:
    log = popular_log(5000)
    split = splits.split_random(log, test=0.3, valid=0.2, ordinary=0.1)
    assert len(split.test) == round(0.3 * len(log)) and len(split.valid) == round(0.2 * len(log))
    assert split.manifest.counts["ordinary"] == np.ceil(0.1 * (len(log) - len(split.test) - len(split.valid)))
    for part in parts_of(split):
        assert gini(part.item_counts) == pytest.approx(gini(log.item_counts), abs=0.06)


def test_temporal_split_is_ordered_in_time() -> None:
    split = splits.split_temporal(popular_log())
    train, valid, test = split.train.time, split.valid.time, split.test.time
    assert train is not None and valid is not None and test is not None
    assert train.max() <= valid.min() and valid.max() <= test.min()
    assert test.min() == valid.max()  # 50 distinct times: the cut falls within a tie, which the seed divides
    other = splits.split_temporal(popular_log(), seed=1)
    assert pair_keys(other.test).tolist() != pair_keys(split.test).tolist()


@pytest.mark.parametrize("timed", [True, False])
def test_uniform_split_takes_the_same_number_of_every_item(timed: bool) -> None:
    log = popular_log()
    log = log if timed else dataclasses.replace(log, time=None)
    split = splits.split_uniform(log, test=6, valid=4)
    have = log.item_counts
    assert ((have > 10).any() and (have <= 10).any()) and have.min() > 0
    assert split.test.item_counts.tolist() == np.minimum(6, have - 1).tolist()
    assert split.valid.item_counts.tolist() == np.clip(have - 7, 0, 4).tolist()
    assert split.train.item_counts.min() >= 1
    if timed:
        for item in range(log.n_items):
            early, late = (
                part.time[part.item_ix == item] for part in (split.train, split.test) if part.time is not None
            )
            assert not len(late) or early.max() <= late.min()


def test_a_uniform_share_becomes_a_number_of_pairs_of_each_item() -> None:
    log = popular_log()
    split = splits.split_uniform(log, test=0.1, valid=1e-9)
    assert split.test.item_counts.max() == round(0.1 * len(log) / log.n_items)
    assert split.valid.item_counts.max() == 1


def test_the_ordinary_part_never_takes_an_item_s_last_train_pair() -> None:
    log = popular_log()
    assert (splits.split_uniform(log, test=6, valid=4).train.item_counts == 1).any()
    split = splits.split_uniform(log, test=6, valid=4, ordinary=0.9)
    assert split.train.item_counts.min() >= 1 and split.manifest.untrained_items == 0


def test_intervened_split_has_its_shares_for_every_user_and_a_flat_test() -> None:
    log = popular_log(1000)
    split = splits.split_intervened(log, ordinary=0)
    marks = split.development.intervened
    assert marks is not None
    have = log.user_counts
    intervened = split.train.rows(marks)
    shares = ((split.train.rows(~marks), 0.6), (intervened, 0.1), (split.valid, 0.1), (split.test, 0.2))
    for part, share in shares:
        assert np.abs(part.user_counts - share * have).max() <= 1
        assert len(part) == pytest.approx(share * len(log), rel=0.05)
    observed = gini(split.train.rows(~marks).item_counts)
    for part in (intervened, split.valid, split.test):
        assert gini(part.item_counts) < 0.6 * observed


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
@pytest.mark.parametrize("protocol", splits.PROTOCOLS)
def test_by_default_an_even_test_comes_with_an_ordinary_part(protocol: str) -> None:
    """It is taken from train only, so test and validation are the same with and without it."""
    log = popular_log(400)
    log = dataclasses.replace(log, time=np.random.default_rng(0).random(len(log)))
    if protocol == "as-given":
        drawn = splits.split_intervened(log)
        log = dataclasses.replace(log, part=np.isin(pair_keys(log), pair_keys(drawn.test)).astype(np.int8) * 3)
    more = {"proportion": 0.5} if protocol == "mixed" else {}
    with_it, without = splits.PROTOCOLS[protocol](log, **more), splits.PROTOCOLS[protocol](log, ordinary=0, **more)
    for name in ("valid", "test"):
        assert np.array_equal(pair_keys(getattr(with_it, name)), pair_keys(getattr(without, name)))
    ordinary = with_it.development.ordinary
    assert without.development.ordinary is None
    if protocol in ("random", "temporal"):  # the test part itself is drawn as traffic is
        assert ordinary is None
    else:
        held = join(with_it.train, ordinary)
        assert np.array_equal(pair_keys(held), pair_keys(without.train))
        marks = with_it.development.intervened
        observed = len(without.train) - (0 if marks is None else marks.sum())
        assert len(ordinary) == math.ceil(0.05 * observed)
        assert (with_it.train.user_counts[held.user_counts > 0] > 0).all()
        assert (with_it.train.item_counts[held.item_counts > 0] > 0).all()
    evenly = {"uniform", "intervened", "as-given"}
    assert with_it.manifest.even == (protocol in evenly)


def test_a_log_that_can_spare_nothing_has_no_ordinary_part() -> None:
    log = log_of(np.repeat(np.arange(30), 3), np.tile(np.arange(10), 9))
    split = splits.split_uniform(log, test=7, valid=1)
    assert split.train.item_counts.max() == 1 and split.development.ordinary is None


def test_intervened_draw_follows_the_weights() -> None:
    # 4,000 users with the same three items; other users raise the counts of the first two
    users = np.concatenate([np.repeat(np.arange(4000), 3), np.arange(4000, 12000), np.arange(4000, 8000)])
    items = np.concatenate([np.tile([0, 1, 2], 4000), np.zeros(8000), np.ones(4000)])
    log = log_of(users, items)  # counts 12,000, 8,000, 4,000: weights 2, 3, 6 of 11
    split = splits.split_intervened(log, test=1 / 3, valid=1e-4, intervened=0.0, cap=100)
    test = split.test.rows(split.test.user_ix < 4000)
    drawn = np.bincount(test.item_ix, minlength=3)
    expected = drawn.sum() * np.array([2, 3, 6]) / 11
    assert ((drawn - expected) ** 2 / expected).sum() < 13.8  # chi-square with 2 degrees of freedom at 0.001
    capped = splits.split_intervened(log, test=1 / 3, valid=1e-4, intervened=0.0, cap=0).test
    drawn = np.bincount(capped.item_ix[capped.user_ix < 4000], minlength=3)
    assert ((drawn - drawn.mean()) ** 2 / drawn.mean()).sum() < 13.8


def test_mixed_split_changes_only_the_test() -> None:
    log = popular_log(2000)
    by_proportion = {p: splits.split_mixed(log, p, seed=5) for p in (0, 0.5, 0.75, 0.9, 1)}
    first = by_proportion[0]
    for split in by_proportion.values():
        for part, same in zip(parts_of(split)[:2], parts_of(first)[:2], strict=True):
            assert np.array_equal(pair_keys(part), pair_keys(same))
        assert len(split.test) == len(first.test) == pytest.approx(0.2 * len(log), rel=0.02)
    observed, pure = (pair_keys(by_proportion[p].test) for p in (0, 1))
    assert not np.isin(observed, pure).any()
    for proportion, split in by_proportion.items():
        assert np.isin(pair_keys(split.test), pure).mean() == pytest.approx(proportion, abs=1e-3)
    ginis = [split.manifest.gini["test"] for split in by_proportion.values()]
    assert ginis == sorted(ginis, reverse=True)
    assert ginis[0] == pytest.approx(gini(log.item_counts), abs=0.02)


def test_a_test_with_untrained_items_warns_once_and_counts_them() -> None:
    log = log_of([0, 0, 1, 1, 1, 2], [0, 1, 0, 2, 3, 0], part=[0, 0, 0, 3, 3, 2])
    with pytest.warns(CounterpopWarning, match=r"2 items of test .*\(first: 502\).*misses") as caught:
        split = splits.split_as_given(log)
    assert len(caught) == 1 and Path(caught[0].filename) == Path(__file__)
    assert split.manifest.untrained_items == 2 and split.manifest.untrained_users == 1


def test_carving_detects_how_the_test_was_drawn() -> None:
    log = popular_log(10_000)  # the Gini of a few hundred pairs is mostly noise
    ways = {"uniform": splits.split_uniform, "intervened": splits.split_intervened, "random": splits.split_random}
    for way, split_by in ways.items():
        timeless = dataclasses.replace(log, time=None)
        test = np.isin(pair_keys(log), pair_keys(split_by(timeless).test))
        carved = splits.split_as_given(dataclasses.replace(timeless, part=np.where(test, 3, 0).astype(np.int8)))
        assert carved.manifest.carved == ("matched" if way == "uniform" else way)
        assert len(carved.test) == test.sum()
        if way != "uniform":
            assert len(carved.valid) == pytest.approx(test.sum() / 2, rel=0.05)
            assert gini(carved.valid.item_counts) == pytest.approx(gini(carved.test.item_counts), abs=0.06)
    late = np.isin(pair_keys(log), pair_keys(splits.split_temporal(log).test))
    carved = splits.split_as_given(dataclasses.replace(log, part=np.where(late, 3, 0).astype(np.int8)))
    assert carved.manifest.carved == "temporal"
    assert carved.train.time is not None and carved.valid.time is not None
    assert carved.train.time.max() <= carved.valid.time.min()


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
@pytest.mark.parametrize("way", ["random", "intervened"])
def test_carving_detects_how_a_small_test_was_drawn(way: str) -> None:
    """200 users with 8 pairs each, a fifth of them test: about one pair for each of 300 items."""
    split_by = {"intervened": splits.split_intervened, "random": splits.split_random}[way]
    found = []
    for seed in range(10):
        log = dataclasses.replace(make_world(200, 300, mean_activity=8, seed=seed).log, time=None)
        test = np.isin(pair_keys(log), pair_keys(split_by(log, seed=seed).test))
        given = dataclasses.replace(log, part=np.where(test, 3, 0).astype(np.int8))
        found.append(splits.split_as_given(given).manifest.carved)
    assert found.count(way) >= 9


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
def test_carving_detects_a_small_randomised_test() -> None:
    """Every user was shown three items drawn evenly: counts of one or two look as uneven as train's by their Gini."""
    for seed in range(5):
        world, draw = make_world(200, 300, mean_activity=8, seed=seed), np.random.default_rng(seed)
        keys = np.concatenate([user * 300 + draw.choice(300, 3, replace=False) for user in range(200)])
        keys = keys[~np.isin(keys, pair_keys(world.log))]
        users = np.concatenate([world.log.user_ix, keys // 300])
        items = np.concatenate([world.log.item_ix, keys % 300])
        split = splits.split_as_given(log_of(users, items, part=np.repeat([0, 3], [len(world.log), len(keys)])))
        assert split.manifest.carved == "intervened" and split.manifest.drawn == "carved, intervened"
        assert split.development.drawn == "carved, intervened"


def test_carving_detects_a_uniform_test_that_some_items_could_not_fill() -> None:
    """Four pairs of every item, but an item keeps one in train: a third of the items have fewer than four."""
    have = np.repeat([2, 3, 4, 5, 9, 40], 5)
    users = np.concatenate([np.arange(n) for n in have])
    part = np.concatenate([np.arange(n) < min(4, n - 1) for n in have]) * 3
    split = splits.split_as_given(log_of(users, np.repeat(np.arange(30), have), part=part))
    assert split.manifest.carved == "matched" and split.manifest.even


def test_a_uniform_carve_leaves_items_half_of_their_train_pairs() -> None:
    have = np.array([1, 2, 3, 4, 5, 8, 9, 40])
    items = np.concatenate([np.repeat(np.arange(8), have), np.repeat(np.arange(8), 4)])
    users = np.concatenate([*(np.arange(n) for n in have), *(np.arange(50, 54) for _ in have)])
    part = np.repeat([0, 3], [have.sum(), 32])
    split = splits.split_as_given(log_of(users, items, part=part))
    assert split.manifest.carved == "matched"
    assert split.valid.item_counts.tolist() == [0, 0, 1, 2, 2, 4, 4, 4]
    assert split.valid.weight is not None and split.valid.weight.mean() == pytest.approx(1)
    totals = np.bincount(split.valid.item_ix, split.valid.weight)  # every item counts the same
    np.testing.assert_allclose(totals[2:], 17 / 6, rtol=1e-6)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_a_matched_carve_leans_to_active_users_as_the_test_does(power: float) -> None:
    log = dataclasses.replace(make_world(1500, 300, mean_activity=30, seed=2).log, time=None)
    log = log.rows(log.item_counts[log.item_ix] > 9)
    draw = np.random.default_rng(3)
    keys = draw.standard_exponential(len(log)) / log.user_counts[log.user_ix].astype(float) ** power
    part = np.zeros(len(log), np.int8)
    for item in np.unique(log.item_ix):  # the slow way to draw five of each
        rows = np.flatnonzero(log.item_ix == item)
        part[rows[np.argsort(keys[rows])[:5]]] = 3
    split = splits.split_as_given(dataclasses.replace(log, part=part), ordinary=0)
    assert split.manifest.settings["leaning"] == pytest.approx(power, abs=0.25)
    plain = splits.split_as_given(dataclasses.replace(log, part=part), ordinary=0, carve="uniform")
    assert "leaning" not in plain.manifest.settings and plain.valid.weight is None
    assert plain.valid.item_counts.tolist() == split.valid.item_counts.tolist()
    whole = join(split.train, split.valid)
    size = np.log(whole.user_counts[whole.user_ix])
    typical, matched, uniform = (
        np.log(whole.user_counts[held.user_ix]).mean() - size.mean() for held in (split.test, split.valid, plain.valid)
    )
    assert (matched > uniform + 0.2) == (typical > 0.2) == (power > 0)


def test_ml10m_has_the_paper_s_head() -> None:
    log = given_log("ml10m")
    with pytest.warns(CounterpopWarning, match="25 items of test"):
        split = splits.split_as_given(log, ordinary=0)
    assert split.development.intervened is not None
    observed = split.train.rows(~split.development.intervened)
    assert (head(observed.item_counts).sum(), log.n_items) == (328, 4819)
    assert (head(observed.user_counts).sum(), log.n_users) == (20801, 37962)
    assert split.manifest.carved is None and split.manifest.untrained_items == 25
    assert [len(part) for part in parts_of(split)] == [822884 + 137147, 137147, 274295]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CounterpopWarning)
        ours = splits.split_intervened(log, ordinary=0)
    for name in ("train", "intervened", "valid", "test"):  # our draw is as flat as the published one
        assert ours.manifest.counts[name] == pytest.approx(split.manifest.counts[name], rel=2e-3)
        assert ours.manifest.gini[name] == pytest.approx(split.manifest.gini[name], abs=0.04)


@pytest.mark.parametrize(("name", "number"), [("adressa", 4), ("gowalla", 5)])
def test_carved_validation_of_uniform_tests(name: str, number: int) -> None:
    log = given_log(name)
    split = splits.split_as_given(log, ordinary=0)
    assert split.manifest.carved == "matched" and split.development.intervened is None
    assert (split.test.item_counts == number).all()
    have = split.train.item_counts + split.valid.item_counts
    enough = have >= 2 * number
    assert (split.valid.item_counts[enough] == number).all()
    assert (split.valid.item_counts[have <= 2] == 0).all()
    assert (2 * split.train.item_counts >= have).all() and split.manifest.untrained_items == 0


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
def test_ml1m_test_was_random() -> None:
    assert splits.split_as_given(given_log("ml1m")).manifest.carved == "random"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda log: splits.split_random(log, test=0.6, valid=0.4), "test [+] valid is 1"),
        (lambda log: splits.split_random(log, test=-0.1), "test is a share .* got -0.1"),
        (lambda log: splits.split_random(log, test=float("nan")), "test is a share .* got nan"),
        (lambda log: splits.split_random(log, valid=0.0), "valid got none"),
        (lambda log: splits.split_random(log, ordinary=1.0), "ordinary is a share of train"),
        (lambda log: splits.split_temporal(dataclasses.replace(log, time=None)), "needs a time .* has none"),
        (lambda log: splits.split_uniform(log, test=0), "test must be a number of pairs .* got 0"),
        (lambda log: splits.split_uniform(log, valid=1.5), "valid must be a number of pairs .* got 1.5"),
        (lambda log: splits.split_intervened(log, cap=101), "from 0 to 100, got 101"),
        (lambda log: splits.split_mixed(log, 1.1), "from 0 to 1, got 1.1"),
        (lambda log: splits.split_mixed(log, 0.5, test=0.45), "must leave something for train"),
        (splits.split_as_given, "no split column"),
        (lambda log: splits.split_as_given(log, carve="best"), "one of auto, matched, uniform"),
        (lambda log: splits.split_random(log.rows(np.arange(0))), "this one has none"),
        (lambda log: splits.split_random(log.rows(np.arange(1))), "train got none|valid got none|test got none"),
    ],
)
def test_errors_state_what_must_hold(call: Callable[[Interactions], Split], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(popular_log(20, 10))


@pytest.mark.parametrize(("column", "sentence"), [(0, "test got none"), (3, "train got none"), (7, "first: 7")])
def test_an_unusable_split_column_is_an_error(column: int, sentence: str) -> None:
    log = popular_log(20, 10)
    with pytest.raises(InputError, match=sentence):
        splits.split_as_given(dataclasses.replace(log, part=np.full(len(log), column, dtype=np.int8)))


def test_one_user_can_be_split() -> None:
    with pytest.warns(CounterpopWarning, match="8 items of test"):
        split = splits.split_intervened(log_of(np.zeros(40), np.arange(40)))
    assert split.manifest.counts == {"train": 28, "intervened": 4, "valid": 4, "ordinary": 0, "test": 8, "left_out": 0}


# --------------------------------------------------------------------------------------------- separate logs


def read(**columns: list) -> Interactions:
    return read_interactions(pl.DataFrame(columns))


def outside(part: Interactions) -> set[tuple]:
    users, items = part.user_ids[part.user_ix].tolist(), part.item_ids[part.item_ix].tolist()
    return set(zip(users, items, strict=True))


@pytest.mark.filterwarnings("ignore::counterpop.errors.CounterpopWarning")
@pytest.mark.parametrize("kind", [int, str])
def test_separate_logs_make_the_split_that_one_log_with_a_column_makes(kind: type) -> None:
    generator = np.random.default_rng(3)
    log = popular_log(200, 40)
    part = generator.choice([0, 0, 0, 2, 3], len(log)).astype(np.int8)
    frame = pl.DataFrame(
        {
            "user": [kind(n) for n in log.user_ids[log.user_ix].tolist()],
            "item": [kind(n) for n in log.item_ids[log.item_ix].tolist()],
            "time": log.time,
            "split": part,
        }
    )
    logs = {
        name: frame.filter(pl.col("split") == n).sample(fraction=1, shuffle=True, seed=1)
        for name, n in {"train": 0, "valid": 2, "test": 3}.items()
    }
    read_logs = {name: read_interactions(rows, time="time", split=False) for name, rows in logs.items()}
    for chosen in (read_logs, {name: read_logs[name] for name in ("train", "test")}):
        kept = frame if "valid" in chosen else frame.filter(pl.col("split") != 2)
        expected = splits.split_as_given(read_interactions(kept, time="time"), seed=5, ordinary=0.1)
        split = splits.split_from_logs(**chosen, seed=5, ordinary=0.1)
        assert split.manifest == expected.manifest
        assert (split.manifest.carved is None) == ("valid" in chosen)
        for one, other in zip(parts_of(split), parts_of(expected), strict=True):
            assert np.array_equal(pair_keys(one), pair_keys(other)) and np.array_equal(one.time, other.time)
        assert np.array_equal(split.train.user_ids, expected.train.user_ids)
        assert np.array_equal(split.train.item_ids, expected.train.item_ids)
    timeless = dataclasses.replace(read_logs["test"], time=None)
    assert splits.split_from_logs(**(read_logs | {"test": timeless})).train.time is None


def test_separate_logs_with_unknown_ids_are_reported() -> None:
    train = read(user=[1, 1, 2, 2, 3], item=["a", "b", "a", "c", "b"])
    test = read(user=["1", "2", "x"], item=["c", "b", "z"])  # text ids, unlike those of train
    valid = read(user=[3, 8], item=["d", "a"])
    with pytest.warns(CounterpopWarning) as caught:
        split = splits.split_from_logs(train, test, valid)
    found = [str(note.message) for note in caught]
    assert [note.split(";")[0] for note in found] == [
        "1 users of valid are not in train (first: '8')",
        "1 users of test are not in train (first: 'x')",
        "1 items of valid are not in train (first: 'd')",
        "1 items of test have no train pair (first: 'z')",
    ]
    assert {Path(note.filename) for note in caught[:3]} == {Path(__file__)}
    assert split.manifest.untrained_users == split.manifest.untrained_items == 2
    assert outside(split.test) == {("1", "c"), ("2", "b"), ("x", "z")}
    assert outside(split.valid) == {("3", "d"), ("8", "a")}


def test_separate_logs_must_be_disjoint_and_share_ids() -> None:
    train = read(user=[1, 1, 2, 2, 3], item=["a", "b", "a", "c", "b"])
    test = read(user=[1, 2, 2, 3], item=["c", "a", "b", "b"])
    valid = read(user=[3, 1], item=["a", "c"])
    match = r"but 3 pairs .* \(first: user 1, item 'c'\); remove them, or pass drop_repeated=True \(--drop-repeated\)"
    with pytest.raises(InputError, match=match):
        splits.split_from_logs(train, test, valid)
    split = splits.split_from_logs(train, test, valid, drop_repeated=True, ordinary=0)
    assert [outside(part) for part in parts_of(split)] == [outside(train), {(3, "a"), (1, "c")}, {(2, "b")}]
    with pytest.raises(InputError, match=r"test and train must share users, but none of the 2 users .*first: 'p'"):
        splits.split_from_logs(train, read(user=["p", "q"], item=["a", "b"]))
    with pytest.raises(InputError, match=r"valid and train must share items, but none of the 2 items .*first: 'y'"):
        splits.split_from_logs(train, test, read(user=[1, 2], item=["y", "z"]))
    with pytest.raises(InputError, match="test got none"):
        splits.split_from_logs(train, train.rows(train.user_ix < 0))
