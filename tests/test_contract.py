"""What every method must do, trained or post-hoc; a new one needs a line in METHODS. See docs/methods.md."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from torch import Tensor

from counterpop.artifacts import load, load_run, save_run, save_tuning
from counterpop.corrections import Correction, correct
from counterpop.evaluation import evaluate
from counterpop.interactions import join
from counterpop.recommender import Recommender
from counterpop.reporting import write_report
from counterpop.reporting.summary import summarise
from counterpop.runs import Run
from counterpop.splits import Development, Split, split_intervened
from counterpop.training import train
from counterpop.training.methods import MACR, PAAC, Method, SimGCL
from counterpop.tuning import tune
from counterpop.worlds import World, make_world, taste_recall
from training_cases import known_answer

# the same for all, so that nothing but the method differs; MACR's products of three need more steps
QUICK = {
    "dim": 16,
    "epochs": 30,
    "lr": 0.05,
    "reg": 1e-3,
    "initial_scale": 0.1,
    "sampling": "interactions",
    "ledger_every": 4,
    "refit": False,
}
FIXED = {"loss": "bpr", "negative_power": 0.0}  # no race
GRAPH = {
    "backbone": "lightgcn",
    "dim": 16,
    "epochs": 8,
    "lr": 0.02,
    "reg": 3e-4,
    "initial_scale": 0.1,
    "check_every": 4,
    "threads": 2,
    "refit": False,
}
Make = Callable[[Split | Development, int], Run]


@dataclasses.dataclass(frozen=True)
class Hinge(Method):
    """A margin between the seen item and the negative."""

    name: ClassVar[str] = "hinge"
    margin: float = 1.0

    def loss_of(self, users: Tensor, seen: Tensor, negatives: Tensor) -> Tensor:
        return (self.margin - (users * (seen - negatives)).sum(1)).relu()


def trained(method: object, **given: object) -> Make:
    return lambda split, seed: train(split, seed=seed, method=method, **given)


def corrected(by: Correction) -> Make:
    return lambda split, seed: correct(train(split, seed=seed, method="plain", **QUICK | FIXED), split, by)


# how each is made; those under CLAIMS say that they find more of the true taste than plain training does
METHODS: dict[str, Make] = {
    **{name: trained(name, **QUICK | FIXED) for name in ("plain", "gradient", "ips", "cause")},
    "dice": trained("dice", **QUICK),
    "macr": trained(MACR(0.3, 0.3), **QUICK | {"lr": 0.2, "epochs": 60}),
    "negatives by popularity": trained("plain", **QUICK | FIXED | {"negative_power": 0.5}),
    **{name: corrected(name) for name in ("pc", "tten", "head-minus-tail")},
    **{f"lightgcn {name}": trained(name, **GRAPH) for name in ("plain", "gradient", "ips", "cause", "dice", "macr")},
}
# with the published weights, eight epochs of these small worlds learn to tell rows apart and little else
RIVALS = SimGCL(weight=0.02), PAAC(weight=0.02)
METHODS |= {f"lightgcn {rival.name}": trained(rival, **GRAPH | {"threads": None}) for rival in RIVALS}
SOFTMAX = {"loss": "softmax", "batch": 128, "temperature": 0.3}
METHODS |= {"softmax": trained("gradient", **QUICK | SOFTMAX)}
METHODS |= {"lightgcn softmax": trained("gradient", **GRAPH | SOFTMAX)}
# a method from outside the package, as a notebook would write it
METHODS |= {"hinge": trained(Hinge(0.5), **QUICK), "lightgcn hinge": trained(Hinge(0.5), **GRAPH | {"threads": None})}
CLAIMS = [
    name
    for name in METHODS
    if "plain" not in name and "hinge" not in name and "cause" not in name and name != "lightgcn macr"
]


@cache
def the_world() -> tuple[World, Split]:
    world = make_world(700, 300, mean_activity=30)
    return world, split_intervened(world.log)


@cache
def made(name: str) -> tuple[Run, Recommender]:
    run = METHODS[name](the_world()[1], 0)
    best = tune(run, the_world()[1], point="gain")
    return run, best


def true_taste(adjustment: Recommender) -> float:
    world, split = the_world()
    users = np.arange(split.train.n_users, dtype=np.int32)
    lists, _ = dataclasses.replace(adjustment, seen=split.train).recommend(users, 20)
    return float(np.nanmean(taste_recall(world, lists, exclude=split.train)))


@pytest.mark.parametrize("name", METHODS)
def test_it_learns(name: str) -> None:
    """Even users like even items, odd users odd ones: what is left for each of them is of their own kind."""
    known, test = known_answer()
    run = METHODS[name](known, 0)
    users = np.arange(known.train.n_users, dtype=np.int32)
    best = dataclasses.replace(tune(run, known, point="gain"), seen=join(known.train, known.valid))
    lists, _ = best.recommend(users, 6)
    assert len(test) == 6 * len(users)  # all that is left of what they like
    assert np.mean(lists % 2 == users[:, None] % 2) > 0.98


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
    tuned = tune(run, split, point="gain")
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
    report = summarise(tmp_path / "run")
    write_report([report], tmp_path / "report.html")
    assert report.evaluation.adjusted.recall == after.recall
    assert f">{run.settings['method']}<" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_result(name: str) -> None:
    (run, best), split = made(name), the_world()[1]
    again, other = (METHODS[name](split, seed) for seed in (0, 1))
    for side in ("user_vectors", "item_vectors"):
        assert np.array_equal(getattr(run.embeddings, side), getattr(again.embeddings, side))
    assert not np.array_equal(run.embeddings.user_vectors, other.embeddings.user_vectors)
    if best.item_strength or best.user_strength:
        assert tune(again, split, point="gain").user_strength == best.user_strength
