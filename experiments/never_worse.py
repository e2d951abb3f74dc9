"""Is an adjusted model ever worse than the plain one? Many small runs: tune on validation, then look at test once.

    python experiments/never_worse.py [--minutes 25] [--part 0/2] [--out never_worse.jsonl]
    python experiments/never_worse.py --table never_worse.jsonl ...

A second call with the same file goes on where the first one stopped.

Worlds from no exposure bias to a strong one, with few and many pairs per item, and the paper's data thinned to some of
its users (found as in benchmarks/paper_data.py). Each run is judged on its test part by a paired test of recall at 20,
under the old rule (the grid's maximum) and under each point of `tune`.
"""

import argparse
import itertools
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counterpop as cp
from paper_data import load_split

RULES = ("maximum", "gain", "balanced", "free")  # the last three only if proven
ORDINARY = 0.05
SHAPES = ((300, 200, 12), (300, 200, 40), (1000, 1000, 8), (1000, 500, 30), (2500, 800, 25))  # users, items, activity
EXPONENTS = (0.0, 0.4, 0.8, 1.2)
USERS = {"ml1m": 1500, "ml10m": 3000, "netflix": 3000, "adressa": 6000, "gowalla": 1200}
MODELS: dict[str, dict[str, Any]] = {
    "default": {},  # the gradient method; short trainings choose its loss and negatives
    "gradient bce": {"method": "gradient", "loss": "bce", "negative_power": 0.0},
    "macr": {"method": "macr"},
    "popular negatives": {
        "method": "plain",
        "loss": "bpr",
        "negative_power": 0.75,
    },  # hardly any popularity is left to remove
}
Case = tuple[dict[str, Any], Callable[[], cp.Split]]
NAMED = {"item_direction": "head-mean", "user_direction": "mean"}  # for a model without dials


def randomised(world: cp.World, seed: int, shown: int = 8) -> cp.Interactions:
    """A world's log as train, and as test what users choose when every item is shown to them equally often."""
    log, draw = world.log, np.random.default_rng([seed, 900])
    weights = np.exp((world.true_taste(np.arange(log.n_users)) - 1) / world.temperature)
    weights[log.user_ix, log.item_ix] = 1e-30
    chosen = np.argsort(draw.standard_exponential(weights.shape) / weights, axis=1)[:, :shown]
    user = np.concatenate([log.user_ix, np.repeat(np.arange(log.n_users), shown)]).astype(np.int32)
    item = np.concatenate([log.item_ix, chosen.ravel()]).astype(np.int32)
    order = np.lexsort((item, user))
    part = np.repeat([0, 3], [len(log), chosen.size]).astype(np.int8)[order]
    return cp.Interactions(user[order], item[order], log.user_ids, log.item_ids, part=part)


def split_by(log: cp.Interactions, test: str, seed: int) -> cp.Split:
    log = replace(log, time=None, part=None)
    if test == "even":
        return cp.split_uniform(log, seed=seed, ordinary=ORDINARY)
    return (cp.split_intervened if test == "intervened" else cp.split_random)(log, seed=seed, ordinary=ORDINARY)


@lru_cache(1)
def make_world(shape: tuple[int, int, int], exponent: float, seed: int) -> cp.World:
    return cp.make_world(*shape[:2], mean_activity=shape[2], exponent=exponent, pull=exponent / 16, seed=seed)


def split_world(shape: tuple[int, int, int], exponent: float, test: str, seed: int) -> cp.Split:
    world = make_world(shape, exponent, seed)
    if test == "randomised":
        return cp.split_as_given(randomised(world, seed), seed=seed, ordinary=ORDINARY)
    return split_by(world.log, test, seed)


@lru_cache(1)
def thin(name: str, seed: int) -> cp.Interactions:
    """A data set with only some of its users, and the items they have."""
    given = load_split(name)
    log = cp.join(given.development.refit_train(), given.test)
    kept = np.random.default_rng([seed, 901]).permutation(log.n_users)[: USERS[name]]
    rows = np.isin(log.user_ix, kept)
    _, user = np.unique(log.user_ix[rows], return_inverse=True)
    items, item = np.unique(log.item_ix[rows], return_inverse=True)
    ids = np.arange(user.max() + 1), np.arange(len(items))
    return cp.Interactions(user.astype(np.int32), item.astype(np.int32), *ids)


def world_cases() -> Iterator[Case]:
    for seed, shape, exponent in itertools.product(range(3), SHAPES, EXPONENTS):
        for test in ("even", "ordinary", "randomised"):
            case = {"data": f"world {exponent}", "size": "x".join(map(str, shape)), "test": test, "seed": seed}
            yield case, partial(split_world, shape, exponent, test, seed)


def real_cases() -> Iterator[Case]:
    for seed, name in itertools.product(range(4), USERS):
        for test in ("even", "intervened", "ordinary"):
            case = {"data": name, "size": f"{USERS[name]} users", "test": test, "seed": seed}
            yield case, lambda name=name, test=test, seed=seed: split_by(thin(name, seed), test, seed)


def run_case(case: dict[str, Any], make_split: Callable[[], cp.Split], model: str, refit: bool) -> dict[str, Any]:
    split = make_split()
    settings = {"dim": 24, "epochs": 40, "check_every": 10, "threads": 1, "ledger_every": 8, "seed": case["seed"]}
    run = cp.train(split, refit=refit, **settings, **MODELS[model])
    ridge = {"item_direction": "ridge"} if model == "gradient bce" else {}
    tuned = cp.tune(run, split, **(ridge if run.model.dials else NAMED))
    strengths = {name: (p.item_strength, p.user_strength) if p.proven else (0, 0) for name, p in tuned.points.items()}
    strengths["maximum"] = cp.choose_strengths(tuned.grid)
    record = case | {"model": model, "refit": refit, "validation": tuned.drawn, "users": len(set(split.test.user_ix))}
    record["points"] = {name: [p.p_value, p.gain, p.price] for name, p in tuned.points.items()}
    for rule in RULES:
        result = cp.evaluate(tuned.with_strengths(*strengths[rule]), split, resamples=0, threads=1)
        row = result.comparison["recall"]
        record[rule] = [*strengths[rule], result.plain.recall, result.adjusted.recall, row["p_value"]]
    return record


def judge(figures: list[float]) -> str:
    item, user, plain, adjusted, p_value = figures
    if item == user == 0:
        return "unchanged"
    if p_value >= 0.05:
        return "no difference"
    return "above" if adjusted > plain else "below"


def table(records: list[dict[str, Any]]) -> str:
    """Below / not different (and unchanged among them) / above, by kind of data and test, for each rule."""
    lines = [f"| data | test | runs | {' | '.join(RULES)} |", "|---" * (3 + len(RULES)) + "|"]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        kind = "worlds" if record["data"].startswith("world") else "data sets"
        for group in ((record["data"], record["test"]), (kind, "all"), ("all", "all")):
            groups.setdefault(group, []).append(record)
    for (data, test), group in sorted(groups.items(), key=lambda named: (named[0][1] == "all", named[0])):
        cells = []
        for rule in RULES:
            count = Counter(judge(record[rule]) for record in group)
            same = count["no difference"] + count["unchanged"]
            cells.append(f"{count['below']} / {same} ({count['unchanged']}) / {count['above']}")
        lines.append(f"| {data} | {test} | {len(group)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--out", type=Path, default=Path("never_worse.jsonl"))
    parser.add_argument("--part", default="0/1", help="N/M: every M-th run, from the N-th")
    parser.add_argument("--table", type=Path, nargs="+")
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for path in options.table for line in path.read_text().splitlines()]))
        return
    first, every = map(int, options.part.split("/"))
    done = len(options.out.read_text().splitlines()) if options.out.exists() else 0
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    end, models = time.perf_counter() + 60 * options.minutes, list(MODELS)
    cases = itertools.chain.from_iterable(
        itertools.zip_longest(enumerate(world_cases()), enumerate(real_cases()), fillvalue=None)
    )
    with options.out.open("a") as out:
        for number, found in itertools.islice(filter(None, cases), first + done * every, None, every):
            start = time.perf_counter()
            if start > end:
                break
            # turned so that every kind of test meets every model, with and without a refit
            record = run_case(*found, models[(number + number // 12) % 4], refit=(number // 3 + number) % 3 == 0)
            record["seconds"] = round(time.perf_counter() - start, 2)
            print(json.dumps(record), file=out, flush=True)


if __name__ == "__main__":
    main()
