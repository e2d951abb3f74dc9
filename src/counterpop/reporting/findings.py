"""The numbers of a run in words, which never claim more than the numbers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.evaluation import Evaluation, Measures, compare
from counterpop.interactions import head
from counterpop.ledger import Ledger
from counterpop.readers import Labels
from counterpop.recommender import Recommender
from counterpop.tuning import Grid

SIGNIFICANT = 0.05
ACCURACY = ("recall", "hit_rate", "ndcg")  # higher is better; for other metrics neither direction is
Direction = Literal["higher", "lower", "no clear difference"]


@dataclass(frozen=True, eq=False)
class RunReport:
    """What a report shows about one run."""

    name: str
    settings: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]
    """One entry per epoch: epoch, loss, seconds, and validation metrics if they were measured."""
    evaluation: Evaluation
    item_counts: NDArray[np.int64]
    """(I,) number of interactions of every item in the evaluated model's training data."""
    grid: Grid | None = None
    ledger: Ledger | None = None
    tuning: Mapping[str, Any] | None = None
    """How the strengths were chosen, as `counterpop tune --json` prints it; None if the run was not tuned."""
    truth: Mapping[str, float] | None = None
    """In a synthetic world: the share of users' true favourites found by the "plain" and "adjusted" lists."""
    model: Recommender | None = None
    """What was measured, at its tuned strengths: lists of single users, with reasons, come from its `explain`."""
    labels: Labels | None = None
    """What items are called, and their categories, in the order of the model's item ids."""


@dataclass(frozen=True, eq=False)
class Contrast:
    """One set of lists minus another: `rows[metric]` as returned by `evaluation.compare`."""

    first: str
    second: str
    rows: Mapping[str, Mapping[str, float]]


def direction(row: Mapping[str, float]) -> Direction:
    """The direction of a difference, if it is significant.

    >>> direction({"difference": 0.1, "p_value": 0.2})
    'no clear difference'
    """
    if not row["p_value"] < SIGNIFICANT or row["difference"] == 0:
        return "no clear difference"
    return "higher" if row["difference"] > 0 else "lower"


def verdict(metric: str, row: Mapping[str, float]) -> str:
    """A difference in a word: "improved" or "worse" for accuracy, "higher" or "lower" for other metrics.

    >>> verdict("recall", {"difference": 0.1, "p_value": 0.001})
    'improved'
    """
    way = direction(row)
    return {"higher": "improved", "lower": "worse"}.get(way, way) if metric in ACCURACY else way


def own_contrasts(reports: Sequence[RunReport]) -> list[Contrast]:
    """Adjusted minus plain, for every run with a strength other than 0."""
    return [
        Contrast(f"{r.name}, adjusted", f"{r.name}, plain", r.evaluation.comparison)
        for r in reports
        if is_adjusted(r.evaluation)
    ]


def contrasts(reports: Sequence[RunReport], seed: int = 0) -> list[Contrast]:
    """The final lists of the first run minus those of every other run, if they can be compared."""
    first = reports[0]
    return [
        Contrast(_lists(first), _lists(r), compare(first.evaluation.adjusted, r.evaluation.adjusted, seed=seed))
        for r in reports[1:]
        if are_comparable(r, first)
    ]


def are_comparable(one: RunReport, other: RunReport) -> bool:
    """Whether two runs were measured on the same users, held-out pairs and k."""
    return one.evaluation.plain.held == other.evaluation.plain.held


def _lists(report: RunReport) -> str:
    return f"{report.name}, {'adjusted' if is_adjusted(report.evaluation) else 'plain'}"


def is_adjusted(evaluation: Evaluation) -> bool:
    """False if both strengths are 0, so that plain and adjusted lists are the same."""
    return evaluation.item_strength != 0 or evaluation.user_strength != 0


def sides(evaluation: Evaluation) -> dict[str, Measures]:
    """The measures of the plain lists and, if they differ, of the adjusted ones."""
    return {"plain": evaluation.plain} | ({"adjusted": evaluation.adjusted} if is_adjusted(evaluation) else {})


def headline(report: RunReport) -> str:
    """The finding in a few words: what happened to popularity, to recall, and to recall on ordinary pairs."""
    if not is_adjusted(report.evaluation):
        return "As trained: nothing was removed"
    rows = report.evaluation.comparison
    popularity = {
        "lower": "Less popular recommendations",
        "higher": "More popular recommendations",
        "no clear difference": "No clear difference in popularity",
    }[direction(rows["average_popularity"])]
    recall = {
        "improved": "recall improved",
        "worse": "recall is worse",
        "no clear difference": "no clear difference in recall",
    }[verdict("recall", rows["recall"])]
    ordinary = report.evaluation.ordinary
    today = f" ({verdict('recall', ordinary.comparison['recall'])} as traffic is today)" if ordinary else ""
    return f"{popularity}; {recall}{today}"


def explanation(report: RunReport) -> str:
    """A few sentences for a newcomer: how many items of a list are popular ones, before and after."""
    found, popular = report.evaluation, head(report.item_counts)
    plain, adjusted = (found.k * (1 - m.tail_share) for m in (found.plain, found.adjusted))
    after = f"After the adjustment, {adjusted:.1f} are."
    if not is_adjusted(found):
        after = "The adjustment does not change the lists, because both strengths are 0."
    held = "the held-out test part"
    if found.on != "test":
        held = "the validation part, which is usually used to choose the strengths, so these numbers flatter the result"
    return (
        f"Of every {found.k} items the plain model recommends, {plain:.1f} are among the {popular.sum():,} most "
        f"popular of {len(popular):,} items, which account for up to 80\u00a0% of all interactions. {after} "
        f"Measured for {len(found.plain.users):,} users on {held}."
        + (f" {found.sample.sentence}" if found.sample else "")
    )
