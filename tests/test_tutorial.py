"""docs/tutorial.md runs as written, and its promises hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterpop as cp

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")
def test_every_block_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), names)
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
