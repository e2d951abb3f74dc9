"""Good, watch or bad: stated thresholds for each measure, and what a measure means for the lists at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from counterpop.auditing.definitions import DEFINITIONS

Grade = Literal["good", "watch", "bad", "unknown"]


@dataclass(frozen=True)
class Threshold:
    """Where a measure, or its distance from a reference, starts to be watched and to be bad."""

    watch: float
    bad: float
    reference: str = ""
    """Another measure that it is compared with; none if the value itself is judged."""
    how: Literal["times", "more"] = "times"
    """Whether value / reference or value - reference is judged."""

    def grade(self, measures: Mapping[str, float], name: str) -> Grade:
        """The grade of a measure; "unknown" if it or its reference cannot be computed."""
        value = measures[name]
        if self.reference:
            other = measures[self.reference]
            if self.how == "more":
                value -= other
            else:
                value = value / other if other else float("nan")
        if not isfinite(value):
            return "unknown"
        sign = 1 if self.bad > self.watch else -1
        if sign * value > sign * self.bad:
            return "bad"
        return "watch" if sign * value > sign * self.watch else "good"

    @property
    def text(self) -> str:
        """The rule in words."""
        side = "above" if self.bad > self.watch else "below"
        what = f"“{DEFINITIONS[self.reference].label}”" if self.reference else ""
        if not self.reference:
            return f"watch {side} {self.watch:g}, bad {side} {self.bad:g}"
        if self.how == "more":
            return f"watch {side} {what} + {self.watch:g}, bad {side} {what} + {self.bad:g}"
        return f"watch {side} {self.watch:g} times {what}, bad {side} {self.bad:g} times"


THRESHOLDS: Mapping[str, Threshold] = {
    "amplification": Threshold(0.1, 0.5),
    "popularity_lift": Threshold(0.1, 0.5),
    "tail_share": Threshold(0.8, 0.5, "expected_tail_share"),
    "coverage": Threshold(0.8, 0.5, "expected_coverage"),
    "gini": Threshold(0.05, 0.15, "log_gini", "more"),
    "most_recommended_share": Threshold(1.25, 2.0, "log_top_share"),
    "exposure_disparity": Threshold(1.5, 3.0, "log_disparity"),
    "exposure_loss": Threshold(0.25, 1.0, "log_disparity"),
    "awrf": Threshold(0.95, 0.8),
    "miscalibration": Threshold(0.1, 0.3),
    "pop_rsp": Threshold(0.02, 0.1, "expected_pop_rsp", "more"),
    "pop_reo": Threshold(0.2, 0.5),
}
"""Conventions of this page, not of any law; they judge too much popularity, never too little."""

MEANINGS: Mapping[str, str] = {
    "average_popularity": "A recommended item has {average_popularity:,.1f} interactions on average.",
    "expected_popularity": "Drawn from the log by chance, an item would have {expected_popularity:,.1f} interactions.",
    "amplification": "What is shown is {times_log:.2f} times as popular as chance draws from the log.",
    "profile_popularity": "An item that these users chose has {profile_popularity:,.1f} interactions on average.",
    "highest_popularity": "Showing everybody only hits would give {highest_popularity:,.1f} interactions.",
    "popularity_lift": "What is shown is {times_profile:.2f} times as popular as what the same users chose.",
    "tail_share": "Of 100 recommended items, {tail_percent:.1f} are tail items; chance draws from the log would hold "
    "{expected_tail_percent:.1f}.",
    "expected_tail_share": "Chance draws from the log hold {expected_tail_percent:.1f} tail items in 100.",
    "profile_tail_share": "Of 100 items that these users chose, {profile_tail_percent:.1f} are tail items.",
    "tail_items": "A list holds {tail_items:.2f} tail items on average.",
    "tail_coverage": "{tail_coverage_percent:.1f} % of the tail items are shown to anybody at all.",
    "coverage": "{never_percent:.1f} % of the items are never recommended; as many chance draws from the log would "
    "miss {expected_never_percent:.1f} %.",
    "expected_coverage": "As many chance draws from the log would reach {expected_coverage_percent:.1f} % of the "
    "items.",
    "gini": "Exposure is {concentrated} concentrated than the interactions of the log ({gini:.3f} and {log_gini:.3f}).",
    "log_gini": "What users choose is itself uneven: {log_gini:.3f}.",
    "most_recommended_share": "1 % of the items take {top_percent:.1f} % of all places; the top 1 % of the log have "
    "{log_top_percent:.1f} % of the interactions.",
    "log_top_share": "1 % of the items have {log_top_percent:.1f} % of the interactions.",
    "exposure_disparity": "Attention is as concentrated as if {effective_items:,.0f} items shared it equally; the "
    "interactions of the log, as if {log_effective_items:,.0f} did.",
    "log_disparity": "The interactions are as concentrated as if {log_effective_items:,.0f} items shared them equally.",
    "exposure_loss": "The distance between attention and interactions is {loss_times:.2f} times the log's own "
    "disparity.",
    "awrf": "The mix of top, middle and tail items that gets attention agrees with the log by {awrf_percent:.1f} %.",
    "miscalibration": "Lists differ from what their users chose by {miscalibration:.3f} on a scale from 0 to 1.",
    "pop_rsp": "Head and tail items have chances of being shown that differ by {pop_rsp:.3f}; in draws from the log "
    "by {expected_pop_rsp:.3f}.",
    "expected_pop_rsp": "In draws from the log, the chances of head and tail items differ by {expected_pop_rsp:.3f}.",
    "pop_reo": "Liked head and tail items have chances of being found that differ by {pop_reo:.3f}.",
}
"""What each measure means here, filled with `numbers_in_words`."""


def numbers_in_words(measures: Mapping[str, float]) -> dict[str, float | str]:
    """The numbers that the sentences of `MEANINGS` name."""
    m = measures

    def inverse(name: str) -> float:
        return 1 / m[name] if m[name] else float("nan")

    percents = {
        "tail_percent": m["tail_share"],
        "expected_tail_percent": m["expected_tail_share"],
        "profile_tail_percent": m["profile_tail_share"],
        "tail_coverage_percent": m["tail_coverage"],
        "never_percent": 1 - m["coverage"],
        "expected_never_percent": 1 - m["expected_coverage"],
        "expected_coverage_percent": m["expected_coverage"],
        "top_percent": m["most_recommended_share"],
        "log_top_percent": m["log_top_share"],
        "awrf_percent": m["awrf"],
    }
    return {
        **m,
        **{name: 100 * share for name, share in percents.items()},
        "times_log": 1 + m["amplification"],
        "times_profile": 1 + m["popularity_lift"],
        "concentrated": "more" if m["gini"] > m["log_gini"] else "less",
        "effective_items": inverse("exposure_disparity"),
        "log_effective_items": inverse("log_disparity"),
        "loss_times": m["exposure_loss"] * inverse("log_disparity"),
    }


def meanings(measures: Mapping[str, float]) -> dict[str, str]:
    """What each measure means for these lists, in a sentence; another sentence if it cannot be computed."""
    words = numbers_in_words(measures)
    unknown = {"pop_reo": "It needs held-out pairs (--holdout), and lists that find some of them."}
    return {
        name: text.format(**words)
        if isfinite(measures[name])
        else unknown.get(name, "It cannot be computed for these lists.")
        for name, text in MEANINGS.items()
    }


def grades(measures: Mapping[str, float]) -> dict[str, Grade]:
    """The grade of every measure that has a threshold."""
    return {name: threshold.grade(measures, name) for name, threshold in THRESHOLDS.items()}


def worst(those: Mapping[str, Grade]) -> Grade:
    """The worst grade; "unknown" only if nothing could be graded."""
    return next((grade for grade in ("bad", "watch", "good") if grade in those.values()), "unknown")
