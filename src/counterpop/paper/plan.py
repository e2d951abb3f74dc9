"""The plan of runs: which settings every cell is searched over, and how long a run may be.

A cell is a backbone, a data set and a method. Its settings are searched with the first seed, and those with the best
recall@20 on validation are taken; the other seeds train with what was chosen. Epochs and strengths are chosen on
validation again in every run. Test plays no part in any choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import counterpop as cp
from counterpop.paper.published import BACKBONES, OURS, PLAIN

BACKBONE_TITLES = {"mf": "MF", "lightgcn": "LightGCN"}

LIKE = ("lr", "reg", "initial_scale")  # what one method may take over from another
SEARCHED = ("loss", *LIKE)  # what may differ between the settings that a cell is searched over, with the options
WIDE = {"lr": (1.0, 0.25), "reg": (1.0, 0.1, 10.0)}  # times the default
QUICK_USERS = 1500
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


def losses_of(method: type[cp.Method]) -> tuple[str, ...]:
    """The losses of a method that the paper's tables compare: without those that came later."""
    return tuple(loss for loss in method.losses if loss != "softmax")


def title_of(name: str) -> str:
    """A method as the tables show it."""
    return find_method(name).title


@dataclass(frozen=True)
class Plan:
    """What one call of `counterpop paper` is asked to do."""

    quick: bool = False
    """A smoke run: a few users, a few epochs. Its figures mean nothing."""
    wide: bool = False
    """Also search learning rate, penalty and the methods' own options: six times the runs and more."""
    seeds: int = 1
    baseline_seeds: int | None = None
    """For all methods but the paper's own; the same as `seeds` by default."""
    seed: int = 0
    """The first seed, which the search uses."""
    device: str = "cpu"
    mf_on_cpu: bool = False
    """MF on the CPU whatever the device."""
    backbones: tuple[str, ...] = BACKBONES

    def seeds_of(self, method: str = OURS, **more: Any) -> range:
        """The seeds that a cell is trained with; with `more` settings it is not the paper's own method any longer."""
        own = method == OURS and not more
        number = self.seeds if own or self.baseline_seeds is None else self.baseline_seeds
        return range(self.seed, self.seed + number)

    def check(self, backbone: str, method: str) -> None:
        """Raises `InputError` if such a cell cannot be run under this plan."""
        find_method(method)
        if backbone not in self.backbones:
            raise cp.InputError(f"{backbone} was left out by --backbone")

    def settings(self, backbone: str, method: str, **more: Any) -> dict[str, Any]:
        """The settings of a run: the defaults of its backbone and method, and `more`."""
        device = "cpu" if backbone == "mf" and self.mf_on_cpu else self.device
        return (
            {"backbone": backbone, "method": method, "device": device, "seed": self.seed}
            | (QUICK[backbone] if self.quick else {})
            | more
        )

    def candidates(self, backbone: str, method: str, **more: Any) -> list[dict[str, Any]]:
        """Every setting that a cell is searched over, each once; `more` is the same in all of them.

        Those that the method refuses are left out.
        """
        found: dict[str, dict[str, Any]] = {}
        for tried in self._combinations(backbone, method, more):
            settings = self.settings(backbone, method) | tried | more
            try:
                found.setdefault(repr(cp.Settings(**settings)), settings)
            except cp.InputError:
                continue
        return list(found.values())

    def _combinations(self, backbone: str, name: str, more: dict[str, Any]) -> Iterator[dict[str, Any]]:
        method, default = find_method(name), cp.Settings(**self.settings(backbone, name))
        factors = WIDE if self.wide else {}
        values = [[getattr(default, setting) * factor for factor in WIDE[setting]] for setting in factors]
        losses = losses_of(method)
        for loss, *rest in itertools.product(losses, *values):
            yield {"loss": loss, **dict(zip(factors, rest, strict=True))}
        for loss, variant in itertools.product(losses, method.variants() if self.wide else ()):
            yield {"loss": loss, "method": variant}
        if method.tries_plain_settings or more.get("normalised") is False:  # plain training's may suit them better
            plain = cp.Settings(**self.settings(backbone, PLAIN))
            same = {setting: getattr(plain, setting) for setting in LIKE}
            yield from ({"loss": loss} | same for loss in losses)
