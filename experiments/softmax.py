"""The softmax loss on validation: recall@20 by temperature, logq and the number of negatives, beside BPR and BCE.

    python experiments/softmax.py --out softmax.jsonl ml10m '{"loss": "softmax", "logq": 0.5}' ...
    python experiments/softmax.py --table softmax.jsonl

Each run appends a line: recall on 8,000 validation users without adjustment and at the best of the grid of strengths
(chosen on the same users, so somewhat too high in every row), epochs, and processor seconds for an epoch, which depend
little on what else the machine does. Never looks at test.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import numpy as np

import counterpop as cp
from paper_data import load_split

USERS = 8000  # of validation, at most
LIBRARIES = ("numpy", "numba", "counterpop")


def measure(data: str, given: dict[str, Any]) -> dict[str, Any]:
    known, spent = load_split(data).development, [time.process_time()]
    once = {"method": "gradient", "negative_power": 0.0, "refit": False, "check_every": 1000}
    run = cp.train(known, on_progress=lambda _: spent.append(time.process_time()), **once | given)
    epochs = sorted(after - before for before, after in pairwise(spent[1:]))  # the first compiles
    users = np.flatnonzero(known.valid.user_counts).astype(np.int32)
    users = np.sort(np.random.default_rng(0).permutation(users)[:USERS])
    case = run.model.embeddings, cp.find_directions(run.model, known.train), known.train, known.valid
    grid = cp.search_strengths(*case, exposure=False, users=users)
    best = cp.choose_strengths(grid)
    return {
        "data": data,
        "given": given,
        "plain": grid.at(0.0, 0.0)["recall"],
        "adjusted": grid.at(*best)["recall"],
        "strengths": best,
        "epochs": run.settings["epochs"],
        "epoch_seconds": epochs[len(epochs) // 2] if epochs else None,
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(cp.__file__).parent
        ).stdout.strip(),
        "versions": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| data | settings | epochs | plain | adjusted | strengths | processor s / epoch |", "|---" * 7 + "|"]
    for row in sorted(rows, key=lambda row: (row["data"], -row["adjusted"])):
        given = ", ".join(f"{name} {value}" for name, value in row["given"].items() if name != "epochs")
        figures = f"{row['plain']:.4f} | {row['adjusted']:.4f} | {row['strengths'][0]:g} / {row['strengths'][1]:g}"
        lines.append(f"| {row['data']} | {given} | {row['epochs']} | {figures} | {row['epoch_seconds']:.2f} |")
    made = {(row["commit"], json.dumps(row["versions"])) for row in rows}
    return "\n".join([*lines, "", *(f"Made by commit {commit}, {versions}." for commit, versions in sorted(made))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("data", nargs="?")
    parser.add_argument("settings", nargs="*", type=json.loads)
    arguments = parser.parse_args()
    for given in arguments.settings:
        row = measure(arguments.data, given)
        with arguments.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    if arguments.table:
        print(table([json.loads(line) for line in arguments.table.read_text().splitlines()]))


if __name__ == "__main__":
    main()
