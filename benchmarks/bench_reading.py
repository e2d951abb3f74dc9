"""Reads a large log with pandas and with counterpop, each in a fresh process, and prints seconds and memory.

pandas: read, factorize both columns, drop repeated pairs. counterpop: `read_interactions`, which also sorts, and whose
positions do not depend on the order of the rows. Imports are not counted.

    python benchmarks/bench_reading.py --rows 20000000 --format parquet --ids int
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

USERS, ITEMS = 1_000_000, 200_000

REPORT = """
import json, resource, sys, time
{imports}
path = sys.argv[1]
start = time.perf_counter()
{work}
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (30 if sys.platform == "darwin" else 20))
print(json.dumps({{"seconds": seconds, "gib": peak, "pairs": pairs}}))
"""
PROGRAMS = {
    "pandas": REPORT.format(
        imports="import pandas as pd, pyarrow.parquet",
        work="""
log = pd.read_parquet(path) if path.endswith("parquet") else pd.read_csv(path)
users, user_ids = pd.factorize(log["user"])
items, item_ids = pd.factorize(log["item"])
pairs = len(pd.DataFrame({"user": users, "item": items}).drop_duplicates())
""",
    ),
    "counterpop": REPORT.format(
        imports="from counterpop.readers import read_interactions", work="pairs = len(read_interactions(path))"
    ),
}


def write_log(path: Path, rows: int, ids: str, in_order: bool) -> None:
    """A log with skewed item popularity; ids are integers, or strings such as shops use."""
    rng = np.random.default_rng(0)
    users = rng.integers(0, USERS, rows)
    items = (ITEMS * rng.random(rows) ** 2).astype(np.int64)
    log = pl.DataFrame({"user": users, "item": items})
    if in_order:
        log = log.sort("user", "item")
    if ids == "str":
        log = log.select(
            pl.format("user-{}", "user").alias("user"),
            pl.format("B{}", pl.col("item").cast(pl.String).str.zfill(9)).alias("item"),
        )
    log.write_parquet(path) if path.suffix == ".parquet" else log.write_csv(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--format", choices=["parquet", "csv"], default="parquet")
    parser.add_argument("--ids", choices=["int", "str"], default="int")
    parser.add_argument("--sorted", action="store_true", help="a log that is already in order")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; the best counts")
    options = parser.parse_args()
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log.{options.format}"
        write_log(path, options.rows, options.ids, options.sorted)
        for _ in range(options.repeats):  # alternating, so that a busy machine affects both
            for name, program in PROGRAMS.items():
                command = [sys.executable, "-c", program, str(path)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
                run = json.loads(done.stdout)
                if name not in best or run["seconds"] < best[name]["seconds"]:
                    best[name] = run
    if best["pandas"]["pairs"] != best["counterpop"]["pairs"]:
        sys.exit(f"the two disagree: {best}")
    print(f"{options.rows:,} rows, {options.format}, {options.ids} ids, best of {options.repeats}")
    for name, run in best.items():
        print(f"{name:>12} {run['seconds']:7.2f} s {run['gib']:6.2f} GiB peak")
    print(f"{'ratio':>12} {best['counterpop']['seconds'] / best['pandas']['seconds']:7.2f}")


if __name__ == "__main__":
    main()
