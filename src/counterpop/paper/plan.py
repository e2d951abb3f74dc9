"""The plan of runs: which settings every cell is searched over, and how long a run may be.

A cell is a backbone, a data set and a method. Every method gets the same number of candidate settings, from its own
list (`Method.candidates`), at the same width. They are trained with the first seed, and the one with the best recall@20
on validation is taken; the other seeds train with it. Epochs and strengths are chosen on validation in every run. Test
plays no part in any choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import counterpop as cp
from counterpop.paper.published import BACKBONES, PLAIN

UNIFORM = ("negative_power", 0.0)  # what the paper has, so not worth showing
Candidates = Sequence[Mapping[str, Any]]

BACKBONE_TITLES = {"mf": "MF", "lightgcn": "LightGCN"}
METRIC_TITLES = {"recall": "Recall", "hit_rate": "HR", "ndcg": "NDCG"}

CANDIDATES = 3  # with one seed, MF then takes less than an hour on two cores
MOST_CANDIDATES = 8
QUICK_CANDIDATES = 2
SEARCHED = (
    *("loss", "lr", "reg", "initial_scale", "negatives", "negative_power"),
    *("epochs", "batch", "dim", "temperature", "logq"),
)
"""What candidates may differ in, with the options."""
LOOKS: dict[str, dict[str, Any]] = {  # fewer than by default
    "mf": {"check_every": 20, "patience": 5},
    "lightgcn": {"check_every": 15, "patience": 4},
}
QUICK_USERS = 1000
QUICK: dict[str, dict[str, Any]] = {
    "mf": {"dim": 16, "epochs": 10, "check_every": 5, "lr": 0.1},
    "lightgcn": {"dim": 8, "epochs": 2, "check_every": 1},
}
TIMED_EPOCHS = {"mf": 16, "lightgcn": 4}  # the first is a warm-up and not counted
PROPORTIONS = (0.0, 0.5, 0.75, 0.9, 1.0)  # of intervened pairs in the test part
ORDINARY = 0.1  # share of train that stands for the observed side when strengths are chosen for a proportion


def find_method(name: str) -> type[cp.Method]:
    """The method of a row of the tables; raises `InputError` if this version of the package does not have it."""
    for method in cp.METHODS:
        if method.name == name:
            return method
    raise cp.InputError(f"this version of counterpop has no method {name}")


def title_of(name: str) -> str:
    """A method as the tables show it."""
    return find_method(name).title


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one call of `counterpop paper` is asked to do."""

    quick: bool = False
    """A smoke run: a few users, a few epochs. Its figures mean nothing."""
    candidates: int = CANDIDATES
    """Settings that every method is searched over."""
    lightgcn_candidates: int | None = None
    """The same for LightGCN, whose runs take longest; None: the same number."""
    seeds: int = 1
    seed: int = 0
    """The first seed, which the search uses."""
    device: str = "cpu"
    mf_on_cpu: bool = False
    """MF on the CPU whatever the device."""
    backbones: tuple[str, ...] = BACKBONES

    @property
    def all_seeds(self) -> range:
        """The seeds that every cell is trained with."""
        return range(self.seed, self.seed + self.seeds)

    def check(self, backbone: str, method: str) -> None:
        """Raises `InputError` if such a cell cannot be run under this plan."""
        find_method(method)
        if backbone not in self.backbones:
            raise cp.InputError(f"{backbone} was left out by --backbone")

    def settings(self, backbone: str, method: str, **more: Any) -> dict[str, Any]:
        """The settings of a run: the defaults of its backbone and method, and `more`.

        What the paper fixes is named, whatever `counterpop train` would do by default: its loss, uniform negatives.
        """
        device = "cpu" if backbone == "mf" and self.mf_on_cpu else self.device
        return (
            {"backbone": backbone, "method": method, "loss": find_method(method).losses[0], "negative_power": 0.0}
            | {"device": device, "seed": self.seed}
            | (QUICK[backbone] if self.quick else LOOKS.get(backbone, {}))
            | more
        )

    def search(self, backbone: str, method: str, among: Candidates = (), **more: Any) -> list[dict[str, Any]]:
        """Every setting that a cell is searched over: of the method's own list, or `among` these.

        `more` is the same in all of them.
        Without normalised users, a method's own candidates alternate with those of plain training, which has none.
        """
        number = self.lightgcn_candidates if backbone == "lightgcn" else None
        number = number or self.candidates
        number = min(number, QUICK_CANDIDATES) if self.quick else number
        lists = [tuple(among) or find_method(method).candidates(backbone)]
        if more.get("normalised") is False:
            plain = cp.Settings(**self.settings(backbone, PLAIN))
            same = {name: getattr(plain, name) for name in ("lr", "reg", "initial_scale")}
            lists.append(tuple(same | dict(tried) for tried in find_method(PLAIN).candidates(backbone)))
        found: dict[str, dict[str, Any]] = {}
        for tried in itertools.chain(*zip(*lists, strict=True)):
            settings = self.settings(backbone, method) | dict(tried) | (QUICK[backbone] if self.quick else {}) | more
            found.setdefault(repr(cp.Settings(**settings)), settings)
        return list(found.values())[:number]
