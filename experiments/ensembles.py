"""Ensembles and their reduction on validation: members, all together, and at smaller widths.

    python experiments/ensembles.py [--data adressa ml10m] [--members 5] [--out ensembles.jsonl]

Recall at 20 on the validation part of the paper's data (found as in benchmarks/paper_data.py), at the best strengths
of the paper's grid, along the ledger's directions and along ridge directions. The test part is not used.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counterpop as cp
from counterpop.training.ensembles import combine, member_seeds, reduce_width
from paper_data import load_split

# given, so that no settings are raced
SETTINGS: dict[str, dict[str, Any]] = {"gowalla": {"loss": "bce"}}
USERS = 8000


def best_recall(model: cp.Model, known: cp.Development, kind: Any) -> float:
    """The best validation recall of the grid, on a sample of users."""
    users = np.random.default_rng(0).permutation(np.flatnonzero(known.valid.user_counts))[:USERS]
    directions = cp.find_directions(model, known.train, kind, kind)
    case = model.embeddings, directions, known.train, known.valid
    users = np.sort(users).astype(np.int32)
    grid = cp.search_strengths(*case, users=users, exposure=False)
    return float(grid.values["recall"].max())


def measure(name: str, members: int) -> dict[str, Any]:
    known, start = load_split(name).development, time.perf_counter()
    settings = {"threads": 2, "loss": "bpr", "negative_power": 0.0, **SETTINGS.get(name, {})}
    runs = [cp.train(known, seed=seed, refit=False, **settings) for seed in member_seeds(0, members)]
    seconds, dim = time.perf_counter() - start, runs[0].embeddings.dim
    models = {f"member {n}": run.model for n, run in enumerate(runs, start=1)}
    models[f"all {members}, width {members * dim}"] = together = combine([run.model for run in runs])
    models |= {f"reduced to {width}": reduce_width(together, width) for width in (3 * dim, 2 * dim, dim, dim // 2)}
    recall = {
        label: {kind: best_recall(model, known, kind) for kind in ("ledger", "ridge")}
        for label, model in models.items()
    }
    return {"data": name, "dim": dim, "training_seconds": round(seconds, 1), "validation_recall": recall}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["adressa"])
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("ensembles.jsonl"))
    options = parser.parse_args()
    with options.out.open("a") as out:
        for name in options.data:
            print(json.dumps(measure(name, options.members)), file=out, flush=True)


if __name__ == "__main__":
    main()
