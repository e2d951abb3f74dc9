"""Several workers of one server: they share the vectors, all load a new run, and a dead one is replaced."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from counterpop.runs import Model

pytest.importorskip("uvicorn")
if sys.platform != "linux":
    pytest.skip("/proc says what processes share", allow_module_level=True)

USERS, DIM = 12_000, 256


def save_random(folder: Path, seed: int) -> Path:
    """A run of random vectors: 12 MB of them."""
    draw = np.random.default_rng(0)
    pairs = draw.integers(0, (USERS, 60), (8 * USERS, 2))
    pairs[:USERS, 0] = np.arange(USERS)
    log = cp.read_interactions(pl.DataFrame({"user": pairs[:, 0], "item": pairs[:, 1]}))
    split = cp.split_uniform(log, test=2, valid=2, seed=0)
    draw = np.random.default_rng(seed)
    P, Q = (draw.normal(size=(n, DIM)).astype(np.float32) for n in (log.n_users, log.n_items))
    cp.save_run(cp.Run(Model(cp.Embeddings(P, Q, log.user_ids, log.item_ids)), settings={"dim": DIM}), folder, split)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, subprocess.Popen[str]]]:
    """The address of a server with two workers, its run, and its process."""
    run = save_random(tmp_path_factory.mktemp("workers") / "run", 0)
    words = [sys.executable, "-m", "counterpop", "serve", str(run), "--port", "0", "--workers", "2"]
    with subprocess.Popen([*words, "--look-every", "0.2"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = next(found for line in process.stderr if (found := re.search(r"http://[\d.:]+/", line)))
        yield found[0], run, process
        process.terminate()
        assert process.wait(30) == 143


def ask(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def worker_of(base: str) -> str:
    """The number of the worker that answered."""
    return re.findall(r'worker="(\d+)"', ask(f"{base}metrics"))[0]


def workers(parent: int) -> list[int]:
    """The processes that serve."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if "model.safetensors" in (folder / "maps").read_text() and parent in lineage(int(folder.name)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def lineage(pid: int) -> set[int]:
    found = set()
    while pid > 1:
        found.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def wait_for(condition: object) -> None:
    for _ in range(200):
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def mapped(pid: int, field: str) -> int:
    """Kilobytes of a process in the file of vectors."""
    lines, inside, total = Path(f"/proc/{pid}/smaps").read_text().splitlines(), False, 0
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith("model.safetensors")
        elif inside and line.startswith(f"{field}:"):
            total += int(line.split()[1])
    return total


def test_workers_share_the_vectors(server: tuple[str, Path, subprocess.Popen[str]]) -> None:
    base, run, process = server
    size = (run / "model.safetensors").stat().st_size / 1024
    pids = workers(process.pid)
    assert len(pids) == 2
    assert all(mapped(pid, "Rss") > 0.9 * size for pid in pids)
    assert sum(mapped(pid, "Pss") for pid in pids) < 1.1 * size  # in memory once, not twice
    assert sum(mapped(pid, "Private_Dirty") for pid in pids) == 0
    seen: set[str] = set()
    wait_for(lambda: seen.add(worker_of(base)) or seen == {"1", "2"})


def test_all_workers_load_a_new_run(server: tuple[str, Path, subprocess.Popen[str]]) -> None:
    base, run, _ = server
    lists = []
    for seed in (1, 2):
        save_random(run, seed)
        expected = [int(n) for n in cp.load(run).recommend(np.array([5], dtype=np.int32), 10)[0][0]]
        seen: dict[str, list[int]] = {}

        def served(seen: dict[str, list[int]] = seen, expected: list[int] = expected) -> bool:
            got = [entry["item"] for entry in json.loads(ask(f"{base}recommend?user=5&k=10"))["items"]]
            status = json.loads(ask(f"{base}readyz"))
            assert status["failed_reload"] is None
            text = ask(f"{base}metrics")
            worker = re.findall(r'worker="(\d+)"', text)[0]
            if got == expected and 'counterpop_reloads_total{result="taken"' in text:
                seen[worker] = got
            return set(seen) == {"1", "2"}

        wait_for(served)
        for _ in range(20):  # whichever worker answers
            assert [e["item"] for e in json.loads(ask(f"{base}recommend?user=5&k=10"))["items"]] == expected
        lists.append(expected)
    assert lists[0] != lists[1]


def test_a_dead_worker_is_replaced(server: tuple[str, Path, subprocess.Popen[str]]) -> None:
    base, _, process = server
    before = workers(process.pid)
    os.kill(before[0], signal.SIGKILL)
    wait_for(lambda: len(now := workers(process.pid)) == 2 and set(now) != set(before))
    assert json.loads(ask(f"{base}healthz"))["status"] == "ok"


def test_a_replacement_that_cannot_load_stops_nobody(server: tuple[str, Path, subprocess.Popen[str]]) -> None:
    base, run, process = server
    before = workers(process.pid)
    away = run.rename(run.with_name("away"))
    os.kill(before[0], signal.SIGKILL)
    assert process.stderr is not None
    assert any("could not serve" in line for line in process.stderr)
    assert json.loads(ask(f"{base}healthz"))["status"] == "ok"
    away.rename(run)
    wait_for(lambda: len(workers(process.pid)) == 2)


def test_a_worker_that_cannot_start_gives_one_sentence(tmp_path: Path) -> None:
    run = save_random(tmp_path / "run", 0)
    (run / "model.safetensors").write_bytes(b"nonsense")
    words = [sys.executable, "-m", "counterpop", "serve", str(run), "--port", "0", "--workers", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "model.safetensors was changed after writing" in done.stderr and "Traceback" not in done.stderr


def test_workers_end_quietly_when_the_first_process_is_killed(tmp_path: Path) -> None:
    run = save_random(tmp_path / "run", 0)
    words = [sys.executable, "-m", "counterpop", "serve", str(run), "--port", "0", "--workers", "2"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("http://" in line for line in process.stderr)
        process.kill()
        rest = process.stderr.read()  # until the last worker has ended
    assert "Traceback" not in rest
