"""Prints what every row of `counterpop paper frontier` pays in ordinary recall, one line of JSON each.

    python experiments/frontier_price.py DATA experiments/paper/results/frontier.json --backbone lightgcn [--jobs 12]
    python experiments/frontier_price.py --table PRICES.jsonl

Each row's settings are trained again with the first seed and with 5 % of train held out as observed. Validation chooses
epochs and strengths as it did for the table. Recall at 20 is of the validation part ("even") and of what was held out
("ordinary"), as adjusted and unadjusted, with 95 % intervals over users. Needs only torch, NumPy and SciPy.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from paper_on_gpu import tools_on
from run_cells import read_split

import counterpop as cp
from counterpop.paper.plan import BACKBONE_TITLES, Plan, find_method, title_of
from counterpop.paper.published import BACKBONES, DATASETS
from counterpop.paper.runs import Bench
from counterpop.uncertainty import over_seeds, resample

ORDINARY = 0.05  # share of train
LONGEST = ("paac", "simgcl", "dice", "cause", "macr", "ips", "gradient", "plain")  # these first: several run at once


def price(row: dict[str, Any], data: Path) -> dict[str, Any]:
    """A row's recall on even and ordinary pairs."""
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    start, name, chosen = time.perf_counter(), row["dataset"], dict(row["chosen"]["settings"])
    tried = next(one["settings"] for one in row["chosen"]["searched"] if one.get("chosen"))
    options = chosen.pop("options")
    settings = {key: value for key, value in chosen.items() if key not in ("refit", "chosen_epochs")}
    settings["dim"] = tried.get("dim")  # a run names the width of its vectors, and MACR's hold two numbers more
    if options:
        settings["method"] = find_method(chosen["method"])(**options)
    split = read_split(data / f"{name}.npz", ORDINARY)
    known, tools = split.development, tools_on(chosen["device"])
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(data, Path(folder), Plan(device=chosen["device"]), tools=tools)
        run = bench.train(name, known, settings, refit=False)
    model = replace(bench.tune(run, known).tuned, seen=known.train)
    found: dict[str, Any] = {key: row[key] for key in ("backbone", "dataset", "method", "variant")}
    found["strengths"] = model.item_strength, model.user_strength
    for kind, one in (("", model), ("unadjusted_", model.with_strengths(0.0, 0.0))):
        for part, held in (("even", known.valid), ("ordinary", known.ordinary)):
            measures = tools.measure(one, replace(split, test=held))
            draws = resample({"recall": measures.per_user["recall"]}, measures.weights)
            found[kind + part] = over_seeds([measures.recall], [draws["recall"]], part).to_json()
    return found | {"seconds": round(time.perf_counter() - start, 1)}


def show(prices: list[dict[str, Any]]) -> None:
    """A table of Markdown: even / ordinary recall of each row on each data set."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for one in prices:
        cell = "{:.3f} / {:.3f}".format(*(one[part]["mean"] for part in ("even", "ordinary")))
        rows.setdefault((one["backbone"], one["method"], one["variant"]), {})[one["dataset"]] = cell.replace("0.", ".")
    for (backbone, method, variant), cells in rows.items():
        title = ", ".join(filter(None, (f"{BACKBONE_TITLES[backbone]} {title_of(method)}", variant)))
        print("|", " | ".join([title, *(cells.get(name, "-") for name in DATASETS)]), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("frontier", type=Path, nargs="?")
    parser.add_argument("--backbone", choices=BACKBONES, default="mf")
    parser.add_argument("--methods", nargs="+", choices=LONGEST, default=LONGEST)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if given.table:
        show([json.loads(line) for line in given.table.read_text().splitlines()])
        return
    if not (given.data and given.frontier):
        parser.error("DATA and FRONTIER are needed without --table")
    rows = [
        row
        for row in json.loads(given.frontier.read_text())
        if row["backbone"] == given.backbone
        and row["method"] in given.methods
        and "ensemble" not in row["chosen"]["settings"]
    ]
    rows.sort(key=lambda row: LONGEST.index(row["method"]))
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for found in pool.imap_unordered(partial(price, data=given.data), rows):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
