"""Reports and audits of a model that is partly popularity, for the tests of pages and tables."""

from __future__ import annotations

import numpy as np

from counterpop.auditing import Audit, audit
from counterpop.embeddings import Embeddings
from counterpop.evaluation import evaluate
from counterpop.ledger import Ledger
from counterpop.readers import Labels
from counterpop.readers.names import as_category
from counterpop.reporting import RunReport
from counterpop.reporting.cases import typical_users
from counterpop.reporting.catalogue import Catalogue
from counterpop.runs import BOTH_SIDES, Model, Run
from counterpop.splits import split_uniform
from counterpop.tuning import tune
from counterpop.worlds import make_world


def make_report(name: str, seed: int) -> RunReport:
    """A model of true taste with noise, plus a push towards popular items."""
    world = make_world(150, 120, mean_activity=15)
    split = split_uniform(world.log, seed=0)
    train = split.development.train
    generator = np.random.default_rng(seed)
    popularity = np.log1p(train.item_counts)[:, None].astype(np.float32)
    blur = generator.normal(0, 0.1, world.user_taste.shape).astype(np.float32)
    users = np.hstack([world.user_taste + blur, np.ones((150, 1), np.float32)])
    items = np.hstack([world.item_taste, popularity])
    ledger = Ledger(
        np.abs(generator.normal(size=(120, 4, 7))).astype(np.float32), np.ones((150, 4, 7), np.float32), 1, 10
    )
    run = Run(Model(Embeddings(users, items, train.user_ids, train.item_ids), dials=BOTH_SIDES))
    adjustment = tune(run, split, point="gain")
    history = [{"epoch": n, "loss": 1 / n, "seconds": 0.1} | ({"valid": 0.1} if n == 2 else {}) for n in (1, 2, 3)]
    evaluation = evaluate(adjustment, split, resamples=100)
    names = [None if item == 7 else f"Title {item} <b>&" for item in range(120)]
    labels = Labels(names, {"genre": as_category([None if n == 3 else ("drama", "news")[n % 2] for n in range(120)])})
    return RunReport(
        *(
            name,
            {"dim": 7, "versions": {"numpy": "2"}},
            history,
            evaluation,
            train.item_counts,
            adjustment.grid,
            ledger,
        ),
        tuning={"target": "recall"} | adjustment.to_json(),
        catalogue=Catalogue(train.item_ids, train.item_counts, labels),
        cases=typical_users(adjustment, evaluation, train.item_counts, split.test),
    )


def some_audits(report: RunReport, name: str = "adjusted") -> dict[str, Audit]:
    """One audit of the same hits for everybody, and one of lists that differ between users."""
    log = make_world(150, 120, mean_activity=15).log
    users = np.arange(150, dtype=np.int32)
    hits = np.tile(np.argsort(-log.item_counts)[:10].astype(np.int32), (150, 1))
    some = np.stack([np.random.default_rng(u).permutation(120)[:10] for u in users]).astype(np.int32)
    some[:3, 7:] = -1
    return {"as trained": audit(hits, users, log), name: audit(some, users, log, ledger=report.ledger)}
