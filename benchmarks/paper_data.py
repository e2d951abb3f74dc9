"""The paper's data sets for the benchmarks: in COUNTERPOP_DATA, or in ../shared/data next to the checkout."""

import os
import sys
import warnings
from pathlib import Path

import numpy as np

import counterpop as cp


def data_folder() -> Path:
    """The folder with ml10m.npz and the others; ends the program with a message if it is missing."""
    folder = Path(os.environ.get("COUNTERPOP_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not (folder / "ml10m.npz").exists():
        sys.exit(f"no data at {folder}: set COUNTERPOP_DATA to the folder that holds ml10m.npz")
    return folder


def load_split(name: str, ordinary: float = 0.0) -> cp.Split:
    """A data set as the paper splits it; without an ordinary part, unless a share of train is named."""
    warnings.simplefilter("ignore", cp.CounterpopWarning)
    return read_split(data_folder() / f"{name}.npz", ordinary)


def read_split(path: Path, ordinary: float = 0.0) -> cp.Split:
    """The split in a file, read without polars, which a machine with a GPU may lack."""
    with np.load(path, allow_pickle=False) as archive:
        user, item, part = archive["user"], archive["item"], archive["split"]
    order = np.lexsort((item, user))
    ids = np.arange(user.max() + 1), np.arange(item.max() + 1)
    return cp.split_as_given(cp.Interactions(user[order], item[order], *ids, part=part[order]), ordinary=ordinary)
