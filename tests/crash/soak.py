"""The server under mixed load: lists, batches, slow clients, oversized headers and reloads, with probes beside them.

    python tests/crash/soak.py --minutes 30

Prints one JSON object: requests by status, the 99th percentile of probes, and memory at the start and at the end. Exits
with 1 if there was a status of 500 or more, probes took longer than 100 ms, or memory grew by more than 5 %. Server,
clients and probes are processes of their own on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import multiprocessing
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import counterpop as cp

SINGLES, BATCHES, SLOW = 32, 2, 16  # connections that ask for one list, for 64 lists, and that send a byte at a time
RELOAD_EVERY, ATTACK_EVERY, PROBE_EVERY, WEIGH_EVERY = 10.0, 5.0, 0.1, 5.0  # seconds
ATTACK = 40 << 20  # bytes of headers
WARM = 0.2  # of the time, after which memory must not grow
MOST_PROBE, MOST_GROWTH = 0.1, 0.05
USERS, ITEMS = 3000, 2000


def make_versions(folder: Path) -> list[Path]:
    """Two tuned runs with the same users."""
    paths = [folder / "a", folder / "b"]
    split = cp.split_uniform(cp.make_world(USERS, ITEMS, mean_activity=20, seed=1).log, test=2, valid=2, seed=0)
    for seed, path in enumerate(paths):
        run = cp.train(split, dim=64, epochs=3, seed=seed, refit=False, loss="bpr", negative_power=0.0)
        tuned = cp.tune(run, split, point="gain")
        cp.save_run(run, path, split)
        cp.save_tuning(path, tuned, tuned.grid, tuned.to_json())
    return paths


@contextmanager
def serving(run: Path, log: Path, *words: str) -> Iterator[tuple[int, int]]:
    """The port and the process id of a server."""
    command = [sys.executable, "-m", "counterpop", "serve", str(run), "--port", "0", *words]
    with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        try:
            while not (found := re.search(r":(\d+)/", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
            yield int(found[1]), process.pid
        finally:
            process.terminate()
            process.wait()


def request(draw: random.Random, many: int = 1) -> bytes:
    """A request for the lists of this many users, some of whom are unknown."""
    strength = f"{draw.uniform(0, 1):.2f}"
    if many == 1:
        path = f"/recommend?user={draw.randrange(USERS + 100)}&k=20&item_strength={strength}"
        return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    body = json.dumps({"users": [draw.randrange(USERS + 100) for _ in range(many)], "k": 20})
    head = "POST /recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> int:
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(head[9:12])


async def ask(port: int, end: float, seed: int, many: int, counts: collections.Counter[int]) -> None:
    """One request after another on a connection that is kept."""
    draw = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.monotonic() < end:
        counts[await exchange(reader, writer, request(draw, many))] += 1
    writer.close()


async def dawdle(port: int, end: float, seed: int, counts: collections.Counter[int]) -> None:
    """Sends headers or a body byte by byte until the server gives up."""
    draw = random.Random(seed)
    while time.monotonic() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head, _, body = request(draw, 64).partition(b"\r\n\r\n")
        whole = body if draw.random() < 0.5 else head
        if whole is body:
            writer.write(head + b"\r\n\r\n")
        with suppress(OSError, asyncio.IncompleteReadError):
            for byte in whole:
                if time.monotonic() > end or reader.at_eof():
                    break
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.2)
            writer.write_eof()
            if found := re.match(rb"HTTP/1.1 (\d+)", await asyncio.wait_for(reader.read(1000), 20)):
                counts[int(found[1])] += 1
        writer.close()


async def attack(port: int, end: float, counts: collections.Counter[int]) -> None:
    """Sends far too many headers, again and again."""
    while time.monotonic() < end - 1:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(OSError):
            writer.write(b"GET /recommend?user=1 HTTP/1.1\r\nHost: localhost\r\nX: ")
            for _ in range(ATTACK >> 16):
                writer.write(b"x" * (1 << 16))
                await writer.drain()
        with suppress(OSError):
            if found := re.match(rb"HTTP/1.1 (\d+)", await reader.read(1000)):
                counts[int(found[1])] += 1
        writer.close()
        await asyncio.sleep(ATTACK_EVERY)


def load(port: int, seconds: float, mixed: bool, results: Any) -> None:
    """All clients; puts how many answers had which status."""
    counts: collections.Counter[int] = collections.Counter()
    end = time.monotonic() + seconds

    async def run() -> None:
        clients = [ask(port, end, n, 1, counts) for n in range(SINGLES)]
        clients += [ask(port, end, SINGLES + n, 64, counts) for n in range(BATCHES)]
        if mixed:
            clients += [*(dawdle(port, end, n, counts) for n in range(SLOW)), attack(port, end, counts)]
        await asyncio.gather(*clients)

    asyncio.run(run())
    results.put(dict(counts))


def probe(port: int, seconds: float, results: Any) -> None:
    """Asks for health on new connections; puts the seconds that each answer took, and statuses other than 200."""
    taken, wrong, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for path in ("/healthz", "/readyz"):
            start = time.perf_counter()
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = connection.recv(1000)
            taken.append(time.perf_counter() - start)
            wrong += not answer.startswith(b"HTTP/1.1 200")
        time.sleep(PROBE_EVERY)
    results.put((taken, wrong))


def memory_of(pid: int) -> float:
    """Proportional memory of a process and its children, in megabytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert own is not None
    return int(own[1]) / 1024 + sum(memory_of(int(child)) for child in children)


def soak(seconds: float, folder: Path, workers: int = 1, mixed: bool = True) -> dict[str, Any]:
    """Everything at once; what was counted."""
    versions = make_versions(folder)
    run = folder / "run"
    shutil.copytree(versions[0], run)
    saved = [cp.load_run(path) for path in versions]
    results: list[Any] = [multiprocessing.Queue(), multiprocessing.Queue()]
    with serving(run, folder / "log", "--workers", str(workers)) as (port, pid):
        start, sizes, reloads = time.monotonic(), list[tuple[float, float]](), 0
        processes = [multiprocessing.Process(target=load, args=(port, seconds, mixed, results[0]))]
        processes += [multiprocessing.Process(target=probe, args=(port, seconds, results[1]))]
        for process in processes:
            process.start()
        while (at := time.monotonic() - start) < seconds:
            if mixed and at / RELOAD_EVERY > reloads + 1:
                reloads += 1
                one = saved[reloads % 2]
                cp.save_run(one.run, run, versions[reloads % 2])
            sizes.append((at, memory_of(pid)))
            time.sleep(min(WEIGH_EVERY, max(seconds / 50, 0.1)))
        counts, (taken, wrong) = results[0].get(), results[1].get()
        for process in processes:
            process.join()
    warm = [size for at, size in sizes if at >= WARM * seconds]
    first, last = (sorted(part)[len(part) // 2] for part in (warm[: len(warm) // 4 + 1], warm[-(len(warm) // 4 + 1) :]))
    ordered = sorted(taken)
    return {
        "seconds": round(seconds),
        "workers": workers,
        "requests": {str(status): number for status, number in sorted(counts.items())},
        "5xx": sum(number for status, number in counts.items() if status >= 500),
        "reloads": reloads,
        "probes": len(taken),
        "probes_not_200": wrong,
        "probe_ms": {f"p{part:g}": round(1e3 * ordered[int(part / 100 * len(ordered))], 1) for part in (50, 99)},
        "memory_mb": {"first": round(first, 1), "last": round(last, 1), "growth": round(last / first - 1, 4)},
        "tracebacks": (folder / "log").read_text().count("Traceback"),
    }


def holds(found: dict[str, Any]) -> bool:
    quick = found["probe_ms"]["p99"] <= 1e3 * MOST_PROBE and not found["probes_not_200"]
    return bool(quick and not found["5xx"] + found["tracebacks"] and found["memory_mb"]["growth"] <= MOST_GROWTH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="only lists and batches, without attacks and reloads")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(60 * given.minutes, Path(folder), given.workers, not given.plain)
    print(json.dumps(found, indent=1))
    sys.exit(0 if holds(found) else 1)


if __name__ == "__main__":
    main()
