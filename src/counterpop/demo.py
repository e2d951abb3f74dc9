"""A synthetic world, whose users' true taste is known, from log to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from counterpop import artifacts
from counterpop.encoding import to_json
from counterpop.errors import InputError
from counterpop.locks import locked
from counterpop.outputs import replacing
from counterpop.readers import LabelSources
from counterpop.recommender import Recommender
from counterpop.reporting import RunReport, summarise, write_audit, write_report
from counterpop.splits import split_uniform
from counterpop.training import Progress, train
from counterpop.tuning import tune
from counterpop.worlds import World, make_world, taste_recall

# A small world needs smaller steps than the data sets behind the defaults, and can afford a fuller ledger;
# chosen on its validation part.
SETTINGS: dict[str, Any] = {"dim": 64, "lr": 0.05, "sampling": "interactions", "ledger_every": 4}
SETTINGS |= {"loss": "bpr", "negative_power": 0.0, "refit": False}
MARK = "demo.json"  # what a demo was made with; a folder without it is not ours
RUNS = {"run": "gradient", "baseline": "plain"}  # folders and their methods
NAMES = "items.csv"
NAME_STREAM = 800
GENRES = ("Adventure", "Comedy", "Crime", "Drama", "Fantasy", "Romance", "Science fiction", "Western")
FIRST = """Amber Broken Crooked Distant Electric Forgotten Gentle Hidden Iron Last Midnight Northern Open Paper Quiet
    Restless Silver Third Unlikely Velvet Wandering Winter Yellow Borrowed Burning Empty Golden Hollow Little
    Second Secret Silent"""
SECOND = """Afternoon Bridge Carnival Daughter Engine Festival Garden Harbour Island Journey Kitchen Lighthouse Mirror
    Neighbour Orchard Passenger Question River Station Theatre Umbrella Voyage Witness Year Balloon Compass
    Door Echo Letter Mountain Promise Shadow"""


def make_demo(
    out: str | Path,
    users: int = 3000,
    items: int = 1000,
    epochs: int = 100,
    seed: int = 0,
    *,
    force: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> dict[str, RunReport]:
    """Writes a log, items.csv with titles, its split, two runs, report.html and audit.html; returns the reports by run.

    A folder that already holds a demo is replaced only with `force`; one that holds anything else, never.
    `on_progress` is called as by `train`, for both runs.
    """
    folder = Path(out)
    with locked(folder):
        _claim(folder, force, {"users": users, "items": items, "epochs": epochs, "seed": seed})
        return _make(folder, make_world(users, items, seed=seed), epochs, seed, on_progress)


def _claim(folder: Path, force: bool, made_with: dict[str, int]) -> None:
    """Marks the folder as a demo's, so that it may be replaced."""
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MARK).is_file():
            raise InputError(f"{folder} holds something that the demo did not make; choose another folder")
        if not force:
            raise InputError(f"{folder} already holds a demo; pass --force to replace it, or choose another folder")
    with replacing(folder / MARK) as part:
        part.write_text(to_json(made_with) + "\n")


def _make(
    folder: Path, world: World, epochs: int, seed: int, on_progress: Callable[[Progress], None] | None
) -> dict[str, RunReport]:
    log = world.log
    columns = {"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}
    with replacing(folder / "log.parquet") as part:
        pl.DataFrame(columns).write_parquet(part)
    with replacing(folder / NAMES) as part:
        name_items(world, seed).write_csv(part)
    split = split_uniform(log, seed=seed)
    artifacts.save_split(split, folder / "split")
    reports = {}
    for name, method in RUNS.items():
        run = train(split, method=method, epochs=epochs, seed=seed, on_progress=on_progress, progress=False, **SETTINGS)
        path = folder / name
        artifacts.save_run(run, path, folder / "split")
        if run.model.dials is not None:
            tuned = tune(run, split, point="gain")  # the world knows the truth, so the most gain can be judged
            artifacts.save_tuning(path, tuned, tuned.grid, {"target": "recall", "k": 20} | tuned.to_json())
        model = artifacts.load(path)
        models = {"plain": model.with_strengths(0.0, 0.0), "adjusted": model}
        truth = {way: find_favourites(world, one) for way, one in models.items()}
        about = LabelSources(folder / NAMES, categories=("genre",))
        reports[name] = replace(summarise(path, about=about), truth=truth)
    write_report(list(reports.values()), folder / "report.html")
    write_audit(artifacts.audit_saved(folder / "run", about=about).audits, folder / "audit.html")
    return reports


def name_items(world: World, seed: int = 0) -> pl.DataFrame:
    """Invented titles, and genres by taste: the dimension in which an item's taste is strongest, as a table.

    Titles repeat with a number beyond about a thousand items.

    >>> name_items(make_world(50, 40)).columns
    ['item', 'title', 'genre']
    """
    n_items = world.log.n_items
    first, second = FIRST.split(), SECOND.split()
    place = np.random.default_rng([seed, NAME_STREAM]).permutation(len(first) * len(second))
    titles = []
    for item in range(n_items):
        again, at = divmod(item, len(place))
        one, two = divmod(int(place[at]), len(second))
        titles.append(f"{first[one]} {second[two]}{f' {again + 1}' if again else ''}")
    genres = np.array(GENRES)[np.abs(world.item_taste).argmax(axis=1) % len(GENRES)]
    return pl.DataFrame({"item": world.log.item_ids, "title": titles, "genre": genres})


def find_favourites(world: World, model: Recommender, k: int = 20) -> float:
    """Of the k items that users truly like most among those they are not known to have touched, the share found."""
    lists, _ = model.recommend(np.arange(model.seen.n_users, dtype=np.int32), k)
    return float(taste_recall(world, lists, exclude=model.seen).mean())
