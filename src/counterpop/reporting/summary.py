"""A run folder, measured for a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from counterpop.artifacts import load_tested
from counterpop.evaluation import On, evaluate
from counterpop.interactions import Interactions
from counterpop.panels import Users
from counterpop.readers import LabelSources
from counterpop.reporting.cases import typical_users
from counterpop.reporting.catalogue import Catalogue
from counterpop.reporting.findings import RunReport, is_adjusted


def summarise(
    path: str | Path,
    k: int = 20,
    seed: int = 0,
    on: On = "test",
    *,
    holdout: Interactions | str | Path | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
    about: LabelSources | None = None,
    users: Users = None,
) -> RunReport:
    """What a report shows of a folder that `train` or `debias` wrote, measured on a held-out part.

    `holdout` is a later log to measure a result of `debias` on, `columns` say how to read it: see `load_tested`.
    `about` names the items, `users` is as in `evaluate`.
    """
    saved, split = load_tested(path, holdout, columns, seed=seed)
    model, log = saved.recommender(on), saved.trained_on(on)
    found = evaluate(model, split, on, k, users=users, seed=seed)
    held = split.test if on == "test" else split.development.valid
    return RunReport(
        saved.name,
        {**saved.settings, "validation": split.development.drawn, "versions": saved.manifest["versions"]},
        saved.history,
        found,
        log.item_counts,
        saved.grid,
        saved.ledger,
        saved.tuning,
        catalogue=Catalogue(log.item_ids, log.item_counts, about.read(log).get("labels") if about else None),
        cases=typical_users(model, found, log.item_counts, held) if is_adjusted(found) else (),
    )
