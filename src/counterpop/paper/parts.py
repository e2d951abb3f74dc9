"""What the parts of the method do: Table V, Figure 1, popularity groups, and the grid of strengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counterpop.paper import published
from counterpop.paper.cells import Cell, reasons, run_cell, searched_table
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, title_of
from counterpop.paper.published import BACKBONES, DATASETS, METRICS, OURS, PLAIN
from counterpop.paper.results import Claim, Figure, Item, Table, but, compare_pairs, judge_orders
from counterpop.paper.runs import Bench

ABLATED = ("ml10m", "adressa")
GROUPS = ("0–5", "5–10", "10–15", "15–20", "20–100")  # per cent of the items, most popular first
VARIANTS = ("whole method", "no normalisation", "item side off", "user side off")


def _without_normalisation(bench: Bench, whole: Cell) -> Cell:
    """The same without normalised users: with the loss of the whole method, its other settings chosen again."""
    loss = whole.chosen()["settings"]["loss"] if whole.records else "bpr"
    return run_cell(bench, whole.dataset, whole.backbone, OURS, normalised=False, loss=loss)


def make_table5(bench: Bench) -> Item:
    """The method without normalisation, and with one side off; each is chosen on validation for itself."""
    rows: list[dict[str, Any]] = []
    cells: list[Cell] = []
    bare_cells: list[Cell] = []
    for dataset in ABLATED:
        for backbone in BACKBONES:
            full = run_cell(bench, dataset, backbone, OURS)
            bare = _without_normalisation(bench, full)
            cells.append(full)
            bare_cells.append(bare)
            theirs = published.ABLATION[dataset, backbone]
            printed = (f"{theirs[0]:.3f}", f"{theirs[1]:.3f}", *[" or ".join(f"{v:.3f}" for v in theirs[2])] * 2)
            figures = [
                {metric: full.figure(metric) for metric in METRICS},
                {metric: bare.figure(metric) for metric in METRICS},
                {metric: full.side("item off", metric) for metric in METRICS},
                {metric: full.side("user off", metric) for metric in METRICS},
            ]
            rows += [
                {"dataset": dataset, "backbone": backbone, "variant": variant, **found, "published": text}
                for variant, found, text in zip(VARIANTS, figures, printed, strict=True)
            ]
    table = Table(
        "Test figures of the whole method and of its parts",
        ("Data set", "Backbone", "Variant", "Recall", "HR", "NDCG", "Recall, published"),
        [[TITLES[r["dataset"]], BACKBONE_TITLES[r["backbone"]], *list(r.values())[2:]] for r in rows],
        (
            "With a side off, its strength is 0 and the other strength is chosen on validation for that case. Our "
            "source of the published figures gives the two one-sided figures without saying which is which.",
        ),
    )
    return Item(
        "table5",
        "Table V: ablation",
        "What is lost without normalised users, without the item side and without the user side.",
        (table, replace(searched_table(bare_cells), title="Searched and chosen without normalisation")),
        (),
        tuple(_ablation_claims(rows)),
        tuple(r for r in rows if r["recall"] is not None),
        reasons(cells),
    )


def _ablation_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    recall = {(r["dataset"], r["backbone"], r["variant"]): r["recall"] for r in rows}
    claims = []
    for variant, text in zip(
        VARIANTS[1:],
        ("Normalising users helps.", "Removing popularity from items helps.", "Removing it from users helps."),
        strict=True,
    ):
        ours, theirs = {}, {}
        for dataset in ABLATED:
            for backbone in BACKBONES:
                full, less = (recall[dataset, backbone, v] for v in (VARIANTS[0], variant))
                if full is None or less is None:
                    continue
                case = f"{TITLES[dataset]} {BACKBONE_TITLES[backbone]}"
                ours[case] = full["mean"], less["mean"]
                whole, bare, sides = published.ABLATION[dataset, backbone]
                theirs[case] = whole, bare if variant == VARIANTS[1] else sum(sides) / 2
        claims.append(compare_pairs(f"{text} ({variant} is below the whole method.)", ours, theirs))
    return claims


def make_figure1(bench: Bench) -> Item:
    """Cosines of an item's pull and push with their sum, and their lengths, by popularity rank."""
    figures, claims, rows = [], [], []
    whole = run_cell(bench, "ml10m", "mf", OURS)
    cells = [(whole, "users normalised"), (_without_normalisation(bench, whole), "not normalised")]
    for cell, label in cells:
        if not cell.records:
            continue
        picture = cell.records[0]["picture"]
        rows.append({"dataset": "ml10m", "backbone": "mf", "users": label, **picture})
        for what, kind, y in (("Direction", "cosine", "Cosine with the sum"), ("Size", "norm", "Length")):
            series = [
                {"name": name, "x": picture["rank"], "y": [y or None for y in picture[f"{kind}_{part}"]]}
                for part, name in (("pull", "Pull (as a seen item)"), ("push", "Push (as a negative)"))
            ]
            figures.append(
                Figure(
                    f"{what}, ML-10M, MF, {label}",
                    "lines",
                    "Popularity rank (1 = most popular)",
                    y,
                    series,
                    log_x=True,
                    log_y=kind == "norm",
                )
            )
        claims += _gradient_claims(picture, label)
    return Item(
        "figure1",
        "Figure 1: accumulated gradients",
        "The gradients that raised an item as a seen item (pull) and lowered it as a negative (push), weighted by the "
        "slope of the loss and summed over training. The closer a cosine is to 1, the more that part determines the "
        "direction of the sum of both.",
        (),
        tuple(figures),
        tuple(claims),
        tuple(rows),
        reasons([cell for cell, _ in cells][:1]),
    )


def _gradient_claims(picture: dict[str, Any], label: str) -> list[Claim]:
    pull, push = picture["cosine_pull_means"], picture["cosine_push_means"]
    long_pull, long_push = picture["norm_pull_means"], picture["norm_push_means"]
    if None in (*pull, *push):
        return []
    return [
        Claim(
            f"The pull dominates the gradient of popular items ({label}).",
            judge_orders(int(pull[0] > push[0]) + int(long_pull[0] > long_push[0]), 2),
            f"Popular items: mean cosine with the sum {pull[0]:.2f} for the pull and {push[0]:.2f} for the push; mean "
            f"length {long_pull[0]:.4g} and {long_push[0]:.4g}.",
        ),
        Claim(
            f"The push dominates the gradient of the other items ({label}).",
            judge_orders(int(push[1] > pull[1]) + int(long_push[1] > long_pull[1]), 2),
            f"Other items: mean cosine with the sum {push[1]:.2f} for the push and {pull[1]:.2f} for the pull; mean "
            f"length {long_push[1]:.4g} and {long_pull[1]:.4g}.",
        ),
    ]


def make_groups(bench: Bench) -> Item:
    """How often items of each popularity group are recommended, and how many of their test pairs are found."""
    rows: list[dict[str, Any]] = []
    cells: list[Cell] = []
    figures = []
    for backbone in BACKBONES:
        whole, plain = (run_cell(bench, "ml10m", backbone, method) for method in (OURS, PLAIN))
        bare = _without_normalisation(bench, whole)
        cells += [plain, whole]
        shown = {title_of(PLAIN): plain, f"{title_of(OURS)}, no normalisation": bare, title_of(OURS): whole}
        found = {name: _group_rows(name, cell) for name, cell in shown.items() if cell.records}
        rows += [row for own in found.values() for row in own]
        for what, y in (("frequency", "Share of recommendations"), ("recall", "Recall of the group")):
            series = [{"name": name, "x": list(GROUPS), "y": [r[what] for r in own]} for name, own in found.items()]
            if series:
                caption = f"{y}, ML-10M, {BACKBONE_TITLES[backbone]}"
                figures.append(Figure(caption, "bars", "% of items, most popular first", y, series))
    table = Table(
        "Popularity groups, ML-10M",
        ("Backbone", "Method", "Items (%, most popular first)", "Number", "Recommended", "Recall of the group"),
        [[BACKBONE_TITLES[r["backbone"]], *list(r.values())[2:]] for r in rows],
        ("Recall of a group: hits in it / its test pairs, over all users together; mean over seeds.",),
    )
    return Item(
        "groups",
        "Popularity groups",
        "Items by falling count: four groups of 5 % of the items each, then the rest.",
        (table,),
        tuple(figures),
        tuple(_group_claims(rows)),
        tuple(rows),
        reasons(cells),
    )


def _group_rows(name: str, cell: Cell) -> list[dict[str, Any]]:
    """A row for each popularity group, with the means over the seeds."""
    rows = []
    for g, title in enumerate(GROUPS):
        found = [record["adjusted"]["groups"][g] for record in cell.records]
        rows.append(
            {
                "dataset": cell.dataset,
                "backbone": cell.backbone,
                "method": name,
                "group": title,
                "items": found[0]["items"],
                "frequency": sum(one["frequency"] for one in found) / len(found),
                "recall": _mean([one["recall"] for one in found]),
            }
        )
    return rows


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _group_claims(rows: list[dict[str, Any]]) -> list[Claim]:
    at = {(r["backbone"], r["method"], r["group"]): r for r in rows}
    first, last = GROUPS[0], GROUPS[-1]
    top, tail = {}, {}
    for backbone in BACKBONES:
        both = title_of(PLAIN), title_of(OURS)
        if all((backbone, method, first) in at for method in both):
            plain, own = (at[backbone, method, first]["frequency"] for method in both)
            top[BACKBONE_TITLES[backbone]] = (plain, own)
            plain, own = (at[backbone, method, last]["recall"] or 0.0 for method in both)
            tail[BACKBONE_TITLES[backbone]] = (own, plain)
    return [
        compare_pairs("The gradient method recommends the most popular items less often than plain.", top, {}),
        compare_pairs("It finds more of the test pairs of unpopular items than plain.", tail, {}),
    ]


def make_strengths(bench: Bench) -> Item:
    """Recall on validation over the grid of both strengths."""
    figures, rows = [], []
    inside: list[str] = []
    outside: list[str] = []
    cells = [run_cell(bench, dataset, backbone, OURS) for backbone in BACKBONES for dataset in DATASETS]
    for cell in cells:
        if not cell.validated:
            continue
        grid, chosen = cell.validated[0]["grid"], cell.validated[0]["strengths"]
        title = f"{TITLES[cell.dataset]}, {BACKBONE_TITLES[cell.backbone]}"
        rows.append({"dataset": cell.dataset, "backbone": cell.backbone, "chosen": chosen, **grid})
        series = [
            {
                "name": "Recall@20",
                "x": grid["user_strengths"],
                "y": grid["item_strengths"],
                "z": grid["recall"],
                "chosen": [chosen[1], chosen[0]],
            }
        ]
        figures.append(Figure(f"Recall@20 on validation, {title}", "map", "User strength", "Item strength", series))
        (inside if min(chosen) > 0 else outside).append(f"{title} ({chosen[0]:g} / {chosen[1]:g})")
    table = Table(
        "What validation chose (first seed)",
        ("Data set", "Backbone", "Item strength", "User strength", "Recall", "at 0 / 0"),
        [
            [
                TITLES[r["dataset"]],
                BACKBONE_TITLES[r["backbone"]],
                *r["chosen"],
                max(max(line) for line in r["recall"]),
                r["recall"][0][0],
            ]
            for r in rows
        ],
    )
    claim = Claim(
        "Both strengths matter: the best point has both above 0.",
        judge_orders(len(inside), len(rows)),
        f"Both are above 0 in {len(inside)} of {len(rows)} cells.{but('Item / user strength', inside)}"
        f"{but('One side is 0 in', outside)}",
    )
    return Item(
        "strengths",
        "Strengths",
        "Recall on validation at every pair of strengths; the ring marks the pair that was chosen. 0 / 0 is the model "
        "as trained.",
        (table,),
        tuple(figures),
        (claim,),
        tuple(rows),
        reasons(cells),
    )
