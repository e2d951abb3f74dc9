"""Seconds per epoch of our MF (users normalised, ledger on and off) and of implicit's BPR, in one run.

    python benchmarks/bench_training.py [--data ml10m] [--rounds 7]

Rounds alternate between the candidates, ours epoch by epoch, so that a noisy machine affects them equally. implicit
uses one more factor for its bias, so it gets one less.
"""

import argparse
import statistics
import time
from itertools import pairwise

import implicit.cpu.bpr
import numpy as np
from scipy.sparse import csr_matrix

import counterpop as cp
from counterpop.kernels.threads import core_count
from counterpop.training.backbones.contract import Start, Trainable
from counterpop.training.loop import begin
from paper_data import load_split

EPOCHS = 8  # of each in a round


def our_model(train: cp.Interactions, dim: int, ledger: bool) -> Trainable:
    """A model in training, with its kernels compiled."""
    model = begin(Start(train, cp.Settings(dim=dim, ledger=ledger)))
    model.epoch(0.05)
    return model


def seconds_of(model: Trainable) -> float:
    """The time of one epoch."""
    start = time.perf_counter()
    model.epoch(0.05)
    return time.perf_counter() - start


def peer_seconds(train: cp.Interactions, dim: int) -> list[float]:
    """The times of implicit's epochs, without its set-up."""
    shape = (train.n_users, train.n_items)
    matrix = csr_matrix((np.ones(len(train), np.float32), (train.user_ix, train.item_ix)), shape=shape)
    stamps: list[float] = []
    model = implicit.cpu.bpr.BayesianPersonalizedRanking(
        factors=dim - 1, iterations=EPOCHS + 1, num_threads=core_count(), verify_negative_samples=True
    )
    model.fit(matrix, show_progress=False, callback=lambda *_: stamps.append(time.perf_counter()))
    return [after - before for before, after in pairwise(stamps)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml10m")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    train = load_split(arguments.data).train
    rounds = f"{arguments.rounds} rounds of {EPOCHS} epochs"
    print(f"{arguments.data}: {len(train):,} pairs, {core_count()} threads, {rounds}")
    for dim in (64, 128):
        with_ledger, without = our_model(train, dim, True), our_model(train, dim, False)
        seconds: dict[str, list[float]] = {"counterpop, ledger": [], "counterpop, no ledger": [], "implicit BPR": []}
        ours, bare, theirs = seconds.values()
        for _ in range(arguments.rounds):
            theirs += peer_seconds(train, dim)
            time.sleep(0.5)  # implicit's threads spin for a while after their work
            for _ in range(EPOCHS):
                ours.append(seconds_of(with_ledger))
                bare.append(seconds_of(without))
        # three rows read and written for each pair: what memory would allow if nothing stayed in the cache
        floor = 6 * 4 * dim * len(train) / memory_bandwidth()
        for name, values in seconds.items():
            print(f"D {dim:3}  {name:22} best {min(values):.4f} s  median {statistics.median(values):.4f} s")
        print(f"D {dim:3}  floor of memory bandwidth {floor:.4f} s: we are at {min(ours) / floor:.1f} times it")
        for label, figure in (("best", min), ("median", statistics.median)):
            ratio, ledger = figure(ours) / figure(theirs), figure(ours) / figure(bare)
            print(f"D {dim:3}  {label:6}: ours / implicit {ratio:.2f}   ledger on / off {ledger:.3f}")


def memory_bandwidth() -> float:
    """Bytes per second when copying 256 MiB, counting reads and writes, best of five."""
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
