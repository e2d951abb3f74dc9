"""Table III and the comparison of losses: recall, hit rate and NDCG of every method."""

from __future__ import annotations

from typing import Any

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.cells import Cell, reasons, run_cell, searched_table
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, BACKBONES, LOSSES, METHOD_TITLES, METHODS
from counterpop.paper.published import DATASETS, METRICS
from counterpop.paper.results import Claim, Figure, Item, Table, but, compare_pairs, judge_orders, summarise
from counterpop.paper.runs import Bench

METRIC_TITLES = {"recall": "Recall", "hit_rate": "HR", "ndcg": "NDCG"}
LOSS_DATASETS = ("ml10m", "netflix")


def make_table3(bench: Bench) -> Item:
    """Every method on every data set with both backbones, beside the published cell."""
    cells = [
        run_cell(bench, dataset, backbone, method)
        for backbone in BACKBONES
        for dataset in DATASETS
        for method in METHODS
    ]
    rows = []
    for cell in cells:
        if cell.records:
            beside = published.table3(cell.backbone, cell.dataset, cell.method)
            rows.append(cell.row() | {"published": beside, "chosen": cell.chosen()})
    tables = [_table(backbone, cells) for backbone in BACKBONES]
    return Item(
        "table3",
        "Table III: accuracy",
        "Recall, hit rate and NDCG at 20 on test, the published figure beside ours. Settings, epochs and "
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
        beside = published.table3(backbone, cell.dataset, cell.method)
        figures = [value for metric in METRICS for value in (cell.figure(metric), f"{beside[metric]:.3f}")]
        rows.append([TITLES[cell.dataset], METHOD_TITLES[cell.method], *figures])
    columns = [title for metric in METRICS for title in (METRIC_TITLES[metric], "published")]
    note = "In brackets 95 % intervals: over seeds where there are several, else over the users of the one run."
    return Table(BACKBONE_TITLES[backbone], ("Data set", "Method", *columns), rows, (note,))


def _bars(backbone: str, cells: list[Cell]) -> Figure:
    titles = [TITLES[name] for name in DATASETS]
    series = []
    for method in METHODS:
        means = {cell.dataset: cell.mean() for cell in cells if (cell.backbone, cell.method) == (backbone, method)}
        if any(mean is not None for mean in means.values()):
            y = [means[name] for name in DATASETS]
            series.append({"name": METHOD_TITLES[method], "x": titles, "y": y})
    theirs = [published.table3(backbone, name, "gradient")["recall"] for name in DATASETS]
    series.append({"name": "gradient, published", "x": titles, "y": theirs})
    return Figure(f"Recall@20, {BACKBONE_TITLES[backbone]}", "bars", "", "Recall@20", series)


def _claims(cells: list[Cell]) -> list[Claim]:
    by_place = {(cell.backbone, cell.dataset, cell.method): cell for cell in cells}
    claims = []
    for other in METHODS[:-1]:
        ours, theirs = {}, {}
        for (backbone, dataset, method), cell in by_place.items():
            full = by_place[backbone, dataset, "gradient"]
            if method == other and cell.records and full.records:
                case = f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]}"
                ours[case] = (full.mean() or 0.0, cell.mean() or 0.0)
                beside = [published.table3(backbone, dataset, m)["recall"] for m in ("gradient", other)]
                theirs[case] = (beside[0], beside[1])
        text = f"The gradient method has a higher recall than {METHOD_TITLES[other]} on every data set."
        claims.append(compare_pairs(text, ours, theirs))
    own = _against_published([cell for cell in cells if cell.method == "gradient"], METRICS)
    others = _against_published([cell for cell in cells if cell.method != "gradient"], ("recall",))
    aims = (
        ("Our own aim: every figure of the gradient method is at or above the published one.", own, 24),
        (
            "Our own check: the other methods do as well here as published, or a lead over them means little.",
            others,
            40,
        ),
    )
    for text, reached, total in aims:
        below = [case for case, held in reached.items() if not held]
        number = f"{len(reached) - len(below)} of the {len(reached)} figures that could be made are at or above"
        verdict = judge_orders(len(reached) - len(below), len(reached))
        claims.append(Claim(text, verdict, f"{number} the published ones, of {total}.{but('Below', below)}"))
    return claims


def _against_published(cells: list[Cell], metrics: tuple[str, ...]) -> dict[str, bool]:
    """Whether each figure that could be made reaches the published one."""
    reached = {}
    for cell in cells:
        beside = published.table3(cell.backbone, cell.dataset, cell.method)
        for metric in metrics:
            mean = cell.mean(metric)
            if mean is not None:
                case = f"{cell.title} {METRIC_TITLES[metric]} ({mean:.4f} against {beside[metric]:.3f})"
                reached[case] = mean >= beside[metric]
    return reached


def make_losses(bench: Bench) -> Item:
    """BPR against BCE, with the plain model and with the gradient method."""
    rows: list[dict[str, Any]] = []
    missing: dict[str, None] = {}
    for dataset in LOSS_DATASETS:
        for loss in LOSSES:
            for method in ("plain", "gradient"):
                row: dict[str, Any] = {"dataset": dataset, "loss": loss, "method": method}
                try:
                    bench.plan.check("mf", method)
                    given = bench.plan.settings("mf", method, loss=loss)
                    seeds = bench.plan.seeds_of(method)
                    records = [bench.tested(dataset, given | {"seed": seed}) for seed in seeds]
                    for metric in METRICS:
                        single = records[0]["adjusted"]["intervals"].get(metric)
                        row[metric] = summarise([r["adjusted"][metric] for r in records], single)
                except cp.InputError as error:
                    missing[f"{TITLES[dataset]}, {loss}, {method}: {error}."] = None
                rows.append(row)
    made = [row for row in rows if "recall" in row]
    table = Table(
        "MF, test",
        ("Data set", "Loss", "Method", *(METRIC_TITLES[m] for m in METRICS)),
        [[TITLES[r["dataset"]], r["loss"].upper(), r["method"], *(r.get(m) for m in METRICS)] for r in rows],
        ("Published as a figure without numbers, so there is no column beside ours.",),
    )
    places = [f"{TITLES[d]} {loss.upper()}" for d in LOSS_DATASETS for loss in LOSSES]
    series = [
        {
            "name": method,
            "x": places,
            "y": [r["recall"]["mean"] if "recall" in r else None for r in rows if r["method"] == method],
        }
        for method in ("plain", "gradient")
    ]
    mean = {(r["dataset"], r["loss"], r["method"]): r["recall"]["mean"] for r in made}
    pairs = {
        f"{TITLES[dataset]} {loss.upper()}": (mean[dataset, loss, "gradient"], mean[dataset, loss, "plain"])
        for dataset in LOSS_DATASETS
        for loss in LOSSES
        if (dataset, loss, "gradient") in mean and (dataset, loss, "plain") in mean
    }
    return Item(
        "losses",
        "BPR against BCE",
        "MF trained with either loss, plain and with the gradient method.",
        (table,),
        (Figure("Recall@20 by loss, MF", "bars", "", "Recall@20", series),),
        (compare_pairs("The gradient method helps under both losses.", pairs, {}),),
        tuple(made),
        tuple(missing),
    )
