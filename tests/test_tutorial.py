"""README.md, docs/tutorial.md and docs/quickstart.md run as written, and their promises hold."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import counterpop as cp
from counterpop.cli import main

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_python(page: str, **names: Any) -> dict[str, Any]:
    """The names that the Python blocks of a page leave, with some given before."""
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")
def test_every_block_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_python("tutorial.md")
    fix, index, model = names["fix"], names["index"], names["model"]
    assert fix.gained
    assert fix.uniform.comparison["recall"]["low"] > 0
    assert names["truth"]["debiased"] > names["truth"]["plain"]
    # up to rounding, the unchanged flat index finds what adjusted vectors rank first
    stored = cp.adjust(fix.embeddings, fix)
    scores = stored.user_vectors @ stored.item_vectors.T
    found = index.search(fix.query(model.user_factors), 100)[1]
    bar = np.sort(scores, axis=1)[:, -100]
    assert (np.take_along_axis(scores, found, axis=1).min(axis=1) > bar - 1e-5).all()
    assert names["drift"].verdict == "fits"
    assert (tmp_path / "FIX" / "adjustment.json").exists()


def test_the_quick_start_runs_in_the_shell_and_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = cp.make_world(300, 150, seed=5).log
    ids = {"user_id": log.user_ids[log.user_ix], "item_id": log.item_ids[log.item_ix]}
    pl.DataFrame(ids).write_parquet("log.parquet")
    (commands,) = blocks("quickstart.md", "sh")
    for line in commands.splitlines():
        program, *words = shlex.split(line)
        assert program == "counterpop"
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, f"{line}: {result.stderr}"
    lists = pl.read_csv("lists.csv")
    assert lists["user"].unique().sort().to_list() == [17, 42]
    assert len(lists) == 40
    for page in ("audit.html", "report.html"):
        assert Path(page).stat().st_size > 100_000
    names = run_python("quickstart.md")
    assert names["lists"].shape == (2, 20)
    assert names["best"].sentence


def test_the_python_of_the_readme_runs() -> None:
    faiss = pytest.importorskip("faiss")
    world = cp.make_world(800, 200, seed=2)
    popularity = np.log1p(world.log.item_counts)[:, None]  # vectors of a model that has learned popularity
    users = np.hstack([world.user_taste, np.ones((800, 1))]).astype(np.float32)
    items = np.hstack([world.item_taste, 0.5 * popularity]).astype(np.float32)
    index = faiss.IndexFlatIP(items.shape[1])
    index.add(items)
    vectors = {"user_vectors": users, "item_vectors": items, "log": world.log, "u": users[:5]}
    fix = run_python("../README.md", index=index, **vectors)["fix"]
    assert fix.query(users[:5]).shape == (5, items.shape[1])
