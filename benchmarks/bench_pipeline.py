"""The four commands on the paper's data, with only their defaults: seconds, memory and figures.

    python benchmarks/bench_pipeline.py [ml10m netflix adressa] [--method macr]

Loss, epochs and strengths are chosen on validation; test is measured once, at the end.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from counterpop.paper import published
from paper_data import data_folder


def call(*words: str) -> tuple[dict, float]:  # type: ignore[type-arg]
    """What a command prints as JSON, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "counterpop", *words, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["ml10m", "netflix", "adressa"])
    parser.add_argument("--method", choices=published.METHODS, default=published.OURS)
    parser.add_argument("--seed", default="0")
    arguments, flags = parser.parse_known_args()
    for name in arguments.names:
        with tempfile.TemporaryDirectory() as folder:
            split, run = str(Path(folder) / "split"), str(Path(folder) / "run")
            source = str(data_folder() / f"{name}.npz")
            words = ["--seed", arguments.seed, *flags]
            _, t_split = call("split", source, "--protocol", "as-given", "--ordinary", "0", "--out", split)
            trained, t_train = call(
                "train", split, "--backbone", "mf", "--method", arguments.method, *words, "--out", run
            )
            tuned, t_tune = call("tune", run, "--point", "gain")  # as published
            result, t_evaluate = call("evaluate", run, "--on", "test")
            memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        seconds = t_split + t_train + t_tune + t_evaluate
        print(
            f"{name}, {arguments.method}: {seconds:.1f} s (split {t_split:.1f}, train {t_train:.1f}, "
            f"tune {t_tune:.1f}, evaluate {t_evaluate:.1f}), at most {memory:.2f} GB so far, "
            f"{trained['epochs']} epochs, "
            f"strengths {tuned['item_strength']} / {tuned['user_strength']}"
        )
        for row in ("plain", "adjusted"):
            figures = " ".join(f"{result[row][m]:.4f}" for m in ("recall", "hit_rate", "ndcg"))
            print(f"  {row:9} {figures}")
        figures = " ".join(f"{figure:.3f} " for figure in published.table3("mf", name, arguments.method).values())
        print(f"  published {figures}", flush=True)


if __name__ == "__main__":
    main()
