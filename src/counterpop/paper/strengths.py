"""The figure of both strengths, judged by what the paper says about each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpop.paper.cache import Record
from counterpop.paper.cells import Cell, reasons, run_cell
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES
from counterpop.paper.published import BACKBONES, DATASETS, OURS
from counterpop.paper.results import Claim, Figure, Item, Table, judge
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread, normal, unpack

GOOD_USER_STRENGTHS = (0.4, 0.6)
WELL = 0.98
SECTION = "V-C6"
Point = tuple[int, int | list[int]]  # places of the item strength and the user strength, or several, in the grid


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
    """Recall on validation at one point of the grid less that at another; its noise is the scatter over user folds.

    All seeds share the validation users, so folds are averaged over seeds first; the scatter of seeds is added.
    """

    def step(values: np.ndarray) -> np.ndarray:  # (..., A, B)
        near, far = (values[..., a, np.atleast_1d(b)].mean(axis=-1) for a, b in (first, second))
        return np.asarray(near - far)

    steps = np.array([step(np.asarray(record["grid"]["recall"])) for record in records])
    scatter = np.mean([step(unpack(record["folds"])) for record in records], axis=0)
    variance = scatter.var(ddof=1) / len(scatter)
    if len(steps) > 1:
        variance += steps.var(ddof=1) / len(steps)
    return replace(normal(float(steps.mean()), float(np.sqrt(variance)), key), seeds=len(steps))


def _claims(cell: Cell) -> list[Claim]:
    records, where = cell.validated, f"({cell.place})"
    if not records or not records[0]["folds"]:
        return [Claim(SECTION, text, "cannot tell", "The cell could not be run.") for text in _texts(where)]
    grid = records[0]["grid"]
    recall = np.mean([record["grid"]["recall"] for record in records], axis=0)  # (A, B)
    users, last = grid["user_strengths"], len(grid["item_strengths"]) - 1
    good = [n for n, strength in enumerate(users) if strength in GOOD_USER_STRENGTHS]
    others = [n for n in range(len(users)) if n not in good]

    def best(columns: list[int]) -> tuple[int, int]:
        a, b = np.unravel_index(int(recall[:, columns].argmax()), (last + 1, len(columns)))
        return int(a), columns[int(b)]

    inside, outside = best(good), best(others)
    named = f"{_name(grid, inside)} against {_name(grid, outside)}"
    step = step_between(records, inside, outside, "band")
    slack = (1 - WELL) * float(recall[outside])
    band = {named: Spread(step.mean + slack, step.draws + slack, step.seeds)}
    larger = {
        f"at user strength {users[b]:g}": step_between(records, (last, b), (0, b), f"item{b}")
        for b in range(len(users))
    }
    fall = {  # against fixed points: the best one would be above the rest by chance as well
        f"at item strength {strength:g}": step_between(records, (a, good), (a, len(users) - 1), f"user{a}")
        for a, strength in enumerate(grid["item_strengths"])
    }
    effects: list[dict[str, Any]] = [band, larger, fall]
    texts = _texts(where)
    return [judge(SECTION, text, one, unit="", most=one is not band) for text, one in zip(texts, effects, strict=True)]


def _texts(where: str) -> tuple[str, str, str]:
    return (
        f"User strengths of .4 to .6 do well (we read: the best point there has at least {WELL:.0%} of the best recall "
        f"elsewhere; shown: what it has beyond that) {where}.",
        f"The larger the item strength, the better, in most cases (we read: recall at 2 less that at 0) {where}.",
        f"A large user strength costs recall (we read: in most cases; mean of .4 and .6 less that at 2) {where}.",
    )


def _name(grid: Record, point: tuple[int, int]) -> str:
    return f"{grid['item_strengths'][point[0]]:g} / {grid['user_strengths'][point[1]]:g}"
