"""Seconds an epoch: our MF (users normalised, ledger on and off) beside implicit's BPR, in one run.

    python benchmarks/bench_training.py [--data ml10m] [--rounds 7]

Rounds alternate between the candidates, so that a noisy machine is noisy for all; the best of each counts,
and the median is shown beside it. implicit counts one factor for its bias, so it gets one less.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import implicit.cpu.bpr
import numpy as np
from scipy.sparse import csr_matrix

from counterpop.kernels.threads import core_count
from counterpop.training.mf import MatrixFactorisation
from counterpop.training.settings import Settings
from paper_data import load_split

EPOCHS = 8  # in each round; the best of them counts


def ours(train, dim: int, ledger: bool) -> Callable[[], list[float]]:  # type: ignore[no-untyped-def]
    """A function that gives the seconds of a few epochs of our MF."""
    model = MatrixFactorisation(train, Settings(dim=dim, method="gradient", ledger=ledger))
    model.epoch(0.05)  # compiles

    def measure() -> list[float]:
        stamps = [time.perf_counter()]
        for _ in range(EPOCHS):
            model.epoch(0.05)
            stamps.append(time.perf_counter())
        return [after - before for before, after in pairwise(stamps)]

    return measure


def peer(train, dim: int) -> Callable[[], list[float]]:  # type: ignore[no-untyped-def]
    """The same of implicit's BPR, its set-up not counted."""
    shape = (train.n_users, train.n_items)
    matrix = csr_matrix((np.ones(len(train), np.float32), (train.user_ix, train.item_ix)), shape=shape)

    def measure() -> list[float]:
        stamps: list[float] = []
        model = implicit.cpu.bpr.BayesianPersonalizedRanking(
            factors=dim - 1, iterations=EPOCHS + 1, num_threads=core_count(), verify_negative_samples=True
        )
        model.fit(matrix, show_progress=False, callback=lambda *_: stamps.append(time.perf_counter()))
        return [after - before for before, after in pairwise(stamps)]

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml10m")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    train = load_split(arguments.data).train
    rounds = f"{arguments.rounds} rounds of {EPOCHS} epochs"
    print(f"{arguments.data}: {len(train):,} pairs, {core_count()} threads, {rounds}")
    for dim in (64, 128):
        candidates = {
            "counterpop, ledger": ours(train, dim, True),
            "counterpop, no ledger": ours(train, dim, False),
            "implicit BPR": peer(train, dim),
        }
        seconds: dict[str, list[float]] = {name: [] for name in candidates}
        for _ in range(arguments.rounds):
            for name, measure in candidates.items():
                seconds[name] += measure()
        best = {name: min(values) for name, values in seconds.items()}
        median = {name: statistics.median(values) for name, values in seconds.items()}
        for name in candidates:
            print(f"D {dim:3}  {name:22} best {best[name]:.4f} s  median {median[name]:.4f} s")
        # three rows read and written for each pair: what memory would allow if nothing stayed in the cache
        moved = 6 * 4 * dim * len(train)
        floor = moved / memory_bandwidth()
        times = best["counterpop, ledger"] / floor
        print(f"D {dim:3}  floor of memory bandwidth {floor:.4f} s: we are at {times:.1f} times it")
        for label, figures in (("best", best), ("median", median)):
            ours_now, without, theirs = figures.values()
            print(
                f"D {dim:3}  {label:6}: ours / implicit {ours_now / theirs:.2f}   "
                f"ledger on / off {ours_now / without:.3f}"
            )


def memory_bandwidth() -> float:
    """Bytes a second of copying 256 MiB, both ways counted, best of five."""
    source = np.ones(1 << 25)
    target = np.empty_like(source)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times)


if __name__ == "__main__":
    main()
