"""The server beside that of an earlier commit: the same run, the same clients, by turns.

    python benchmarks/bench_serving_against.py 9182d5b^ [--seconds 10] [--rounds 5]

Prints the best rate of each over all rounds, and their ratio, as JSON. The earlier commit is checked out into a
temporary git worktree; its server uses this environment. Without --run, that commit first trains a small world, so
that both can read the run.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_serving import BATCH, load

ROOT = Path(__file__).resolve().parents[1]
MAKE = """
import sys, counterpop as cp
split = cp.split_uniform(cp.make_world(3000, 2000, mean_activity=20, seed=1).log, test=2, valid=2, seed=0)
cp.save_run(cp.train(split, dim=64, epochs=3, loss="bpr", negative_power=0.0, refit=False), sys.argv[1], split)
"""
USERS = 3000


def run(source: Path, *words: str) -> list[str]:
    return ["env", f"PYTHONPATH={source / 'src'}", sys.executable, *words]


def rate(source: Path, folder: str, batch: int, seconds: float) -> float:
    """Users answered per second by the server of a source tree."""
    words = run(source, "-m", "counterpop", "serve", folder, "--port", "0")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        try:
            port = next(int(found[1]) for line in server.stderr if (found := re.search(r":(\d+)/", line)))  # type: ignore[union-attr]
            load(port, USERS, batch, min(2.0, seconds))
            answered, _, errors = load(port, USERS, batch, seconds)
            assert not errors, f"{errors} errors"
            return answered
        finally:
            server.terminate()
            server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run", help="a run folder that both can read, with users 0 to 2,999")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        before = Path(place) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(before), given.commit], check=True)
        try:
            folder = given.run or f"{place}/run"
            if not given.run:
                subprocess.run(run(before, "-c", MAKE, folder), check=True)
            found = {}
            for name, batch in (("single users", 1), (f"batches of {BATCH}", BATCH)):
                rates: dict[str, list[float]] = {"before": [], "now": []}
                for _ in range(given.rounds):
                    for which, source in (("before", before), ("now", ROOT)):
                        rates[which].append(round(rate(source, folder, batch, given.seconds), 1))
                best = {which: max(all_rounds) for which, all_rounds in rates.items()}
                found[name] = {**best, "ratio": round(best["now"] / best["before"], 3), "rounds": rates}
        finally:
            subprocess.run([*git, "remove", "--force", str(before)], check=True)
    print(json.dumps({"commit": given.commit, "seconds": given.seconds, "users_per_second": found}, indent=1))


if __name__ == "__main__":
    main()
