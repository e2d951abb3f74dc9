"""What every step costs as a log grows: seconds and peak memory, each step in its own process, and implicit beside it.

    python benchmarks/bench_scale.py 1e6 1e7                     # a few minutes
    python benchmarks/bench_scale.py 1e8 --out experiments/scale.md --folder /somewhere/with/30/GB
    python benchmarks/bench_scale.py 1e9 --steps read split epoch --no-implicit

The log is made up and written as parquet parts, chunk by chunk from a seed: 20 rows for each user and 200 for each item
(at most 20 million users and a million items), popularity is skewed, and half of what users choose comes from the
items of their group. Everything lies in a temporary folder below --folder, which is removed at the end.

"peak" is the largest resident memory of the process, files that are mapped into memory included; "own" is the part that
cannot be dropped and read again, sampled five times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl

import counterpop as cp
from paper_data import load_split

PART_ROWS = 5_000_000
GROUPS = 100
LISTS = 100_000  # users to recommend to
EPOCHS, DIM = 5, 64
STEPS = ("read", "split", "epoch", "tune", "recommend", "audit")
TRAINING = ("--dim", DIM, "--loss", "bpr", "--negative-power", 0, "--no-refit", "--no-ledger", "--check-every", EPOCHS)

READ = """
import sys, tempfile
from counterpop.readers import read_interactions
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as scratch:
    print(len(read_interactions(sys.argv[1], scratch=scratch)))
"""
PEER = """
import sys, time, json
import numpy as np
from scipy.sparse import csr_matrix
import implicit.cpu.als, implicit.cpu.bpr, threadpoolctl
import counterpop as cp
import counterpop.ranking
kind, path, dim, lists = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
train = cp.load_development(path).train
shape = train.n_users, train.n_items
# copies, because implicit takes no arrays that are mapped read-only
where = np.array(train.item_ix), np.array(train.user_starts)
matrix = csr_matrix((np.ones(len(train), np.float32), *where), shape=shape)
models = {"als": implicit.cpu.als.AlternatingLeastSquares, "bpr": implicit.cpu.bpr.BayesianPersonalizedRanking}
model = models[kind](factors=dim if kind == "als" else dim - 1, iterations=1)
with threadpoolctl.threadpool_limits(1, user_api="blas"):
    start = time.perf_counter()
    model.fit(matrix, show_progress=False)
    fitted = time.perf_counter() - start
users = np.arange(min(lists, train.n_users), dtype=np.int32)
P, Q = (np.ascontiguousarray(side) for side in (model.user_factors, model.item_factors))
ties = cp.ranking.tie_order(train.item_ids)
cp.rank(P[:100], Q, 20, users=users[:100], seen=[train], ties=ties)  # compiles
seconds, processor, found = {}, {}, {}
for name, job in (
    ("implicit", lambda: model.recommend(users, matrix[users], N=20)[0]),
    ("counterpop", lambda: cp.rank(P[users], Q, 20, users=users, seen=[train], ties=ties)[0]),
):
    start, used = time.perf_counter(), time.process_time()
    found[name] = job()
    seconds[name], processor[name] = time.perf_counter() - start, time.process_time() - used
same = float(np.mean(found["implicit"] == found["counterpop"]))
print(json.dumps({"fit": fitted, "seconds": seconds, "processor": processor, "same": same, "users": len(users)}))
"""


@dataclass(frozen=True)
class Cost:
    """One step: its seconds, processor seconds and peak memory in GB, and what it printed."""

    seconds: float
    processor: float
    peak: float
    own: float
    told: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", type=lambda text: int(float(text)), help="Rows of the log: 1e6, 1e7 ...")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--no-implicit", action="store_true")
    parser.add_argument("--ml10m", action="store_true", help="Also time epochs of ML-10M, from COUNTERPOP_DATA.")
    parser.add_argument("--folder", type=Path, help="Where to work. [default: the folder for temporary files]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="Also write the tables to this file.")
    arguments = parser.parse_args()
    texts = [describe_machine()]
    if arguments.ml10m:
        texts.append(describe_ml10m())
    print("\n\n".join(texts), flush=True)
    for rows in arguments.rows:
        folder = Path(tempfile.mkdtemp(prefix="counterpop-scale-", dir=arguments.folder))
        try:
            texts.append(measure(rows, folder, arguments))
            print(texts[-1], flush=True)
        finally:
            shutil.rmtree(folder)
        if arguments.out:
            arguments.out.write_text("\n\n".join(texts) + "\n")


def describe_machine() -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    names = "numpy", "numba", "polars", "implicit"
    libraries = ", ".join(f"{name} {version(name)}" for name in names)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    words = " ".join(sys.argv[1:])
    return (
        "# What every step costs as a log grows\n\n"
        f"`python benchmarks/bench_scale.py {words}` on {datetime.now(UTC):%Y-%m-%d}, commit {commit}, "
        f"{len(os.sched_getaffinity(0))} shared cores, {memory:.0f} GB, Python {platform.python_version()}, "
        f"{libraries}. Made-up logs; D {DIM}, BPR, no ledger, no refit."
    )


def describe_ml10m() -> str:
    """An epoch of ML-10M, whose item vectors fit a cache, in a sentence."""
    split = load_split("ml10m")
    how = {"loss": "bpr", "negative_power": 0.0, "ledger": False, "epochs": 60, "check_every": 60}
    run = cp.train(split, dim=DIM, refit=False, progress=False, **how)
    each = float(np.median([epoch["seconds"] for epoch in run.history])) / len(split.train) * 1e9
    return f"An epoch of ML-10M takes {each:.0f} ns for each pair by the clock (median of {len(run.history)} epochs)."


def measure(rows: int, folder: Path, arguments: argparse.Namespace) -> str:
    """The table of one log."""
    users, items = min(rows // 20, 20_000_000), min(rows // 200, 1_000_000)
    start = time.perf_counter()
    write_log(folder / "log", rows, users, items, arguments.seed)
    size = sum(file.stat().st_size for file in (folder / "log").iterdir()) / 1e9
    print(f"{rows:.0e} rows written in {time.perf_counter() - start:.0f} s, {size:.2f} GB", file=sys.stderr, flush=True)
    split, run = folder / "split", folder / "run"
    wanted = folder / "users.txt"
    ids = np.random.default_rng(arguments.seed).choice(users, min(LISTS, users), replace=False)
    commands = {
        "read": [sys.executable, "-c", READ, folder / "log", folder],
        "split": command("split", folder / "log", "--protocol", "uniform", "--out", split),
        "epoch": command("train", split, *TRAINING, "--epochs", arguments.epochs, "--out", run),
        "tune": command("tune", run),
        "recommend": command("recommend", run, "--users", wanted, "--out", folder / "lists"),
        "audit": command("audit", run),
    }
    costs: dict[str, Cost] = {}
    for step in arguments.steps:
        if step == "recommend":
            known = pl.read_parquet(split / "users.parquet")["id"]
            wanted.write_text("\n".join(map(str, known.gather(np.sort(ids) % len(known)).unique().to_list())))
        costs[step] = run_step(commands[step])
        print(f"  {step}: {costs[step].seconds:.1f} s, peak {costs[step].peak:.2f} GB", file=sys.stderr, flush=True)
    lines = [f"## {rows:.0e} rows, {users:,} users, {items:,} items", ""]
    lines += [
        "| step | seconds | processor s | peak GB | own GB | processor ns for each row |",
        "|---|---|---|---|---|---|",
    ]
    names = {
        "read": "read",
        "split": "split (reads, draws and writes)",
        "epoch": f"train {arguments.epochs} epochs",
        "recommend": f"recommend to {min(LISTS, users):,} users",
    }
    for step, cost in costs.items():
        lines.append(_row(names.get(step, step), cost, rows))
        if step == "epoch":
            epoch = json.loads(cost.told)["epoch_seconds"]
            lines.append(f"| of that one epoch, by the clock | {epoch:.1f} | | | | {epoch / rows * 1e9:.0f} |")
    whole = [step for step in ("split", "epoch", "tune", "recommend") if step in costs]
    seconds, peak = sum(costs[s].seconds for s in whole), max(costs[s].peak for s in whole)
    lines += ["", f"{' + '.join(whole)}: {seconds / 60:.1f} minutes, peak {peak:.1f} GB."]
    if not arguments.no_implicit and split.exists():
        lines += [_peer(kind, split) for kind in ("als", "bpr")]
    return "\n".join(lines)


def write_log(folder: Path, rows: int, users: int, items: int, seed: int) -> None:
    """Parts of a made-up log, each from its own stream of the seed."""
    folder.mkdir()
    of_group = max(1, items // GROUPS)
    for part, start in enumerate(range(0, rows, PART_ROWS)):
        draw, n = np.random.default_rng([seed, part]), min(PART_ROWS, rows - start)
        user = (users * draw.random(n) ** 1.3).astype(np.int64)
        anywhere = (items * draw.random(n) ** 2).astype(np.int64)
        own = np.minimum((of_group * draw.random(n) ** 2).astype(np.int64) * GROUPS + user % GROUPS, items - 1)
        item = np.where(draw.random(n) < 0.5, anywhere, own)
        table = pl.DataFrame({"user": user * 3 + 1_000_000, "item": item * 7})
        table.write_parquet(folder / f"part-{part:05}.parquet")


def command(*words: object) -> list[object]:
    return [sys.executable, "-m", "counterpop", *words, "--json"]


def run_step(words: list[object]) -> Cost:
    """Runs a process to its end; ends this program if it fails."""
    start = time.perf_counter()
    child = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, text=True)
    own, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            own[0] = max(own[0], own_memory(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert child.stdout is not None
    told = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    over.set()
    watcher.join()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed with {child.returncode}")
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9, own[0], told)


def own_memory(pid: int) -> float:
    """The anonymous memory of a process in GB; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        return int(text.split("RssAnon:")[1].split()[0]) * 1024 / 1e9
    except (OSError, IndexError):
        return 0.0


def _row(name: str, cost: Cost, rows: int) -> str:
    each = cost.processor / rows * 1e9
    return f"| {name} | {cost.seconds:.1f} | {cost.processor:.1f} | {cost.peak:.2f} | {cost.own:.2f} | {each:.0f} |"


def _peer(kind: str, split: Path) -> str:
    """implicit on the same train part, in a sentence."""
    cost = run_step([sys.executable, "-c", PEER, kind, split, DIM, LISTS])
    told = json.loads(cost.told)
    lists = " and ".join(
        f"{told['seconds'][name]:.1f} s by {name} ({told['processor'][name]:.1f} s of processor time)"
        for name in ("implicit", "counterpop")
    )
    return (
        f"\nimplicit {kind.upper()}, one iteration at D {DIM}: {told['fit']:.1f} s, peak {cost.peak:.1f} GB. Exact "
        f"lists from its vectors for {told['users']:,} users: {lists}; {told['same']:.2%} of the places are the same."
    )


if __name__ == "__main__":
    main()
