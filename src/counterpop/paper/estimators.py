"""What produces the gain: directions estimated in other ways, the angle between both, and one dial instead of two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpop.paper.cells import Cell, reasons, run_cell
from counterpop.paper.datasets import TITLES
from counterpop.paper.pictures import explained_by_one_dial
from counterpop.paper.plan import BACKBONE_TITLES, METRIC_TITLES
from counterpop.paper.published import BACKBONES, DATASETS, METRICS, OURS
from counterpop.paper.results import OWN, Claim, Item, Table, judge, judge_cases, judge_similar
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread, normal, over_seeds

CLOSE = 0.03  # a relative difference in recall that we call the same
ONE_DIAL = 0.95  # of the grid's variance
PARALLEL = 0.9  # a cosine above which two directions are mainly the same
CANCELS = 0.1  # of the length of the mean over popular items


def make_directions(bench: Bench) -> Item:
    """The method with each estimator of its directions, on every data set."""
    cells = [run_cell(bench, dataset, backbone, OURS) for backbone in BACKBONES for dataset in DATASETS]
    there = [cell for cell in cells if cell.estimated]
    rows = [_row(cell, n) for cell in there for n in range(len(cell.estimated[0]["estimators"]))]
    angles = [_angle(cell) for cell in there]
    tables = (
        Table(
            "Estimators of the directions",
            ("Cell", "Items", "Users", "cosine, items", "cosine, users", "on validation", *METRIC_TITLES.values()),
            [_cells_of(row) for row in rows],
            (
                "Strengths are chosen on validation for each pair. Cosines are with the ledger's directions, which "
                "are the method's own: the mean over popular items (active users) of what training accumulated, each "
                "triple weighted by the slope of the loss (Algorithm 1 weights all triples alike). The paper's section "
                "IV-C1 names the mean vector of popular items, which is head-mean here.",
            ),
        ),
        Table(
            "Two dials or one",
            (
                "Cell",
                "cosine of both directions",
                "variance explained by c = a + b - ab",
                "mean over all items / over popular items",
            ),
            [[row["cell"], row["cosine"], row["explained"], row["cancels"]] for row in angles],
            (
                "If both directions were one vector, only c would matter for item strength a and user strength b. The "
                "last column is the length of the mean accumulated gradient over all items, as Algorithm 1 has it, "
                "against that over popular items: every triple adds a vector to one item and takes it from another, "
                "so it cancels.",
            ),
        ),
    )
    return Item(
        "directions",
        "What produces the gain",
        (
            "Our own experiments about the method: whether the accumulated gradients are needed, and whether both "
            "strengths are."
        ),
        tables,
        (),
        tuple(_claims(there, angles)),
        (*rows, *angles),
        reasons(cells),
    )


def _spread(cell: Cell, n: int, metric: str = "recall") -> Spread:
    found = [record["estimators"][n] for record in cell.estimated]
    key = cell.title  # the same seeds for every estimator: they share their vectors
    return over_seeds([one[metric] for one in found], [one["draws"][metric] for one in found], key)


def _row(cell: Cell, n: int) -> dict[str, Any]:
    found = [record["estimators"][n] for record in cell.estimated]
    cosines = np.mean([one["cosines"] for one in found], axis=0)
    return {
        "backbone": cell.backbone,
        "dataset": cell.dataset,
        "item": found[0]["item"],
        "user": found[0]["user"],
        "item_cosine": float(cosines[0]),
        "user_cosine": float(cosines[1]),
        "valid": float(np.mean([one["valid"] for one in found])),
        **{metric: _spread(cell, n, metric).to_json() for metric in METRICS},
    }


def _place(cell: Cell) -> int:
    """Where the estimators have mean vectors on both sides."""
    return [(one["item"], one["user"]) for one in cell.estimated[0]["estimators"]].index(("head-mean", "mean"))


def _cells_of(row: dict[str, Any]) -> list[Any]:
    place = f"{BACKBONE_TITLES[row['backbone']]} {TITLES[row['dataset']]}"
    return [place, *list(row.values())[2:]]


def _angle(cell: Cell) -> dict[str, Any]:
    explained = [explained_by_one_dial(record["grid"]) for record in cell.validated]
    known = [share for share in explained if share is not None]
    return {
        "cell": cell.place,
        "cosine": float(np.mean([record["both"] for record in cell.estimated])),
        "explained": float(np.mean(known)) if known else None,
        "cancels": float(np.mean([record["cancels"] for record in cell.estimated])),
    }


def _claims(cells: list[Cell], angles: list[dict[str, Any]]) -> list[Claim]:
    own = {cell.place: _spread(cell, 0) for cell in cells}
    effects = {
        cell.place: _spread(cell, _place(cell)).over(own[cell.place]) for cell in cells if own[cell.place].mean > 0
    }
    text = f"Mean vectors, which need no record of training, do as well as the ledger (recall within {CLOSE:.0%})."
    claims = [judge_similar(OWN, text, effects, CLOSE)]
    known = {row["cell"]: row["explained"] for row in angles if row["explained"] is not None}
    held = sum(share >= ONE_DIAL for share in known.values())
    shown = "; ".join(f"{case} {share:.1%}" for case, share in known.items())
    text = f"Both strengths are nearly one dial: c explains at least {ONE_DIAL:.0%} of the grid's variance."
    claims.append(
        Claim(OWN, text, judge_cases(held, len(known) - held, len(known)), f"{shown or 'No cell could be run'}.")
    )
    cancels = {row["cell"]: row["cancels"] for row in angles}
    held = sum(share < CANCELS for share in cancels.values())
    shown = "; ".join(f"{case} {share:.2g}" for case, share in cancels.items())
    text = (
        "The mean of the accumulated gradients over all items, which Algorithm 1 takes as popular direction, cancels "
        f"(its length is below {CANCELS:g} of that of the mean over popular items, which section IV-C1 names)."
    )
    verdict = judge_cases(held, len(cancels) - held, len(cancels))
    claims.append(Claim(OWN, text, verdict, f"{shown or 'No cell could be run'}."))
    return [*claims, _determined(cells)]


def _determined(cells: list[Cell]) -> Claim:
    """Whether vectors point where their accumulated gradients do, in the mean over each side."""
    effects = {}
    for cell in cells:
        for at, (side, *kinds) in enumerate((("items", "head-mean", "ledger"), ("users", "ledger", "mean"))):
            every = (one for record in cell.estimated for one in record["estimators"])
            found = [one["cosines"][at] for one in every if [one["item"], one["user"]] == kinds]
            if len(found) > 1:
                error = float(np.std(found, ddof=1) / np.sqrt(len(found)))
                one = normal(float(np.mean(found)) - PARALLEL, error, f"{cell.place}{side}")
                effects[f"{cell.place}, {side}"] = replace(one, seeds=len(found))
    text = (
        "Vectors are mainly determined by their accumulated gradients (we read: the mean vector of popular items, and "
        f"of users, has a cosine above {PARALLEL:g} with the mean of what popular items, or active users, accumulated; "
        "shown: beyond that)."
    )
    return judge("I, III", text, effects, unit="", of=2 * len(BACKBONES) * len(DATASETS))
