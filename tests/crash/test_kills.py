"""Commands that are killed, interrupted or run out of disk: outputs are whole, nothing is left, nothing is lost.

The short form runs with all tests; `make crash` repeats everything many times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from victims import SCALE, finish, leftovers, start

import counterpop as cp

SHORT = ("split", "tune", "csv")  # the commands of the short form
TRAIN = ("--dim", 8, "--epochs", 40, "--check-every", 2, "--threads", 2)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, its split, a tuned run and vectors."""
    folder = tmp_path_factory.mktemp("crash")
    log = cp.make_world(300, 120, seed=1).log
    columns = {"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}
    pl.DataFrame(columns).write_csv(folder / "log.csv")
    for words in (
        ("split", folder / "log.csv", "--protocol", "uniform", "--out", folder / "split"),
        ("train", folder / "split", *TRAIN, "--out", folder / "run"),
        ("tune", folder / "run"),
    ):
        assert finish(words, folder / "said") == 0, (folder / "said").read_text()
    vectors = cp.load_run(folder / "run").run.embeddings
    np.save(folder / "users.npy", vectors.user_vectors)
    np.save(folder / "items.npy", vectors.item_vectors)
    return folder


def commands(place: Path, out: Path) -> dict[str, tuple[object, ...]]:
    """Every command that writes, into a folder of its own."""
    vectors = "--user-vectors", place / "users.npy", "--item-vectors", place / "items.npy"
    return {
        "split": ("split", place / "log.csv", "--protocol", "uniform", "--force", "--out", out / "split"),
        "train": ("train", place / "split", *TRAIN, "--no-refit", "--loss", "bpr", "--force", "--out", out / "run"),
        "tune": ("tune", out / "tuned"),
        "correct": ("correct", place / "run", "--by", "tten", "--force", "--out", out / "corrected"),
        "csv": ("recommend", place / "run", "--out", out / "lists.csv"),
        "parquet": ("recommend", place / "run", "--out", out / "lists.parquet"),
        "report": ("report", place / "run", "--out", out / "report.html"),
        "audit": ("audit", place / "run", "--html", out / "audit.html", "--csv", out / "tables"),
        "debias": ("debias", *vectors, "--interactions", place / "log.csv", "--force", "--out", out / "fix"),
    }


def check_outputs(out: Path) -> None:
    """Fails if anything under a final name is not whole."""
    for name in ("split",):
        if (out / name).exists():
            cp.load_split(out / name)
    for name in ("run", "tuned", "corrected"):
        if (out / name).exists():
            cp.load_run(out / name)
            cp.load_split(out / name)
    if (out / "fix").exists():
        cp.load_adjustment(out / "fix")
        assert (out / "fix" / "report.html").read_text().endswith("</html>\n")
    if (out / "lists.csv").exists():
        assert pl.read_csv(out / "lists.csv").height == 300 * 20
    if (out / "lists.parquet").exists():
        assert pl.read_parquet(out / "lists.parquet").height == 300 * 20
    for page in out.glob("*.html"):
        assert page.read_text().rstrip().endswith("</html>")
    for table in out.glob("tables/*.csv"):
        assert pl.read_csv(table, infer_schema=False).height and table.read_bytes().endswith(b"\n")


def fill(place: Path, out: Path) -> None:
    out.mkdir()
    saved = cp.load_run(place / "run")
    cp.save_run(saved.run, out / "tuned", place / "split")


def test_random_kills_of_every_command_leave_whole_outputs(place: Path, tmp_path: Path) -> None:
    chance, kills = random.Random(1), 0
    out, said = tmp_path / "out", tmp_path / "said"
    fill(place, out)
    every = {name: words for name, words in commands(place, out).items() if SCALE > 1 or name in SHORT}
    took = {}
    for name, words in every.items():
        begin = time.perf_counter()
        assert finish(words, said) == 0, said.read_text()
        took[name] = time.perf_counter() - begin
    for _ in range(SCALE):
        for name, words in every.items():
            process = start(words, said)
            time.sleep(chance.random() * took[name])
            process.kill()
            process.join()
            kills += process.exitcode == -signal.SIGKILL
            check_outputs(out)
    for words in every.values():
        assert finish(words, said) == 0, said.read_text()
    check_outputs(out)
    assert leftovers(out) == []
    print(f"random kills over {len(every)} commands: {kills}, partial outputs: 0, leftovers: 0")


def test_a_kill_at_every_change_to_the_file_system_leaves_whole_outputs(place: Path, tmp_path: Path) -> None:
    out, said = tmp_path / "out", tmp_path / "said"
    fill(place, out)
    kills = 0
    for name in ("tune", "csv", "split", "debias") if SCALE > 1 else ("csv",):
        words = commands(place, out)[name]
        for step in range(1, 1000):
            code = finish(words, said, step=step)
            check_outputs(out)
            if code == 0:
                break
            assert code == -signal.SIGKILL, said.read_text()
            kills += 1
        assert leftovers(out) == []
    print(f"kills at changes to the file system: {kills}, partial outputs: 0, leftovers after the next command: 0")


def test_a_killed_training_resumes_to_the_same_bits(place: Path, tmp_path: Path) -> None:
    chance, kills, same = random.Random(2), 0, 0
    said, out = tmp_path / "said", tmp_path / "run"
    words = ("train", place / "split", *TRAIN, "--resume", "--out", out)
    expected = {name: (place / "run" / name).read_bytes() for name in ("model.safetensors", "refit.safetensors")}
    begin = time.perf_counter()
    finish((*words[:-1], tmp_path / "timed"), said)
    took, runs = time.perf_counter() - begin, 0
    while kills < (1 if SCALE == 1 else 3 * SCALE):
        killed_now = 0
        while not out.exists():
            process = start(words, said)
            process.join(took * chance.uniform(0.1, 1.2) if killed_now < 3 else None)
            process.kill()
            process.join()
            killed_now += process.exitcode == -signal.SIGKILL
            assert process.exitcode in (0, -signal.SIGKILL), said.read_text()
        kills, runs = kills + killed_now, runs + 1
        assert {name: (out / name).read_bytes() for name in expected} == expected
        same += 1
        assert not Path(f"{out}.checkpoint").exists()
        out.rename(tmp_path / f"done-{runs}")
    print(f"kills of training: {kills}; {same} of {runs} resumed trainings ended with identical files")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT][:SCALE])
def test_a_signal_keeps_the_best_model_and_resume_ends_with_the_same_bits(
    place: Path, tmp_path: Path, number: signal.Signals
) -> None:
    said, out = tmp_path / "said", tmp_path / "run"
    words = ("train", place / "split", "--dim", 8, "--epochs", 60, "--check-every", 1, "--patience", 60)
    words = (*words, "--threads", 2, "--loss", "bpr", "--negative-power", 0, "--out", out)
    assert finish((*words[:-1], tmp_path / "whole"), said) == 0
    process = start((*words, "--json"), said)
    lock = tmp_path / ".counterpop-lock-run"
    while process.is_alive():
        time.sleep(0.3)
        assert process.pid is not None
        if lock.exists():
            os.kill(process.pid, number)
            break
    process.join()
    assert process.exitcode == 128 + number, said.read_text()
    if out.exists():
        kept = cp.load_run(out).run.settings
        assert kept["interrupted"] < 60 and f"of epoch {kept['chosen_epochs']}, is in" in said.read_text()
        assert "already exists; pass --force" in _refused(words, said)
    assert finish((*words, "--resume"), said) == 0, said.read_text()
    for name in ("model.safetensors", "refit.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _refused(words: tuple[object, ...], said: Path) -> str:
    Path(f"{words[-1]}.checkpoint").rename(f"{words[-1]}.aside")
    assert finish(words, said) == 1
    Path(f"{words[-1]}.aside").rename(f"{words[-1]}.checkpoint")
    return said.read_text()


def test_a_full_disk_is_one_sentence_and_changes_nothing(place: Path, tmp_path: Path) -> None:
    chance, failures = random.Random(3), 0
    out, said = tmp_path / "out", tmp_path / "said"
    fill(place, out)
    for _ in range(SCALE):
        for name, words in commands(place, out).items():
            if SCALE == 1 and name not in SHORT:
                continue
            code = finish(words, said, most=int(10 ** chance.uniform(1.5, 5.5)))
            text = said.read_text()
            assert code in (0, 1), text
            assert "report it" not in text and "Traceback" not in text, text
            failures += code
            check_outputs(out)
            assert leftovers(out) == []
    print(f"commands on a full disk: {failures} failed with a sentence, partial outputs: 0, leftovers: 0")


def test_the_owner_of_a_lock_is_named_and_the_lock_of_the_dead_is_free(place: Path, tmp_path: Path) -> None:
    words = ("train", place / "split", "--dim", 8, "--epochs", 4000, "--patience", 400, "--loss", "bpr")
    words = (*words, "--negative-power", 0, "--out", tmp_path / "run")
    process = start(words, tmp_path / "first")
    lock = tmp_path / ".counterpop-lock-run"
    while not (lock.exists() and lock.read_text()):
        time.sleep(0.05)
    assert finish(words, tmp_path / "second") == 1
    assert f"being written by process {process.pid} on" in (tmp_path / "second").read_text()
    process.kill()
    process.join()
    assert json.loads(lock.read_text())["pid"] == process.pid
    assert finish((*words[:5], 2, *words[8:], "--resume"), tmp_path / "third") == 0, (tmp_path / "third").read_text()
    assert leftovers(tmp_path) == []
