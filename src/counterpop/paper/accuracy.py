"""Table III: recall, hit rate and NDCG of every method, on both bases, with paired comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counterpop.paper import published
from counterpop.paper.accuracy_claims import judge_claims
from counterpop.paper.cells import Cell, reasons, run_cell, searched_table
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, METRIC_TITLES, title_of
from counterpop.paper.published import BACKBONES, DATASETS, METHODS, METRICS, OURS, OVER_ALL_USERS
from counterpop.paper.results import Figure, Item, Table
from counterpop.paper.runs import Bench
from counterpop.uncertainty import RESAMPLES, Spread, correct, stars

ABOVE = "†"  # marks a row that is above the paper's method

BASES = (
    "Averages are over the users who have a test item. DICE's published figures on ML-10M and Netflix, which the "
    "paper quotes, are averages over all users, where one without a test item counts 0: the table “Over all users” has "
    "ours in that way. There the paper ran MACR and its own method itself and does not say how it averages."
)
MARKS = (
    f"In brackets: 95 % intervals from {RESAMPLES:,} draws of test users and seeds together. Stars: the gradient "
    "method is above this row in a paired comparison over users, p < .05, .01, .001 after Holm's correction over all "
    f"comparisons of the table; {ABOVE} in place of a star: it is below this row."
)
DRAWN = (
    "CausE on Adressa and Gowalla: our choice. The paper prints figures without saying which pairs took the place of "
    "the intervened part. We mark a tenth of train, drawn from each user's pairs with weights 1/popularity as DICE "
    "draws its parts."
)
BEYOND: dict[
    tuple[str, str], dict[str, Any]
] = {  # the paper has uniform negatives; this cell is the hardest, and validation prefers another law there
    ("lightgcn", "adressa"): {"dim": 256, "negative_power": 0.25}
}


def make_table3(bench: Bench) -> Item:
    """Every method on every data set with both backbones, next to the published cell."""
    cells = [
        run_cell(bench, dataset, backbone, method)
        for backbone in BACKBONES
        for dataset in DATASETS
        for method in METHODS
    ]
    compared = {key: value for backbone in BACKBONES for key, value in compare_rows(cells, backbone).items()}
    rows = [_row(cell, compared) for cell in cells if cell.records]
    tables = [_table(backbone, cells, compared) for backbone in BACKBONES]
    return Item(
        "table3",
        "Table III: accuracy",
        "Recall, hit rate and NDCG at 20 on test, with the published figure next to ours. Settings, epochs and "
        "strengths are chosen on validation.",
        (*tables, _all_users(cells), _beyond(bench, cells), settings_table(cells), searched_table(cells)),
        tuple(_bars(backbone, cells) for backbone in BACKBONES),
        tuple(judge_claims(bench, cells)),
        tuple(rows),
        reasons(cells),
    )


def compare_rows(cells: Sequence[Cell], backbone: str, variant: str = "") -> dict[tuple[str, str], dict[str, Any]]:
    """The paper's method, or this variant of it, less every other row, paired over users, by (cell's title, metric).

    p-values are corrected for all comparisons of one backbone's table.
    """
    there = [cell for cell in cells if cell.backbone == backbone and cell.records]
    ours = {cell.dataset: cell for cell in there if cell.method == OURS and cell.variant == variant}
    found: dict[tuple[str, str], Spread] = {}
    for cell in there:
        if cell.dataset in ours and cell is not ours[cell.dataset]:
            for metric in METRICS:
                first, second = ours[cell.dataset].spread(metric), cell.spread(metric)
                assert first is not None and second is not None
                found[cell.title, metric] = first.minus(second)
    corrected = correct([one.p_value for one in found.values()])
    return {
        key: {"difference": one.mean, "low": one.low, "high": one.high, "p_value": one.p_value, "corrected": p}
        for (key, one), p in zip(found.items(), corrected, strict=True)
    }


def _row(cell: Cell, compared: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    own = {metric: compared[cell.title, metric] for metric in METRICS if (cell.title, metric) in compared}
    every = {m: spread.times(cell.share_with_test).to_json() for m in METRICS if (spread := cell.spread(m))}
    return cell.row() | {
        "published": published.table3(cell.backbone, cell.dataset, cell.method),
        "over_all_users": every,
        "gradient_less_this": own or None,
        "chosen": cell.chosen(),
    }


def marked(cell: Cell, metric: str, compared: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any] | None:
    """A figure with the stars of its comparison."""
    figure, found = cell.figure(metric), compared.get((cell.title, metric))
    if figure is None or found is None:
        return figure
    mark = stars(found["corrected"])
    return figure | {"mark": mark if found["difference"] > 0 else ABOVE * len(mark)}


def _table(backbone: str, cells: list[Cell], compared: dict[tuple[str, str], dict[str, Any]]) -> Table:
    rows = []
    for cell in (cell for cell in cells if cell.backbone == backbone):
        printed = published.table3(backbone, cell.dataset, cell.method)
        figures = [v for m in METRICS for v in (marked(cell, m, compared), f"{printed[m]:.3f}")]
        rows.append([TITLES[cell.dataset], cell.row_title, *figures])
    columns = [title for metric in METRICS for title in (METRIC_TITLES[metric], "published")]
    return Table(BACKBONE_TITLES[backbone], ("Data set", "Method", *columns), rows, (MARKS, BASES, DRAWN))


def _all_users(cells: list[Cell]) -> Table:
    """The figures as DICE averages them, where the published ones are DICE's."""
    rows = []
    for cell in (cell for cell in cells if cell.dataset in OVER_ALL_USERS):
        printed, share = published.table3(cell.backbone, cell.dataset, cell.method), cell.share_with_test
        figures: list[Any] = []
        for metric in METRICS:
            spread = cell.spread(metric)
            figures += [spread and spread.times(share).to_json(), f"{printed[metric]:.3f}"]
        rows.append([BACKBONE_TITLES[cell.backbone], TITLES[cell.dataset], cell.row_title, *figures])
    columns = [title for metric in METRICS for title in (METRIC_TITLES[metric], "published")]
    note = "Ours times the share of users who have a test item, which makes it an average over all users."
    return Table("Over all users, as in DICE", ("Backbone", "Data set", "Method", *columns), rows, (note,))


def _beyond(bench: Bench, cells: list[Cell]) -> Table:
    """The paper's method with other negatives and width, next to its row with the paper's."""
    rows = []
    for (backbone, dataset), more in BEYOND.items():
        variant = f"D {more['dim']}, negatives by popularity ** {more['negative_power']}"
        other = run_cell(bench, dataset, backbone, OURS, variant, **({} if bench.plan.quick else more))
        paper = next(one for one in cells if (one.backbone, one.dataset, one.method) == (backbone, dataset, OURS))
        for cell in (paper, other):
            rows.append([cell.place, cell.row_title, *(cell.figure(metric) for metric in METRICS)])
    note = (
        "The first row is the paper's setting, uniform negatives, and the one in the tables above; the second is not."
    )
    return Table("Beyond the paper's setting", ("Cell", "Method", *METRIC_TITLES.values()), rows, (note,))


def settings_table(cells: list[Cell]) -> Table:
    """The settings of the backbones: those the paper takes over from DICE and MACR, and ours."""
    columns = ("Source", "D", "Optimiser", "Batch", "L2", "Positives", "Negatives")
    rows: list[list[Any]] = [[name, *settings.values()] for name, settings in published.SETTINGS.items()]
    for backbone in BACKBONES:
        own = [cell.chosen()["settings"] for cell in cells if cell.backbone == backbone and cell.records]
        if own:
            one = own[0]
            steps = "SGD, a step for each triple" if one["engine"] == "native" and backbone == "mf" else "Adam"
            rates = ", ".join(f"{value:g}" for value in sorted({settings["lr"] for settings in own}))
            batch = "1" if steps.startswith("SGD") else f"{one['batch']:,}"
            reg = ", ".join(f"{value:g}" for value in sorted({settings["reg"] for settings in own}))
            optimiser = f"{steps}, {one['schedule']} from {rates}"
            drawn = {"users": "users, then one of their items"}.get(one["sampling"], one["sampling"])
            row = [BACKBONE_TITLES[backbone], one["dim"], optimiser, batch, reg, drawn]
            numbers = ", ".join(str(number) for number in sorted({settings["negatives"] for settings in own}))
            rows.append([*row, f"{numbers}, uniform (DICE: by popularity)"])
    note = (
        "The paper takes the backbones' settings from DICE and MACR. Ours are the same for all methods of a backbone, "
        "except for what the search chose (below)."
    )
    return Table("Settings of the backbones", columns, rows, (note,))


def _bars(backbone: str, cells: list[Cell]) -> Figure:
    titles = [TITLES[name] for name in DATASETS]
    series = []
    for method in METHODS:
        own = {
            cell.dataset: cell.figure("recall") for cell in cells if (cell.backbone, cell.method) == (backbone, method)
        }
        if any(own.values()):
            y = [figure and figure["mean"] for figure in map(own.get, DATASETS)]
            series.append({"name": title_of(method), "x": titles, "y": y})
    theirs = [published.table3(backbone, name, OURS)["recall"] for name in DATASETS]
    series.append({"name": f"{title_of(OURS)}, published", "x": titles, "y": theirs})
    return Figure(f"Recall@20, {BACKBONE_TITLES[backbone]}", "bars", "", "Recall@20", series)
