"""A split as values: what training and tuning may see, the test part, and how they were drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from counterpop.interactions import BoolArray, Interactions, gini, join, pair_keys
from counterpop.presentation import Shown

LATER = "even draw from a later log"  # the protocol of parts that `debias` drew from a holdout


@dataclass(frozen=True, eq=False, repr=False)
class Development(Shown):
    """What training and tuning may see."""

    train: Interactions
    valid: Interactions
    intervened: BoolArray | None = None
    """For each train row, whether it was drawn by intervention (as in DICE); None if the split has no such rows."""
    ordinary: Interactions | None = None
    """A second validation part with the bias of the log; None if the split was made without."""
    drawn: str = "unknown"
    """How the validation part was drawn: see `SplitManifest.drawn`."""

    def refit_train(self) -> Interactions:
        """Train, validation and the ordinary part together: what a refit trains on."""
        return self._joined

    @cached_property
    def _joined(self) -> Interactions:
        return join(*(part for part in (self.train, self.valid, self.ordinary) if part is not None))

    def refit_intervened(self) -> BoolArray | None:
        """For each row of `refit_train`, whether it counts as intervened: so does validation if any of train does."""
        if self.intervened is None:
            return None
        known = np.concatenate([pair_keys(self.train.rows(self.intervened)), pair_keys(self.valid)])
        return np.isin(pair_keys(self.refit_train()), known)


@dataclass(frozen=True)
class SplitManifest:
    """How a split was made and what it holds; `dataclasses.asdict` of it can be written as JSON."""

    protocol: str
    seed: int
    settings: dict[str, Any]
    carved: str | None
    """How the validation part was carved out of train; None if the protocol or the log provided one."""
    counts: dict[str, int]
    """Pairs of each part; `train` includes `intervened`, and `left_out` are in no part."""
    gini: dict[str, float | None]
    """Gini of the item counts of each part, over all items of the log; None for an empty part."""
    untrained_items: int
    """Items of validation or test without a train row."""
    untrained_users: int

    @classmethod
    def of(
        cls, protocol: str, seed: int, settings: dict[str, Any], carved: str | None, parts: Mapping[str, Interactions]
    ) -> SplitManifest:
        """The manifest of these parts, which include train, validation, test and intervened."""
        train, held = parts["train"], (parts["valid"], parts["test"])
        return cls(
            protocol,
            int(seed),
            settings,
            carved,
            counts={name: len(rows) for name, rows in parts.items()},
            gini={name: gini(rows.item_counts) if len(rows) else None for name, rows in parts.items()},
            untrained_items=int(((sum(h.item_counts for h in held) > 0) & (train.item_counts == 0)).sum()),
            untrained_users=int(((sum(h.user_counts for h in held) > 0) & (train.user_counts == 0)).sum()),
        )

    @property
    def drawn(self) -> str:
        """How the validation part was drawn: "given" with the log, "carved, uniform" out of train, or "uniform"."""
        if self.carved:
            return f"carved, {self.carved}"
        return "given" if self.protocol == "as-given" else self.protocol

    @property
    def even(self) -> bool:
        """Whether validation and test are drawn as if every item were shown equally often, as far as is known."""
        drawn_evenly = (self.carved or self.protocol) in ("matched", "uniform", "intervened", LATER) or self.counts[
            "intervened"
        ] > 0
        return drawn_evenly and self.settings.get("proportion", 1) == 1


@dataclass(frozen=True, eq=False, repr=False)
class Split(Shown):
    """The parts of one log; all share its ids."""

    development: Development
    test: Interactions
    manifest: SplitManifest

    @property
    def train(self) -> Interactions:
        return self.development.train

    @property
    def valid(self) -> Interactions:
        return self.development.valid
