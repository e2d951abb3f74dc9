"""Which point of the frontier finds most of what users truly like? Worlds from no exposure bias to a strong one.

    python experiments/which_point.py [--minutes 20] [--out which_point.jsonl]
    python experiments/which_point.py --table which_point.jsonl

In every world a model is trained and tuned as a user would, once refit and once not. Then every efficient pair of
strengths is measured three ways: on even test pairs, on ordinary pairs, and by the share of users' true favourites that
their lists find, which only a made-up world can tell. Nothing is chosen by the truth.
"""

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.demo import find_favourites
from counterpop.interactions import gini
from counterpop.tuning.proof import FOLDS, Frontier

SHAPES = ((1500, 600, 40), (1500, 600, 15), (800, 1200, 25))  # users, items, pairs per user
BIASES = (0.0, 0.4, 0.8, 1.2)  # exposure falls as popularity rank to this power
MERITS = (0.0, 0.5, 1.0)  # how much of taste all users share: popularity that is earned
PRICES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
TRAINING: dict[str, Any] = {"dim": 32, "lr": 0.05, "sampling": "interactions", "epochs": 60, "threads": 1}
TRAINING |= {"loss": "bpr", "negative_power": 0.0}


def make_world(shape: tuple[int, int, int], bias: float, merit: float, seed: int) -> cp.World:
    """A world in which users also share a taste: the items they all like are popular because they are good."""
    world = cp.make_world(*shape[:2], mean_activity=shape[2], exponent=bias, pull=bias / 16, seed=seed)
    if not merit:
        return world
    taste = world.user_taste + merit * world.item_taste[0]
    world = replace(world, user_taste=taste / np.linalg.norm(taste, axis=1, keepdims=True))
    counts, n_items = world.log.user_counts, world.log.n_items
    liked = np.exp((world.true_taste(np.arange(len(counts))) - 1) / world.temperature)
    shown = world.exposure / world.exposure.max()
    weights = shown * (liked + world.pull * np.outer(world.conformity, shown))
    keys = np.random.default_rng([seed, 910]).standard_exponential(weights.shape) / weights
    drawn = np.argsort(keys, axis=1)[np.arange(n_items) < counts[:, None]]
    user = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    order = np.lexsort((drawn, user))
    ids = world.log.user_ids, world.log.item_ids
    return replace(world, log=cp.Interactions(user, drawn[order].astype(np.int32), *ids))


def measure(world: cp.World, tuned: cp.Tuned, split: cp.Split, strengths: tuple[float, float]) -> dict[str, Any]:
    """Strengths with the even and the ordinary recall and the share of true favourites found."""
    model = tuned.with_strengths(*strengths)
    found = cp.evaluate(model, split, resamples=0, threads=1)
    assert found.ordinary is not None
    return {
        "strengths": strengths,
        "even": found.adjusted.recall,
        "ordinary": found.ordinary.adjusted.recall,
        "truth": find_favourites(world, model),
    }


def run_case(case: dict[str, Any], refit: bool) -> dict[str, Any]:
    world = make_world(case["shape"], case["bias"], case["merit"], case["seed"])
    split = cp.split_uniform(world.log, seed=case["seed"])
    run = cp.train(split, method="gradient", refit=refit, seed=case["seed"], **TRAINING)
    tuned = cp.tune(run, split)
    everybody = np.ones(FOLDS, dtype=bool)
    chosen = {name: (point.item_strength, point.user_strength) for name, point in tuned.points.items()}
    for price in PRICES:
        limited = Frontier(tuned.grid, tuned.ordinary, "recall", {}, price)
        chosen[f"price {price:g}"] = limited.choose("balanced", everybody)
        most = [point for point in tuned.frontier if point.price <= price]
        best = max(most, key=lambda point: point.gain)
        chosen[f"most at {price:g}"] = best.item_strength, best.user_strength
    efficient = [(point.item_strength, point.user_strength) for point in tuned.frontier]
    known = {pair: measure(world, tuned, split, pair) for pair in {(0.0, 0.0), *chosen.values(), *efficient[::3]}}
    return case | {
        "refit": refit,
        "gini": gini(split.train.item_counts),
        "proven": {name: point.proven for name, point in tuned.points.items()},
        "judged": {name: [point.gain, point.price] for name, point in tuned.points.items()},
        "frontier": [vars(point) for point in tuned.frontier],
        "plain": known[0.0, 0.0],
        "points": {name: known[pair] for name, pair in chosen.items()},
        "efficient": [known[pair] for pair in efficient[::3]],
    }


def cases() -> Iterator[dict[str, Any]]:
    for seed, bias, merit, shape in itertools.product(range(9), BIASES, MERITS, SHAPES):
        yield {"shape": shape, "bias": bias, "merit": merit, "seed": seed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--out", type=Path, default=Path("which_point.jsonl"))
    parser.add_argument("--part", default="0/1", help="N/M: every M-th world, from the N-th")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    start, every = map(int, options.part.split("/"))
    end = time.perf_counter() + 60 * options.minutes
    done = set()
    if options.out.exists():
        done = {line.split(', "refit"')[0] for line in options.out.read_text().splitlines()}
    with options.out.open("a") as out:
        for number, case in enumerate(cases()):
            if number % every != start or json.dumps(case)[:-1] in done:
                continue
            if time.perf_counter() > end:
                break
            record = run_case(case, refit=(number + case["seed"]) % 2 == 0)
            print(json.dumps(record), file=out, flush=True)


if __name__ == "__main__":
    main()
