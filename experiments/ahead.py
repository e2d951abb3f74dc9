"""How far MF and LightGCN go on the paper's data when validation chooses settings, direction, strengths and ensemble.

    python experiments/ahead.py choose adressa --out ahead.jsonl   # every candidate on validation, one seed
    python experiments/ahead.py test adressa --out ahead.jsonl    # the best one: three seeds, their ensemble, test once
    python experiments/ahead.py price adressa --out ahead.jsonl   # what that costs in recall on ordinary pairs
    python experiments/ahead.py table --out ahead.jsonl

A call goes on where an earlier one stopped; with `--runs FOLDER` it keeps what it trained, so that the seed used for
choosing is not trained again (its seconds are then those of loading it). ML-10M and Netflix are not refit, as in
published results; Adressa and Gowalla, whose validation part is carved out of train, are.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counterpop as cp
from counterpop.training.checkpoints import digest
from paper_data import load_split

DIRECTIONS = ((None, None), ("ridge", "mean"))  # None: the default, the ledger
SEEDS = (0, 1, 2)
BPR, BCE, SOFTMAX = {"loss": "bpr"}, {"loss": "bce"}, {"loss": "softmax", "temperature": 0.1, "epochs": 40}
GRAPH: list[dict[str, Any]] = [
    {"backbone": "lightgcn", "loss": "softmax", "logq": logq, "batch": 8192, "epochs": 30, "check_every": 5}
    for logq in (0.5, 0.75)
] + [BPR | {"backbone": "lightgcn", "dim": 256, "negative_power": 0.5, "epochs": 60}]
CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "ml10m": [BPR | {"dim": 256, "negative_power": power} for power in (0.35, 0.5, 0.65)]
    + [BPR | {"dim": 512, "negative_power": 0.5}, BCE | {"dim": 256, "negative_power": 0.5}]
    + [
        BPR | {"dim": 256, "negative_power": 0.5, "reg": 2e-3},
        BPR | {"dim": 256, "negative_power": 0.5, "negatives": 2},
    ],
    "netflix": [BPR | {"dim": 256, "negative_power": power} for power in (0.35, 0.5, 0.65)]
    + [BCE | {"dim": 256, "negative_power": 0.5}, BPR | {"dim": 256, "negative_power": 0.5, "reg": 2e-3}],
    "adressa": [
        loss | {"dim": dim, "negative_power": power}
        for loss in (BPR, BCE)
        for dim in (256, 512)
        for power in (0.15, 0.25, 0.5, 0.75, 1.0, 1.25)
    ],
    "gowalla": [BCE | {"dim": 256, "lr": 0.4, "epochs": 400, "negative_power": power} for power in (0.25, 0.75, 1.0)]
    + [BPR | {"dim": 256, "negative_power": power} for power in (0.75, 1.0, 1.25)]
    + [SOFTMAX | {"dim": 256, "logq": logq} for logq in (0.5, 0.0, -0.3, -0.6, -0.9)]
    + [SOFTMAX | {"dim": 256, "logq": -0.6, "temperature": 0.15}],
    "adressa-lightgcn": [
        loss | {"backbone": "lightgcn", "dim": 256, "negative_power": power}
        for loss in (BPR, BCE)
        for power in (0.15, 0.25, 0.5)
    ],
    "ml10m-lightgcn": GRAPH,
    "netflix-lightgcn": [one | {"epochs": 2 * one["epochs"] // 3} for one in GRAPH],  # of 1.6 times as many pairs
    "gowalla-lightgcn": [
        SOFTMAX | {"backbone": "lightgcn", "dim": 64, "batch": 4096, "epochs": 12, "check_every": 3, "logq": logq}
        for logq in (-0.9, -0.5)
    ],
}


def record_of(data: str, kind: str, settings: dict[str, Any], **figures: Any) -> dict[str, Any]:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    made = {"commit": commit, "python": platform.python_version(), "cores": os.cpu_count()}
    made |= {name: version(name) for name in ("numpy", "numba")}
    return {"data": data, "kind": kind, "settings": settings, **figures, "made": made, "date": time.strftime("%F")}


def tuned(run: cp.Run, split: cp.Split) -> tuple[cp.Tuned, tuple[str | None, str | None], float]:
    """The run at the best strengths of the best direction, that direction, and its validation recall."""
    found = []
    for pair in DIRECTIONS:
        model = cp.tune(run, split, point="gain", prove=False, item_direction=pair[0], user_direction=pair[1])
        found.append((model, pair, model.grid.at(model.item_strength, model.user_strength)["recall"]))
    return max(found, key=lambda one: one[2])


def trained(split: cp.Split, runs: Path | None, seeds: tuple[int, ...] = (0,), **settings: Any) -> cp.Run:
    """The run of these settings, or of several seeds as one; from the folder of runs, if there is one and it has it."""
    if len(seeds) > 1:
        members = [trained(split, runs, (seed,), **settings) for seed in seeds]
        refits = [run.refit for run in members if run.refit]
        refit = cp.combine(refits) if refits else None
        return replace(members[0], model=cp.combine([run.model for run in members]), refit=refit)
    settings |= {"seed": seeds[0]}
    if runs is None:
        return cp.train(split, method="gradient", **settings)
    key = {"data": digest(split.development), "numbers": cp.NUMBERS} | settings
    folder = runs / hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    if not folder.exists():
        cp.save_run(cp.train(split, method="gradient", **settings), folder, split)
    return cp.load_run(folder).run


def choose(data: str, split: cp.Split, out: Path, done: list[dict[str, Any]], runs: Path | None) -> None:
    known = [row["settings"] for row in done if row["data"] == data and row["kind"] == "valid"]
    for settings in CANDIDATES[data]:
        if settings in known:
            continue
        start = time.perf_counter()
        run = trained(split, runs, refit=False, **settings)
        model, pair, valid = tuned(run, split)
        figures = {"valid": valid, "plain": model.grid.at(0.0, 0.0)["recall"], "direction": pair}
        figures |= {"strengths": (model.item_strength, model.user_strength), "seconds": time.perf_counter() - start}
        write(out, record_of(data, "valid", settings, **figures))


def test(data: str, split: cp.Split, out: Path, done: list[dict[str, Any]], runs: Path | None) -> None:
    tried = [row for row in done if row["data"] == data and row["kind"] == "valid"]
    best = max(tried, key=lambda row: row["valid"])["settings"]
    known = [row["members"] for row in done if row["kind"] == "test" and row["data"] == data]
    refit = data.partition("-")[0] in ("adressa", "gowalla")
    for members in (*((seed,) for seed in SEEDS), SEEDS):
        if list(members) in known:
            continue
        start = time.perf_counter()
        run = trained(split, runs, members, refit=refit, **best)
        model, pair, valid = tuned(run, split)
        result = cp.evaluate(model, split, on="test")
        figures = {
            side: {name: getattr(m, name) for name in ("recall", "hit_rate", "ndcg", "average_popularity", "intervals")}
            for side, m in (("adjusted", result.adjusted), ("plain", result.plain))
        }
        write(
            out,
            record_of(
                data,
                "test",
                best,
                members=members,
                direction=pair,
                valid=valid,
                refit=refit,
                strengths=(model.item_strength, model.user_strength),
                seconds=time.perf_counter() - start,
                **figures,
            ),
        )


def price(data: str, split: cp.Split, out: Path, done: list[dict[str, Any]], runs: Path | None) -> None:
    """Recall on 5 % of train, drawn as it is: the best settings, and the same with uniform negatives, not adjusted."""
    best = max((row for row in done if row["data"] == data and row["kind"] == "valid"), key=lambda row: row["valid"])
    uniform = {name: value for name, value in best["settings"].items() if name not in ("negative_power", "logq")}
    uniform |= {"logq": 1.0} if uniform["loss"] == "softmax" else {"negative_power": 0.0}
    figures = {}
    for name, settings in (("uniform", uniform), ("best", best["settings"])):
        run = trained(split, runs, refit=False, **settings)
        model, pair, _ = tuned(run, split)
        at = {"plain": (0.0, 0.0), "adjusted": (model.item_strength, model.user_strength)}
        assert model.ordinary is not None
        figures[name] = {
            side: {"even": model.grid.at(*where)["recall"], "ordinary": model.ordinary.at(*where)["recall"]}
            for side, where in at.items()
        } | {"strengths": at["adjusted"], "direction": pair}
    write(out, record_of(data, "price", best["settings"], **figures))


def write(out: Path, record: dict[str, Any]) -> None:
    with out.open("a") as file:
        print(json.dumps(record, default=list), file=file, flush=True)
    print({name: value for name, value in record.items() if name != "made"}, flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Test figures of each data set: the mean over seeds, and the ensemble with its intervals over users."""
    lines = ["| data | model | recall | hit rate | NDCG | plain recall | strengths |", "|---" * 7 + "|"]
    for data in CANDIDATES:
        found = [row for row in rows if row["data"] == data and row["kind"] == "test"]
        singles = [row for row in found if len(row["members"]) == 1]
        if singles:
            mean = [
                sum(row["adjusted"][name] for row in singles) / len(singles) for name in ("recall", "hit_rate", "ndcg")
            ]
            plain = sum(row["plain"]["recall"] for row in singles) / len(singles)
            spread = [
                f"{min(values):.4f} to {max(values):.4f}"
                for values in zip(
                    *([row["adjusted"][name] for name in ("recall", "hit_rate", "ndcg")] for row in singles),
                    strict=True,
                )
            ]
            cells = [f"{value:.4f} ({around})" for value, around in zip(mean, spread, strict=True)]
            at = ", ".join("/".join(f"{s:g}" for s in row["strengths"]) for row in singles)
            lines.append(f"| {data} | mean of {len(singles)} seeds | {' | '.join(cells)} | {plain:.4f} | {at} |")
        for row in found:
            if len(row["members"]) > 1:
                cells = [
                    "{:.4f} ({:.4f} to {:.4f})".format(row["adjusted"][name], *row["adjusted"]["intervals"][name])
                    for name in ("recall", "hit_rate", "ndcg")
                ]
                name, at = f"ensemble of {len(row['members'])}", "/".join(f"{s:g}" for s in row["strengths"])
                lines.append(f"| {data} | {name} | {' | '.join(cells)} | {row['plain']['recall']:.4f} | {at} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("choose", "test", "price", "table"))
    parser.add_argument("data", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, help="a folder in which every training is kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    if options.what == "table":
        print(table(rows))
    ordinary = 0.05 if options.what == "price" else 0.0
    for data in options.data:
        split = load_split(data.partition("-")[0], ordinary)
        {"choose": choose, "test": test, "price": price}[options.what](data, split, options.out, rows, options.runs)


if __name__ == "__main__":
    main()
