"""An item of the paper as values: tables, figures, and the paper's claims with our verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import counterpop as cp
from counterpop.tabular import Table as Table
from counterpop.uncertainty import LEVELS, Spread, average, correct

Verdict = Literal["confirmed", "stronger", "weaker", "not seen", "cannot tell"]
Kind = Literal["lines", "bars", "map"]
STRONGER, WEAKER = 1.25, 0.8  # an effect this many times the published one
FAR = 2.0  # times as much, which is how we read "much larger"
OWN = "our own check"  # the section of a claim that is not the paper's


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
    """A claim of the paper in our words, where it makes it, and what our own numbers say about it."""

    section: str
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


def judge_cases(held: int, against: int, total: int, most: bool = False) -> Verdict:
    """The verdict on a claim about every one of `total` cases, or about `most` of them.

    It holds beyond the noise in `held` of them, and the opposite does in `against`.

    >>> judge_cases(4, 0, 4), judge_cases(3, 1, 4), judge_cases(1, 1, 4), judge_cases(1, 0, 4), judge_cases(0, 0, 0)
    ('confirmed', 'weaker', 'not seen', 'cannot tell', 'cannot tell')
    >>> judge_cases(3, 1, 4, most=True), judge_cases(1, 1, 4, most=True), judge_cases(1, 2, 4, most=True)
    ('confirmed', 'cannot tell', 'not seen')
    """
    if held and (held == total or (most and held > total / 2)):
        return "confirmed"
    if most:
        return "not seen" if against and against >= total / 2 else "cannot tell"
    if held > total / 2:
        return "weaker"
    return "not seen" if against else "cannot tell"


def judge(
    section: str,
    claim: str,
    effects: Mapping[str, Spread],
    published: Mapping[str, float] | None = None,
    *,
    unit: str = "%",
    most: bool = False,
    of: int = 0,
) -> Claim:
    """A claim that every effect is above 0 (or most are), judged by their 95 % intervals.

    If all are, their mean is compared with the published effects of the same cases: "stronger" or "weaker" if its
    whole interval is above 1.25 or below 0.8 times the mean of those. Effects in "%" are shares of what they are
    relative to. The claim is about `of` cases; if fewer than half of them could be run, nothing follows for the rest.
    """
    if not effects:
        return Claim(section, claim, "cannot tell", "None of the cases could be run.")
    held = [case for case, effect in effects.items() if effect.low > 0]
    denied = surely_below(effects)
    against = [f"{case} ({show(effects[case], unit)})" for case in denied]
    rest = [case for case in effects if case not in held and case not in denied]
    open_ = [f"{case} ({show(effects[case], unit)})" for case in rest]
    verdict = judge_cases(len(held), len(against), len(effects), most)
    mean = average(list(effects.values()))
    evidence = f"It holds beyond the noise in {len(held)} of {len(effects)} cases; on average {show(mean, unit)}"
    same = [published[case] for case in effects if case in published] if published else []
    if len(same) == len(effects):
        theirs = sum(same) / len(same)
        evidence += f", in the paper's figures {_amount(theirs, unit)}"
        if verdict == "confirmed" and theirs > 0:
            verdict = "stronger" if mean.low > STRONGER * theirs else verdict
            verdict = "weaker" if mean.high < WEAKER * theirs else verdict
    if len(effects) < of:
        evidence += f". The claim is about {of} cases"
        verdict = "cannot tell" if len(effects) < of / 2 and (most or verdict != "not seen") else verdict
    return Claim(section, claim, verdict, f"{evidence}.{but('Within the noise', open_)}{but('Opposite', against)}")


def judge_similar(
    section: str,
    claim: str,
    effects: Mapping[str, Spread],
    margin: float | Mapping[str, float],
    unit: str = "%",
    of: int = 0,
) -> Claim:
    """A claim that every effect is within `margin` of 0: its whole interval must be inside, or outside to deny it.

    Margins may differ by case; the claim's own text then names them. It is about `of` cases, as in `judge`.
    """
    if not effects:
        return Claim(section, claim, "cannot tell", "None of the cases could be run.")
    margins = margin if isinstance(margin, Mapping) else dict.fromkeys(effects, margin)
    inside = [case for case, one in effects.items() if -margins[case] < one.low and one.high < margins[case]]
    left = {  # of the margin; below 0 outside of it
        case: Spread(margins[case] - abs(one.mean), margins[case] - np.sign(one.mean) * one.draws, one.seeds)
        for case, one in effects.items()
    }
    verdict = judge_cases(len(inside), len(surely_below(left)), len(effects))
    shown = "; ".join(f"{case} {show(one, unit)}" for case, one in effects.items())
    evidence = f"{shown}."
    if not isinstance(margin, Mapping):
        evidence = f"We call similar what is within {_amount(margin, unit).lstrip('+')} of each other. {evidence}"
    if len(effects) < of:
        evidence += f" The claim is about {of} cases."
        verdict = "cannot tell" if len(effects) < of / 2 and verdict != "not seen" else verdict
    return Claim(section, claim, verdict, evidence)


def surely_below(effects: Mapping[str, Spread]) -> list[str]:
    """The cases in which an effect is below 0 beyond the noise, by p-values corrected for the number of cases.

    One case is enough to deny a claim about all of them, and of 24 effects of 0 one would often seem to be below it.
    """
    corrected = correct([effect.p_value for effect in effects.values()])
    pairs = zip(effects.items(), corrected, strict=True)
    return [case for (case, effect), p in pairs if effect.high < 0 and p < LEVELS[0]]


def show(effect: Spread, unit: str = "%") -> str:
    """An effect with its interval.

    >>> import numpy as np
    >>> show(Spread(0.1, np.array([0.06, 0.14] * 50)))
    '+10.0 % (+6.0 to +14.0)'
    """
    low, high = (_amount(value, unit).removesuffix(" %") for value in (effect.low, effect.high))
    return f"{_amount(effect.mean, unit)} ({low} to {high})"


def _amount(value: float, unit: str) -> str:
    return f"{100 * value:+.1f} %" if unit == "%" else f"{value:+.3g}"


def but(what: str, cases: Sequence[str]) -> str:
    """A further sentence that names the exceptions; empty if there are none."""
    return f" {what}: {'; '.join(cases)}." if cases else ""


def exact(section: str, claim: str, holds: bool, evidence: str) -> Claim:
    """A claim about counts, which have no noise."""
    return Claim(section, claim, "confirmed" if holds else "not seen", evidence)


def head_counts(counts: Any) -> tuple[int, int]:
    """How many items (or users) are popular (or active) by the 80 % rule, and how many there are."""
    mask = cp.head(counts)
    return int(mask.sum()), len(mask)
