"""Drift: an adjustment that fits is kept, a stale one is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from counterpop.cli import main
from counterpop.debiasing import Effect, hold_out
from counterpop.errors import InputError
from counterpop.interactions import Interactions, pair_keys


@pytest.fixture(scope="module")
def world() -> cp.World:
    return cp.make_world(1500, 300, seed=2)


@pytest.fixture(scope="module")
def split(world: cp.World) -> cp.Split:
    return cp.split_uniform(world.log, test=5, valid=5, ordinary=0, seed=0)


def planted(world: cp.World, column: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """True taste and popularity, the latter in one column."""
    users = np.hstack([world.user_taste, np.ones((len(world.user_taste), 1))])
    items = np.hstack([world.item_taste, 0.5 * np.log1p(world.log.item_counts)[:, None]])
    order = np.roll(np.arange(users.shape[1]), column + 1)
    return users[:, order].astype(np.float32), items[:, order].astype(np.float32)


@pytest.fixture(scope="module")
def fix(world: cp.World, split: cp.Split) -> cp.Debiasing:
    return cp.debias(*planted(world), split.train, holdout=split.valid)


def test_new_data_of_the_same_kind_fit(world: cp.World, split: cp.Split, fix: cp.Debiasing) -> None:
    drift = cp.check_drift(fix, *planted(world), split.test, trained_on=split.train)
    assert drift.verdict == "fits"
    assert "still fits" in drift.sentence
    assert drift.item_cosine > 0.99
    assert drift.user_cosine > 0.99
    assert drift.against_plain.comparison["recall"]["low"] > 0
    assert not drift.in_sample
    assert cp.check_drift(fix, *planted(world), world.log).in_sample


def test_vectors_of_a_new_training_need_a_new_adjustment(world: cp.World, split: cp.Split, fix: cp.Debiasing) -> None:
    """The same model with its dimensions in another order, as a new training might have it."""
    drift = cp.check_drift(fix, *planted(world, column=2), split.test, trained_on=split.train)
    assert drift.verdict == "renew"
    assert min(drift.item_cosine, drift.user_cosine) < 0.5
    assert drift.renewed.comparison["recall"]["low"] > 0


def test_an_adjustment_that_no_longer_helps_is_switched_off(world: cp.World, split: cp.Split) -> None:
    """The model has been fixed: it has no popularity left to remove, and the stored directions do harm."""
    users, items = world.user_taste, world.item_taste
    directions = cp.find_directions(
        cp.Model(cp.Embeddings(users, items, split.train.user_ids, split.train.item_ids)), split.train
    )
    stored = cp.Adjustment(directions.item, directions.user, 1.0, 1.0)
    taken = cp.check_drift(stored, users, items, split.test, trained_on=split.train)
    assert taken.verdict == "switch off"
    assert taken.against_plain.comparison["recall"]["difference"] < 0
    off = cp.check_drift(stored.with_strengths(0.0, 0.0), users, items, split.test, trained_on=split.train)
    assert off.verdict == "fits"


def test_too_few_users_are_no_reason_to_switch_off(world: cp.World, split: cp.Split, fix: cp.Debiasing) -> None:
    few = split.test.rows(np.arange(len(split.test)) % 40 == 0)
    drift = cp.check_drift(fix, *planted(world), few, trained_on=split.train)
    row = drift.against_plain.comparison["recall"]
    assert row["difference"] > 0
    assert row["p_value"] > 0.01
    assert drift.verdict == "unproven"
    assert drift.sentence.startswith("Too few users to tell: on the new data it looks better")


def test_the_sentence_does_not_deny_what_is_only_unproven(world: cp.World, split: cp.Split, fix: cp.Debiasing) -> None:
    drift = cp.check_drift(fix, *planted(world), split.test, trained_on=split.train)
    better, worse = (
        replace(drift, renewed=Effect(*pair, {}))
        for pair in (
            (drift.against_plain.plain, drift.against_plain.adjusted),
            (drift.against_plain.adjusted, drift.against_plain.plain),
        )
    )
    assert better.sentence.endswith("a new one does better, but not significantly.")
    assert worse.sentence.endswith("a new one does no better.")


def test_test_pairs_are_not_used_for_new_directions(
    world: cp.World, split: cp.Split, fix: cp.Debiasing, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    monkeypatch.setattr(
        "counterpop.drift.find_directions",
        lambda model, log, *kinds: given.append(log) or cp.find_directions(model, log, *kinds),
    )
    cp.check_drift(fix, *planted(world), split.test, trained_on=split.train)
    tested = hold_out(split.train, split.test, 0).parts[0].test
    assert len(given[0]) == len(split.test) - len(tested)
    assert not np.isin(pair_keys(given[0]), pair_keys(tested)).any()


def test_vectors_of_another_width_are_refused(world: cp.World, split: cp.Split, fix: cp.Debiasing) -> None:
    with pytest.raises(InputError, match="for vectors of 7 numbers, but these have 6; debias them again"):
        cp.check_drift(fix, world.user_taste, world.item_taste, split.train)


def write(log: Interactions, path: Path) -> str:
    pairs = {"who": log.user_ids[log.user_ix], "what": log.item_ids[log.item_ix]}
    pl.DataFrame(pairs).write_parquet(path)
    return str(path)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["debias", *words])


def test_the_check_on_the_command_line(world: cp.World, split: cp.Split, tmp_path: Path) -> None:
    users, items = planted(world)
    np.save(tmp_path / "users.npy", users)
    np.save(tmp_path / "items.npy", items)
    log, later, new = (
        write(part, tmp_path / f"{n}.parquet") for n, part in enumerate((split.train, split.valid, split.test))
    )
    made = call(
        "--user-vectors",
        str(tmp_path / "users.npy"),
        "--item-vectors",
        str(tmp_path / "items.npy"),
        "--interactions",
        log,
        "--holdout",
        later,
        "--target",
        "ndcg",
        "--k",
        "10",
        "--item-direction",
        "mean",
        "--user",
        "who",
        "--item",
        "what",
        "--out",
        str(tmp_path / "fix"),
    )
    assert made.exit_code == 0, made.output
    asked = call("--check", str(tmp_path / "fix"), "--interactions", new, "--json")
    assert asked.exit_code == 0, asked.output
    printed = json.loads(asked.stdout)
    assert printed["verdict"] == "fits"
    assert printed["target"] == "ndcg"  # what it was made with
    made_with = {"target": "ndcg", "k": 10, "item_direction": "mean"}
    expected = cp.check_drift(
        cp.load_adjustment(tmp_path / "fix"), users, items, split.test, trained_on=split.train, **made_with
    )
    assert printed["against_plain"]["adjusted"]["ndcg"] == expected.against_plain.adjusted.ndcg
    assert printed["item_cosine"] == expected.item_cosine
    words = call("--check", str(tmp_path / "fix"), "--interactions", new, "--target", "recall").stdout
    assert "recall 0." in words
    assert "\nThe adjustment still fits: a new one does " in words
    # a new training has put other vectors in the same place
    for name, vectors in zip(("users", "items"), planted(world, column=2), strict=True):
        np.save(tmp_path / f"{name}.npy", vectors)
    again = call("--check", str(tmp_path / "fix"), "--interactions", new, "--json")
    assert json.loads(again.stdout)["verdict"] == "renew"
    (tmp_path / "users.npy").unlink()
    lost = call("--check", str(tmp_path / "fix"), "--interactions", new)
    assert lost.exit_code == 1
    assert "takes the vectors it was made from, but they are not there" in lost.stderr
    assert "give --user-vectors and --item-vectors" in lost.stderr


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    for words in (
        ("--interactions", "log.csv"),
        ("--check", "a", "--out", "b", "--interactions", "log.csv"),
        ("--check", "a", "--holdout", "b", "--interactions", "log.csv"),
        ("--out", str(tmp_path / "fix"), "--interactions", "log.csv"),
        ("--out", str(tmp_path / "fix"), "--interactions", "log.csv", "--user-vectors", "u.npy"),
        (
            "--out",
            "f",
            "--interactions",
            "log.csv",
            "--user-vectors",
            "u.npy",
            "--item-vectors",
            "i.npy",
            "--model",
            "als.npz",
        ),
        ("--out", "f", "--interactions", "log.csv", "--user-vectors", "u.npy", "--model", "als.npz"),
    ):
        assert call(*words).exit_code == 2, words
