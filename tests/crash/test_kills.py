"""Commands that are killed, interrupted or run out of disk: outputs are whole, nothing is left, nothing is lost.

The short form runs with all tests; `make crash` runs the long one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from victims import LANES, LONG, can_trace, finish, leftovers, record, start, times

import counterpop as cp
from paper_worlds import write_datasets

SHORT = ("split", "tune", "csv")  # the commands of the short form
MODELS = ("model.safetensors", "refit.safetensors")
PAPER = ("paper", "table2", "table5", "--quick", "--backbone", "mf", "--candidates", 1)
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
    (folder / "data").mkdir()
    write_datasets(folder / "data", ("ml10m",))
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
        "demo": ("demo", "--users", 200, "--items", 100, "--epochs", 3, "--force", "--out", out / "demo"),
        "paper": (*PAPER, "--data", place / "data", "--out", out / "paper"),
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
    for name in ("split", "run", "baseline"):
        if (out / "demo" / name).exists():
            cp.load_split(out / "demo" / name)
    for results in finals(out, "paper/**/*.json"):
        json.loads(results.read_text())
    for page in finals(out, "**/*.html"):
        assert page.read_text().rstrip().endswith("</html>")
    for table in finals(out, "tables/*.csv"):
        assert pl.read_csv(table, infer_schema=False).height and table.read_bytes().endswith(b"\n")


def finals(out: Path, pattern: str) -> list[Path]:
    """Files under a final name; what a killed command was writing has another one."""
    return [path for path in out.glob(pattern) if not path.name.startswith(".counterpop-")]


def fill(place: Path, out: Path) -> None:
    out.mkdir()
    saved = cp.load_run(place / "run")
    cp.save_run(saved.run, out / "tuned", place / "split")


def test_random_kills_of_every_command_leave_whole_outputs(place: Path, tmp_path: Path) -> None:
    """A lane is a set of folders of its own; lanes run side by side."""
    needed = times(3, 500)
    with ThreadPoolExecutor(LANES) as pool:
        lanes = [pool.submit(kill_at_random, place, tmp_path / str(n), n, needed // LANES) for n in range(LANES)]
        kills = sum((lane.result() for lane in lanes), Counter[str]())
    assert kills.total() >= needed // LANES * LANES
    by_command = ", ".join(f"{name} {number}" for name, number in sorted(kills.items()))
    record(
        f"random kills over {len(kills)} commands",
        f"{kills.total()} kills ({by_command})",
        "no partial output, no leftovers after the next command",
    )


def kill_at_random(place: Path, folder: Path, seed: int, needed: int) -> Counter[str]:
    """Kills each command in turn until there are enough kills; how many each got. Checks outputs after every one."""
    chance, kills = random.Random(seed), Counter[str]()
    out, said = folder / "out", folder / "said"
    folder.mkdir()
    fill(place, out)
    every = {name: words for name, words in commands(place, out).items() if LONG or name in SHORT}
    took = {}
    for name, words in every.items():
        begin = time.perf_counter()
        assert finish(words, said) == 0, said.read_text()
        took[name] = time.perf_counter() - begin
    while kills.total() < needed:
        for name, words in every.items():
            if name == "paper":  # what it has made is not made again
                shutil.rmtree(out / "paper", ignore_errors=True)
            process = start(words, said)
            time.sleep(chance.random() * took[name])
            process.kill()
            process.join()
            kills[name] += process.exitcode == -signal.SIGKILL
            check_outputs(out)
    for words in every.values():
        assert finish(words, said) == 0, said.read_text()
    check_outputs(out)
    assert leftovers(out) == []
    return kills


def test_a_kill_at_every_change_to_the_file_system_leaves_whole_outputs(place: Path, tmp_path: Path) -> None:
    kills = kill_at_steps(place, tmp_path, ("tune", "csv", "split", "debias", "parquet") if LONG else ("csv",), "step")
    record("kills at every change that Python's audit events show", f"{kills} kills", "no partial output, no leftovers")


@pytest.mark.skipif(not LONG, reason="only in the long form: it traces every system call")
def test_a_kill_at_every_system_call_of_a_save_leaves_whole_outputs(place: Path, tmp_path: Path) -> None:
    if not can_trace():
        pytest.skip("strace is missing or may not attach to processes")
    kills = kill_at_steps(place, tmp_path, ("tune", "csv"), "call")
    record("kills at every system call of `tune` and `recommend` that changes files (strace)", f"{kills} kills",
           "no partial output, no leftovers")  # fmt: skip


def kill_at_steps(place: Path, folder: Path, names: Sequence[str], what: str) -> int:
    """Kills commands at their first step, at their second and so on, until one reaches its end."""
    out, said, kills = folder / "out", folder / "said", 0
    fill(place, out)
    for name in names:
        words = commands(place, out)[name]
        for step in range(1, 5000):
            code = finish(words, said, **{what: step})
            check_outputs(out)
            if code == 0:
                break
            assert code == -signal.SIGKILL, said.read_text()
            kills += 1
        assert leftovers(out) == []
    return kills


def test_a_killed_training_resumes_to_the_same_bits(place: Path, tmp_path: Path) -> None:
    needed = times(1, 100)
    kinds: list[tuple[object, ...]] = [(), ("--ensemble", 2, "--loss", "bpr")]
    wholes, took = [], []
    for n, more in enumerate(kinds[: 2 if LONG else 1]):
        begin = time.perf_counter()
        words = ("train", place / "split", *TRAIN, *more, "--out", tmp_path / f"whole-{n}")
        assert finish(words, tmp_path / "said") == 0, (tmp_path / "said").read_text()
        took.append(time.perf_counter() - begin)
        wholes.append({name: (tmp_path / f"whole-{n}" / name).read_bytes() for name in MODELS})

    def kill_and_resume(number: int) -> int:
        """Kills one training up to three times and lets it end; how often it was killed."""
        chance, kind, kills = random.Random(number), number % len(wholes), 0
        out, said = tmp_path / f"run-{number}", tmp_path / f"said-{number}"
        words = ("train", place / "split", *TRAIN, *kinds[kind], "--resume", "--out", out)
        while not out.exists():
            process = start(words, said)
            process.join(took[kind] * chance.uniform(0.1, 1.0) if kills < 3 else None)
            process.kill()
            process.join()
            kills += process.exitcode == -signal.SIGKILL
            assert process.exitcode in (0, -signal.SIGKILL), said.read_text()
        assert {name: (out / name).read_bytes() for name in MODELS} == wholes[kind]
        assert not list(tmp_path.glob(f"run-{number}.checkpoint*"))
        shutil.rmtree(out)
        return kills

    kills: list[int] = []
    with ThreadPoolExecutor(LANES) as pool:
        while len([one for one in kills if one]) < needed:  # trainings that were killed at least once
            kills += pool.map(kill_and_resume, range(len(kills), len(kills) + LANES))
    ended = len([one for one in kills if one])
    record("training killed at random and resumed", f"{sum(kills)} kills, {ended} trainings",
           f"{ended} of {ended} ended with identical model files")  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT][: 1 + LONG])
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
    for _ in range(times(1, 10)):
        for name, words in commands(place, out).items():
            if name not in SHORT and not LONG:
                continue
            code = finish(words, said, most=int(10 ** chance.uniform(1.5, 5.5)))
            text = said.read_text()
            assert code in (0, 1), text
            assert "report it" not in text and "Traceback" not in text, text
            failures += code
            check_outputs(out)
            assert leftovers(out) == []
    record("commands on a full disk", f"{failures} that failed", "a sentence each, no partial output, no leftovers")


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
