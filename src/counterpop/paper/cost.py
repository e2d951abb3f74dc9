"""Table IV: seconds per epoch."""

from __future__ import annotations

import itertools
from typing import Any

import counterpop as cp
from counterpop.paper import published
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, TIMED_EPOCHS, title_of
from counterpop.paper.published import BACKBONES, OURS, PLAIN, TIMED
from counterpop.paper.results import Claim, Item, Table, judge_orders
from counterpop.paper.runs import Bench

DATASETS = ("ml10m", "netflix")
CHEAP = 1.10  # times plain training; the largest ratio that the paper reports for its own method is 1.09


def make_table4(bench: Bench) -> Item:
    """Seconds per epoch and their ratio to plain training, next to the published ones."""
    missing: dict[str, list[str]] = {}
    machines: dict[str, None] = {}
    rows = [
        _row(bench, place, missing, machines) for place in itertools.product(BACKBONES, range(len(DATASETS)), TIMED)
    ]
    plain = {(r["backbone"], r["dataset"]): r["seconds"] for r in rows if r["method"] == PLAIN}
    for row in rows:
        base = plain[row["backbone"], row["dataset"]]
        if row["seconds"] is not None and base:
            row["ratio"] = row["seconds"] / base
    table = Table(
        "Seconds per epoch, here and on the paper's V100",
        ("Backbone", "Data set", "Method", "Seconds", "times plain", "V100 seconds", "V100 times plain"),
        [
            [BACKBONE_TITLES[r["backbone"]], TITLES[r["dataset"]], title_of(r["method"]), *list(r.values())[3:]]
            for r in rows
        ],
        (
            f"Timed: {'; '.join(machines) or 'nothing'}. The best of {TIMED_EPOCHS['mf'] - 1} epochs of MF or "
            f"{TIMED_EPOCHS['lightgcn'] - 1} of LightGCN after a warm-up epoch, with the default settings and without "
            "the time spent measuring validation. Differences of a few hundredths are noise if other programs share "
            "the machine.",
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


def _row(
    bench: Bench, place: tuple[str, int, str], missing: dict[str, list[str]], machines: dict[str, None]
) -> dict[str, Any]:
    """A row of the table; adds to `missing` if it could not be timed, otherwise to `machines`."""
    backbone, n, method = place
    theirs = published.SECONDS[backbone, method][n]
    row = {
        "backbone": backbone,
        "dataset": DATASETS[n],
        "method": method,
        "seconds": None,
        "ratio": None,
        "published_seconds": theirs,
        "published_ratio": theirs / published.SECONDS[backbone, PLAIN][n],
    }
    try:
        bench.plan.check(backbone, method)
        timed = bench.timed(DATASETS[n], bench.plan.settings(backbone, method))
    except cp.InputError as error:
        title = f"{BACKBONE_TITLES[backbone]} {title_of(method)}, {TITLES[DATASETS[n]]}"
        missing.setdefault(str(error), []).append(title)
        return row
    on = timed["machine"]
    names = f"{', '.join(on['processors'])} ({on['cores']} cores)"
    machines[f"{BACKBONE_TITLES[backbone]} with {timed['settings']['device']} on {names}"] = None
    return row | {"seconds": min(timed["epochs"])}


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    ratio = {(r["method"], r["backbone"], r["dataset"]): r["ratio"] for r in rows if r["ratio"] is not None}
    own = {place[1:]: value for place, value in ratio.items() if place[0] == OURS}
    cheap = sum(value <= CHEAP for value in own.values())
    shown = ", ".join(f"{value:.2f}" for value in own.values())
    claims = [
        Claim(
            f"The gradient method costs barely more than plain training (at most {CHEAP:.2f} times here).",
            judge_orders(cheap, len(own)),
            f"Ratios to plain: {shown}." if own else "It could not be timed.",
        )
    ]
    for method in (method for method in TIMED if method not in (PLAIN, OURS)):
        pairs = [(ratio[method, *place], own[place]) for place in own if (method, *place) in ratio]
        dearer = sum(theirs > ours for theirs, ours in pairs)
        shown = ", ".join(f"{theirs:.2f} against {ours:.2f}" for theirs, ours in pairs)
        claims.append(
            Claim(
                f"{title_of(method)} costs more than the gradient method.",
                judge_orders(dearer, len(pairs)),
                f"Ratios to plain: {shown}." if pairs else "It could not be timed.",
            )
        )
    return claims
