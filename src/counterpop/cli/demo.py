"""counterpop demo"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.audit import audit_run
from counterpop.cli.progress import output, training_progress
from counterpop.cli.report import summarise
from counterpop.recommender import Recommender
from counterpop.reporting import comparison_table, write_audit, write_report
from counterpop.splits import Split, split_uniform
from counterpop.training import train
from counterpop.tuning import tune
from counterpop.worlds import World, make_world, taste_recall

# A small world wants smaller steps than the data sets behind the defaults, and can afford a fuller ledger;
# chosen on its validation part.
SETTINGS: dict[str, Any] = {"dim": 64, "lr": 0.05, "sampling": "interactions", "ledger_every": 4}


def found_favourites(world: World, model: Recommender, split: Split, k: int = 20) -> float:
    """Share of the k items that users truly like most, of those not in train, that are in their lists."""
    users = np.arange(split.train.n_users, dtype=np.int32)
    lists, _ = replace(model, seen=split.train).recommend(users, k)
    return float(taste_recall(world, lists, exclude=split.train).mean())


@click.command(epilog="Example: counterpop demo --out demo")
@click.option("--out", type=click.Path(), required=True, help="Folder for the log, the runs and the page.")
@click.option("--users", type=click.IntRange(min=100), default=3000, show_default=True, help="Size of the world.")
@click.option("--items", type=click.IntRange(min=100), default=1000, show_default=True)
@click.option("--epochs", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@shell
def command(out: str, users: int, items: int, epochs: int, seed: int, quiet: bool) -> dict[str, Any]:
    """A made-up world, whose users' true taste is known, from log to report.

    Draws a log in which popular items are over-exposed, trains a plain model and one with the gradient
    method, tunes the second on validation, and compares both on a test part that is uniform over items and
    against the true taste. Leaves DIR/report.html, DIR/audit.html, DIR/run and DIR/baseline.
    """
    folder = Path(out)
    world = make_world(users, items, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    log = world.log
    pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}).write_parquet(
        folder / "log.parquet"
    )
    split = split_uniform(log, seed=seed)
    artifacts.save_split(split, folder / "split")
    reports, result = [], {}
    for name, method in (("run", "gradient"), ("baseline", "plain")):
        with nullcontext(None) if quiet else training_progress() as show:
            run = train(split, method=method, epochs=epochs, seed=seed, on_progress=show, **SETTINGS)
        path = folder / name
        artifacts.save_run(run, path, folder / "split")
        if method == "gradient":
            tuned = tune(run, split)
            artifacts.save_tuning(path, tuned, tuned.grid, {"target": "recall", "k": 20})
        model = artifacts.load(path)
        truth = {
            "plain": found_favourites(world, model.with_strengths(0.0, 0.0), split),
            "adjusted": found_favourites(world, model, split),
        }
        reports.append(replace(summarise(path), truth=truth))
        result[name] = reports[-1].evaluation.to_json() | {"true_taste_recall": truth}
    write_report(reports, folder / "report.html")
    write_audit(audit_run(folder / "run")[0], folder / "audit.html")
    if not quiet:
        output.print(comparison_table(reports))
        truth = result["run"]["true_taste_recall"]
        output.print(
            f"Of what users truly like most, the lists find {truth['plain']:.1%} before the adjustment "
            f"and {truth['adjusted']:.1%} after. Open {folder / 'report.html'}."
        )
    return {"out": out, **result}
