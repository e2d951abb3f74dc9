"""Table V: the method without normalisation, and with one side off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counterpop.paper import published
from counterpop.paper.cells import Cell, reasons, run_cell, searched_table
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, METRIC_TITLES
from counterpop.paper.published import ABLATED, BACKBONES, METRICS, OURS, VARIANTS
from counterpop.paper.results import Claim, Item, Table, judge
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread

SECTION = "V-C3, RQ2"
KINDS = dict(zip(VARIANTS, ("adjusted", "adjusted", "user off", "item off"), strict=True))
CASES = len(ABLATED) * len(BACKBONES) * len(METRICS)
Spreads = dict[tuple[str, str, str, str], Spread | None]


def without_normalisation(bench: Bench, whole: Cell) -> Cell:
    """The same without normalised users, its settings searched for itself."""
    return run_cell(bench, whole.dataset, whole.backbone, OURS, "no normalisation", normalised=False)


def make_table5(bench: Bench) -> Item:
    """What is lost without each part of the method; each variant is chosen on validation for itself."""
    cells, bare_cells = [], []
    spreads: Spreads = {}
    for dataset in ABLATED:
        for backbone in BACKBONES:
            full = run_cell(bench, dataset, backbone, OURS)
            bare = without_normalisation(bench, full)
            cells.append(full)
            bare_cells.append(bare)
            for variant, kind in KINDS.items():
                cell = bare if variant == VARIANTS[1] else full
                spreads |= {(dataset, backbone, variant, m): cell.spread(m, kind) for m in METRICS}
    rows: list[dict[str, Any]] = []
    for dataset in ABLATED:
        for backbone in BACKBONES:
            for variant in VARIANTS:
                found = {m: spreads[dataset, backbone, variant, m] for m in METRICS}
                figures = {m: spread and spread.to_json() for m, spread in found.items()}
                printed = published.table5(backbone, dataset, variant)
                rows.append(
                    {"dataset": dataset, "backbone": backbone, "variant": variant, **figures, "published": printed}
                )
    table = Table(
        "Test figures of the whole method and of its parts",
        ("Data set", "Backbone", "Variant", *(t for m in METRICS for t in (METRIC_TITLES[m], "published"))),
        [
            [
                *(TITLES[r["dataset"]], BACKBONE_TITLES[r["backbone"]], r["variant"]),
                *(value for m in METRICS for value in (r[m], f"{r['published'][m]:.3f}")),
            ]
            for r in rows
        ],
        (
            "With a side off, its strength is 0 and the other strength is chosen on validation for that case. The "
            "paper does not say whether it chose the other one again. Its text says that alpha 1 = 0 drops the user "
            "term and alpha 2 = 0 the item term.",
        ),
    )
    return Item(
        "table5",
        "Table V: ablation",
        "What is lost without normalised users, without the user side and without the item side.",
        (table, replace(searched_table(bare_cells), title="Searched and chosen without normalisation")),
        (),
        tuple(_claims(spreads)),
        tuple(r for r in rows if r["recall"] is not None),
        reasons(cells),
    )


def _claims(spreads: Spreads) -> list[Claim]:
    def lost(variant: str, less: str) -> tuple[dict[str, Spread], dict[str, float]]:
        ours, theirs = {}, {}
        for dataset in ABLATED:
            for backbone in BACKBONES:
                printed = [published.table5(backbone, dataset, one) for one in (variant, less)]
                for metric in METRICS:
                    a, b = (spreads[dataset, backbone, one, metric] for one in (variant, less))
                    if a and b and b.mean > 0:
                        case = f"{BACKBONE_TITLES[backbone]} {TITLES[dataset]} {METRIC_TITLES[metric]}"
                        ours[case] = a.over(b)
                        theirs[case] = printed[0][metric] / printed[1][metric] - 1
        return ours, theirs

    texts = ("Without normalised users", "Without the user side", "Without the item side")
    claims = [
        judge(SECTION, f"{text} every metric is lower.", *lost(VARIANTS[0], variant), of=CASES)
        for text, variant in zip(texts, VARIANTS[1:], strict=True)
    ]
    text = "Dropping the user side costs more than dropping the item side, in most cases."
    return [*claims, judge(SECTION, text, *lost("item side off", "user side off"), most=True, of=CASES)]
