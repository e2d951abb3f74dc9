"""Seconds to audit 40,000 lists of 20 items, as a call and as the command, and to open a page in Chromium.

    python benchmarks/bench_audit.py [--users 40000] [--items 10000] [--pairs 2000000] [--page report.html]

The page that the command writes is measured, and every page given by --page. That part needs playwright and Debian's
chromium.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import counterpop as cp

ROUNDS = 5


def write_data(folder: Path, users: int, items: int, pairs: int) -> None:
    """A log in which popularity falls with the rank, and lists of 20 items in which it falls more steeply."""
    draw = np.random.default_rng(0)
    weight = 1 / np.arange(1, items + 1)
    log = {"user": draw.integers(0, users, pairs), "item": draw.choice(items, pairs, p=weight / weight.sum())}
    pl.DataFrame(log).write_parquet(folder / "log.parquet")
    noise = draw.gumbel(size=(users, 400)).astype(np.float32)
    near = draw.integers(0, items // 2, (users, 400))
    best = np.argsort(1.2 * np.log(near + 1) - noise, axis=1)[:, :30]
    rows = [list(dict.fromkeys(near[u, places].tolist()))[:20] for u, places in enumerate(best)]
    table = {
        "user": [u for u, row in enumerate(rows) for _ in row],
        "item": [i for row in rows for i in row],
        "rank": [n for row in rows for n in range(1, len(row) + 1)],
    }
    pl.DataFrame(table).write_csv(folder / "lists.csv")


def open_page(path: Path) -> None:
    """Prints when a page was first visible, when it was loaded with its first screen drawn, and when all was drawn."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("the page was not opened: playwright is not installed")
        return
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    taken = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=40_000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--page", type=Path, action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, arguments.users, arguments.items, arguments.pairs)
        log = cp.read_interactions(folder / "log.parquet")
        start = time.perf_counter()
        found = cp.read_recommendations(folder / "lists.csv", log)
        read = time.perf_counter()
        audit = cp.audit(found.lists, found.users, found.log)
        done = time.perf_counter()
        print(f"{audit.users:,} lists x {audit.k}, {log.n_items:,} items, {len(log):,} pairs")
        print(f"reading the lists {read - start:.2f} s, the audit {done - read:.2f} s")
        words = [
            "audit",
            "--recommendations",
            folder / "lists.csv",
            "--interactions",
            folder / "log.parquet",
            "--html",
            folder / "audit.html",
            "--json",
        ]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "counterpop", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        print(f"the whole command, with its page: {time.perf_counter() - start:.2f} s")
        for page in [folder / "audit.html", *arguments.page]:
            open_page(page)


if __name__ == "__main__":
    main()
