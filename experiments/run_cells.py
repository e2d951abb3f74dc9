"""Trains models with torch on the paper's data and prints how they do, one line of JSON each.

    python experiments/run_cells.py DATA CELLS.json [--test]

CELLS.json holds a list of objects: "data" (the name of a file in DATA), "refit", and settings of `counterpop.train`;
or, with "minutes", of `counterpop.search`, which needs Optuna, and tunes at the point of most gain as the others do.
"ordinary" is the share of train that is held out as it is; recall on it is printed too. "directions" is a list of pairs
of an item and a user direction, null for the default, of which validation chooses one.
Epochs and strengths are chosen on validation; test is measured only with --test, once for each cell. Needs only torch,
NumPy and SciPy.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counterpop as cp
from counterpop.directions import find_directions
from counterpop.runs import STRENGTHS, Strengths
from counterpop.training.device.measuring import search_on_device
from counterpop.tuning import Grid, choose_strengths
from paper_data import read_split

Sides = tuple[Strengths, Strengths]


def grid_of(
    model: cp.Model,
    train: cp.Interactions,
    held: cp.Interactions,
    device: str,
    directions: tuple[Any, Any] = (None, None),
    strengths: Sides = (STRENGTHS, STRENGTHS),
) -> Grid:
    """Every metric of the held-out part at every pair of strengths."""
    found = find_directions(model, train, *directions)
    vectors = model.embeddings
    tensors = [
        torch.from_numpy(array).to(device)
        for array in (vectors.user_vectors, vectors.item_vectors, found.item, found.user)
    ]
    return search_on_device(tuple(tensors[:2]), tuple(tensors[2:]), train, held, strengths=strengths)


def rounded(metrics: dict[str, float]) -> list[float]:
    return [round(metrics[name], 4) for name in ("recall", "hit_rate", "ndcg")]


def run_cell(split: cp.Split, cell: dict[str, Any], test: bool) -> dict[str, Any]:
    """The figures of one cell."""
    cell = dict(cell)
    device, pairs = str(cell.get("device", "cpu")), cell.pop("directions", [(None, None)])
    start = time.perf_counter()
    if "minutes" in cell:
        run = cp.search(split, **cell)
    else:
        run = cp.train(split, **{"loss": "bpr", "negative_power": 0.0, "refit": False} | cell)
    seconds = time.perf_counter() - start
    known = split.development

    def best_of(pair: tuple[Any, Any]) -> tuple[float, Grid, tuple[float, float], tuple[Any, Any]]:
        grid = grid_of(run.model, known.train, known.valid, device, pair)
        strengths = choose_strengths(grid)
        return grid.at(*strengths)["recall"], grid, strengths, pair

    _, grid, strengths, pair = max((best_of(pair) for pair in pairs), key=lambda one: one[0])
    at = (0.0, strengths[0]), (0.0, strengths[1])
    epoch = sorted(entry["seconds"] for entry in run.history)[len(run.history) // 2]
    found = {
        "valid": rounded(grid.at(*strengths)),
        "valid_plain": rounded(grid.at(0.0, 0.0)),
        "strengths": strengths,
        "direction": pair,
        **run.settings,
        "seconds": round(seconds, 1),
        "epoch": round(epoch, 4),
        "looks": [round(entry["valid"], 4) for entry in run.history if "valid" in entry],
    }
    if known.ordinary is not None:
        ordinary = grid_of(run.model, known.train, known.ordinary, device, pair, at)
        found |= {"on_ordinary": rounded(ordinary.at(*strengths)), "on_ordinary_plain": rounded(ordinary.at(0.0, 0.0))}
    if test:
        train = known.refit_train() if run.refit else known.train
        on_test = grid_of(run.final, train, split.test, device, pair, at)
        found |= {"test": rounded(on_test.at(*strengths)), "test_plain": rounded(on_test.at(0.0, 0.0))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("cells", type=Path)
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no cell after this time")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    began, splits = time.perf_counter(), {}
    for cell in json.loads(arguments.cells.read_text()):
        if time.perf_counter() - began > arguments.seconds:
            break
        at = name, ordinary = cell.pop("data"), cell.pop("ordinary", 0.0)
        if at not in splits:
            splits[at] = read_split(arguments.data / f"{name}.npz", ordinary)
        try:
            found = run_cell(splits[at], cell, arguments.test)
        except cp.CounterpopError as error:
            found = {"error": str(error)}
        print(json.dumps({"data": name, "ordinary": ordinary, **cell, **found}), flush=True)


if __name__ == "__main__":
    main()
