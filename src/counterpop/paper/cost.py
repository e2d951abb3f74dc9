"""Table IV: seconds of an epoch."""

from __future__ import annotations

from typing import Any

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, BACKBONES, METHOD_TITLES, TIMED_EPOCHS
from counterpop.paper.results import Claim, Item, Table, judge_orders
from counterpop.paper.runs import Bench

METHODS = ("plain", "dice", "macr", "gradient")
DATASETS = ("ml10m", "netflix")
CHEAP = 1.10  # times plain training: the most the paper has for its own method is 1.09


def make_table4(bench: Bench) -> Item:
    """Seconds of an epoch and their ratio to plain training, beside the published ones."""
    rows: list[dict[str, Any]] = []
    missing: dict[str, list[str]] = {}
    machines: dict[str, None] = {}
    for backbone in BACKBONES:
        for n, dataset in enumerate(DATASETS):
            for method in METHODS:
                theirs = published.SECONDS[backbone, method][n]
                row = {
                    "backbone": backbone,
                    "dataset": dataset,
                    "method": method,
                    "seconds": None,
                    "ratio": None,
                    "published_seconds": theirs,
                    "published_ratio": theirs / published.SECONDS[backbone, "plain"][n],
                }
                rows.append(row)
                try:
                    bench.plan.check(backbone, method)
                    timed = bench.timed(dataset, bench.plan.settings(backbone, method))
                    row["seconds"] = min(timed["epochs"])
                    on = timed["machine"]
                    names = f"{', '.join(on['processors'])} ({on['cores']} cores)"
                    device = timed["settings"]["device"]
                    machines[f"{BACKBONE_TITLES[backbone]} with {device} on {names}"] = None
                except cp.InputError as error:
                    title = f"{BACKBONE_TITLES[backbone]} {METHOD_TITLES[method]}, {TITLES[dataset]}"
                    missing.setdefault(str(error), []).append(title)
    plain = {(r["backbone"], r["dataset"]): r["seconds"] for r in rows if r["method"] == "plain"}
    for row in rows:
        base = plain[row["backbone"], row["dataset"]]
        if row["seconds"] is not None and base:
            row["ratio"] = row["seconds"] / base
    table = Table(
        "Seconds of an epoch, and on the paper's V100",
        ("Backbone", "Data set", "Method", "Seconds", "times plain", "V100 seconds", "V100 times plain"),
        [
            [BACKBONE_TITLES[r["backbone"]], TITLES[r["dataset"]], METHOD_TITLES[r["method"]], *list(r.values())[3:]]
            for r in rows
        ],
        (
            f"Timed: {'; '.join(machines) or 'nothing'}. The best of {TIMED_EPOCHS['mf'] - 1} epochs of MF or "
            f"{TIMED_EPOCHS['lightgcn'] - 1} of LightGCN after a first one, at the defaults, looks at "
            "validation not counted. Ratios of a few hundredths are noise where other programs share the "
            "machine.",
        ),
    )
    return Item(
        "table4",
        "Table IV: cost of training",
        "What a method adds to the time of an epoch.",
        (table,),
        (),
        tuple(_claims(rows)),
        tuple(r for r in rows if r["seconds"] is not None),
        tuple(f"{'; '.join(titles)}: {why}." for why, titles in missing.items()),
    )


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    ratio = {(r["method"], r["backbone"], r["dataset"]): r["ratio"] for r in rows if r["ratio"] is not None}
    own = {place[1:]: value for place, value in ratio.items() if place[0] == "gradient"}
    cheap = sum(value <= CHEAP for value in own.values())
    shown = ", ".join(f"{value:.2f}" for value in own.values())
    claims = [
        Claim(
            f"The gradient method costs hardly more than plain training (at most {CHEAP:.2f} times here).",
            judge_orders(cheap, len(own)),
            f"Ratios to plain: {shown}." if own else "It could not be timed.",
        )
    ]
    for method in ("dice", "macr"):
        pairs = [(ratio[method, *place], own[place]) for place in own if (method, *place) in ratio]
        dearer = sum(theirs > ours for theirs, ours in pairs)
        shown = ", ".join(f"{theirs:.2f} against {ours:.2f}" for theirs, ours in pairs)
        claims.append(
            Claim(
                f"{METHOD_TITLES[method]} costs more than the gradient method.",
                judge_orders(dearer, len(pairs)),
                f"Ratios to plain: {shown}." if pairs else "It could not be timed.",
            )
        )
    return claims
