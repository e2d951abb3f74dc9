"""The four commands on the paper's data, with nothing but their defaults: seconds, memory and figures.

    python benchmarks/bench_pipeline.py [ml10m netflix adressa] [--method macr]

Strengths and epochs come from validation; test is measured once, at the end. Data sets without a validation
part of their own are trained with --refit.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from paper_data import data_folder

DATA = ("ml10m", "netflix", "adressa", "gowalla")
PUBLISHED = {  # the paper's MF rows: recall, hit rate, NDCG at 20 on the four data sets
    "plain": (".128 .442 .084", ".112 .519 .094", ".085 .111 .034", ".046 .174 .032"),
    "gradient": (".173 .536 .116", ".138 .575 .119", ".116 .147 .056", ".081 .259 .057"),
    "ips": (".133 .443 .085", ".105 .488 .086", ".096 .128 .039", ".048 .174 .033"),
    "cause": (".115 .406 .074", ".093 .464 .078", ".084 .112 .037", ".045 .166 .032"),
    "dice": (".163 .519 .108", ".125 .554 .107", ".098 .133 .041", ".052 .177 .033"),
    "macr": (".138 .469 .089", ".119 .533 .101", ".109 .140 .050", ".077 .252 .050"),
}
REFIT = ("adressa", "gowalla")


def call(*words: str) -> tuple[dict, float]:  # type: ignore[type-arg]
    """What one command prints as JSON, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "counterpop", *words, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout), time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["ml10m", "netflix", "adressa"])
    parser.add_argument("--method", choices=list(PUBLISHED), default="gradient")
    parser.add_argument("--seed", default="0")
    arguments, flags = parser.parse_known_args()
    for name in arguments.names:
        with tempfile.TemporaryDirectory() as folder:
            split, run = str(Path(folder) / "split"), str(Path(folder) / "run")
            source = str(data_folder() / f"{name}.npz")
            words = ["--seed", arguments.seed, *flags, *(["--refit"] if name in REFIT else [])]
            _, t_split = call("split", source, "--protocol", "as-given", "--out", split)
            trained, t_train = call(
                "train", split, "--backbone", "mf", "--method", arguments.method, *words, "--out", run
            )
            tuned, t_tune = call("tune", run, "--point", "gain")  # as published; plain: gives it the adjustment as well
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
        print(f"  published {PUBLISHED[arguments.method][DATA.index(name)]}", flush=True)


if __name__ == "__main__":
    main()
