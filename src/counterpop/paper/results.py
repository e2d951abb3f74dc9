"""An item of the paper as values: tables, figures, and the paper's claims with our verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import counterpop as cp

Verdict = Literal["confirmed", "stronger", "weaker", "not seen", "not tested"]
Kind = Literal["lines", "bars", "map"]
STRONGER, WEAKER = 1.25, 0.8  # an effect this many times the published one


@dataclass(frozen=True)
class Table:
    """Rows of cells: text, numbers, a figure with its interval (see `summarise`), or None if missing."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """What to draw, independent of the library: `series` are dicts of name, x and y (for a map: x, y and z by rows)."""

    caption: str
    kind: Kind
    x: str
    y: str
    series: list[dict[str, Any]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what our own numbers say about it."""

    claim: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, reproduced."""

    name: str
    title: str
    lead: str
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    """The content for programs, written to NAME.json."""
    missing: tuple[str, ...] = ()
    """What could not be made, and why."""


def read_item(content: Mapping[str, Any]) -> Item:
    """The item that this JSON object was written from."""
    parts: dict[str, tuple[Any, ...]] = {
        "tables": tuple(
            Table(**one | {"columns": tuple(one["columns"]), "notes": tuple(one["notes"])}) for one in content["tables"]
        ),
        "figures": tuple(Figure(**one) for one in content["figures"]),
        "claims": tuple(Claim(**one) for one in content["claims"]),
        "rows": tuple(content["rows"]),
        "missing": tuple(content["missing"]),
    }
    return Item(content["name"], content["title"], content["lead"], **parts)


def summarise(values: Sequence[float], single: Sequence[float] | None = None) -> dict[str, Any]:
    """The mean of a figure over seeds with its 95 % interval (Student's t), as `table3.json` holds it.

    With one seed the interval is `single`, that run's own bootstrap interval over users; None if there is none.

    >>> summarise([0.1, 0.3])["mean"], summarise([0.1], [0.08, 0.12])["high"]
    (0.2, 0.12)
    """
    from scipy.stats import t

    mean, number = float(np.mean(values)), len(values)
    low, high = single or (None, None)
    if number > 1:
        half = float(t.ppf(0.975, number - 1) * np.std(values, ddof=1) / np.sqrt(number))
        low, high = mean - half, mean + half
    return {"mean": mean, "low": low, "high": high, "seeds": number}


def judge_effect(ours: float, published: float) -> Verdict:
    """The size of our effect against that of the published one; both are above 0 if the claim holds.

    >>> judge_effect(0.2, 0.1), judge_effect(0.05, 0.1), judge_effect(0.1, 0.1), judge_effect(-0.1, 0.1)
    ('stronger', 'weaker', 'confirmed', 'not seen')
    """
    if ours <= 0:
        return "not seen"
    if published > 0 and ours > STRONGER * published:
        return "stronger"
    return "weaker" if ours < WEAKER * published else "confirmed"


def judge_orders(held: int, total: int) -> Verdict:
    """The verdict on a claim that holds in `held` of `total` cases.

    >>> judge_orders(4, 4), judge_orders(3, 4), judge_orders(1, 4), judge_orders(0, 0)
    ('confirmed', 'weaker', 'not seen', 'not tested')
    """
    if total == 0:
        return "not tested"
    if held == total:
        return "confirmed"
    return "weaker" if held > total / 2 else "not seen"


def compare_pairs(
    claim: str, pairs: Mapping[str, tuple[float, float]], published: Mapping[str, tuple[float, float]]
) -> Claim:
    """The claim that the first of two figures is above the second in every case of `pairs`.

    If it is in all of them, the mean relative lead is compared with the published one of the same cases.
    """
    known = {case: pair for case, pair in pairs.items() if pair[1] > 0}
    failed = [case for case, (first, second) in known.items() if first <= second]
    verdict = judge_orders(len(known) - len(failed), len(known))
    if not known:
        return Claim(claim, verdict, "None of the cases could be run.")
    lead = float(np.mean([first / second - 1 for first, second in known.values()]))
    evidence = f"It holds in {len(known) - len(failed)} of {len(known)} cases, by {lead:+.1%} on average"
    same = [published[case] for case in known if case in published]
    if len(same) == len(known):
        theirs = float(np.mean([first / second - 1 for first, second in same]))
        evidence += f"; the paper's figures for these cases differ by {theirs:+.1%}"
        if verdict == "confirmed":
            verdict = judge_effect(lead, theirs)
    return Claim(claim, verdict, f"{evidence}.{but('Not in', failed)}")


def but(what: str, cases: Sequence[str]) -> str:
    """A further sentence that names the exceptions; empty if there are none."""
    return f" {what}: {'; '.join(cases)}." if cases else ""


def head_counts(counts: Any) -> tuple[int, int]:
    """How many items (or users) are popular (or active) by the 80 % rule, and how many there are."""
    mask = cp.head(counts)
    return int(mask.sum()), len(mask)
