"""What the window of served lists and its gauges cost: two servers of the same run, one with a window, one without.

    python benchmarks/bench_window.py [RUN] [--rounds 12] [--seconds 2]

The two take turns under load, so that other work on the machine slows both. Prints the users answered per second and
the processor time per user of each, and the ratios. /metrics is asked after every 15 seconds of load. Without a RUN, a
small one is trained on a synthetic world of 20,000 users and 5,000 items.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import counterpop as cp
from bench_serving import BATCH, load
from counterpop.serving.app import create_app
from counterpop.serving.guard import Guard
from counterpop.serving.watching import source_of

SCRAPED_EVERY = 15.0  # seconds, as Prometheus would
TICK = os.sysconf("SC_CLK_TCK")


def make_run(folder: str) -> str:
    split = cp.split_random(cp.make_world(20_000, 5_000, seed=0).log, test=0.1, valid=0.1, seed=0)
    run = cp.train(split, method="gradient", loss="bpr", negative_power=0.0, dim=64, epochs=2, refit=False, seed=0)
    cp.save_run(run, f"{folder}/run", split)
    return f"{folder}/run"


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def in_process(run: str, rounds: int = 40, requests: int = 250) -> None:
    """Prints the processor time of a request with and without a window, in this process and without a network.

    The two applications take turns of 250 requests, so this is hardly disturbed by other work. A request here is less
    than what a client sees, so the share of the window is an upper bound.
    """
    apps = [create_app(source_of(run), window=window, look_every=1e9) for window in (0, 10_000)]
    users, draw = cp.load(run).seen.n_users, random.Random(0)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        pass

    async def ask(app: Guard, path: str, query: str = "") -> None:
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": []}
        scope |= {"query_string": query.encode(), "http_version": "1.1", "scheme": "http", "root_path": ""}
        await app(scope, receive, send)  # type: ignore[arg-type]

    async def measure() -> list[list[float]]:
        spent: list[list[float]] = [[], []]
        for turn in range(2 * rounds + 4):
            side = (turn + turn // 2) % 2
            asked = [f"user={draw.randrange(users)}&k=20" for _ in range(requests)]
            start = time.process_time()
            for query in asked:
                await ask(apps[side], "/recommend", query)
            if turn >= 4:
                spent[side].append(1e6 * (time.process_time() - start) / requests)
        return spent

    without, kept = (statistics.median(side) for side in asyncio.run(measure()))
    print(f"in one process, medians of {rounds} turns: {without:.1f} and {kept:.1f} microseconds of processor time per")
    print(f"request ({100 * (kept / without - 1):+.1f} %)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run or make_run(folder)
        in_process(run)
        servers, ports, users = [], [], 0
        try:
            for window in ("0", "10000"):
                words = [sys.executable, "-m", "counterpop", "serve", run, "--port", "0", "--window", window]
                server = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
                servers.append(server)
                ports.append(next(int(found[1]) for line in server.stderr if (found := re.search(r":(\d+)/", line))))
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/readyz") as answer:
                    users = json.load(answer)["users"]
                while urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/measures").status == 202:
                    pass
            for batch in (1, BATCH):
                rates, costs, loaded = ([], []), ([], []), [0.0, 0.0]
                for turn in range(2 * arguments.rounds + 2):
                    side = (turn + turn // 2) % 2  # 0 1 1 0 0 1 1 0 ...
                    before = processor_seconds(servers[side].pid)
                    rate, _, errors = load(ports[side], users, batch, arguments.seconds)
                    loaded[side] += arguments.seconds
                    if loaded[side] >= SCRAPED_EVERY:
                        urllib.request.urlopen(f"http://127.0.0.1:{ports[side]}/metrics").read()
                        loaded[side] = 0.0
                    if errors:
                        raise SystemExit(f"{errors} errors")
                    if turn >= 2:  # the first turn of each warms up
                        rates[side].append(rate)
                        spent = processor_seconds(servers[side].pid) - before
                        costs[side].append(1e6 * spent / (rate * arguments.seconds))
                without, kept = (statistics.median(side) for side in rates)
                cheap, dear = (statistics.median(side) for side in costs)
                name = "single users" if batch == 1 else f"batches of {batch}"
                print(
                    f"{name}, medians of {arguments.rounds} turns: {without:,.0f} users/s without a window, "
                    f"{kept:,.0f} with one ({100 * (kept / without - 1):+.1f} %); processor time per user "
                    f"{cheap:.0f} and {dear:.0f} microseconds ({100 * (dear / cheap - 1):+.1f} %)",
                    flush=True,
                )
        finally:
            for server in servers:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
