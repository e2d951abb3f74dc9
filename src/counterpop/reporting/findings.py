"""The numbers of a run in words, which never claim more than the numbers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.evaluation import Evaluation, Measures, contrast
from counterpop.interactions import head
from counterpop.ledger import Ledger
from counterpop.reporting.cases import Case
from counterpop.reporting.catalogue import Catalogue
from counterpop.training.methods import METHODS
from counterpop.tuning import Grid

SIGNIFICANT = 0.05
PARTS = {"test": "test", "valid": "validation", "ordinary": "ordinary"}
PRICE_UNKNOWN = "What that costs as traffic is today is not known."
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
    catalogue: Catalogue | None = None
    """What items are called; without it no items are listed."""
    cases: tuple[Case, ...] = ()
    """A few users before and after: see `typical_users`."""

    @property
    def label(self) -> str:
        """What a page calls it: by its method, or by its name if the method is not a built-in one."""
        method = next((one for one in METHODS if one.name == self.settings.get("method")), None)
        return f"{method.title} training" if method else self.name


@dataclass(frozen=True, eq=False)
class Contrast:
    """One set of lists minus another: `rows[metric]` as returned by `evaluation.contrast`."""

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
        Contrast(_lists(first), _lists(r), contrast(first.evaluation.adjusted, r.evaluation.adjusted, seed=seed))
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


def labelled(reports: Sequence[RunReport]) -> list[RunReport]:
    """The reports, each with its label as its name; runs with the same label keep their own name beside it."""
    labels = [report.label for report in reports]
    return [
        replace(r, name=label if labels.count(label) == 1 or label == r.name else f"{label} ({r.name})")
        for r, label in zip(reports, labels, strict=True)
    ]


def headline(found: Evaluation) -> str:
    """The finding in a sentence: what the adjusted lists find if every item were shown equally, and as traffic is."""
    if not is_adjusted(found):
        return "Nothing was removed: both strengths are 0, so the adjusted lists are the plain ones."
    would = "what users would choose if every item were shown equally often"
    first = would if found.even else f"what users chose in the {PARTS[found.on]} part"
    text = f"With part of the popularity removed, the recommendations find {_amount(found)} of {first}"
    if found.ordinary is None:
        return f"{text}. {PRICE_UNKNOWN if found.even else ''}".strip()
    ways = {verdict("recall", one.comparison["recall"]) for one in (found, found.ordinary)}
    joined = "but" if ways == {"improved", "worse"} else "and"
    return f"{text}, {joined} {_amount(found.ordinary)} of what they choose as traffic is today."


def _amount(found: Evaluation) -> str:
    """How much more or less is found, if the difference is significant."""
    way = direction(found.comparison["recall"])
    if way == "no clear difference":
        return "about as much (no clear difference)"
    share = "" if found.gain is None else f"{abs(100 * found.gain['change']):.0f} % "
    return f"{share}{'more' if way == 'higher' else 'less'}"


def explanation(report: RunReport) -> str:
    """A few sentences for a newcomer: how many items of a list are popular ones, before and after."""
    found, popular = report.evaluation, head(report.item_counts)
    plain, adjusted = (found.k * (1 - m.tail_share) for m in (found.plain, found.adjusted))
    many = f"{adjusted:.1f} instead of {plain:.1f}" if is_adjusted(found) else f"{plain:.1f}"
    held = (
        ""
        if found.on == "test"
        else (
            " Measured on the validation part, which is usually used to choose the strengths, so these numbers flatter "
            "the result."
        )
    )
    return (
        f"Of {found.k} recommended items, {many} are popular ones: the {popular.sum():,} of {len(popular):,} items "
        f"that account for up to 80 % of all interactions.{held}"
        + (f" {found.sample.sentence}" if found.sample else "")
    )
