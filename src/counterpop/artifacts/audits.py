"""The audit of a run folder."""

from __future__ import annotations

from pathlib import Path

from counterpop.artifacts.runs import load_run
from counterpop.artifacts.splits import load_split
from counterpop.auditing import Audit, audit_model
from counterpop.recommender import Recommender


def audit_run(path: str | Path, k: int = 20) -> tuple[dict[str, Audit], Recommender]:
    """The audits of a run's final model "as trained" and, unless its strengths are 0, "adjusted"; and the model.

    Lists are for all users of the part that the model was trained on, and leave that part out.
    """
    saved, split = load_run(path), load_split(path)
    model = saved.recommender(split.development)
    models = {"as trained": model.with_strengths(0.0, 0.0)}
    if model.item_strength or model.user_strength:
        models["adjusted"] = model
    log = saved.trained_on(split.development)
    held, ledger = split.test, saved.run.ledger
    return {name: audit_model(one, log, k, held=held, ledger=ledger) for name, one in models.items()}, model
