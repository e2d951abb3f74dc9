"""A run folder, measured for a report."""

from __future__ import annotations

from pathlib import Path

from counterpop.artifacts import load_tested
from counterpop.evaluation import On, evaluate
from counterpop.panels import Users
from counterpop.reporting.findings import RunReport


def summarise(path: str | Path, k: int = 20, seed: int = 0, on: On = "test", users: Users = None) -> RunReport:
    """What a report shows of a run folder, measured on a held-out part; `users` is as in `evaluate`."""
    saved, split = load_tested(path)
    model, known = saved.recommender(split.development, on), split.development
    return RunReport(
        Path(path).resolve().name,
        saved.run.settings | {"validation": known.drawn, "versions": saved.manifest["versions"]},
        saved.run.history,
        evaluate(model, split, on, k, users=users, seed=seed),
        saved.trained_on(known, on).item_counts,
        saved.grid,
        saved.run.ledger,
        saved.manifest["tuning"],
    )
