"""A run, measured for a report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from counterpop import __version__
from counterpop.artifacts import SavedRun, load_tested
from counterpop.evaluation import On, evaluate
from counterpop.recommender import Recommender
from counterpop.reporting.findings import RunReport
from counterpop.runs import Run
from counterpop.splits import Split
from counterpop.tuning import Tuned


def summarise(path: str | Path, k: int = 20, seed: int = 0, on: On = "test") -> RunReport:
    """What a report shows of a run folder, measured on a held-out part."""
    saved, split = load_tested(path)
    return _measure(saved, split, saved.recommender(split.development, on), k, seed, on)


def summarise_run(run: Run, split: Split, tuned: Tuned | None = None, k: int = 20, seed: int = 0) -> RunReport:
    """The same of a run in memory, at strengths 0 if it was not tuned."""
    tuning = None if tuned is None else asdict(tuned.settings) | tuned.to_json()
    manifest = {"tuning": tuning, "versions": {"counterpop": __version__}}
    saved = SavedRun(Path(run.settings.get("method", "run")), run, split.development, manifest, tuned)
    return _measure(saved, split, tuned or saved.recommender(split.development), k, seed, "test")


def _measure(saved: SavedRun, split: Split, model: Recommender, k: int, seed: int, on: On) -> RunReport:
    known = split.development
    return RunReport(
        saved.path.resolve().name,
        saved.run.settings | {"validation": known.drawn, "versions": saved.manifest["versions"]},
        saved.run.history,
        evaluate(model, split, on, k, seed=seed),
        saved.trained_on(known, on).item_counts,
        model.grid if isinstance(model, Tuned) else saved.grid,
        saved.run.ledger,
        saved.manifest["tuning"],
    )
