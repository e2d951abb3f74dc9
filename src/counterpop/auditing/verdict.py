"""What the figures of an audit amount to, in words that do not contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from counterpop.auditing.grades import Grade, grades, worst

Leaning = Literal["popular", "even", "tail", "middle", "ends", "unknown"]
EVEN, EVEN_TAIL = 0.1, 0.2  # popularity and tail share within this much of the log's count as equal to it
STRONG = 0.5  # "strongly": half as popular as the log, or half of the way to the most popular items
STRONG_TAIL = 0.25  # "strongly" too: the tail gets less than this share of what the log gives it
LEANINGS: Mapping[tuple[int, int], Leaning] = {
    # popularity and tail share below (-1), at (0) or above (1) those of the log
    **dict.fromkeys([(1, -1), (1, 0), (0, -1)], "popular"),
    **dict.fromkeys([(-1, 1), (-1, 0)], "tail"),
    **dict.fromkeys([(1, 1), (0, 1)], "ends"),
    (0, 0): "even",
    (-1, -1): "middle",
}
HEADLINES: Mapping[Leaning, str] = {
    "popular": "The recommendations lean {strongly}towards popular items",
    "tail": "The recommendations lean {strongly}towards rarely chosen items",
    "even": "The recommendations are about as popular as the log they come from",
    "middle": "The recommendations favour the middle: fewer hits and fewer rarely chosen items than the log",
    "ends": "The recommendations favour both ends: more hits and more rarely chosen items than the log",
    "unknown": "The recommendations cannot be compared with the log: items that their users do not have yet "
    "have no interactions",
}


@dataclass(frozen=True)
class Verdict:
    """What the figures amount to, in a few words, and the numbers behind it."""

    leaning: Leaning
    headline: str
    reasons: str
    grade: Grade
    """The worst grade of any measure."""

    @property
    def text(self) -> str:
        """Both as one paragraph."""
        return f"{self.headline}. {self.reasons}"


def judge(measures: Mapping[str, float], segments: Sequence[Mapping[str, Any]], items: int) -> Verdict:
    """The verdict. Popularity and tail share against the log decide its direction; the other figures are context.

    If every item with interactions is in the profiles, nothing can be drawn from the log, so nothing is compared.
    The headline names what would otherwise contradict it: lists that are more popular than the log but less than
    what users chose (or the reverse), and a catalogue most of which is never shown.
    """
    m = measures
    highest = m["highest_popularity"] / m["expected_popularity"] - 1
    tail_ratio = m["tail_share"] / m["expected_tail_share"] if m["expected_tail_share"] else 1.0
    more = m["amplification"]
    leaning: Leaning = "unknown"
    if np.isfinite(more):
        leaning = LEANINGS[_sign(more, EVEN), _sign(tail_ratio - 1, EVEN_TAIL)]
    no_tail = leaning == "popular" and tail_ratio < STRONG_TAIL
    strongly = "strongly " if no_tail or more > STRONG * highest > 0 or more < -STRONG else ""
    graded = grades(m)
    headline = HEADLINES[leaning].format(strongly=strongly)
    clauses = []
    lift = _sign(m["popularity_lift"], EVEN) if np.isfinite(m["popularity_lift"]) else 0
    if np.isfinite(more) and lift * _sign(more, EVEN) < 0:
        clauses.append(f"although they are {'more' if lift > 0 else 'less'} popular than what their users chose")
    if graded["coverage"] == "bad":
        joined = "but" if leaning in ("even", "tail") else "and"
        clauses.append(f"{joined} {_percent(1 - m['coverage'])} of the items are never recommended")
    headline = ", ".join([headline, *clauses])
    reasons = f"{_say_popularity(m, segments, highest)}. {_say_tail(m)}. {_say_spread(m, items)}."
    return Verdict(leaning, headline, reasons, worst(graded))


def _say_popularity(m: Mapping[str, float], segments: Sequence[Mapping[str, Any]], highest: float) -> str:
    text = f"A recommended item has {m['average_popularity']:,.1f} interactions on average"
    if np.isfinite(m["amplification"]):
        text += (
            f", {1 + m['amplification']:.2f} times as many as an item drawn from the log in proportion to popularity "
            f"({m['expected_popularity']:,.1f})"
        )
    times = {s["name"]: 1 + s["amplification"] for s in segments if np.isfinite(s["amplification"])}
    if {"niche", "mainstream"} <= times.keys():
        text += f": {times['niche']:.2f} times for niche users, {times['mainstream']:.2f} times for mainstream users"
    if np.isfinite(highest):
        text += f"; recommending only the most popular items would give {1 + highest:.2f} times"
    if np.isfinite(m["popularity_lift"]):
        text += (
            f". It is {1 + m['popularity_lift']:.2f} times as popular as what the same users chose "
            f"({m['profile_popularity']:,.1f})"
        )
    return text


def _say_tail(m: Mapping[str, float]) -> str:
    text = (
        f"The tail, the items beyond the first 80 % of all interactions, gets {_percent(m['tail_share'])} of the "
        "recommendations"
    )
    drawn, chosen = m["expected_tail_share"], m["profile_tail_share"]
    against = [f"{_percent(drawn)} in such a draw"] if np.isfinite(m["amplification"]) else []
    against += [f"{_percent(chosen)} of what the users chose"] if np.isfinite(chosen) else []
    return f"{text}, compared with {' and '.join(against)}" if against else text


def _say_spread(m: Mapping[str, float], items: int) -> str:
    return (
        f"{round((1 - m['coverage']) * items):,} of {items:,} items ({_percent(1 - m['coverage'])}) are never "
        f"recommended, compared with {_percent(1 - m['expected_coverage'])} if every place were drawn from the log; "
        f"the most recommended 1 % take {_percent(m['most_recommended_share'])} of all places: "
        f"{'more' if m['gini'] > m['log_gini'] else 'less'} concentrated than the log (Gini {m['gini']:.3f} compared "
        f"with {m['log_gini']:.3f})"
    )


def _sign(value: float, within: float) -> int:
    return 0 if abs(value) <= within else 1 if value > 0 else -1


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
