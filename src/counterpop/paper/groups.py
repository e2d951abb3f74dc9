"""Popularity groups: how often items of each are recommended, and how many of their test pairs are found."""

from __future__ import annotations

from dataclasses import replace

from counterpop.paper.ablation import without_normalisation
from counterpop.paper.cells import Cell, reasons, run_cell
from counterpop.paper.plan import BACKBONE_TITLES, title_of
from counterpop.paper.published import BACKBONES, OURS, PLAIN
from counterpop.paper.results import Claim, Figure, Item, Table, Verdict, but, judge, judge_similar, show
from counterpop.paper.runs import Bench
from counterpop.uncertainty import LEVELS, Spread, correct

GROUPS = ("0–5", "5–10", "10–15", "15–20", "20–100")  # per cent of the items, most popular first
FIGURES = {"frequency": "Share of recommendations", "recall": "Recall of the group"}
BARE = "no normalisation"
SIMILAR = {"frequency": 0.05, "recall": 0.02}  # in absolute terms
SECTION = "V-C4, RQ3(a)"
At = dict[tuple[str, str, int, str], Spread]  # by backbone, row, group and figure


def make_groups(bench: Bench) -> Item:
    """Plain training, and the method with and without normalised users, on ML-10M."""
    cells: list[Cell] = []
    figures, rows = [], []
    at: At = {}
    for backbone in BACKBONES:
        plain, whole = (run_cell(bench, "ml10m", backbone, method) for method in (PLAIN, OURS))
        shown = {PLAIN: plain, BARE: without_normalisation(bench, whole), OURS: whole}
        cells += [plain, whole]
        for row, cell in ((row, cell) for row, cell in shown.items() if cell.records):
            for group in range(len(GROUPS)):
                found = {what: cell.popularity(what, group) for what in FIGURES}
                at |= {(backbone, row, group, what): one for what, one in found.items() if one}
                rows.append(
                    {"dataset": "ml10m", "backbone": backbone, "method": cell.row_title, "group": GROUPS[group]}
                    | {"items": cell.records[0]["adjusted"]["groups"][group]["items"]}
                    | {what: one and one.to_json() for what, one in found.items()}
                )
        for what, y in FIGURES.items():
            series = [
                {
                    "name": cell.row_title,
                    "x": list(GROUPS),
                    "y": [_mean(at.get((backbone, row, g, what))) for g in range(5)],
                }
                for row, cell in shown.items()
                if cell.records
            ]
            if series:
                caption = f"{y}, ML-10M, {BACKBONE_TITLES[backbone]}"
                figures.append(Figure(caption, "bars", "% of items, most popular first", y, series))
    table = Table(
        "Popularity groups, ML-10M",
        ("Backbone", "Method", "Items (%, most popular first)", "Number", "Recommended", "Recall of the group"),
        [[BACKBONE_TITLES[r["backbone"]], *list(r.values())[2:]] for r in rows],
        (
            "Recall of a group: hits in it / its test pairs, over all users together. Intervals over users and seeds.",
            "Recommended: the group's share of all places. The paper does not define its average frequency; per item, "
            "divide by the number of items, which is nearly the same in groups 1 to 4.",
        ),
    )
    return Item(
        "groups",
        "Popularity groups",
        "Items by falling count: four groups of 5 % of the items each, then the rest.",
        (table,),
        tuple(figures),
        tuple(_claims(at)),
        tuple(rows),
        reasons(cells),
    )


def _mean(spread: Spread | None) -> float | None:
    return spread.mean if spread else None


def _claims(at: At) -> list[Claim]:
    """What the paper says of each group. Differences are between unpaired figures, so their intervals are wide."""

    def less(
        first: str, second: str, groups: tuple[int, ...], figures: tuple[str, ...] = tuple(FIGURES)
    ) -> dict[str, Spread]:
        found = {}
        for backbone in BACKBONES:
            for group in groups:
                for what in figures:
                    pair = [at.get((backbone, row, group, what)) for row in (first, second)]
                    if pair[0] and pair[1]:
                        found[f"{BACKBONE_TITLES[backbone]} group {group + 1} {what}"] = pair[0].minus(pair[1])
        return found

    falls = {}
    steps = [("frequency", 0, group) for group in (1, 2, 3)] + [("recall", group, group + 1) for group in range(4)]
    for backbone in BACKBONES:
        for what, high, low in steps:  # group 5 has sixteen times the items of the others, so no frequency
            pair = [at.get((backbone, PLAIN, group, what)) for group in (high, low)]
            if pair[0] and pair[1]:
                falls[f"{BACKBONE_TITLES[backbone]} {what}, group {high + 1} to {low + 1}"] = pair[0].minus(pair[1])

    def both(groups: tuple[int, ...], sign: float = 1.0) -> dict[str, Spread]:
        """The method less plain, with and without normalised users: the paper's text speaks of both."""
        bare = {f"{case}, {BARE}": one for case, one in less(BARE, PLAIN, groups).items()}
        return {case: one.times(sign) for case, one in (less(OURS, PLAIN, groups) | bare).items()}

    every = tuple(range(len(GROUPS)))
    rarer, better = less(BARE, OURS, every, ("frequency",)), less(OURS, BARE, every, ("recall",))
    name, cases = title_of(PLAIN), 2 * len(BACKBONES) * len(FIGURES)
    return [
        judge(
            SECTION,
            f"With {name} training both figures are highest in group 1, and recall falls from group to group.",
            falls,
            unit="",
            of=len(BACKBONES) * len(steps),
        ),
        judge(
            SECTION,
            "In group 1 the method recommends less and finds less than plain.",
            both((0,), -1.0),
            unit="",
            of=cases,
        ),
        judge(
            SECTION,
            "In groups 2 to 4 it recommends more and finds more than plain.",
            both((1, 2, 3)),
            unit="",
            of=3 * cases,
        ),
        _similar(both((4,)), at, cases),
        judge_some(list(rarer.values()), {case.removesuffix(" recall"): one for case, one in better.items()}),
    ]


def judge_some(rarer: list[Spread], better: dict[str, Spread]) -> Claim:
    """The claim that both effects are above 0 in some case; p-values are corrected for the number of cases."""
    text = "In some group the method recommends less than without normalised users, but finds more."
    pairs = dict(zip(better, zip(rarer, better.values(), strict=True), strict=True))
    p_values = correct([max(a.p_value, b.p_value) for a, b in pairs.values()])
    both = [case for case, (a, b) in pairs.items() if a.mean > 0 and b.mean > 0]
    sure = [case for case, p in zip(pairs, p_values, strict=True) if p < LEVELS[0]]
    held = [case for case in both if case in sure]
    denied = [c for c, pair in pairs.items() if any(one.high < 0 for one in pair)]
    shown = "; ".join(f"{case} {show(a, '')} and {show(b, '')}" for case, (a, b) in pairs.items())
    verdict: Verdict = "confirmed" if held else "not seen" if pairs and len(denied) == len(pairs) else "cannot tell"
    evidence = f"By how much it recommends less, and finds more: {shown}.{but('Both beyond the noise', held)}"
    return Claim(SECTION, text, verdict, evidence if pairs else "None of the cases could be run.")


def _similar(apart: dict[str, Spread], at: At, cases: int) -> Claim:
    """The claim about group 5. Its figures are small, so shares of plain's are shown as well."""
    text = (
        "In group 5 all methods recommend and find about as much (we read: within "
        f"{SIMILAR['frequency']:g} of all places and {SIMILAR['recall']:g} of recall)."
    )
    margins = {case: margin for what, margin in SIMILAR.items() for case in _only(apart, what)}
    claim = judge_similar(SECTION, text, apart, margins, unit="", of=cases)
    times = []
    for backbone, row, group, what in at:
        plain = at.get((backbone, PLAIN, group, what))
        if group == len(GROUPS) - 1 and row != PLAIN and plain and plain.mean > 0:
            one = at[backbone, row, group, what]
            times.append(f"{BACKBONE_TITLES[backbone]} {what}{f', {BARE}' * (row == BARE)} {one.mean / plain.mean:.2g}")
    return replace(claim, evidence=f"{claim.evidence}{but('Divided by plain', times)}")


def _only(effects: dict[str, Spread], what: str) -> dict[str, Spread]:
    return {case: one for case, one in effects.items() if f" {what}" in case}
