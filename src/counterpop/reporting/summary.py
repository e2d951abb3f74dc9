"""A model, measured for a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from counterpop import __version__
from counterpop.artifacts import Saved, SavedRun, load_tested
from counterpop.evaluation import Evaluation, On, evaluate
from counterpop.interactions import Interactions
from counterpop.panels import Users
from counterpop.readers import LabelSources
from counterpop.recommender import Recommender
from counterpop.reporting.cases import typical_users
from counterpop.reporting.catalogue import Catalogue
from counterpop.reporting.findings import RunReport, is_adjusted
from counterpop.runs import Run
from counterpop.splits import Split
from counterpop.tuning import Tuned


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
    return _describe(saved, split, model, evaluate(model, split, on, k, users=users, seed=seed), about)


def summarise_run(run: Run, split: Split, tuned: Tuned | None = None, k: int = 20, seed: int = 0) -> RunReport:
    """The same of a run in memory, at strengths 0 if it was not tuned."""
    tuning = None if tuned is None else asdict(tuned.settings) | tuned.to_json()
    saved = SavedRun(
        path=Path(run.settings.get("method", "run")),
        manifest={"tuning": tuning, "versions": {"counterpop": __version__}},
        known=split.development,
        grid=None if tuned is None else tuned.grid,
        run=run,
        adjustment=tuned,
    )
    model = tuned or saved.recommender()
    return _describe(saved, split, model, evaluate(model, split, "test", k, seed=seed))


def _describe(
    saved: Saved, split: Split, model: Recommender, found: Evaluation, about: LabelSources | None = None
) -> RunReport:
    log = saved.trained_on(found.on)
    held = split.test if found.on == "test" else split.development.valid
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
