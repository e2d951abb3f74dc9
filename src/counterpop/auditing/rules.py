"""Rules that an audit must keep, as a pipeline states them: "popularity_lift > 1.5" is a reason to fail."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any
from xml.etree import ElementTree

from counterpop.auditing.definitions import DEFINITIONS
from counterpop.auditing.intervals import Change
from counterpop.errors import InputError

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_FORM = re.compile(r"\s*(change\s+)?([a-z_]+)\s*(<=|>=|<|>)\s*([-+]?[0-9.]+(?:e[-+]?\d+)?)\s*(%?)\s*", re.IGNORECASE)
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Rule:
    """A measure, or its change since another audit, that must not pass a limit."""

    text: str
    measure: str
    comparison: str
    limit: float
    change: bool
    """Whether the change is meant, not the value."""


@dataclass(frozen=True)
class Outcome:
    """A rule, what was measured, and whether it is broken."""

    rule: str
    lists: str
    value: float | None
    broken: bool
    sentence: str


def read_rule(text: str) -> Rule:
    """The rule in a text such as "gini > 0.8", "tail_share < 10 %" or "change popularity_lift > 0.1".

    >>> read_rule("tail_share < 10 %").limit, read_rule("change gini > 0.05").change
    (0.1, True)
    """
    found = _FORM.fullmatch(text)
    try:
        limit = float(found[4]) / (100 if found[5] else 1) if found else None
    except ValueError:
        limit = None
    if found is None or limit is None:
        raise InputError(
            f"a rule must be a measure, a comparison and a number, as in 'popularity_lift > 1.5' or "
            f"'change gini > 0.05', got {text!r}"
        )
    if found[2] not in DEFINITIONS:
        raise InputError(f"a rule must name a measure ({', '.join(DEFINITIONS)}), got {found[2]!r}")
    return Rule(" ".join(text.split()), found[2], found[3], limit, bool(found[1]))


def check_rule(rule: Rule, lists: str, measures: Mapping[str, float], changes: Sequence[Change]) -> Outcome:
    """Whether the lists keep the rule.

    A measure that cannot be computed breaks it, because nobody could tell. A change breaks it only if it is more than
    noise: if its own test gives p < .05, or if there is no test.
    """
    if rule.change:
        row = next((row for row in changes if row.name == rule.measure), None)
        if row is None:
            return Outcome(
                rule.text, lists, None, True, f"{rule.measure} cannot be compared: one of the audits lacks it"
            )
        beyond = COMPARISONS[rule.comparison](row.difference, rule.limit)
        sentence = f"{rule.measure} changed by {row.difference:+.4g}, from {row.before:.4g} to {row.after:.4g}"
        if isfinite(row.p_value):
            sentence += f" ({row.low:+.4g} to {row.high:+.4g}, p = {row.p_value:.3g})"
        noise = isfinite(row.p_value) and row.p_value >= SIGNIFICANT
        if beyond and noise:
            sentence += ", which may be noise"
        return Outcome(rule.text, lists, row.difference, beyond and not noise, sentence)
    value = measures[rule.measure]
    if not isfinite(value):
        return Outcome(rule.text, lists, None, True, f"{rule.measure} cannot be computed for these lists")
    return Outcome(
        rule.text, lists, value, COMPARISONS[rule.comparison](value, rule.limit), f"{rule.measure} is {value:.4g}"
    )


def to_junit(outcomes: Sequence[Outcome], title: str, date: str) -> str:
    """The outcomes as JUnit XML, which CI systems read: one test case for each rule and system."""
    broken = sum(outcome.broken for outcome in outcomes)
    counts: dict[str, Any] = {"tests": str(len(outcomes)), "failures": str(broken), "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", name="counterpop audit", **counts)
    suite = ElementTree.SubElement(suites, "testsuite", name=title, timestamp=date, **counts)
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"counterpop.audit.{outcome.lists}", name=f"fail if {outcome.rule}", time="0"
        )
        if outcome.broken:
            ElementTree.SubElement(case, "failure", type="rule", message=outcome.sentence)
        ElementTree.SubElement(case, "system-out").text = outcome.sentence
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
