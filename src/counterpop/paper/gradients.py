"""Figure 1 and what the paper derives from it: accumulated gradients, lengths of vectors, and how alike they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from counterpop.paper.ablation import without_normalisation
from counterpop.paper.cells import Cell, reasons, run_cell
from counterpop.paper.datasets import TITLES
from counterpop.paper.published import DATASETS, OURS, PLAIN
from counterpop.paper.results import FAR, Claim, Figure, Item, Table, judge
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread, normal

CLOSE = 0.9  # a cosine that we call close to 1
WEIGHTINGS = {"count": "by count, as in Eq. 8 and Algorithm 1", "slope": "by slope of the loss, our view"}


def make_figure1(bench: Bench) -> Item:
    """Cosines of an item's pull and push with their sum, and their lengths, by popularity rank."""
    whole = run_cell(bench, "ml10m", "mf", OURS)
    cells = {"not normalised": without_normalisation(bench, whole), "users normalised": whole}
    plain = {name: run_cell(bench, name, "mf", PLAIN) for name in DATASETS}
    figures, rows = [], []
    for label, cell in cells.items():
        for weighting, title in WEIGHTINGS.items():
            if cell.records:
                picture = cell.records[0]["picture"][weighting]
                rows.append({"dataset": "ml10m", "backbone": "mf", "users": label, "weighting": weighting, **picture})
                figures += _figures(picture, f"ML-10M, MF, {label}, {title}")
    pictures = {label: cell.records[0]["picture"] for label, cell in cells.items() if cell.records}
    return Item(
        "figure1",
        "Figure 1: accumulated gradients",
        "What raised an item as a seen item (pull) and lowered it as a negative (push), summed over training. The "
        "closer a cosine is to 1, the more that part determines the direction of the sum of both. By count, every "
        "triple adds the user's vector once, as in the paper; by slope, it adds it times the slope of the loss, which "
        "is the step that training really took. The paper does not say whether users were normalised here; both are "
        "shown.",
        tuple(filter(None, (_means_table(rows), _lengths_table(plain)))),
        tuple(figures),
        (*_gradient_claims(pictures), *_vector_claims(plain)),
        tuple(rows),
        reasons([whole, *plain.values()]),
    )


def _figures(picture: dict[str, Any], title: str) -> list[Figure]:
    figures = []
    for what, kind, y in (("Direction", "cosine", "Cosine with the sum"), ("Size", "norm", "Length")):
        series = [
            {"name": name, "x": picture["rank"], "y": [y or None for y in picture[f"{kind}_{part}"]]}
            for part, name in (("pull", "Pull (as a seen item)"), ("push", "Push (as a negative)"))
        ]
        log = {"log_x": True, "log_y": kind == "norm"}
        figures.append(Figure(f"{what}, {title}", "lines", "Popularity rank (1 = most popular)", y, series, **log))
    return figures


def _means_table(rows: list[dict[str, Any]]) -> Table | None:
    shown = []
    for row in rows:
        for side in ("popular", "other"):
            means = [row["means"][f"{kind}_{part}"][side] for kind in ("cosine", "norm") for part in ("pull", "push")]
            figures = [_interval(mean) for mean in means]
            shown.append([row["users"], WEIGHTINGS[row["weighting"]], side, *figures])
    columns = ("Users", "Weights", "Items", "cosine of pull", "cosine of push", "length of pull", "length of push")
    note = "Means over the items with 95 % intervals."
    return Table("Popular items and the others, ML-10M, MF", columns, shown, (note,)) if shown else None


def _interval(mean: dict[str, float] | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    half = 1.96 * mean["error"]
    return {"mean": mean["mean"], "low": mean["mean"] - half, "high": mean["mean"] + half, "seeds": 1}


def _gradient_claims(pictures: dict[str, dict[str, Any]]) -> list[Claim]:
    """The paper's two findings, by count; whether users were normalised makes two cases of each."""
    texts = {
        "close": (
            "Abstract, I, Fig. 1(a)",
            "For popular items the cosine of the positive part with the whole is close to 1 (we read: above "
            f"{CLOSE:g}; shown: beyond that).",
        ),
        "popular": (
            "Abstract, I, Fig. 1(a)",
            "The whole gradient of popular items points along their positive part rather than the negative one (shown: "
            "cosine with the positive part less that with the negative one).",
        ),
        "other": ("I, Fig. 1(a)", "That of unpopular items points along the negative part (shown: the reverse)."),
        "longer": ("I, Fig. 1(b)", "The positive part of popular items is longer than their negative part."),
        "far": (
            "Abstract, I, Fig. 1(b)",
            "The positive part of popular items is far longer than that of unpopular ones (we read: at least "
            f"{FAR:g} times; shown: beyond that).",
        ),
        "alike": (
            "IV-C1",
            "Positive parts of popular items point in similar directions (we read: more than others' do).",
        ),
    }
    effects: dict[str, dict[str, Spread]] = {name: {} for name in texts}
    for label, picture in pictures.items():
        for name, found in _gradient_effects(picture, label).items():
            effects[name][label] = found
        effects["alike"] |= {f"{label}: {case}": one for case, one in _closer(picture["alike"], label).items()}
    return [
        judge(where, text, effects[name], unit="%" if name in ("longer", "far") else "")
        for name, (where, text) in texts.items()
    ]


def _gradient_effects(picture: dict[str, Any], label: str) -> dict[str, Spread]:
    """What is above 0 if a claim about accumulated gradients holds, by claim."""
    means = picture["count"]["means"]

    def mean(name: str, side: str) -> Spread | None:
        found = means[name][side]
        return normal(found["mean"], found["error"], label + name + side) if found else None

    near, along, against = mean("cosine_pull", "popular"), mean("cosine_gap", "popular"), mean("cosine_gap", "other")
    longer, push = mean("norm_gap", "popular"), mean("norm_push", "popular")
    pulls = [mean("norm_pull", side) for side in ("popular", "other")]
    effects: dict[str, Spread | None] = {
        "close": near and replace(near, mean=near.mean - CLOSE, draws=near.draws - CLOSE),
        "popular": along,
        "other": against and against.times(-1.0),
        "longer": longer.times(1 / push.mean) if longer and push and push.mean else None,  # the gap is paired by item
    }
    if pulls[0] and pulls[1]:
        ratio = pulls[0].over(pulls[1])
        effects["far"] = replace(ratio, mean=ratio.mean + 1 - FAR, draws=ratio.draws + 1 - FAR)
    return {name: one for name, one in effects.items() if one}


def _closer(alike: dict[str, Any], key: str) -> dict[str, Spread]:
    """By how much the mean cosine of two popular items is above that of two others."""
    if None in alike.values():
        return {}
    sides = [normal(alike[side]["mean"], alike[side]["error"], key + side) for side in ("popular", "other")]
    case = (
        f"mean cosine {alike['popular']['mean']:.2f} of two popular items, {alike['other']['mean']:.2f} of two others"
    )
    return {case: sides[0].minus(sides[1])}


def _lengths_table(plain: dict[str, Cell]) -> Table | None:
    rows = []
    for name, cell in plain.items():
        if cell.records:
            vectors = cell.records[0]["vectors"]
            alike = [_interval(vectors["alike"][side]) for side in ("popular", "other")]
            rows.append([TITLES[name], *(_interval(vectors[f"{s}_length"]) for s in ("item", "user")), *alike])
    columns = ("Data set", "items", "users", "cosine of two popular items", "cosine of two others")
    note = "Plain MF, first seed. Items and users: Spearman's correlation of the length of a vector with its count."
    return Table("Lengths and angles of vectors", columns, rows, (note,)) if rows else None


def _vector_claims(plain: dict[str, Cell]) -> list[Claim]:
    found = {TITLES[name]: cell.records[0]["vectors"] for name, cell in plain.items() if cell.records}

    def lengths(side: str) -> dict[str, Spread]:
        return {
            name: normal(one[f"{side}_length"]["mean"], one[f"{side}_length"]["error"], name + side)
            for name, one in found.items()
        }

    closer = {f"{name}: {case}": one for name, v in found.items() for case, one in _closer(v["alike"], name).items()}
    texts = {
        "I, III": ("The more popular an item, the longer its vector (rank correlation, plain MF).", lengths("item")),
        "IV-B": ("The more active a user, the longer the user's vector (rank correlation, plain MF).", lengths("user")),
        "III": (
            "Vectors of popular items may lie close to each other (we read: cosines above others'; plain MF).",
            closer,
        ),
    }
    return [judge(where, text, one, unit="", of=len(DATASETS)) for where, (text, one) in texts.items()]
