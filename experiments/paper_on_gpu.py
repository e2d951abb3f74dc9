"""Makes the runs behind `counterpop paper` on a machine that has a GPU, torch, NumPy and SciPy, and nothing else.

    python experiments/paper_on_gpu.py table3 table5 --data DATA --runs RUNS --seeds 3 [--device cuda]
    python experiments/paper_on_gpu.py cells --datasets adressa --methods macr dice --data DATA --runs RUNS

The files it leaves in RUNS are those that `counterpop paper ITEM --device cuda --out OUT` would make: copy them to
OUT/runs, and that command, on any machine, finds them and writes tables, figures and page. Torch computes lists and
grids here; ties, which float vectors hardly ever have, may be ranked differently. `cells` makes some of the runs of
table3, so that several processes can share one GPU.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch
from run_cells import read_split

import counterpop as cp
from counterpop.evaluation import Evaluation, compare, measure
from counterpop.paper.accuracy import make_losses, make_table3
from counterpop.paper.cells import reasons, run_cell
from counterpop.paper.cost import make_table4
from counterpop.paper.parts import make_figure1, make_groups, make_strengths, make_table5
from counterpop.paper.plan import Plan
from counterpop.paper.proportion import make_proportion
from counterpop.paper.published import BACKBONES, DATASETS, METHODS
from counterpop.paper.results import Item
from counterpop.paper.runs import Bench, Tools
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
}
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
    ) -> cp.Grid:
        users, items, popular, conform = (
            torch.from_numpy(array).to(device)
            for array in (vectors.user_vectors, vectors.item_vectors, directions.item, directions.user)
        )
        both = item_strengths, user_strengths
        return search_on_device((users, items), (popular, conform), train, held, k=k, strengths=both)

    def tune(run: cp.Run, known: cp.Development, k: int) -> cp.Tuned:
        dials = run.model.dials or cp.Dials()
        directions = cp.find_directions(run.model, known.train)
        over = {"k": k, "item_strengths": dials.item_strengths, "user_strengths": dials.user_strengths}
        grid = search(run.model.embeddings, directions, known.train, known.valid, **over)
        if run.refit is not None:
            directions = cp.find_directions(run.refit, known.refit_train())
        strengths = cp.choose_strengths(grid)
        model = {"embeddings": run.embeddings, "seen": known.refit_train(), "refit": run.refit is not None}
        return cp.Tuned(directions.item, directions.user, *strengths, **model, grid=grid, ordinary=None)

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

    def evaluate(adjustment: cp.Recommender, split: cp.Split, *, on: str, k: int, resamples: int) -> Evaluation:
        known = split.development
        train = known.refit_train() if adjustment.refit else known.train
        users = np.flatnonzero(split.test.user_counts).astype(np.int32)
        plain, adjusted = (
            measure(lists(one, users, k), users, train, split.test, resamples=resamples)
            for one in (adjustment.with_strengths(0.0, 0.0), adjustment)
        )
        strengths = adjustment.item_strength, adjustment.user_strength
        return Evaluation(k, "test", *strengths, plain, adjusted, compare(adjusted, plain))

    return Tools(read_split, tune, evaluate, search)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="+", choices=[*MAKE, "cells"])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--backbone", choices=BACKBONES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--baseline-seeds", type=int)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.methods != METHODS and given.items != ["cells"]:
        parser.error("--methods goes with cells only")
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    backbones = (given.backbone,) if given.backbone else BACKBONES
    plan = Plan(given.quick, given.wide, given.seeds, given.baseline_seeds, device=given.device, backbones=backbones)
    bench = Bench(given.data, given.runs, plan, tools=tools_on(given.device))
    bench.paths = {name: bench.paths[name] for name in given.datasets if name in bench.paths}

    def make_cells(bench: Bench) -> Item:
        cells = [run_cell(bench, *cell) for cell in product(bench.paths, backbones, given.methods)]
        return Item("cells", "", "", missing=reasons(cells))

    make = {"cells": make_cells} | MAKE
    for name in given.items:
        start, before = time.perf_counter(), bench.cache.made
        item = make[name](bench)
        print(f"{name}: {bench.cache.made - before} runs, {time.perf_counter() - start:.0f} s", flush=True)
        for claim in item.claims:
            print(f"  {claim.verdict}: {claim.claim} {claim.evidence}")


if __name__ == "__main__":
    main()
