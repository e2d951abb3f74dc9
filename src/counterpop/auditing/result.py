"""The result of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpop.auditing.definitions import DEFINITIONS, GROUP_RULE, NOTES, SEGMENT_RULE
from counterpop.auditing.grades import THRESHOLDS, Grade, grades, meanings
from counterpop.auditing.intervals import Interval, interval_of
from counterpop.auditing.tables import category_tables, never_recommended, over_exposed
from counterpop.auditing.verdict import Verdict, judge
from counterpop.encoding import to_plain
from counterpop.interactions import Ids, IntArray
from counterpop.ledger import GradientPicture
from counterpop.metrics.popularity import mean_by_rank
from counterpop.panels import Sample
from counterpop.presentation import Pictured
from counterpop.readers import Labels


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Pictured):
    """What lists expose, compared with what their users chose."""

    k: int
    users: int
    """Number of lists."""
    items: int
    head_items: int
    measures: Mapping[str, float]
    """By the names of `DEFINITIONS`; NaN for a figure that cannot be known."""
    without: Mapping[str, NDArray[np.float64]]
    """(folds,) each measure of the lists, without each fold of users: see `auditing.intervals`."""
    groups: tuple[Mapping[str, Any], ...]
    """For each popularity group: its items, and its share of interactions and of recommendations."""
    segments: tuple[Mapping[str, Any], ...]
    """Niche, mixed, mainstream: the number of users, their profiles and their lists."""
    attributes: Mapping[str, tuple[Mapping[str, Any], ...]]
    """The same for the values of each attribute of users."""
    notes: Mapping[str, int]
    """Numbers that are not 0, by the names of `NOTES`."""
    user_ix: IntArray
    """(B,) positions of the users."""
    per_user: Mapping[str, NDArray[np.float64]]
    """(B,) each figure that is a mean over users; NaN where a list or a profile is empty."""
    exposure: NDArray[np.int64]
    """(I,) number of lists each item is in."""
    attention: NDArray[np.float64]
    """(I,) the same, each place weighted by 1 / log2(1 + rank)."""
    item_counts: NDArray[np.int64]
    """(I,) interactions of each item in the log."""
    item_ids: Ids
    user_ids: Ids
    """Of the log, in the order of its positions."""
    labels: Labels | None = None
    """What items are called, and their categories."""
    picture: GradientPicture | None = None
    """If training kept a ledger: how the gradients moved each item."""
    sample: Sample | None = None
    """Whose lists were audited, if not everybody's."""

    @property
    def published(self) -> dict[str, float]:
        """The figures under their published names."""
        return {d.published: self.measures[name] for name, d in DEFINITIONS.items() if d.published}

    @property
    def sentences(self) -> list[str]:
        """The notes in words."""
        sampled = [self.sample.sentence] if self.sample else []
        return sampled + [f"{NOTES[name].format(k=self.k)}: {n:,}." for name, n in self.notes.items()]

    @cached_property
    def verdict(self) -> Verdict:
        """What the figures amount to."""
        return judge(self.measures, self.segments, self.items)

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """A 95 % interval for each measure that has one."""
        found = {name: interval_of(name, self.measures[name], self.without[name]) for name in self.without}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def grades(self) -> dict[str, Grade]:
        return grades(self.measures)

    @property
    def meanings(self) -> dict[str, str]:
        """What each measure means for these lists, in a sentence."""
        return meanings(self.measures)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON: items in bins of popularity ranks, and None for figures that cannot be known."""
        rank, lists = mean_by_rank(self.exposure / max(1, self.users), self.item_counts)
        verdict = self.verdict
        values: dict[str, Any] = {
            **{name: getattr(self, name) for name in ("k", "users", "items", "head_items")},
            "verdict": {name: getattr(verdict, name) for name in ("leaning", "headline", "text", "grade")},
            **self.measures,
            "published": self.published,
            "intervals": {name: one._asdict() for name, one in self.intervals.items()},
            "without": self.without,
            "grades": self.grades,
            "meanings": self.meanings,
            "groups": self.groups,
            "segments": self.segments,
            "attributes": self.attributes,
            "categories": category_tables(self),
            "over_exposed": over_exposed(self),
            "never_recommended": never_recommended(self),
            "frequency_by_rank": {"rank": rank, "share_of_users": lists},
            "notes": self.notes,
            "definitions": {
                name: {"label": d.label, "definition": d.text, "source": d.source, "published": d.published}
                for name, d in DEFINITIONS.items()
            },
            "thresholds": {name: threshold.text for name, threshold in THRESHOLDS.items()},
            "segment_rule": SEGMENT_RULE,
            "group_rule": GROUP_RULE,
        }
        if self.sample is not None:
            values["sample"] = self.sample.to_json()
        if self.picture is not None:
            parts = ("cosine_pull", "cosine_push", "norm_pull", "norm_push")
            curves = {name: mean_by_rank(getattr(self.picture, name), self.item_counts)[1] for name in parts}
            values["gradient"] = {"rank": rank, **curves}
        return dict(to_plain(values))
