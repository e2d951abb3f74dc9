"""The plan of runs: which settings every cell is searched over, and how long a run may be.

A cell is a backbone, a data set and a method. Its settings are searched with the first seed and the best
recall@20 on validation is taken; the other seeds train with what was chosen. Epochs and strengths are
chosen on validation again in every run. Test takes no part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, get_args, get_type_hints

import counterpop as cp

METHODS = ("plain", "ips", "cause", "dice", "macr", "gradient")  # the rows of the paper's tables
BACKBONES = ("mf", "lightgcn")
METHOD_TITLES = {
    "plain": "plain",
    "ips": "IPS",
    "cause": "CausE",
    "dice": "DICE",
    "macr": "MACR",
    "gradient": "gradient",
}
BACKBONE_TITLES = {"mf": "MF", "lightgcn": "LightGCN"}

LOSSES = ("bpr", "bce")
LIKE = ("lr", "reg", "initial_scale")  # what one method may take over from another
LOSS_OF_PLAIN = ("ips", "cause")  # take the loss that plain training is better with
SEARCHED = ("loss", *LIKE, "options")  # what may differ between the settings that a cell is searched over
WIDE = {"lr": (1.0, 0.25), "reg": (1.0, 0.1, 10.0)}  # times the default
# What a method alone can set, tried with --wide at the default rate and penalty: public class and values
OWN: dict[str, tuple[str, tuple[dict[str, Any], ...]]] = {
    "ips": ("IPS", ({"power": 0.5}, {"power": 1.0}, {"clip": 1.0})),
    "cause": ("CausE", ({"penalty": 0.1}, {"penalty": 0.001})),
    "dice": ("DICE", ({"margin": 20.0}, {"weight": 0.5}, {"penalty": 0.1})),
    "macr": ("MACR", ({"item_weight": 1e-2, "user_weight": 1e-3}, {"item_weight": 1e-1, "user_weight": 1e-1})),
}
QUICK_USERS = 1500
QUICK: dict[str, dict[str, Any]] = {
    "mf": {"dim": 16, "epochs": 10, "check_every": 5, "lr": 0.1},
    "lightgcn": {"dim": 8, "epochs": 2, "check_every": 1},
}
TIMED_EPOCHS = {"mf": 16, "lightgcn": 4}  # the first warms up and is not counted
PROPORTIONS = (0.0, 0.5, 0.75, 0.9, 1.0)  # of intervened pairs in the test part
ORDINARY = 0.1  # share of train that stands for the observed side when strengths are chosen for a proportion


def known_methods() -> tuple[str, ...]:
    """The methods that this version of the package can train."""
    return get_args(get_type_hints(cp.Settings)["method"])


@dataclass(frozen=True)
class Plan:
    """What one call of `counterpop paper` is asked to do."""

    quick: bool = False
    """A smoke run: a few users, a few epochs. Its figures mean nothing."""
    wide: bool = False
    """Search learning rate, penalty and a method's own settings too: six times the runs and more."""
    seeds: int = 1
    baseline_seeds: int | None = None
    """Of all methods but the paper's own; as many as `seeds` unless given."""
    seed: int = 0
    """The first of them, which the search uses."""
    device: str = "cpu"
    mf_on_cpu: bool = False
    """MF on the CPU whatever the device."""
    backbones: tuple[str, ...] = BACKBONES

    def seeds_of(self, method: str = "gradient", **more: Any) -> range:
        """The seeds that a cell is trained with; `more` makes it another method than the paper's."""
        own = method == "gradient" and not more
        number = self.seeds if own or self.baseline_seeds is None else self.baseline_seeds
        return range(self.seed, self.seed + number)

    def check(self, backbone: str, method: str) -> None:
        """Raises `InputError` where such a cell cannot be run under this plan."""
        if method not in known_methods():
            raise cp.InputError(f"this version of counterpop has no method {method}")
        if backbone not in self.backbones:
            raise cp.InputError(f"{backbone} was left out by --backbone")

    def settings(self, backbone: str, method: str, **more: Any) -> dict[str, Any]:
        """Settings of a run: the defaults of its backbone and method unless said otherwise."""
        device = "cpu" if backbone == "mf" and self.mf_on_cpu else self.device
        return (
            {"backbone": backbone, "method": method, "device": device, "seed": self.seed}
            | (QUICK[backbone] if self.quick else {})
            | more
        )

    def candidates(self, backbone: str, method: str, **more: Any) -> list[dict[str, Any]]:
        """Every setting that a cell is searched over, without those that the method refuses (a loss of its
        own) and each once; `more` is the same in all."""
        found: dict[str, dict[str, Any]] = {}
        combinations = [*self._combinations(backbone, method)]
        if method == "dice" or more.get("normalised") is False:  # plain's may suit them better
            plain = cp.Settings(**self.settings(backbone, "plain"))
            same = {name: getattr(plain, name) for name in LIKE}
            combinations += [{"loss": loss} | same for loss in LOSSES]
        for tried in combinations:
            settings = self.settings(backbone, method, **tried | more)
            try:
                found.setdefault(repr(asdict(cp.Settings(**settings))), settings)
            except cp.InputError:
                continue
        return list(found.values())

    def _combinations(self, backbone: str, method: str) -> Iterator[dict[str, Any]]:
        default = cp.Settings(**self.settings(backbone, method))
        factors = WIDE if self.wide else {}
        values = [[getattr(default, name) * factor for factor in WIDE[name]] for name in factors]
        for loss, *rest in itertools.product(LOSSES, *values):
            yield {"loss": loss, **dict(zip(factors, rest, strict=True))}
        name, own = OWN.get(method, ("", ()))
        if self.wide and hasattr(cp, name):
            for loss, given in itertools.product(LOSSES, own):
                yield {"loss": loss, "options": getattr(cp, name)(**given)}
