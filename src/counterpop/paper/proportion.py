"""How the method does as test data go from observed to intervened, with strengths fixed or chosen for each mixture."""

from __future__ import annotations

from typing import Any

import counterpop as cp
from counterpop.paper.plan import ORDINARY, PROPORTIONS
from counterpop.paper.published import METRICS, OURS, PLAIN
from counterpop.paper.results import Claim, Figure, Item, Table, but, judge_orders, summarise
from counterpop.paper.runs import Bench

DATASET = "ml10m"
LINES = {
    "plain": "plain",
    "fixed": "gradient, strengths chosen at 100 % intervened",
    "chosen": "gradient, strengths chosen for each proportion",
}


def make_proportion(bench: Bench) -> Item:
    """MF, plain and with the gradient method, as the test part goes from observed to intervened."""
    lead = (
        "ML-10M split again, MF: test parts of the same size, for the same train part. A share of each is drawn as if "
        "all items had been shown equally often, the rest as observed. Validation is mixed in the same proportion."
    )
    title = "Proportion of intervened test data"
    try:
        bench.plan.check("mf", OURS)
        plain, gradient = (bench.choose(DATASET, "mf", method).settings for method in (PLAIN, OURS))
        records = [bench.mixed(DATASET, plain, gradient, seed) for seed in bench.plan.seeds_of()]
    except cp.InputError as error:
        return Item("proportion", title, lead, missing=(f"ML-10M, MF: {error}.",))
    rows: list[dict[str, Any]] = []
    for n, p in enumerate(PROPORTIONS):
        strengths = {
            "fixed": [record["fixed_strengths"] for record in records],
            "chosen": [record["chosen_strengths"][n] for record in records],
        }
        for line in LINES:
            figures = {m: summarise([record[line][n][m] for record in records]) for m in METRICS}
            rows.append({"proportion": p, "line": line, **figures, "strengths": strengths.get(line, [])})
    table = Table(
        "ML-10M, MF",
        ("Intervened", "Method", "Recall", "HR", "NDCG", "Strengths item / user"),
        [
            [
                f"{r['proportion']:.0%}",
                LINES[r["line"]],
                *(r[m] for m in METRICS),
                ", ".join(f"{a:g} / {b:g}" for a, b in r["strengths"]),
            ]
            for r in rows
        ],
        (
            f"{ORDINARY:.0%} of the observed part of train is held out for choosing strengths, so these figures "
            "differ from table3.",
        ),
    )
    series = [
        {
            "name": name,
            "x": [100 * p for p in PROPORTIONS],
            "y": [r["recall"]["mean"] for r in rows if r["line"] == line],
        }
        for line, name in LINES.items()
    ]
    figure = Figure(
        "Recall@20 by proportion, ML-10M, MF", "lines", "% of test drawn by intervention", "Recall@20", series
    )
    return Item("proportion", title, lead, (table,), (figure,), tuple(_claims(rows)), tuple(rows))


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    recall = {(r["proportion"], r["line"]): r["recall"]["mean"] for r in rows}
    claims = []
    for line, text in (
        ("fixed", "The gradient method is above plain at every proportion of intervened test data."),
        ("chosen", "With strengths chosen for each proportion it is never below plain."),
    ):
        below = [
            f"{p:.0%} ({recall[p, line]:.4f} against {recall[p, 'plain']:.4f})"
            for p in PROPORTIONS
            if recall[p, line] < recall[p, "plain"]
        ]
        held = len(PROPORTIONS) - len(below)
        claims.append(
            Claim(
                text,
                judge_orders(held, len(PROPORTIONS)),
                f"At or above in {held} of {len(PROPORTIONS)}.{but('Below at', below)}",
            )
        )
    return claims
