"""Samples of users: equally likely, in proportion to activity, and estimates that cover the figures of everybody."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import counterpop as cp
from builders import vectors_for
from counterpop import panels
from counterpop.cli import main
from counterpop.errors import InputError
from counterpop.evaluation import measure_model
from counterpop.metrics.resampling import PER_USER
from counterpop.panels import Sample, choose_users, hold_panel
from counterpop.recommender import Recommender
from counterpop.splits import Split


def test_every_user_is_equally_likely_and_every_activity_has_its_share() -> None:
    activity = np.repeat(np.array([5, 1, 30, 2]), [40, 200, 10, 50])
    able = np.arange(300, dtype=np.int32)
    drawn, rounds = np.zeros(300), 2000
    for seed in range(rounds):
        users, sample = choose_users(able, activity, 10, 30, seed)
        assert sample == Sample(30, 300, seed)
        assert (np.diff(users) > 0).all()
        drawn[users] += 1
        by_activity = np.bincount(activity[users], minlength=31)[[1, 2, 5, 30]]
        assert (np.abs(by_activity - [20, 5, 4, 1]) <= 1).all()  # 30 draws out of 300
    assert drawn.sum() == 30 * rounds
    error = np.sqrt(rounds * 0.1 * 0.9)
    assert np.abs(drawn - 0.1 * rounds).max() < 4.5 * error  # of 300 users


@pytest.mark.parametrize(("n_items", "expected"), [(100_000, 20_000), (1_000_000, 10_000), (50, None)])
def test_the_size_of_a_sample_follows_the_rule(n_items: int, expected: int | None) -> None:
    able = np.arange(30_000, dtype=np.int32)
    users, sample = choose_users(able, np.ones(30_000, np.int64), n_items)
    assert (None if sample is None else sample.users) == expected
    assert len(users) == (expected or 30_000)
    assert choose_users(able, np.ones(30_000, np.int64), n_items, "all")[0] is able
    assert choose_users(able, np.ones(30_000, np.int64), n_items, 40_000)[1] is None
    if sample is not None:
        assert sample.reach == pytest.approx(1.96 * 0.5 / np.sqrt(len(users)))


def test_users_must_be_a_number_above_0() -> None:
    with pytest.raises(InputError, match="users must be 'all' or a number of at least 1, got 0"):
        choose_users(np.arange(5, dtype=np.int32), np.ones(5, np.int64), 10, 0)


@pytest.fixture(scope="module")
def large() -> tuple[Split, Recommender]:
    """Many users, and a model that knows their activity, so that a sample without strata would be worse."""
    world = cp.make_world(4000, 120, mean_activity=15)
    split = cp.split_random(world.log, ordinary=0.05)
    vectors = vectors_for(split.train)
    popular = np.log1p(split.train.item_counts).astype(np.float32)
    vectors.item_vectors[:, 0] = popular - popular.mean()
    vectors.user_vectors[:, 0] = 3 * np.log1p(split.train.user_counts)
    axis = np.eye(1, vectors.dim, dtype=np.float32)[0]
    return split, Recommender(axis, axis, 0.3, 0.0, embeddings=vectors, seen=split.development.refit_train())


def test_the_interval_of_a_sample_covers_the_figure_of_all_users(large: tuple[Split, Recommender]) -> None:
    split, model = large
    whole = measure_model(model, split.test, 10, log=split.train, resamples=0)
    rounds = 60
    covered = dict.fromkeys(PER_USER, 0)
    means: dict[str, list[float]] = {name: [] for name in PER_USER}
    for seed in range(rounds):
        held, sample = hold_panel(split.test, split.train, 400, seed)
        assert sample is not None and np.count_nonzero(held.user_counts) == 400
        found = measure_model(model, held, 10, log=split.train, resamples=200, seed=seed)
        for name in PER_USER:
            low, high = found.intervals[name]
            covered[name] += low <= getattr(whole, name) <= high
            means[name].append(getattr(found, name))
    for name in PER_USER:
        assert covered[name] >= 0.87 * rounds  # of 60 at 95 %, fewer than 53 come up once in 500 times
        error = np.std(means[name]) / np.sqrt(rounds)
        assert np.mean(means[name]) == pytest.approx(getattr(whole, name), abs=3.5 * error)


def test_below_the_limit_nothing_changes_and_above_it_models_are_comparable(
    large: tuple[Split, Recommender], monkeypatch: pytest.MonkeyPatch
) -> None:
    split, model = large
    whole = cp.evaluate(model, split, resamples=50)
    assert whole.sample is None and whole.to_json() == cp.evaluate(model, split, users="all", resamples=50).to_json()
    monkeypatch.setattr(panels, "MOST_SCORES", 500 * split.train.n_items)
    monkeypatch.setattr(panels, "LEAST_USERS", 100)
    some = cp.evaluate(model, split, resamples=50)
    other = cp.evaluate(model.with_strengths(0.9, 0.0), split, resamples=50)
    assert some.sample is not None and some.ordinary is not None and some.ordinary.sample is not None
    assert (some.sample.users, some.sample.population) == (500, np.count_nonzero(split.test.user_counts))
    assert cp.contrast(other.adjusted, some.adjusted)["recall"]["difference"] != 0  # raises for other users
    assert cp.evaluate(model, split, users="all", resamples=50).to_json() == whole.to_json()
    audited = cp.audit_model(model, split.train, 10)
    assert audited.users == 500 and audited.as_dict()["sample"]["population"] == np.count_nonzero(
        split.train.user_counts
    )
    assert "users_without_list" not in audited.notes
    assert "a sample of 500 of 3,954 users" in audited.sentences[0]


def test_commands_measure_as_many_users_as_are_asked_for(split: Split, tmp_path: Path) -> None:
    def call(*words: object) -> dict:
        result = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    run = tmp_path / "run"
    cp.save_run(cp.train(split, dim=4, epochs=4, loss="bpr", negative_power=0.0, refit=False), run, split)
    tuned = call("tune", run, "--users", 100)
    assert tuned["users"] == tuned["sample"]["users"] == 100
    assert cp.load_run(run).manifest["tuning"]["users"] == 100
    assert call("tune", run, "--users", "all")["sample"] is None
    assert call("evaluate", run, "--users", 60)["users"] == 60
    assert call("report", run, "--users", 60, "--out", tmp_path / "r.html")["runs"][str(run)]["sample"]["users"] == 60
    assert "a sample of 60 of" in (tmp_path / "r.html").read_text()
    document = call("audit", run, "--users", 60)
    assert document["users"] == 60 and "a sample of 60 of" in document["sampling"]
    wrong = CliRunner().invoke(main, ["tune", str(run), "--users", "0"])
    assert wrong.exit_code == 2 and "neither all nor a number of at least 1" in wrong.stderr
