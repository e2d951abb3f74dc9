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
from counterpop.reporting.findings import RunReport


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
    model = saved.recommender(on)
    return RunReport(
        saved.name,
        {**saved.settings, "validation": split.development.drawn, "versions": saved.manifest["versions"]},
        saved.history,
        evaluate(model, split, on, k, users=users, seed=seed),
        saved.trained_on(on).item_counts,
        saved.grid,
        saved.ledger,
        saved.tuning,
        model=model,
        labels=about.read(model.seen).get("labels") if about else None,
    )
