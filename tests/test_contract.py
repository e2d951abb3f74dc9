"""What every method must do, trained or post-hoc; a new one needs a line in METHODS. See docs/methods.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from counterpop.artifacts import load, load_run, save_run, save_tuning
from counterpop.corrections import Correction, correct
from counterpop.evaluation import evaluate
from counterpop.recommender import Recommender
from counterpop.runs import Run
from counterpop.splits import Split, split_intervened
from counterpop.training import train
from counterpop.training.methods import MACR
from counterpop.tuning import tune
from counterpop.worlds import World, make_world, taste_recall

# the same for all, so that methods differ and nothing else; MACR's products of three want more steps
QUICK = {
    "dim": 16,
    "epochs": 30,
    "lr": 0.05,
    "reg": 1e-3,
    "initial_scale": 0.1,
    "sampling": "interactions",
    "ledger_every": 4,
}
GRAPH = {
    "backbone": "lightgcn",
    "dim": 16,
    "epochs": 8,
    "lr": 0.02,
    "reg": 3e-4,
    "initial_scale": 0.1,
    "check_every": 4,
    "threads": 2,
}
Make = Callable[[Split, int], Run]


def trained(method: object, **given: object) -> Make:
    return lambda split, seed: train(split, seed=seed, method=method, **given)


def corrected(by: Correction) -> Make:
    return lambda split, seed: correct(train(split, seed=seed, method="plain", **QUICK), split, by)


# how each is made; those under CLAIMS say that they find more of the true taste than plain training does
METHODS: dict[str, Make] = {
    **{name: trained(name, **QUICK) for name in ("plain", "gradient", "ips", "cause", "dice")},
    "macr": trained(MACR(0.3, 0.3), **QUICK | {"lr": 0.2, "epochs": 60}),
    "negatives by popularity": trained("plain", **QUICK | {"negative_power": 0.5}),
    **{name: corrected(name) for name in ("pc", "tten", "head-minus-tail")},
    **{f"lightgcn {name}": trained(name, **GRAPH) for name in ("plain", "gradient", "ips", "cause", "dice", "macr")},
}
CLAIMS = [name for name in METHODS if "plain" not in name and "cause" not in name and name != "lightgcn macr"]


@cache
def the_world() -> tuple[World, Split]:
    world = make_world(700, 300, mean_activity=30)
    return world, split_intervened(world.log)


@cache
def made(name: str) -> tuple[Run, Recommender]:
    run = METHODS[name](the_world()[1], 0)
    best = tune(run, the_world()[1])
    return run, best


def true_taste(adjustment: Recommender) -> float:
    world, split = the_world()
    users = np.arange(split.train.n_users, dtype=np.int32)
    lists, _ = dataclasses.replace(adjustment, seen=split.train).recommend(users, 20)
    return float(np.nanmean(taste_recall(world, lists, exclude=split.train)))


def random_lists() -> float:
    """What lists drawn at random find of the true taste."""
    world, split = the_world()
    lists = np.random.default_rng(0).integers(0, 300, size=(700, 20))
    return float(np.nanmean(taste_recall(world, lists, exclude=split.train)))


@pytest.mark.parametrize("name", METHODS)
def test_it_learns(name: str) -> None:
    run, best = made(name)
    losses = [row["loss"] for row in run.history]
    assert losses[-1] < losses[0]
    assert true_taste(best) > 1.5 * random_lists()


@pytest.mark.parametrize("name", CLAIMS)
def test_it_finds_more_of_the_true_taste_than_plain_training(name: str) -> None:
    plain = true_taste(made("lightgcn plain" if name.startswith("lightgcn") else "plain")[1])
    assert true_taste(made(name)[1]) > plain


@pytest.mark.parametrize("name", METHODS)
def test_it_ranks_without_touching_seen_items(name: str) -> None:
    split = the_world()[1]
    users = np.arange(split.train.n_users, dtype=np.int32)
    lists, _ = dataclasses.replace(made(name)[1], seen=split.train).recommend(users, 20)
    seen = np.zeros((split.train.n_users, split.train.n_items), dtype=bool)
    seen[split.train.user_ix, split.train.item_ix] = True
    assert not seen[users[:, None], lists].any()
    assert all(len(set(row)) == 20 for row in lists.tolist())


@pytest.mark.parametrize("name", METHODS)
def test_it_saves_and_loads(name: str, tmp_path: Path) -> None:
    split = the_world()[1]
    run, best = made(name)
    save_run(run, tmp_path / "run", split)
    tuned = tune(run, split)
    save_tuning(tmp_path / "run", tuned, tuned.grid, {"target": "recall"})
    again = load_run(tmp_path / "run")
    assert again.run.settings == run.settings
    assert (again.adjustment.item_strength, again.adjustment.user_strength) == (
        tuned.item_strength,
        tuned.user_strength,
    )
    strengths = best.item_strength, best.user_strength
    before, after = (
        evaluate(a.with_strengths(*strengths), split, resamples=0).adjusted for a in (best, load(tmp_path / "run"))
    )
    assert before.recall == after.recall and np.array_equal(before.exposure, after.exposure)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_result(name: str) -> None:
    (run, best), split = made(name), the_world()[1]
    again, other = (METHODS[name](split, seed) for seed in (0, 1))
    for side in ("user_vectors", "item_vectors"):
        assert np.array_equal(getattr(run.embeddings, side), getattr(again.embeddings, side))
    assert not np.array_equal(run.embeddings.user_vectors, other.embeddings.user_vectors)
    if best.item_strength or best.user_strength:
        assert tune(again, split).user_strength == best.user_strength
