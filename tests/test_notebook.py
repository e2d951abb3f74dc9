"""Results as people see them: one line, a data frame, HTML and a figure; and a real notebook, run from end to end."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from counterpop.errors import InputError
from counterpop.presentation import Pictured, Shown
from counterpop.progress import Progress, following
from counterpop.reporting.thumbnails import draw_thumbnail

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
LONGEST = 700  # characters of a line; cp.evaluate(...) once printed 44,546


@pytest.fixture(scope="module")
def results(world: cp.World, split: cp.Split) -> dict[str, Any]:
    run = cp.train(split, dim=8, epochs=4, check_every=2, refit=False, loss="bpr", negative_power=0.0)
    best = cp.tune(run, split, point="gain")
    vectors = run.embeddings.user_vectors, run.embeddings.item_vectors
    fix = cp.debias(*vectors, split.train, holdout=split.test)
    found = cp.evaluate(best, split)
    directions = cp.find_directions(run.model, split.train)
    return {
        "world": world,
        "split": split,
        "development": split.development,
        "log": split.train,
        "run": run,
        "model": run.model,
        "embeddings": run.embeddings,
        "ledger": run.ledger,
        "picture": cp.gradient_picture(run.ledger),
        "lists": cp.read_recommendations(pl.DataFrame({"user": [0, 0, 1], "item": [3, 1, 2]}), split.train),
        "labels": cp.read_labels(pl.DataFrame({"item": [1, 2], "name": ["a", "b"]}), split.train.item_ids),
        "dials": run.model.dials,
        "directions": directions,
        "adjustment": cp.Adjustment(directions.item, directions.user, 0.2, 0.1),
        "tuned": best,
        "grid": best.grid,
        "evaluation": found,
        "measures": found.plain,
        "debiasing": fix,
        "effect": fix.uniform,
        "drift": cp.check_drift(fix, *vectors, split.train),
        "audit": cp.audit_model(best, split.train),
        "comparison": cp.compare({"tuned": best, "plain": best.with_strengths(0.0, 0.0)}, split),
    }


def test_every_result_is_short_in_a_line_and_complete_in_a_frame(results: dict[str, Any]) -> None:
    for name, value in results.items():
        assert isinstance(value, Shown), name
        assert len(repr(value)) <= LONGEST, name
        assert "array(" not in repr(value), name
        ours, theirs = value.to_frame(), value.to_frame("pandas")
        assert isinstance(ours, pl.DataFrame), name
        assert ours.shape == theirs.shape, name
        assert list(theirs.columns) == ours.columns, name
        html = value._repr_html_()
        assert len(html) < 20_000, name
        assert "<table" in html and "<script" not in html, name
        assert ("<svg" in html) == isinstance(value, Pictured) == hasattr(value, "plot"), name


def test_the_public_results_are_all_tried(results: dict[str, Any]) -> None:
    public = {value for name in cp.__all__ if isinstance(value := getattr(cp, name), type) and issubclass(value, Shown)}
    tried = {kind for value in results.values() for kind in type(value).__mro__}
    assert public - tried == set()


def test_frames_hold_the_numbers_of_their_results(results: dict[str, Any]) -> None:
    found, run, grid, log = (results[name] for name in ("evaluation", "run", "grid", "log"))
    row = found.to_frame().filter(part="test", metric="recall").to_dicts()[0]
    assert row["plain"] == found.plain.recall
    assert (row["adjusted_low"], row["adjusted_high"]) == found.adjusted.intervals["recall"]
    assert row["p_value"] == found.comparison["recall"]["p_value"]
    ordinary = found.to_frame().filter(part="ordinary", metric="ndcg").to_dicts()[0]
    assert ordinary["adjusted"] == found.ordinary.adjusted.ndcg
    assert run.to_frame()["loss"].to_list() == [entry["loss"] for entry in run.history]
    assert run.to_frame()["valid"].null_count() == sum("valid" not in entry for entry in run.history) > 0
    a, b = grid.item_strengths[3], grid.user_strengths[2]
    assert grid.to_frame().filter(item_strength=a, user_strength=b).to_dicts()[0]["gini"] == grid.at(a, b)["gini"]
    again = log.to_frame()
    assert (again["user"].to_numpy() == log.user_ids[log.user_ix]).all()
    assert len(results["split"].to_frame().filter(part="test")) == 1
    vectors = results["embeddings"].to_frame().filter(side="item")["vector"].to_numpy()
    assert (vectors == results["embeddings"].item_vectors).all()
    shown = results["lists"].to_frame().to_dicts()
    assert shown == [{"user": u, "rank": r, "item": i} for u, r, i in ((0, 1, 3), (0, 2, 1), (1, 1, 2))]
    with pytest.raises(InputError, match="made by polars or pandas, got 'dask'"):
        log.to_frame("dask")


def test_html_escapes_what_comes_from_outside() -> None:
    names = np.array(["<b>a</b>", "z"], dtype=object)
    one = cp.Interactions(np.array([0, 1], np.int32), np.array([0, 1], np.int32), names, names)
    assert "<b>a" not in one._repr_html_()
    assert "&lt;b&gt;a" in one._repr_html_()


def test_a_thumbnail_draws_bars_to_scale(results: dict[str, Any]) -> None:
    import re

    figure = results["evaluation"].plot()
    shown = draw_thumbnail(figure, "x")
    tall = [float(height) for height in re.findall(r'<rect [^>]*height="([\d.]+)"', shown)]
    values = [value or 0.0 for trace in figure.data for value in trace.y]
    assert np.allclose(tall, np.array(values) / max(values) * max(tall), atol=0.06)


def test_pages_of_every_kind(results: dict[str, Any], split: cp.Split, tmp_path: Path) -> None:
    run, best, audit = (results[name] for name in ("run", "tuned", "audit"))
    cp.save_run(run, tmp_path / "RUN", split)
    cp.save_tuning(tmp_path / "RUN", best, best.grid, best.to_json() | {"target": "recall", "k": 20})
    pages = [
        cp.report(tmp_path / "RUN", tmp_path / "folder.html"),
        cp.report(run, tmp_path / "run.html", split=split, tuned=best),
        cp.report(results["debiasing"], tmp_path / "debiasing.html"),
        cp.report(audit, tmp_path / "audit.html"),
        cp.report({"one": audit, "two": audit}, tmp_path / "audits.html"),
    ]
    assert all("</html>" in page.read_text(encoding="utf-8") for page in pages)
    recall = f'<data value="{cp.evaluate(best, split).adjusted.recall!r}">'
    assert all(recall in page.read_text(encoding="utf-8") for page in pages[:2])  # the same run, from disk and not
    with pytest.raises(InputError, match="takes its split"):
        cp.report(run, tmp_path / "no.html")


def test_progress_is_silent_where_nobody_looks() -> None:
    code = (
        "import counterpop as cp\n"
        "split = cp.split_uniform(cp.make_world(100, 50, mean_activity=10).log, test=2, valid=2)\n"
        "cp.train(split, dim=4, epochs=2, refit=False, loss='bpr', negative_power=0.0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_own_progress_takes_the_place_of_the_bar() -> None:
    seen: list[Progress] = []
    one = Progress("train", 1, 2, 0.5, None, 0.1)
    with following(seen.append) as report:
        report(one)
    with following(None, progress=False) as report:
        report(replace(one, epoch=2))
    assert seen == [one]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs(tmp_path: Path) -> None:
    """With a real kernel: no output is long, results come as HTML, the figure as plotly, progress as one line."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in notebook.cells), "strip outputs"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = {cell.source.strip().splitlines()[-1]: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    for name in ("world.log", "split", "run", "best", "result", "audit"):
        shown = cells[name][-1].data
        assert len(shown["text/plain"]) <= LONGEST, name
        assert "<table" in shown["text/html"], name
    progress = [one.data for one in cells["run"] if one.output_type == "display_data"]
    assert len(progress) == 1
    assert "refit: epoch" in progress[0]["text/plain"] and "<progress" in progress[0]["text/html"]
    assert "application/vnd.plotly.v1+json" in cells["best.plot()"][-1].data
    assert not [one for outputs in cells.values() for one in outputs if one.output_type in ("stream", "error")]
    assert (tmp_path / "run.html").exists() and (tmp_path / "audit.html").exists()
