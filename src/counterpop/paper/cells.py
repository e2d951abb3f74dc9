"""A cell of the tables: a method on a data set, its settings chosen, trained and measured for every seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.paper.cache import Record
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, Candidates, find_method, title_of
from counterpop.paper.published import METRICS
from counterpop.paper.results import Table
from counterpop.paper.runs import Bench
from counterpop.uncertainty import Spread, normal, over_seeds


@dataclass(frozen=True, eq=False)
class Cell:
    """The results of a cell; without records it is missing, and `missing` says why."""

    dataset: str
    backbone: str
    method: str
    variant: str = ""
    """What sets it apart from the method's own row."""
    records: tuple[Record, ...] = ()
    validated: tuple[Record, ...] = ()
    estimated: tuple[Record, ...] = ()
    searched: tuple[dict[str, Any], ...] = ()
    missing: str | None = None

    @property
    def place(self) -> str:
        return f"{BACKBONE_TITLES[self.backbone]} {TITLES[self.dataset]}"

    @property
    def row_title(self) -> str:
        return ", ".join(filter(None, (title_of(self.method), self.variant)))

    @property
    def title(self) -> str:
        return f"{BACKBONE_TITLES[self.backbone]} {self.row_title}, {TITLES[self.dataset]}"

    def spread(self, metric: str = "recall", kind: str = "adjusted") -> Spread | None:
        """A test figure over the seeds and users. `kind`: "adjusted", "plain" (both strengths 0), "item off" or
        "user off"."""
        if not self.records:
            return None
        parts = [record[kind] for record in self.records]  # of the same runs: one draw of seeds serves every kind
        return over_seeds([one[metric] for one in parts], [one["draws"][metric] for one in parts], self.title)

    def figure(self, metric: str, kind: str = "adjusted") -> dict[str, Any] | None:
        """The same as `table3.json` holds it."""
        spread = self.spread(metric, kind)
        return spread.to_json() if spread else None

    def popularity(self, name: str, group: int | None = None) -> Spread | None:
        """A figure of the lists' popularity, such as "tail_share", or the "frequency" or "recall" of a group.

        Its noise is that of users (a quarter of the 95 % interval's width) and of seeds.
        """
        values, errors = [], []
        for record in self.records:
            found = record["adjusted"]
            value = found[name] if group is None else found["groups"][group][name]
            interval = found["intervals"].get(name if group is None else f"group_{group + 1}_{name}")
            if value is None or interval is None:
                return None
            values.append(value)
            errors.append((interval[1] - interval[0]) / 3.92)
        if not values:
            return None
        seeds = np.var(values, ddof=1) / len(values) if len(values) > 1 else 0.0
        error = float(np.sqrt(np.mean(np.square(errors)) + seeds))
        spread = normal(float(np.mean(values)), error, f"{self.title}{'' if group is None else group}{name}")
        return replace(spread, seeds=len(values))

    @property
    def share_with_test(self) -> float:
        """What turns an average over users with test items into one over all users."""
        return self.records[0]["users"] / self.records[0]["all_users"] if self.records else 1.0

    def chosen(self) -> dict[str, Any]:
        """What validation chose (settings, and epochs and strengths for every seed), and what it chose from."""
        if not self.records:
            return {}
        first = self.records[0]["settings"]
        return {
            "settings": first,
            "epochs": [record["settings"]["chosen_epochs"] for record in self.records],
            "strengths": [record["strengths"] for record in self.records],
            "refit": first["refit"],
            "searched": list(self.searched),
        }

    def row(self) -> dict[str, Any]:
        """The cell as `table3.json` holds it."""
        figures = {metric: self.figure(metric) for metric in METRICS}
        return {"backbone": self.backbone, "dataset": self.dataset, "method": self.method, **figures}


def run_cell(
    bench: Bench, dataset: str, backbone: str, method: str, variant: str = "", among: Candidates = (), **more: Any
) -> Cell:
    """The cell with its settings chosen on validation, see `Plan.search`; `more` is the same in all that are tried.

    If it cannot be trained, it is a missing cell with the reason.
    """
    try:
        bench.plan.check(backbone, method)
        choice = bench.choose(dataset, backbone, method, among, **more)
        tested, validated, estimated = [], [], []
        for seed in bench.plan.all_seeds:
            settings = choice.settings | {"seed": seed}
            tested.append(bench.tested(dataset, settings))
            validated.append(bench.validated(dataset, settings))
            if find_method(method).keeps_ledger and not (more or among):
                estimated.append(bench.estimated(dataset, settings))
    except cp.InputError as error:
        return Cell(dataset, backbone, method, variant, missing=str(error))
    records = tuple(tested), tuple(validated), tuple(estimated)
    return Cell(dataset, backbone, method, variant, *records, tuple(choice.searched))


def searched_table(cells: list[Cell]) -> Table:
    """Every setting that was tried, and what validation chose."""
    rows = []
    for cell in cells:
        chosen = cell.chosen()
        for one in cell.searched:
            values = ", ".join(f"{key} {value}" for key, value in one["settings"].items())
            taken = one.get("chosen", False)
            rows.append(
                [
                    cell.title,
                    values,
                    one.get("recall", one.get("missing")),
                    "chosen" if taken else "",
                    ", ".join(map(str, chosen["epochs"])) if taken else "",
                    ", ".join(f"{a:g} / {b:g}" for a, b in chosen["strengths"]) if taken else "",
                    ("yes" if chosen["refit"] else "no") if taken else "",
                ]
            )
    columns = ("Cell", "Settings tried", "Recall on validation", "", "Epochs by seed", "Strengths item / user", "Refit")
    return Table(
        "What was searched and chosen",
        columns,
        rows,
        (
            "All methods of a backbone have the same number of candidates. The search uses the first seed. Epochs and "
            "strengths are chosen on validation in every run. Settings that are not listed are the method's defaults.",
        ),
    )


def reasons(cells: list[Cell]) -> tuple[str, ...]:
    """The missing cells, one sentence per reason; places of which nothing is there as one."""
    by_reason: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.missing is not None:
            by_reason.setdefault(cell.missing, []).append(cell)
    rows = Counter(cell.place for cell in cells)
    sentences = []
    for why, missing in by_reason.items():
        lost = Counter(cell.place for cell in missing)
        names = (f"all of {cell.place}" if lost[cell.place] == rows[cell.place] > 1 else cell.title for cell in missing)
        sentences.append(f"{'; '.join(dict.fromkeys(names))}: {why}.")
    return tuple(sentences)
