"""Makes the runs behind `counterpop paper` on a machine that has a GPU, torch, NumPy and SciPy, and nothing else.

    python experiments/paper_on_gpu.py table3 table5 --data DATA --runs RUNS --seeds 3 [--device cuda]
    python experiments/paper_on_gpu.py cells frontier --backbone lightgcn --jobs 10 --data DATA --runs RUNS --seeds 3

The files it leaves in RUNS are those that `counterpop paper ITEM --device cuda --out OUT` would make: copy them to
OUT/runs, and that command, on any machine, finds them and writes tables, figures and page. Torch computes lists and
grids here; ties, which float vectors hardly ever have, may be ranked differently. `cells` makes the runs of table3 and
nothing else. With `--jobs`, every data set and method of `cells` and `frontier` is a process of its own, several side
by side on one GPU; they share it far better if NVIDIA's MPS was started (`nvidia-cuda-mps-control -d`). A stopped call
goes on when it is repeated.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from run_cells import read_split

import counterpop as cp
from counterpop.paper.ablation import make_table5
from counterpop.paper.accuracy import make_table3
from counterpop.paper.cells import reasons, run_cell
from counterpop.paper.cost import make_table4
from counterpop.paper.estimators import make_directions
from counterpop.paper.frontier import make_frontier
from counterpop.paper.gradients import make_figure1
from counterpop.paper.groups import make_groups
from counterpop.paper.losses import make_losses
from counterpop.paper.plan import CANDIDATES, Plan
from counterpop.paper.proportion import make_proportion
from counterpop.paper.published import BACKBONES, DATASETS, METHODS
from counterpop.paper.results import Item
from counterpop.paper.runs import Bench, K, Tools
from counterpop.paper.strengths import make_strengths
from counterpop.runs import STRENGTHS, Strengths
from counterpop.training.device.measuring import search_on_device

MAKE = {
    "losses": make_losses,
    "table3": make_table3,
    "table4": make_table4,
    "table5": make_table5,
    "figure1": make_figure1,
    "groups": make_groups,
    "proportion": make_proportion,
    "strengths": make_strengths,
    "directions": make_directions,
}
BY_METHOD = ("cells", "frontier")
EVERY = [method.name for method in cp.METHODS]
ROWS = 2048  # users whose scores are on the device at a time


def tools_on(device: str) -> Tools:
    """What `Bench` needs from the package, computed by torch."""

    def search(
        vectors: cp.Embeddings,
        directions: cp.Directions,
        train: cp.Interactions,
        held: cp.Interactions,
        *,
        k: int,
        item_strengths: Strengths = STRENGTHS,
        user_strengths: Strengths = STRENGTHS,
        user_groups: np.ndarray | None = None,
    ) -> cp.Grid:
        users, items, popular, conform = (
            torch.from_numpy(array).to(device)
            for array in (vectors.user_vectors, vectors.item_vectors, directions.item, directions.user)
        )
        both = item_strengths, user_strengths
        options = {"k": k, "strengths": both, "user_groups": user_groups}
        return search_on_device((users, items), (popular, conform), train, held, **options)

    def lists(adjustment: cp.Recommender, users: np.ndarray, k: int) -> np.ndarray:
        vectors, seen = adjustment.embeddings, adjustment.seen
        items = torch.from_numpy(vectors.item_vectors).to(device)
        found = np.empty((len(users), min(k, len(items))), dtype=np.int32)
        for start in range(0, len(users), ROWS):
            block = users[start : start + ROWS]
            scores = torch.from_numpy(adjustment.query(vectors.user_vectors[block])).to(device) @ items.T
            number = seen.user_counts[block]
            rows = np.repeat(np.arange(len(block)), number)
            columns = np.concatenate([seen.item_ix[seen.user_starts[u] : seen.user_starts[u + 1]] for u in block])
            scores[torch.from_numpy(rows).to(device), torch.from_numpy(columns).long().to(device)] = -torch.inf
            best = torch.topk(scores, found.shape[1])
            there = (best.values > -torch.inf).cpu().numpy()
            found[start : start + ROWS] = np.where(there, best.indices.cpu().numpy(), -1)
        return found

    def measure(adjustment: cp.Recommender, split: cp.Split, resamples: int = 0) -> cp.Measures:
        known = split.development
        train = known.refit_train() if adjustment.refit else known.train
        users = np.flatnonzero(split.test.user_counts).astype(np.int32)
        return cp.measure(lists(adjustment, users, K), users, train, split.test, resamples=resamples)

    return Tools(read_split, measure, search)


def run_side_by_side(given: argparse.Namespace) -> None:
    """The same command for one data set and method at a time, in as many processes as asked for."""

    def run(one: tuple[str, str]) -> None:
        words = [sys.executable, *sys.argv, "--jobs", "0", "--datasets", one[0], "--methods", one[1]]
        done = subprocess.run(words, capture_output=True, text=True)
        print(*one, done.stdout + done.stderr, sep="  ", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(run, product(given.datasets, given.methods or EVERY)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="+", choices=[*MAKE, *BY_METHOD])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=EVERY)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--backbone", choices=BACKBONES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=CANDIDATES)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=0, help="processes, one for each data set and method")
    given = parser.parse_args()
    if (given.methods or given.jobs) and not set(given.items) <= set(BY_METHOD):
        parser.error(f"--methods and --jobs go with {' and '.join(BY_METHOD)} only")
    if given.jobs:
        run_side_by_side(given)
        return
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    backbones = (given.backbone,) if given.backbone else BACKBONES
    asked = {name: getattr(given, name) for name in ("quick", "candidates", "seeds", "device")}
    plan = Plan(**asked, backbones=backbones)
    bench = Bench(given.data, given.runs, plan, tools=tools_on(given.device))
    bench.paths = {name: bench.paths[name] for name in given.datasets if name in bench.paths}

    def make_cells(bench: Bench) -> Item:
        cells = [run_cell(bench, *cell) for cell in product(bench.paths, backbones, given.methods or METHODS)]
        return Item("cells", "", "", missing=reasons(cells))

    make = {"cells": make_cells, "frontier": partial(make_frontier, methods=given.methods or ())} | MAKE
    for name in given.items:
        start, before = time.perf_counter(), bench.cache.made
        item = make[name](bench)
        print(f"{name}: {bench.cache.made - before} runs, {time.perf_counter() - start:.0f} s", flush=True)
        for claim in item.claims:
            print(f"  {claim.verdict}: {claim.claim} {claim.evidence}")


if __name__ == "__main__":
    main()
