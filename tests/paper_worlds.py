"""Simulated data sets in the form of the paper's (npz files of user, item and split), and an item made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import counterpop as cp
from counterpop.paper.results import Claim, Figure, Item, Table

PARTS = {"train": 0, "valid": 2, "test": 3}


def write_dataset(path: Path, split: cp.Split, *, valid: bool) -> None:
    """Writes a split; without `valid` its validation pairs go to train, as in MACR's data."""
    columns: dict[str, list[np.ndarray]] = {"user": [], "item": [], "split": []}
    for name, code in PARTS.items():
        part = split.test if name == "test" else getattr(split.development, name)
        codes = np.full(len(part), code if valid or name != "valid" else 0, dtype=np.int8)
        if name == "train" and split.development.intervened is not None:
            codes[split.development.intervened] = 1
        for column, values in (("user", part.user_ix), ("item", part.item_ix), ("split", codes)):
            columns[column].append(values)
    np.savez_compressed(path, **{name: np.concatenate(values) for name, values in columns.items()})


def write_datasets(folder: Path, names: tuple[str, ...] = ("ml10m", "adressa")) -> Path:
    """Small data sets of these names: intervened where the paper's are, else uniform over items."""
    for n, name in enumerate(names):
        log = cp.make_world(150, 60, mean_activity=14, seed=n).log
        if name in ("ml10m", "netflix"):
            write_dataset(folder / f"{name}.npz", cp.split_intervened(log, seed=n, ordinary=0), valid=True)
        else:
            write_dataset(
                folder / f"{name}.npz", cp.split_uniform(log, test=2, valid=2, seed=n, ordinary=0), valid=False
            )
    return folder


def some_item() -> Item:
    """An item with a table, every kind of figure, and claims."""
    figure = {"mean": 0.12, "low": 0.11, "high": 0.13, "seeds": 3}
    x, grid = ["0–5", "5–100"], [[0.1, 0.2], [0.3, 0.4]]
    return Item(
        "table3",
        "Table III: accuracy",
        "What this is about.",
        (Table("MF", ("Data set", "Recall"), [["ML-10M", figure], ["Netflix", None]], ("A note.",)),),
        (
            Figure("Lines", "lines", "Rank", "y", [{"name": "a", "x": [1, 9], "y": [3, None]}], True, True),
            Figure("Bars", "bars", "", "Recall@20", [{"name": n, "x": x, "y": [0.1, None]} for n in "ab"]),
            Figure(
                "Map",
                "map",
                "User strength",
                "Item strength",
                [{"name": "Recall@20", "x": [0, 0.2], "y": [0, 0.2], "z": grid, "chosen": [0.2, 0]}],
            ),
        ),
        (Claim("V-B", "It is above plain.", "confirmed", "In 4 of 4 cases, " + "and so on " * 30),),
        missing=("LightGCN: left out.",),
    )
