"""What the numbers of a run say in words, and never more than they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.evaluation import Evaluation, Measures, compare
from counterpop.interactions import head
from counterpop.ledger import Ledger
from counterpop.tuning import Grid

SIGNIFICANT = 0.05
ACCURACY = ("recall", "hit_rate", "ndcg")  # more is better; the others are neither good nor bad
Direction = Literal["higher", "lower", "no clear difference"]


@dataclass(frozen=True, eq=False)
class RunReport:
    """What a report shows of one run."""

    name: str
    settings: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]
    """One entry for each epoch: epoch, loss, seconds, and validation metrics where they were measured."""
    evaluation: Evaluation
    item_counts: NDArray[np.int64]
    """(I,) interactions of every item in what the evaluated model was trained on."""
    grid: Grid | None = None
    ledger: Ledger | None = None
    truth: Mapping[str, float] | None = None
    """In a made-up world: the share of users' true favourites found by the "plain" and "adjusted" lists."""


@dataclass(frozen=True, eq=False)
class Contrast:
    """One set of lists against another: `rows[metric]` as `evaluation.compare` gives them."""

    first: str
    second: str
    rows: Mapping[str, Mapping[str, float]]


def direction(row: Mapping[str, float]) -> Direction:
    """Which way a difference goes, where it is significant.

    >>> direction({"difference": 0.1, "p_value": 0.2})
    'no clear difference'
    """
    if not row["p_value"] < SIGNIFICANT or row["difference"] == 0:
        return "no clear difference"
    return "higher" if row["difference"] > 0 else "lower"


def verdict(metric: str, row: Mapping[str, float]) -> str:
    """A difference in a word: "improved" and "worse" for accuracy, "higher" and "lower" for the rest.

    >>> verdict("recall", {"difference": 0.1, "p_value": 0.001})
    'improved'
    """
    way = direction(row)
    return {"higher": "improved", "lower": "worse"}.get(way, way) if metric in ACCURACY else way


def own_contrasts(reports: Sequence[RunReport]) -> list[Contrast]:
    """Adjusted against plain of every run that is adjusted at all."""
    return [
        Contrast(f"{r.name}, adjusted", f"{r.name}, plain", r.evaluation.comparison)
        for r in reports
        if not is_left_alone(r.evaluation)
    ]


def contrasts(reports: Sequence[RunReport]) -> list[Contrast]:
    """Every run's lists, adjusted if they are, against those of the first where they can be compared."""
    first = reports[0]
    return [
        Contrast(_lists(r), _lists(first), compare(r.evaluation.adjusted, first.evaluation.adjusted))
        for r in reports[1:]
        if are_comparable(r, first)
    ]


def are_comparable(one: RunReport, other: RunReport) -> bool:
    """Whether two runs were measured on the same users, held-out pairs and k."""
    return one.evaluation.plain.held == other.evaluation.plain.held


def _lists(report: RunReport) -> str:
    return f"{report.name}, {'plain' if is_left_alone(report.evaluation) else 'adjusted'}"


def is_left_alone(evaluation: Evaluation) -> bool:
    """Whether both strengths are 0, so that plain and adjusted lists are the same."""
    return evaluation.item_strength == 0 and evaluation.user_strength == 0


def sides(evaluation: Evaluation) -> dict[str, Measures]:
    """The measures of the plain lists and, where they differ, of the adjusted ones."""
    found = {"plain": evaluation.plain, "adjusted": evaluation.adjusted}
    return {"plain": evaluation.plain} if is_left_alone(evaluation) else found


def headline(report: RunReport) -> str:
    """The finding in a few words: what became of popularity, and what of recall."""
    if is_left_alone(report.evaluation):
        return "As trained: nothing was taken out"
    rows = report.evaluation.comparison
    popularity = {
        "lower": "Less popularity",
        "higher": "More popularity",
        "no clear difference": "No clear difference in popularity",
    }[direction(rows["average_popularity"])]
    recall = {
        "improved": "recall improved",
        "worse": "recall is worse",
        "no clear difference": "no clear difference in recall",
    }[verdict("recall", rows["recall"])]
    return f"{popularity}; {recall}"


def explanation(report: RunReport) -> str:
    """Two sentences for a newcomer: how much of a list is popular items, before and after."""
    found = report.evaluation
    popular = head(report.item_counts)
    plain, adjusted = (found.k * (1 - m.tail_share) for m in (found.plain, found.adjusted))
    after = f"After the adjustment it is {adjusted:.1f}."
    if is_left_alone(found):
        after = "The adjustment leaves the lists as they are, because both strengths are 0."
    held = (
        "the held-out test part"
        if found.on == "test"
        else ("the validation part, on which the strengths are usually chosen: its figures flatter the adjustment")
    )
    return (
        f"Of every {found.k} items that the plain model recommends, {plain:.1f} come from the "
        f"{popular.sum():,} most popular of {len(popular):,} items, which hold the first 80\u00a0% of all "
        f"interactions. {after} Measured for {len(found.plain.users):,} users on {held}."
    )
