"""Several models as one inner product, and that product at a smaller width."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import counterpop as cp
from builders import random_log, vectors_for
from counterpop.cli import main
from counterpop.errors import InputError
from counterpop.ledger import Ledger
from counterpop.runs import Dials, Model
from counterpop.training.ensembles import combine, member_seeds, reduce_width

LOG = random_log(50, 30, 0.2)
QUICK = {"dim": 6, "epochs": 4, "check_every": 2, "ledger_every": 4, "threads": 1}


def scores_of(model: Model) -> np.ndarray:
    return model.embeddings.user_vectors.astype(float) @ model.embeddings.item_vectors.T.astype(float)


def model_of(seed: int, size: float = 1.0) -> Model:
    vectors = vectors_for(LOG, dim=5, seed=seed)
    vectors = replace(vectors, user_vectors=vectors.user_vectors * np.float32(size))
    draw = np.random.default_rng(seed)
    items, users = (draw.normal(size=(n, 4, 5)).astype(np.float32) for n in (LOG.n_items, LOG.n_users))
    return Model(vectors, Ledger(items, users, 2, 100, scale=1.5), Dials((0.0, 1.0), (0.0,)))


@pytest.fixture(scope="module")
def split() -> cp.Split:
    return cp.split_uniform(cp.make_world(200, 120, seed=1).log, test=2, valid=2, seed=0)


def test_scores_are_the_sum_of_the_members_scores_each_at_a_spread_of_one() -> None:
    members = [model_of(0), model_of(1, size=40.0), model_of(2, size=0.01)]
    together = combine(members)
    expected = 0
    for member in members:
        scores = scores_of(member)
        expected = expected + scores / np.sqrt(scores.var(axis=1).mean())
    assert together.embeddings.dim == 15
    assert together.dials == members[0].dials
    assert scores_of(together) == pytest.approx(expected, abs=1e-5)


def test_ledgers_are_put_side_by_side_at_the_scale_of_their_vectors() -> None:
    members = [model_of(0), model_of(1, size=40.0)]
    ledger = combine(members).ledger
    assert ledger is not None
    assert ledger.triples == 200
    for n, member in enumerate(members):
        part = slice(5 * n, 5 * n + 5)
        scale = np.sqrt(scores_of(member).var(axis=1).mean()) ** -0.5
        assert ledger.item_pull()[:, part] == pytest.approx(scale * member.ledger.item_pull(), rel=1e-5)
        assert ledger.user_push("count")[:, part] == pytest.approx(scale * member.ledger.user_push("count"), rel=1e-5)


def test_a_direction_of_the_methods_own_is_put_side_by_side() -> None:
    own = [np.eye(5, dtype=np.float32)[n] for n in (1, 3)]
    members = [replace(model_of(n), dials=Dials(user_direction=axis)) for n, axis in enumerate(own)]
    together = combine(members)
    expected = np.zeros(10)
    expected[[1, 8]] = 0.5**0.5
    assert together.dials.user_direction == pytest.approx(expected)
    with pytest.raises(InputError, match="a direction of its own cannot be reduced"):
        reduce_width(together, 5)


def test_a_member_that_tells_no_items_apart_is_refused() -> None:
    flat = model_of(0)
    same = replace(flat.embeddings, item_vectors=np.ones_like(flat.embeddings.item_vectors))
    with pytest.raises(InputError, match="gives all items the same score"):
        combine([model_of(1), replace(flat, embeddings=same)])


def test_a_reduction_to_the_rank_of_the_scores_is_exact() -> None:
    one = model_of(0)
    twice = combine([one, one])  # ten columns, of which five say nothing new
    for width in (5, 7, 10):
        reduced = reduce_width(twice, width)
        assert reduced.embeddings.dim == width
        assert scores_of(reduced) == pytest.approx(scores_of(twice), abs=1e-4)


def test_a_reduction_is_the_nearest_matrix_of_its_rank() -> None:
    together = combine([model_of(0), model_of(1)])
    reduced = reduce_width(together, 4)
    left, values, right = np.linalg.svd(scores_of(together))
    assert scores_of(reduced) == pytest.approx(left[:, :4] * values[:4] @ right[:4], abs=1e-4)
    # the ledger moves with the vectors that it is a sum of
    weights = np.random.default_rng(0).random((LOG.n_items, LOG.n_users)).astype(np.float32)
    summed = np.repeat((weights @ together.embeddings.user_vectors)[:, None], 4, axis=1)
    ledger = replace(together.ledger, items=summed)
    moved = reduce_width(replace(together, ledger=ledger), 4).ledger
    assert moved.item_pull() == pytest.approx(weights @ reduced.embeddings.user_vectors, abs=1e-3)


def test_an_ensemble_of_a_run_is_the_same_as_its_members_trained_one_by_one(split: cp.Split) -> None:
    seen: list[str] = []
    run = cp.train(
        split, ensemble=3, refit=True, seed=5, on_progress=lambda p: seen.append(f"{p.stage} {p.epoch}"), **QUICK
    )
    seeds = member_seeds(5, 3)
    assert seeds[0] == 5
    assert len(set(seeds)) == 3
    alone = [cp.train(split, refit=True, seed=seed, **QUICK) for seed in seeds]
    for which in ("model", "refit"):
        expected = combine([getattr(one, which) for one in alone])
        assert np.array_equal(getattr(run, which).embeddings.item_vectors, expected.embeddings.item_vectors)
        assert np.array_equal(getattr(run, which).ledger.users, expected.ledger.users)
    assert run.settings["dim"] == 18
    assert [member["seed"] for member in run.settings["members"]] == seeds
    assert [member["chosen_epochs"] for member in run.settings["members"]] == [
        one.settings["chosen_epochs"] for one in alone
    ]
    assert {"train 1 of 3 1", "refit 3 of 3 2"} <= set(seen)


def test_an_ensemble_is_tuned_saved_loaded_and_measured_as_any_run(split: cp.Split, tmp_path: Path) -> None:
    run = cp.train(split, ensemble=2, reduce=8, refit=False, **QUICK)
    assert run.embeddings.dim == run.settings["dim"] == 8
    tuned = cp.tune(run, split, point="gain")
    cp.save_run(run, tmp_path / "run", split)
    cp.save_tuning(tmp_path / "run", tuned, tuned.grid, tuned.to_json())
    loaded = cp.load(tmp_path / "run")
    users = np.arange(20, dtype=np.int32)
    assert np.array_equal(loaded.recommend(users)[0], tuned.recommend(users)[0])
    assert loaded.query(loaded.embeddings.user_vectors[:2]).shape == (2, 8)
    saved = cp.load_run(tmp_path / "run").run.settings
    assert saved["members"] == run.settings["members"]
    grid = cp.search_strengths(
        run.embeddings, cp.find_directions(run.model, split.train), split.train, split.valid,
        item_strengths=cp.Gradient.looks[0], user_strengths=cp.Gradient.looks[1],
    )  # fmt: skip
    assert saved["valid_recall"] == pytest.approx(grid.values["recall"].max())


def test_the_command_says_what_the_ensemble_and_its_reduction_are_worth(split: cp.Split, tmp_path: Path) -> None:
    cp.save_split(split, tmp_path / "split")
    words = ["train", str(tmp_path / "split"), "--ensemble", "2", "--reduce", "7", "--dim", "6", "--epochs", "2"]
    said = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "run")])
    assert said.exit_code == 0, said.stderr
    made = cp.load_run(tmp_path / "run").run.settings
    mean = np.mean([member["valid_recall"] for member in made["members"]])
    before, after = made["valid_recall_before_reduction"], made["valid_recall"]
    assert f"for a member on average {mean:.4f}, together {before:.4f}." in said.stdout
    assert f"Reduced to a width of 7: validation recall {before:.4f} before, {after:.4f} after." in said.stdout
    printed = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "again"), "--json"])
    assert json.loads(printed.stdout)["valid_recall"] == after


def test_bad_sizes_are_refused(split: cp.Split) -> None:
    with pytest.raises(InputError, match="ensemble must be a whole number of at least 1, got 0"):
        cp.train(split, ensemble=0, **QUICK)
    with pytest.raises(InputError, match="from 1 to the width of the vectors, 12, got 13"):
        cp.train(split, ensemble=2, reduce=13, **QUICK)
