"""Table III and the comparison of losses: recall, hit rate and NDCG of every method."""

from __future__ import annotations

import itertools
from typing import Any

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.cells import Cell, reasons, run_cell, searched_table
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, losses_of, title_of
from counterpop.paper.published import BACKBONES, DATASETS, METHODS, METRICS, OURS, PLAIN
from counterpop.paper.results import Claim, Figure, Item, Table, but, compare_pairs, judge_orders, summarise
from counterpop.paper.runs import Bench

METRIC_TITLES = {"recall": "Recall", "hit_rate": "HR", "ndcg": "NDCG"}
LOSS_DATASETS = ("ml10m", "netflix")
LOSS_METHODS = (PLAIN, OURS)


def make_table3(bench: Bench) -> Item:
    """Every method on every data set with both backbones, next to the published cell."""
    cells = [
        run_cell(bench, dataset, backbone, method)
        for backbone in BACKBONES
        for dataset in DATASETS
        for method in METHODS
    ]
    rows = []
    for cell in cells:
        if cell.records:
            printed = published.table3(cell.backbone, cell.dataset, cell.method)
            rows.append(cell.row() | {"published": printed, "chosen": cell.chosen()})
    tables = [_table(backbone, cells) for backbone in BACKBONES]
    return Item(
        "table3",
        "Table III: accuracy",
        "Recall, hit rate and NDCG at 20 on test, with the published figure next to ours. Settings, epochs and "
        "strengths are chosen on validation.",
        (*tables, searched_table(cells)),
        tuple(_bars(backbone, cells) for backbone in BACKBONES),
        tuple(_claims(cells)),
        tuple(rows),
        reasons(cells),
    )


def _table(backbone: str, cells: list[Cell]) -> Table:
    rows = []
    for cell in (cell for cell in cells if cell.backbone == backbone):
        printed = published.table3(backbone, cell.dataset, cell.method)
        figures = [value for metric in METRICS for value in (cell.figure(metric), f"{printed[metric]:.3f}")]
        rows.append([TITLES[cell.dataset], title_of(cell.method), *figures])
    columns = [title for metric in METRICS for title in (METRIC_TITLES[metric], "published")]
    note = "In brackets: 95 % intervals, over seeds if there are several, otherwise over the users of the one run."
    return Table(BACKBONE_TITLES[backbone], ("Data set", "Method", *columns), rows, (note,))


def _bars(backbone: str, cells: list[Cell]) -> Figure:
    titles = [TITLES[name] for name in DATASETS]
    series = []
    for method in METHODS:
        means = {cell.dataset: cell.mean() for cell in cells if (cell.backbone, cell.method) == (backbone, method)}
        if any(mean is not None for mean in means.values()):
            y = [means[name] for name in DATASETS]
            series.append({"name": title_of(method), "x": titles, "y": y})
    theirs = [published.table3(backbone, name, OURS)["recall"] for name in DATASETS]
    series.append({"name": f"{title_of(OURS)}, published", "x": titles, "y": theirs})
    return Figure(f"Recall@20, {BACKBONE_TITLES[backbone]}", "bars", "", "Recall@20", series)


def _claims(cells: list[Cell]) -> list[Claim]:
    by_place = {(cell.backbone, cell.dataset, cell.method): cell for cell in cells}
    claims = []
    for other in (method for method in METHODS if method != OURS):
        ours, theirs = {}, {}
        for (backbone, dataset, method), cell in by_place.items():
            full = by_place[backbone, dataset, OURS]
            if method == other and cell.records and full.records:
                case = f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]}"
                ours[case] = (full.mean() or 0.0, cell.mean() or 0.0)
                printed = [published.table3(backbone, dataset, m)["recall"] for m in (OURS, other)]
                theirs[case] = (printed[0], printed[1])
        text = f"The gradient method has a higher recall than {title_of(other)} on every data set."
        claims.append(compare_pairs(text, ours, theirs))
    own = _against_published([cell for cell in cells if cell.method == OURS], METRICS)
    others = _against_published([cell for cell in cells if cell.method != OURS], ("recall",))
    aims = (
        ("Our own aim: every figure of the gradient method is at or above the published one.", own, 24),
        (
            "Our own check: the other methods do as well here as published; otherwise a lead over them means little.",
            others,
            40,
        ),
    )
    for text, reached, total in aims:
        below = [case for case, held in reached.items() if not held]
        held = len(reached) - len(below)
        evidence = (
            f"{held} of the {len(reached)} figures we could make (of {total}) are at or above the published ones."
        )
        claims.append(Claim(text, judge_orders(held, len(reached)), evidence + but("Below", below)))
    return claims


def _against_published(cells: list[Cell], metrics: tuple[str, ...]) -> dict[str, bool]:
    """Whether each figure that we could make reaches the published one."""
    reached = {}
    for cell in cells:
        printed = published.table3(cell.backbone, cell.dataset, cell.method)
        for metric in metrics:
            mean = cell.mean(metric)
            if mean is not None:
                case = f"{cell.title} {METRIC_TITLES[metric]} ({mean:.4f} against {printed[metric]:.3f})"
                reached[case] = mean >= printed[metric]
    return reached


def make_losses(bench: Bench) -> Item:
    """BPR against BCE, with plain training and with the gradient method."""
    rows: list[dict[str, Any]] = []
    missing: dict[str, None] = {}
    losses = losses_of(cp.Plain)
    for dataset, loss, method in itertools.product(LOSS_DATASETS, losses, LOSS_METHODS):
        row: dict[str, Any] = {"dataset": dataset, "loss": loss, "method": method}
        try:
            bench.plan.check("mf", method)
            given = bench.plan.settings("mf", method, loss=loss)
            records = [bench.tested(dataset, given | {"seed": seed}) for seed in bench.plan.seeds_of(method)]
            for metric in METRICS:
                single = records[0]["adjusted"]["intervals"].get(metric)
                row[metric] = summarise([r["adjusted"][metric] for r in records], single)
        except cp.InputError as error:
            missing[f"{TITLES[dataset]}, {loss}, {title_of(method)}: {error}."] = None
        rows.append(row)
    table = Table(
        "MF, test",
        ("Data set", "Loss", "Method", *(METRIC_TITLES[m] for m in METRICS)),
        [[TITLES[r["dataset"]], r["loss"].upper(), title_of(r["method"]), *(r.get(m) for m in METRICS)] for r in rows],
        ("The paper shows this as a figure without numbers, so there is no published column.",),
    )
    mean = {(r["dataset"], r["loss"], r["method"]): r["recall"]["mean"] for r in rows if "recall" in r}
    places = {f"{TITLES[dataset]} {loss.upper()}": (dataset, loss) for dataset in LOSS_DATASETS for loss in losses}
    series = [
        {"name": title_of(method), "x": list(places), "y": [mean.get((*place, method)) for place in places.values()]}
        for method in LOSS_METHODS
    ]
    pairs = {
        title: (mean[(*place, OURS)], mean[(*place, PLAIN)])
        for title, place in places.items()
        if {(*place, OURS), (*place, PLAIN)} <= mean.keys()
    }
    return Item(
        "losses",
        "BPR against BCE",
        "MF trained with either loss, plain and with the gradient method.",
        (table,),
        (Figure("Recall@20 by loss, MF", "bars", "", "Recall@20", series),),
        (compare_pairs("The gradient method helps under both losses.", pairs, {}),),
        tuple(row for row in rows if "recall" in row),
        tuple(missing),
    )
