"""The frontier: everything known on these splits, with equal budgets, next to the best of ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.accuracy import ABOVE, compare_rows, marked
from counterpop.paper.accuracy_claims import lead
from counterpop.paper.cells import Cell, reasons, run_cell, searched_table
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, METRIC_TITLES, Candidates
from counterpop.paper.published import BACKBONES, DATASETS, METRICS, OURS, PLAIN
from counterpop.paper.results import OWN, Claim, Item, Table, judge
from counterpop.paper.runs import Bench
from counterpop.uncertainty import RESAMPLES

BY_POPULARITY = "negatives by popularity"  # as implicit draws them
SAME_CANDIDATES = "candidates of the best"
BEST, ENSEMBLE = "best of ours", "best of ours, all seeds as one"
# Most promising first, by what validation preferred before (experiments/ahead.md, experiments/softmax.md)
STEEP = {"loss": "softmax", "temperature": 0.1, "logq": -0.9}  # negatives steeper than by popularity
CANDIDATES: Mapping[str, Candidates] = {
    "mf": (
        {"loss": "bpr", "negative_power": 0.5, "dim": 256},
        STEEP | {"dim": 256, "epochs": 40, "check_every": 5},
        {"loss": "bpr", "negative_power": 0.5, "dim": 512},
        {"loss": "bce", "negative_power": 0.25, "dim": 256, "lr": 0.4},
        {"loss": "bpr", "negative_power": 0.25, "dim": 256},
        {"loss": "softmax", "dim": 256, "check_every": 5},
        {"loss": "bce", "negative_power": 0.5, "dim": 256},
        {"loss": "bpr", "negative_power": 0.75, "dim": 256},
    ),
    "lightgcn": (
        {"loss": "softmax", "batch": 8192, "epochs": 30},
        STEEP,
        {"loss": "bpr", "negative_power": 0.25, "dim": 256},
        {"loss": "bpr", "negative_power": 0.5, "dim": 256},
        {"loss": "bce", "negative_power": 0.25, "lr": 0.05},
        {"loss": "softmax", "logq": 0.5, "dim": 256},
        {"loss": "bce", "negative_power": 0.5},
        {"loss": "bpr", "negative_power": 0.75},
    ),
}
BUDGET = (
    "All rows have the same number of candidates and the same seeds, and validation chooses among them. Methods keep "
    f"the width of table III; “{BEST}” is the gradient method, whose candidates here differ in loss, negatives and "
    "width, up to four times as wide. That list was ordered by earlier validation results on these data. “plain, "
    f"{SAME_CANDIDATES}” is plain training with the same list: it shows what the list gives without the method."
)
MARKS = (
    f"In brackets: 95 % intervals from {RESAMPLES:,} draws of test users and seeds together. Stars: “{BEST}” is above "
    "this row in a paired comparison over users, p < .05, .01, .001 after Holm's correction over all comparisons of "
    f"the table; {ABOVE} in place of a star: it is below this row. An ensemble is one model, so its interval has the "
    "noise of users only."
)
PRICE = (
    "“Popularity” is the average number of train pairs of the recommended items. The test parts are even, so they "
    "reward lists of rare items. People who look for popular ones, as most do in traffic as it is, find less in such "
    "lists; what each row loses on ordinary pairs, which these splits do not have, is in experiments/paper/README.md."
)
PRINTED = (
    "Published figures are not ours. Those of SimGCL and PAAC on Gowalla are from PAAC's authors, on the same files, "
    "but they stopped training by the test part; the others are the paper's table III, where ML-10M and Netflix are "
    "averages over all users."
)


def make_frontier(bench: Bench, methods: Sequence[str] = ()) -> Item:
    """Every method on every data set with both backbones, the best of ours, and its ensemble of all seeds.

    Or only the rows of these methods.
    """
    places = itertools.product(BACKBONES, DATASETS)
    cells = [cell for backbone, dataset in places for cell in _cells_of(bench, dataset, backbone, methods)]
    compared = {key: value for backbone in BACKBONES for key, value in compare_rows(cells, backbone, BEST).items()}
    run = [backbone for backbone in BACKBONES if any(cell.records for cell in cells if cell.backbone == backbone)]
    return Item(
        "frontier",
        "Frontier: all that is known on these splits",
        "Recall, hit rate and NDCG at 20 on test. Settings, epochs and strengths are chosen on validation.",
        (*(_table(backbone, cells, compared) for backbone in run), searched_table(cells)),
        (),
        (_claim(cells),),
        tuple(_row(cell, compared) for cell in cells if cell.records),
        reasons(cells),
    )


def _cells_of(bench: Bench, dataset: str, backbone: str, methods: Sequence[str]) -> Iterator[Cell]:
    """The rows of one data set: plain ones first, then all other methods, the paper's, and the best of ours."""
    among, graph = CANDIDATES[backbone], cp.Settings(backbone=backbone).layers > 0
    others = [m.name for m in cp.METHODS if m.name not in (PLAIN, OURS) and (graph or not m.needs_graph)]
    for method in (name for name in (PLAIN, *others, OURS) if name in (methods or (name,))):
        yield run_cell(bench, dataset, backbone, method)
        if method == PLAIN:
            yield run_cell(bench, dataset, backbone, PLAIN, BY_POPULARITY, negative_power=1.0)
            yield run_cell(bench, dataset, backbone, PLAIN, SAME_CANDIDATES, among)
        elif method == OURS:
            ensemble = _ensemble(bench, dataset, backbone)  # first: it makes the results of each seed on its way
            yield run_cell(bench, dataset, backbone, OURS, BEST, among)
            yield ensemble


def _ensemble(bench: Bench, dataset: str, backbone: str) -> Cell:
    """The runs of all seeds as one model, tuned as one."""
    try:
        bench.plan.check(backbone, OURS)
        if bench.plan.seeds == 1:
            raise cp.InputError("an ensemble needs two seeds or more, such as --seeds 3")
        choice = bench.choose(dataset, backbone, OURS, CANDIDATES[backbone])
        record = bench.tested(dataset, choice.settings, list(bench.plan.all_seeds))
    except cp.InputError as error:
        return Cell(dataset, backbone, OURS, ENSEMBLE, missing=str(error))
    return Cell(dataset, backbone, OURS, ENSEMBLE, (record,))


def _known(cell: Cell) -> dict[str, float]:
    """Published figures; a variant has none."""
    return {} if cell.variant else published.known(cell.backbone, cell.dataset, cell.method)


def _table(backbone: str, cells: list[Cell], compared: dict[tuple[str, str], dict[str, Any]]) -> Table:
    rows = []
    for cell in (cell for cell in cells if cell.backbone == backbone and cell.records):
        printed = _known(cell)
        shown = [f"{printed[m]:<05}" if m in printed else "" for m in METRICS]  # with three or four digits, as printed
        figures = [v for m, text in zip(METRICS, shown, strict=True) for v in (marked(cell, m, compared), text)]
        rows.append([TITLES[cell.dataset], cell.row_title, *figures, f"{_popularity(cell):.0f}"])
    columns = [title for metric in METRICS for title in (METRIC_TITLES[metric], "published")]
    title = f"{BACKBONE_TITLES[backbone]}: all methods"
    return Table(title, ("Data set", "Method", *columns, "Popularity"), rows, (BUDGET, PRICE, MARKS, PRINTED))


def _popularity(cell: Cell) -> float:
    """How many train pairs the recommended items have, on average over the seeds."""
    return float(np.mean([record["adjusted"]["average_popularity"] for record in cell.records]))


def _row(cell: Cell, compared: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    own = {metric: compared[cell.title, metric] for metric in METRICS if (cell.title, metric) in compared}
    return cell.row() | {
        "variant": cell.variant,
        "average_popularity": _popularity(cell),
        "published": _known(cell) or None,
        "best_less_this": own or None,
        "chosen": cell.chosen(),
    }


def _claim(cells: list[Cell]) -> Claim:
    """Whether one model of ours is ahead of every rival; the paper's method and the ensemble are no rivals."""
    best = {cell.place: cell for cell in cells if cell.variant == BEST}
    rivals = [cell for cell in cells if cell.method != OURS]
    leads = {cell.title: lead(best[cell.place], cell, "recall") for cell in rivals if cell.place in best}
    text = "One model, the best of ours, has a higher recall than any other method, on every data set and backbone."
    return judge(OWN, text, {case: found for case, found in leads.items() if found}, of=len(rivals))
