"""Which directions to take out, and whether strengths should differ by user: judged on validation only.

    python experiments/directions.py [--data adressa ml10m ...] [--seeds 0 1 2] [--out directions.jsonl]
    python experiments/directions.py --table directions.jsonl

Each model is tuned in several ways. What is compared is recall at 20 on validation users not chosen on: strengths, and
with "auto" the direction, are chosen on nine tenths of the users and measured on the rest, ten times. The data are
found as in benchmarks/paper_data.py; of more than 6,000 validation users a random sample is used. "ml1m" is split
again so that validation holds every item about equally often. The test part is not used.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counterpop as cp
from paper_data import load_split

USERS = 6000
WAYS: dict[str, dict[str, Any]] = {
    "ledger": {},
    "mean": {"item_direction": "mean", "user_direction": "mean"},
    "svd": {"item_direction": "svd", "user_direction": "svd"},
    "head-mean": {"item_direction": "head-mean", "user_direction": "mean"},
    "ridge, ledger": {"item_direction": "ridge"},
    "ridge": {"item_direction": "ridge", "user_direction": "ridge"},
    "auto": {"item_direction": "auto"},
    "by user": {"by_user": True},
    "auto by user": {"item_direction": "auto", "by_user": True},
}
WORLDS = {"world 0.4": (0.4, 25), "world 0.8": (0.8, 25), "world 1.2": (1.2, 25)}  # exponent, mean activity
DATA = ("adressa", "ml10m", "netflix", "gowalla", "ml1m", *WORLDS)
MODELS: dict[str, dict[str, Any]] = {
    "bpr": {"loss": "bpr", "negative_power": 0.0},
    "bpr .25": {"loss": "bpr", "negative_power": 0.25},
    "bce": {"loss": "bce", "negative_power": 0.0},
}


def load(name: str, seed: int) -> cp.Development:
    if name in WORLDS:
        exponent, activity = WORLDS[name]
        world = cp.make_world(2500, 800, mean_activity=activity, exponent=exponent, pull=exponent / 16, seed=seed)
        return cp.split_uniform(world.log, seed=seed, ordinary=0.0).development
    split = load_split(name)
    if name == "ml1m":
        log = replace(cp.join(split.development.refit_train(), split.test), time=None, part=None)
        split = cp.split_uniform(log, seed=seed, ordinary=0.0)
    known = split.development
    users = np.flatnonzero(known.valid.user_counts)
    kept = np.random.default_rng([seed, 902]).permutation(users)[:USERS]
    return replace(known, valid=known.valid.rows(np.isin(known.valid.user_ix, kept)))


def measure(names: list[str], models: list[str], seeds: list[int]) -> Iterator[dict[str, Any]]:
    for seed, name, model in ((seed, name, model) for seed in seeds for name in names for model in models):
        known = load(name, seed)
        # Gowalla is not learned by BPR, and 100 epochs are enough to compare directions
        settings = MODELS["bce"] | {"epochs": 100} if name == "gowalla" else MODELS[model]
        run = cp.train(known, refit=False, threads=2, seed=seed, **settings)
        for way, how in WAYS.items():
            start = time.perf_counter()
            tuned = cp.tune(run, known, **how)
            record = {"data": name, "model": model, "seed": seed, "way": way, "users": tuned.grid.users}
            record["cosine"] = float(tuned.item_direction @ tuned.user_direction)
            record["plain"] = tuned.grid.at(0.0, 0.0)["recall"]
            record["kinds"] = tuned.kinds
            record |= {
                point: [proof.item_strength, proof.user_strength, proof.lean, proof.gain, proof.low, proof.high]
                for point, proof in tuned.points.items()
            }
            yield record | {"seconds": round(time.perf_counter() - start, 1)}


def table(records: list[dict[str, Any]]) -> str:
    """Recall of users not chosen on, for the points "balanced" and "gain", by way; means over seeds."""
    cases = sorted({(r["data"], r["model"]) for r in records}, key=lambda case: (DATA.index(case[0]), case[1]))
    lines = [f"| data | model | seeds | plain | {' | '.join(WAYS)} |", "|---" * (4 + len(WAYS)) + "|"]
    for data, model in cases:
        mine = [r for r in records if (r["data"], r["model"]) == (data, model)]
        seeds = len({r["seed"] for r in mine})
        cells = []
        for way in WAYS:
            found = [r for r in mine if r["way"] == way]
            means = [np.mean([r["plain"] + r[point][3] for r in found]) for point in ("balanced", "gain")]
            cells.append(" / ".join(f"{value:.4f}".lstrip("0") for value in means) if found else "")
        plain = np.mean([r["plain"] for r in mine])
        lines.append(f"| {data} | {model} | {seeds} | {plain:.4f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    parser.add_argument("--models", nargs="+", default=["bpr"], choices=MODELS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, default=Path("directions.jsonl"))
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    with options.out.open("a") as out:
        for record in measure(options.data, options.models, options.seeds):
            print(json.dumps(record), file=out, flush=True)


if __name__ == "__main__":
    main()
