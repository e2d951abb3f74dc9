"""A run folder, measured for a report."""

from __future__ import annotations

from pathlib import Path

from counterpop.artifacts import load_tested
from counterpop.evaluation import On, evaluate
from counterpop.readers import LabelSources
from counterpop.reporting.cases import typical_users
from counterpop.reporting.catalogue import Catalogue
from counterpop.reporting.findings import RunReport, is_adjusted


def summarise(
    path: str | Path, k: int = 20, seed: int = 0, on: On = "test", about: LabelSources | None = None
) -> RunReport:
    """What a report shows of a run folder, measured on a held-out part.

    `about` are the names and categories of items.
    """
    saved, split = load_tested(path)
    model, known = saved.recommender(split.development, on), split.development
    found, log = evaluate(model, split, on, k, seed=seed), saved.trained_on(known, on)
    held = split.test if on == "test" else known.valid
    return RunReport(
        Path(path).resolve().name,
        saved.run.settings | {"validation": known.drawn, "versions": saved.manifest["versions"]},
        saved.run.history,
        found,
        log.item_counts,
        saved.grid,
        saved.run.ledger,
        saved.manifest["tuning"],
        catalogue=Catalogue(log.item_ids, log.item_counts, (about or LabelSources()).read(log).get("labels")),
        cases=typical_users(model, found, log.item_counts, held) if is_adjusted(found) else (),
    )
