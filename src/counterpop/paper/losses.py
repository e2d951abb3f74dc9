"""BPR against BCE, with plain training and with the gradient method."""

from __future__ import annotations

import itertools
from typing import Any

import counterpop as cp
from counterpop.paper.accuracy_claims import lead
from counterpop.paper.cells import Cell
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import METRIC_TITLES, title_of
from counterpop.paper.published import METRICS, OURS, PLAIN
from counterpop.paper.results import Figure, Item, Table, judge
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread

LOSS_DATASETS = ("ml10m", "netflix")
LOSS_METHODS = (PLAIN, OURS)
LOSSES = ("bpr", "bce")  # those of the paper


def make_losses(bench: Bench) -> Item:
    """MF with either loss at the methods' default settings."""
    cells: dict[tuple[str, str, str], Cell] = {}
    missing: dict[str, None] = {}
    for dataset, loss, method in itertools.product(LOSS_DATASETS, LOSSES, LOSS_METHODS):
        try:
            bench.plan.check("mf", method)
            given = bench.plan.settings("mf", method, loss=loss)
            records = tuple(bench.tested(dataset, given | {"seed": seed}) for seed in bench.plan.all_seeds)
            cells[dataset, loss, method] = Cell(dataset, "mf", method, loss.upper(), records)
        except cp.InputError as error:
            missing[f"{TITLES[dataset]}, {loss}, {title_of(method)}: {error}."] = None
            cells[dataset, loss, method] = Cell(dataset, "mf", method, loss.upper(), missing=str(error))
    rows: list[dict[str, Any]] = [
        {"dataset": dataset, "loss": loss, "method": method, **{m: cell.figure(m) for m in METRICS}}
        for (dataset, loss, method), cell in cells.items()
    ]
    table = Table(
        "MF, test",
        ("Data set", "Loss", "Method", *(METRIC_TITLES[m] for m in METRICS)),
        [[TITLES[r["dataset"]], r["loss"].upper(), title_of(r["method"]), *(r[m] for m in METRICS)] for r in rows],
        (
            "The paper shows this as a figure without numbers, so there is no published column. Default settings: only "
            "epochs and strengths are chosen here.",
        ),
    )
    places = {f"{TITLES[dataset]} {loss.upper()}": (dataset, loss) for dataset in LOSS_DATASETS for loss in LOSSES}
    effects: dict[str, Spread] = {}
    series = []
    for method in LOSS_METHODS:
        y = [(cells[(*place, method)].figure("recall") or {}).get("mean") for place in places.values()]
        series.append({"name": title_of(method), "x": list(places), "y": y})
    for (title, place), metric in itertools.product(places.items(), METRICS):
        found = lead(cells[(*place, OURS)], cells[(*place, PLAIN)], metric)
        effects |= {f"{title} {METRIC_TITLES[metric]}": found} if found else {}
    return Item(
        "losses",
        "BPR against BCE",
        "MF trained with either loss, plain and with the gradient method.",
        (table,),
        (Figure("Recall@20 by loss, MF", "bars", "", "Recall@20", series),),
        (
            judge(
                "V-C1, RQ1(b)",
                "The method is better than plain MF under both losses, in all three metrics.",
                effects,
                of=len(places) * len(METRICS),
            ),
        ),
        tuple(row for row in rows if row["recall"]),
        tuple(missing),
    )
