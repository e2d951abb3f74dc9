"""A cell of the tables: a method on a data set, its settings chosen, trained and measured for every seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import counterpop as cp
from counterpop.paper.cache import Record
from counterpop.paper.datasets import TITLES
from counterpop.paper.plan import BACKBONE_TITLES, find_method, title_of
from counterpop.paper.published import METRICS, PLAIN
from counterpop.paper.results import Table, summarise
from counterpop.paper.runs import Bench


@dataclass(frozen=True, eq=False)
class Cell:
    """The results of a cell; without records it is missing, and `missing` says why."""

    dataset: str
    backbone: str
    method: str
    records: tuple[Record, ...] = ()
    validated: tuple[Record, ...] = ()
    searched: tuple[dict[str, Any], ...] = ()
    missing: str | None = None

    @property
    def title(self) -> str:
        return f"{BACKBONE_TITLES[self.backbone]} {title_of(self.method)}, {TITLES[self.dataset]}"

    def figure(self, metric: str, kind: str = "adjusted") -> dict[str, Any] | None:
        """A test figure over the seeds; with `kind` "plain" that of the same model before its adjustment."""
        if not self.records:
            return None
        single = self.records[0][kind]["intervals"].get(metric)
        return summarise([record[kind][metric] for record in self.records], single)

    def mean(self, metric: str = "recall") -> float | None:
        figure = self.figure(metric)
        return figure["mean"] if figure else None

    def side(self, side: str, metric: str) -> dict[str, Any] | None:
        """A test figure with one side off."""
        return summarise([record["sides"][side][metric] for record in self.records]) if self.records else None

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


def run_cell(bench: Bench, dataset: str, backbone: str, method: str, **more: Any) -> Cell:
    """The cell with its settings chosen on validation; `more` is the same in all that are tried.

    If it cannot be trained, it is a missing cell with the reason.
    """
    try:
        bench.plan.check(backbone, method)
        if find_method(method).follows_plain_loss:
            more |= {"loss": bench.choose(dataset, backbone, PLAIN).settings["loss"]}
        choice = bench.choose(dataset, backbone, method, **more)
        settings = [choice.settings | {"seed": seed} for seed in bench.plan.seeds_of(method, **more)]
        tested = tuple(bench.tested(dataset, one) for one in settings)
        validated = tuple(bench.validated(dataset, one) for one in settings)
    except cp.InputError as error:
        return Cell(dataset, backbone, method, missing=str(error))
    return Cell(dataset, backbone, method, tested, validated, tuple(choice.searched))


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
            "The search uses the first seed. Epochs and strengths are chosen on validation in every run. Settings "
            "that are not listed are the method's defaults.",
        ),
    )


def reasons(cells: list[Cell]) -> tuple[str, ...]:
    """The missing cells, one sentence per reason."""
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        if cell.missing is not None:
            by_reason.setdefault(cell.missing, []).append(cell.title)
    return tuple(f"{'; '.join(titles)}: {why}." for why, titles in by_reason.items())
