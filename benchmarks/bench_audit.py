"""How long an audit takes and how much memory it needs, by the number of lists; then its page in Chromium.

    python benchmarks/bench_audit.py                                 # 0.25, 0.5 and 1 million lists, and a page
    python benchmarks/bench_audit.py --lists 10000000 --rows 100000000 --no-page

Each size is read from parquet and audited by `counterpop audit --json` in a process of its own, whose processor time
and peak memory are reported. Seconds per million lists should not depend on the number of lists.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROUNDS = 5
K = 20
CHUNK = 500_000  # users written at a time


def write_data(folder: Path, lists: int, rows: int, items: int) -> None:
    """A log with popularity that falls with the item's number, and lists of 20 that lean to popular items.

    Written in parts of half a million users, so that making the data needs little memory: a folder of parquet files
    each, as Spark writes them. Ids are 64-bit integers.
    """
    draw, each = np.random.default_rng(0), rows / lists
    for name in ("log", "lists"):
        (folder / name).mkdir(parents=True)
    for start in range(0, lists, CHUNK):
        users = np.arange(start, min(start + CHUNK, lists), dtype=np.int64)
        sizes = 1 + draw.poisson(each - 1, len(users)) if each > 1 else np.ones(len(users), np.int64)
        chosen = (items * draw.random(sizes.sum()) ** 3).astype(np.int64)
        pl.DataFrame({"user": np.repeat(users, sizes), "item": chosen}).write_parquet(
            folder / "log" / f"{start:010d}.parquet"
        )
        # an arithmetic progression of odd step never repeats within 20 places
        first, step = items * draw.random(len(users)) ** 4, 1 + 2 * draw.integers(0, items // 64, len(users))
        best = (first.astype(np.int64)[:, None] + step[:, None] * np.arange(K)) % items
        places = np.tile(np.arange(1, K + 1, dtype=np.int32), len(users))
        frame = pl.DataFrame({"user": np.repeat(users, K), "item": best.ravel(), "rank": places})
        frame.write_parquet(folder / "lists" / f"{start:010d}.parquet")


def run_audit(folder: Path, *words: str) -> tuple[float, float, float]:
    """Seconds, seconds of processor time and peak gigabytes of one command."""
    given = [
        "audit",
        "--recommendations",
        folder / "lists",
        "--interactions",
        folder / "log",
        "--keep-unknown",
        "--json",
        *words,
    ]
    start = time.perf_counter()
    done = subprocess.Popen([sys.executable, "-m", "counterpop", *map(str, given)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(done.pid, 0)
    if status:
        raise SystemExit("the audit failed")
    unit = 1 << (30 if sys.platform == "darwin" else 20)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit


def open_page(path: Path) -> None:
    """Prints the seconds until Chromium shows and has drawn the page, if playwright and chromium are installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("opening the page: not measured (playwright is missing)")
        return
    taken = []
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        for _ in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            start = time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.wait_for_function("() => plots.every((plot) => plot.querySelector('.main-svg'))")
            taken.append(
                (
                    page.evaluate("performance.getEntriesByType('paint')[0].startTime") / 1000,
                    page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000,
                    time.perf_counter() - start,
                )
            )
            page.close()
        browser.close()
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB; seconds, best and median of {ROUNDS}:")
    for name, seconds in zip(("first paint", "loaded", "all figures drawn"), zip(*taken, strict=True), strict=True):
        print(f"  {name:18} {min(seconds):.2f}  {statistics.median(seconds):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--rows", type=int, help="Rows of the log. [default: 10 for each list]")
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=1, help="Repetitions of each size; the best is shown.")
    parser.add_argument("--page", type=Path, action="append", default=[], help="Also open this page in Chromium.")
    parser.add_argument("--no-page", action="store_true", help="Only time and memory.")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for lists in arguments.lists:
        with tempfile.TemporaryDirectory() as name:
            folder, rows = Path(name), arguments.rows or 10 * lists
            write_data(folder, lists, rows, arguments.items)
            seconds, busy, memory = zip(*(run_audit(folder) for _ in range(arguments.rounds)), strict=True)
            print(
                f"{lists:,} lists of {K}, log of {rows:,} rows, {arguments.items:,} items: {min(seconds):.1f} s, "
                f"processor time {min(busy):.1f} s, {min(busy) / lists * 1e6:.1f} s per million lists, "
                f"peak {max(memory):.2f} GB",
                flush=True,
            )
            if not arguments.no_page and lists == arguments.lists[0]:
                run_audit(folder, "--html", str(folder / "audit.html"))
                for page in [folder / "audit.html", *arguments.page]:
                    open_page(page)


if __name__ == "__main__":
    main()
