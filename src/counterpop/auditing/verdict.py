"""The result of an audit, and what its figures amount to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing.definitions import DEFINITIONS, GROUP_RULE, NOTES, SEGMENT_RULE
from counterpop.encoding import to_plain
from counterpop.interactions import IntArray
from counterpop.ledger import GradientPicture
from counterpop.metrics.popularity import mean_by_rank

Leaning = Literal["popular", "even", "tail", "middle", "ends", "unknown"]
EVEN, EVEN_TAIL = 0.1, 0.2  # popularity and tail share within this much of the log's count as equal to it
STRONG = 0.5  # "strongly": half as popular as the log, or half of the way to the most popular items
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

    @property
    def text(self) -> str:
        """Both as one paragraph."""
        return f"{self.headline}. {self.reasons}"


@dataclass(frozen=True, eq=False)
class Audit:
    """What lists expose, compared with what their users chose. Figures cover all lists, not a sample."""

    k: int
    users: int
    """Number of lists."""
    items: int
    head_items: int
    measures: Mapping[str, float]
    """By the names of `DEFINITIONS`; NaN for a figure that cannot be known."""
    groups: tuple[Mapping[str, Any], ...]
    """For each popularity group: its items, and its share of interactions and of recommendations."""
    segments: tuple[Mapping[str, Any], ...]
    """Niche, mixed, mainstream: the number of users, their profiles and their lists."""
    notes: Mapping[str, int]
    """Numbers that are not 0, by the names of `NOTES`."""
    user_ix: IntArray
    """(B,) positions of the users."""
    per_user: Mapping[str, NDArray[np.float64]]
    """(B,) each figure that is a mean over users; NaN where a list or a profile is empty."""
    exposure: NDArray[np.int64]
    """(I,) number of lists each item is in."""
    item_counts: NDArray[np.int64]
    """(I,) interactions of each item in the log."""
    picture: GradientPicture | None = None
    """If training kept a ledger: how the gradients moved each item."""

    @property
    def published(self) -> dict[str, float]:
        """The figures under their published names."""
        return {d.published: self.measures[name] for name, d in DEFINITIONS.items() if d.published}

    @property
    def sentences(self) -> list[str]:
        """The notes in words."""
        return [f"{NOTES[name].format(k=self.k)}: {n:,}." for name, n in self.notes.items()]

    @cached_property
    def verdict(self) -> Verdict:
        """What the figures amount to."""
        return judge(self)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON: items in bins of popularity ranks, and None for figures that cannot be known."""
        rank, lists = mean_by_rank(self.exposure / max(1, self.users), self.item_counts)
        values: dict[str, Any] = {
            **{name: getattr(self, name) for name in ("k", "users", "items", "head_items")},
            "verdict": {"leaning": self.verdict.leaning, "headline": self.verdict.headline, "text": self.verdict.text},
            **self.measures,
            "published": self.published,
            "groups": self.groups,
            "segments": self.segments,
            "frequency_by_rank": {"rank": rank, "share_of_users": lists},
            "notes": self.notes,
            "definitions": {
                name: {"label": d.label, "definition": d.text, "source": d.source, "published": d.published}
                for name, d in DEFINITIONS.items()
            },
            "segment_rule": SEGMENT_RULE,
            "group_rule": GROUP_RULE,
        }
        if self.picture is not None:
            parts = ("cosine_pull", "cosine_push", "norm_pull", "norm_push")
            curves = {name: mean_by_rank(getattr(self.picture, name), self.item_counts)[1] for name in parts}
            values["gradient"] = {"rank": rank, **curves}
        return dict(to_plain(values))


def judge(audit: Audit) -> Verdict:
    """The verdict. Popularity and tail share against the log decide its direction; the other figures are context.

    If every item with interactions is in the profiles, nothing can be drawn from the log, so nothing is compared.
    """
    m = audit.measures
    highest = m["highest_popularity"] / m["expected_popularity"] - 1
    tail_ratio = m["tail_share"] / m["expected_tail_share"] if m["expected_tail_share"] else 1.0
    more = m["amplification"]
    leaning: Leaning = "unknown"
    if np.isfinite(more):
        leaning = LEANINGS[_sign(more, EVEN), _sign(tail_ratio - 1, EVEN_TAIL)]
    strongly = "strongly " if more > STRONG * highest > 0 or more < -STRONG else ""
    reasons = f"{_say_popularity(audit, highest)}. {_say_tail(m)}. {_say_spread(audit)}."
    return Verdict(leaning, HEADLINES[leaning].format(strongly=strongly), reasons)


def _say_popularity(audit: Audit, highest: float) -> str:
    m = audit.measures
    text = f"A recommended item has {m['average_popularity']:,.1f} interactions on average"
    if np.isfinite(m["amplification"]):
        text += (
            f", {1 + m['amplification']:.2f} times as many as an item drawn from the log in proportion to popularity "
            f"({m['expected_popularity']:,.1f})"
        )
    times = {s["name"]: 1 + s["amplification"] for s in audit.segments if np.isfinite(s["amplification"])}
    if {"niche", "mainstream"} <= times.keys():
        text += f": {times['niche']:.2f} times for niche users, {times['mainstream']:.2f} times for mainstream users"
    if np.isfinite(highest):
        text += f"; recommending only the most popular items would give {1 + highest:.2f} times"
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


def _say_spread(audit: Audit) -> str:
    m = audit.measures
    return (
        f"{int((audit.exposure == 0).sum()):,} of {audit.items:,} items ({_percent(1 - m['coverage'])}) are never "
        f"recommended, and the most recommended 1 % take {_percent(m['most_recommended_share'])} of all places: "
        f"{'more' if m['gini'] > m['log_gini'] else 'less'} concentrated than the log (Gini {m['gini']:.3f} compared "
        f"with {m['log_gini']:.3f})"
    )


def _sign(value: float, within: float) -> int:
    return 0 if abs(value) <= within else 1 if value > 0 else -1


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
