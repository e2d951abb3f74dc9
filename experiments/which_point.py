"""Which point of the frontier finds most of what users truly like? Worlds from no exposure bias to a strong one.

    python experiments/which_point.py [--minutes 20] [--part 0/2] [--out which_point.jsonl]
    python experiments/which_point.py --table which_point.jsonl ...

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
from counterpop.tuning import Frontier

SHAPES = ((1500, 600, 40), (1500, 600, 15), (800, 1200, 25))  # users, items, pairs per user
BIASES = (0.0, 0.4, 0.8, 1.2)  # exposure falls as popularity rank to this power
MERITS = (0.0, 0.5, 1.0)  # how much of taste all users share: popularity that is earned
PRICES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
TRAINING: dict[str, Any] = {
    "loss": "bpr",
    "negative_power": 0.0,
    "dim": 32,
    "lr": 0.05,
    "sampling": "interactions",
    "epochs": 60,
    "threads": 1,
}
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
    chosen = {name: (point.item_strength, point.user_strength) for name, point in tuned.points.items()}
    for price in PRICES:
        limited = Frontier(tuned.grid, tuned.ordinary, "recall", {}, price)
        chosen[f"price {price:g}"] = limited.choose("balanced")
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


def change(record: dict[str, Any], rule: str, figure: str) -> float:
    """A figure at a point, relative to the plain model."""
    return float(record["points"][rule][figure] / record["plain"][figure] - 1)


def table(records: list[dict[str, Any]]) -> str:
    """True favourites found by kind of world, and what else the worlds tell."""
    rules = ["free", *(f"price {price:g}" for price in PRICES), "gain"]
    shown = ["free", *(f"{100 * price:g} %" for price in PRICES), "gain"]
    kinds = sorted({(one["bias"], one["merit"]) for one in records})
    lines = [
        f"| bias | earned | worlds | plain | {' | '.join(shown)} | best on the line | even, gain | ordinary, gain |",
        "|---" * (7 + len(shown)) + "|",
    ]
    for kind in kinds:
        group = [one for one in records if (one["bias"], one["merit"]) == kind]
        best = np.mean([max(e["truth"] for e in candidates(one)) / one["plain"]["truth"] - 1 for one in group])
        cells = [np.mean([change(one, rule, "truth") for one in group]) for rule in rules]
        ends = [np.mean([change(one, "gain", figure) for one in group]) for figure in ("even", "ordinary")]
        numbers = " | ".join(f"{100 * cell:+.1f}" for cell in (*cells, best, *ends))
        plain = np.mean([one["plain"]["truth"] for one in group])
        lines.append(f"| {kind[0]} | {kind[1]} | {len(group)} | {plain:.3f} | {numbers} |")
    lines += ["", f"| over all {len(records)} worlds | {' | '.join(shown)} |", "|---" * (1 + len(shown)) + "|"]
    for title, figure in (
        ("mean change, %", lambda values: f"{100 * np.mean(values):+.1f}"),
        ("worst world, %", lambda values: f"{100 * min(values):+.1f}"),
        ("worlds that lose more than 1 %", lambda values: str(sum(value < -0.01 for value in values))),
    ):
        lines.append(
            f"| {title} | {' | '.join(figure([change(o, rule, 'truth') for o in records]) for rule in rules)} |"
        )
    kept = [
        sum(-change(o, rule, "truth") <= max(0.0, -change(o, rule, "ordinary")) + 0.02 for o in records)
        for rule in rules
    ]
    lines.append(f"| worlds where truth falls by no more than ordinary recall + 2 % | {' | '.join(map(str, kept))} |")
    for refit in (False, True):
        part = [one for one in records if one["refit"] is refit]
        cells = " | ".join(f"{100 * np.mean([change(o, rule, 'truth') for o in part]):+.1f}" for rule in rules)
        lines.append(f"| mean change, %, {'refit' if refit else 'not refit'} ({len(part)}) | {cells} |")
    lines += [
        "",
        "| judged gain in recall at `gain` | worlds | `gain` finds more than `balanced` | and less than plain |",
        "|---|---|---|---|",
    ]
    for low, high in ((-9, 0.05), (0.05, 0.15), (0.15, 0.25), (0.25, 9)):
        part = [one for one in records if low <= one["judged"]["gain"][0] / one["plain"]["even"] < high]
        more = sum(change(one, "gain", "truth") > change(one, "balanced", "truth") for one in part)
        less = sum(change(one, "gain", "truth") < 0 for one in part)
        name = (
            f"below {100 * high:g} %"
            if low < 0
            else f"{100 * low:g} % or more"
            if high > 1
            else f"{100 * low:g} to {100 * high:g} %"
        )
        lines.append(f"| {name} | {len(part)} | {more} | {less} |")
    return "\n".join(lines)


def candidates(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [record["plain"], *record["efficient"], *record["points"].values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--out", type=Path, default=Path("which_point.jsonl"))
    parser.add_argument("--part", default="0/1", help="N/M: every M-th world, from the N-th")
    parser.add_argument("--table", type=Path, nargs="+")
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for path in options.table for line in path.read_text().splitlines()]))
        return
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
