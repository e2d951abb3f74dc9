"""The figure of both strengths, judged by what the paper says about each."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpop.paper.cache import Record
from counterpop.paper.cells import Cell, reasons, run_cell
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES
from counterpop.paper.published import BACKBONES, DATASETS, OURS
from counterpop.paper.results import Claim, Figure, Item, Table, judge
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread, average, normal, unpack

GOOD_USER_STRENGTHS = (0.4, 0.6)
WELL = 0.98
SECTION = "V-C6"
Point = tuple[int, int]  # places of the item and the user strength in the grid


def make_strengths(bench: Bench) -> Item:
    """Recall on validation over the grid of both strengths."""
    figures, rows = [], []
    cells = [run_cell(bench, dataset, backbone, OURS) for backbone in BACKBONES for dataset in DATASETS]
    for cell in (cell for cell in cells if cell.validated):
        grid, chosen = cell.validated[0]["grid"], cell.validated[0]["strengths"]
        title = f"{TITLES[cell.dataset]}, {BACKBONE_TITLES[cell.backbone]}"
        rows.append({"dataset": cell.dataset, "backbone": cell.backbone, "chosen": chosen, **grid})
        series = [
            {
                "name": "Recall@20",
                "x": grid["user_strengths"],
                "y": grid["item_strengths"],
                "z": grid["recall"],
                "chosen": [chosen[1], chosen[0]],
            }
        ]
        figures.append(Figure(f"Recall@20 on validation, {title}", "map", "User strength", "Item strength", series))
    table = Table(
        "What validation chose (first seed)",
        ("Data set", "Backbone", "Item strength", "User strength", "Recall", "at 0 / 0"),
        [
            [
                TITLES[r["dataset"]],
                BACKBONE_TITLES[r["backbone"]],
                *r["chosen"],
                max(max(line) for line in r["recall"]),
                r["recall"][0][0],
            ]
            for r in rows
        ],
    )
    shown = [cell for cell in cells if (cell.dataset, cell.backbone) == ("ml10m", "mf")]  # the paper's figure
    return Item(
        "strengths",
        "Strengths",
        "Recall on validation at every pair of strengths; the ring marks the pair that was chosen. 0 / 0 is the model "
        "as trained.",
        (table,),
        tuple(figures),
        tuple(_claims(shown[0])),
        tuple(rows),
        reasons(cells),
    )


def step_between(records: tuple[Record, ...], first: Point, second: Point, key: str) -> Spread:
    """Recall on validation at one point of the grid less that at another; its noise is the scatter over user folds."""
    spreads = []
    for n, record in enumerate(records):
        recall, folds = np.asarray(record["grid"]["recall"]), unpack(record["folds"])
        scatter = folds[(slice(None), *first)] - folds[(slice(None), *second)]
        error = float(scatter.std(ddof=1) / np.sqrt(len(scatter)))
        spreads.append(normal(float(recall[first] - recall[second]), error, f"{key}{n}"))
    return average(spreads)


def _claims(cell: Cell) -> list[Claim]:
    records, where = cell.validated, f"({cell.place})"
    if not records or not records[0]["folds"]:
        return [Claim(SECTION, text, "cannot tell", "The cell could not be run.") for text in _texts(where)]
    grid = records[0]["grid"]
    recall = np.mean([record["grid"]["recall"] for record in records], axis=0)  # (A, B)
    users, last = grid["user_strengths"], len(grid["item_strengths"]) - 1
    good = [n for n, strength in enumerate(users) if strength in GOOD_USER_STRENGTHS]
    others = [n for n in range(len(users)) if n not in good]

    def best(columns: list[int]) -> Point:
        a, b = np.unravel_index(int(recall[:, columns].argmax()), (last + 1, len(columns)))
        return int(a), columns[int(b)]

    top = best(list(range(len(users))))
    inside, outside = best(good), best(others)
    named = f"{_name(grid, inside)} against {_name(grid, outside)}"
    step = step_between(records, inside, outside, "band")
    slack = (1 - WELL) * float(recall[outside])
    band = {named: Spread(step.mean + slack, step.draws + slack, step.seeds)}
    larger = {
        f"at user strength {users[b]:g}": step_between(records, (last, b), (0, b), f"item{b}")
        for b in range(len(users))
    }
    fall = {
        f"{_name(grid, top)} against {_name(grid, (top[0], b))}": step_between(records, top, (top[0], b), f"user{b}")
        for b in (len(users) - 1,)
    }
    effects: list[dict[str, Any]] = [band, larger, fall]
    texts = _texts(where)
    return [judge(SECTION, text, one, unit="", most=one is larger) for text, one in zip(texts, effects, strict=True)]


def _texts(where: str) -> tuple[str, str, str]:
    return (
        f"User strengths of .4 to .6 do well (we read: the best point there has at least {WELL:.0%} of the best recall "
        f"elsewhere; shown: what it has beyond that) {where}.",
        f"The larger the item strength, the better, in most cases (recall at 2 less that at 0) {where}.",
        f"A large user strength costs recall (the best point less the one at user strength 2) {where}.",
    )


def _name(grid: Record, point: Point) -> str:
    return f"{grid['item_strengths'][point[0]]:g} / {grid['user_strengths'][point[1]]:g}"
