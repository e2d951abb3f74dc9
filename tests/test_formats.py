"""Folders that earlier versions wrote are read as those versions read them.

Each folder was written by the last commit with its format, from a made-up world: format 1 by the parent of e3f5f9c,
format 2 by the parent of 4441b88. The csv file beside it holds the lists that the same commit's `recommend` gave.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterpop as cp

FOLDERS = sorted(path for path in (Path(__file__).parent / "formats").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"format {folder.name}")
def test_an_older_folder_gives_the_lists_that_it_gave(folder: Path, tmp_path: Path) -> None:
    assert json.loads((folder / "manifest.json").read_text())["format"] == int(folder.name)
    model, expected = cp.load(folder), pl.read_csv(folder.with_suffix(".csv"))
    lists, scores = model.recommend(np.arange(model.seen.n_users, dtype=np.int32), 5)
    assert model.embeddings.item_ids[lists].ravel().tolist() == expected["item"].to_list()
    assert scores.ravel() == pytest.approx(expected["score"].to_numpy(), abs=1e-6)
    saved = cp.load_run(folder)
    assert saved.run.model.dials is not None
    cp.save_run(saved.run, tmp_path / "new", folder)  # and so it is converted
    again = cp.load_run(tmp_path / "new")
    assert again.manifest["format"] == 3
    assert np.array_equal(again.run.embeddings.item_vectors, saved.run.embeddings.item_vectors)
