"""Lists written in parts, exactly or through an index, equal those of `recommend`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import counterpop as cp
from builders import random_log, vectors_for
from counterpop.adapters.approximate import build_search
from counterpop.artifacts import lists, lists_table, write_lists
from counterpop.cli import main
from counterpop.errors import InputError
from counterpop.recommender import Recommender
from counterpop.splits import Split


def model_of(n_users: int, n_items: int, chance: float = 0.05) -> Recommender:
    """Integer vectors: every score is exact, whatever the block it is computed in, and there are many ties."""
    log = random_log(n_users, n_items, chance)
    vectors = vectors_for(log)
    for matrix in (vectors.user_vectors, vectors.item_vectors):
        np.round(2 * matrix, out=matrix)
    axis = np.eye(1, vectors.dim, dtype=np.float32)[0]
    return Recommender(axis, axis, 0.5, 0.25, embeddings=vectors, seen=log)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Recommender:
    monkeypatch.setattr(lists, "PART_USERS", 64)
    return model_of(300, 90)


def everything(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(file) for file in sorted(folder.glob("part-*.parquet"))])


def test_parts_hold_the_lists_of_recommend(model: Recommender, tmp_path: Path) -> None:
    users, done = np.arange(300, dtype=np.int32), []
    written = write_lists(model, tmp_path / "lists", users, 7, report=done.append)
    assert (written.users, written.parts, written.kept) == (300, 5, 0)
    assert done == [64, 128, 192, 256, 300]
    assert everything(tmp_path / "lists").equals(lists_table(model, users, *model.recommend(users, 7)))
    assert json.loads((tmp_path / "lists/lists.json").read_text())["complete"] is True
    some = users[::-3]
    write_lists(model, tmp_path / "some", some, 7)
    assert everything(tmp_path / "some").equals(lists_table(model, some, *model.recommend(some, 7)))


def test_a_stopped_command_goes_on_and_keeps_what_is_there(model: Recommender, tmp_path: Path) -> None:
    users, folder = np.arange(300, dtype=np.int32), tmp_path / "lists"

    class Stop(Exception):
        pass

    def stop(done: int) -> None:
        if done > 100:
            raise Stop

    with pytest.raises(Stop):
        write_lists(model, folder, users, 7, report=stop)
    assert json.loads((folder / "lists.json").read_text())["complete"] is False
    before = {file.name: file.stat().st_mtime_ns for file in folder.glob("part-*")}
    assert write_lists(model, folder, users, 7).kept == len(before) == 2
    assert {name: (folder / name).stat().st_mtime_ns for name in before} == before
    assert everything(folder).equals(lists_table(model, users, *model.recommend(users, 7)))


def test_a_folder_of_other_lists_is_not_mixed_up(model: Recommender, tmp_path: Path) -> None:
    users, folder = np.arange(300, dtype=np.int32), tmp_path / "lists"
    write_lists(model, folder, users, 7)
    for other, asked in ((model.with_strengths(0.9, 0.0), (users, 7)), (model, (users, 8)), (model, (users[:-1], 7))):
        with pytest.raises(InputError, match="holds lists of another model, other users or another k"):
            write_lists(other, folder, *asked)
    other = model.with_strengths(0.9, 0.0)
    assert write_lists(other, folder, users, 7, force=True).kept == 0
    assert everything(folder).equals(lists_table(other, users, *other.recommend(users, 7)))
    (tmp_path / "own").mkdir()
    (tmp_path / "own/file").write_text("mine")
    for force in (False, True):
        with pytest.raises(InputError, match="holds something else, which is not overwritten"):
            write_lists(model, tmp_path / "own", users, 7, force=force)
        (tmp_path / "own/lists.json").write_text("[1, 2]")  # a list of somebody's own
    (folder / "note.txt").write_text("mine")
    write_lists(model, folder, users, 7, force=True)
    assert (folder / "note.txt").read_text() == (tmp_path / "own/file").read_text() == "mine"


def test_an_index_finds_what_it_says_and_leaves_out_seen_items() -> None:
    model = model_of(1500, 2500, 0.01)
    search = build_search(model, 0.9, 10)
    users = np.arange(1500, dtype=np.int32)
    exact, scores = model.recommend(users, 10)
    found, its_scores = search.recommend(users, 10)
    shared = np.mean([np.isin(b, a).mean() for a, b in zip(found, exact, strict=True)])
    # scores are tied in many places, where the index may take other items: compare by score, too
    assert search.recall == pytest.approx(shared, abs=0.03)
    assert (its_scores <= scores + 1e-3).all()
    seen = {(u, i) for u, i in zip(model.seen.user_ix.tolist(), model.seen.item_ix.tolist(), strict=True)}
    assert not seen & {(u, int(i)) for u, row in enumerate(found) for i in row if i >= 0}
    whole = build_search(model, 1.0, 10)
    assert whole.recommend(users, 10)[1] == pytest.approx(scores, rel=1e-5)
    with pytest.raises(InputError, match="an approximate search is for 2,000 items or more, got 90"):
        build_search(model_of(50, 90))


def test_the_command_survives_a_kill(split: Split, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cp.save_run(cp.train(split, dim=4, epochs=4, loss="bpr", negative_power=0.0, refit=False), run, split)
    slow = (
        "import sys, time; from counterpop.artifacts import lists; from counterpop.cli import main\n"
        "from counterpop.recommender import Recommender; lists.PART_USERS = 32; whole = Recommender.recommend\n"
        "def wait(self, *words, **more):\n    time.sleep(float(sys.argv[1])); return whole(self, *words, **more)\n"
        "Recommender.recommend = wait; main(sys.argv[2:])"
    )
    words = ["recommend", str(run), "--users", "all", "--out", str(tmp_path / "lists"), "--json"]
    first = subprocess.Popen([sys.executable, "-c", slow, "0.5", *words], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list((tmp_path / "lists").glob("part-*")) and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert 1 <= len(list((tmp_path / "lists").glob("part-*"))) < 10
    again = subprocess.run([sys.executable, "-c", slow, "0", *words], capture_output=True, text=True, check=True)
    result = json.loads(again.stdout)
    assert result["kept"] >= 1 and result["parts"] == 10 and result["users"] == 300
    one = CliRunner().invoke(main, ["recommend", str(run), "--out", str(tmp_path / "one.parquet")])
    assert one.exit_code == 0
    whole, parts = pl.read_parquet(tmp_path / "one.parquet"), everything(tmp_path / "lists")
    assert parts.drop("score").equals(whole.drop("score"))
    assert parts["score"].to_numpy() == pytest.approx(whole["score"].to_numpy(), rel=1e-5)
