"""The world behind tests/audit-1.json, an audit that a former version wrote and every later one must read.

    python tests/audit_world.py FOLDER      # writes the log and the lists

Never write audit-1.json again: a new form of the document gets a new file beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

N_USERS, N_ITEMS, K = 600, 150, 8


def write_world(folder: Path, pull: float = 1.0, noise: int = 0) -> None:
    """A log whose popularity falls with the item's number, and lists drawn from it; `pull` is towards popular items."""
    draw = np.random.default_rng(17)
    chosen = draw.random((N_USERS, N_ITEMS)) < 0.5 / np.arange(1, N_ITEMS + 1) ** 0.6
    chosen[:, :2] |= ~chosen.any(axis=1)[:, None]  # everybody has a profile
    user, item = np.nonzero(chosen)
    time = 1_767_225_600 + 3600 * np.arange(len(user))
    pl.DataFrame({"user": user, "item": item, "time": time}).write_csv(folder / "log.csv")
    counts = chosen.sum(axis=0)
    scores = pull * np.log1p(counts) + np.random.default_rng(noise).gumbel(size=chosen.shape)
    scores[chosen] = -np.inf
    best = np.argsort(-scores, axis=1)[:, :K]
    places = np.tile(np.arange(1, K + 1), N_USERS)
    rows = {"user": np.repeat(np.arange(N_USERS), K), "item": best.ravel(), "rank": places}
    pl.DataFrame(rows).write_csv(folder / "lists.csv")


if __name__ == "__main__":
    write_world(Path(sys.argv[1]))
