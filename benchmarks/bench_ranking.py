"""Seconds to evaluate and to search the whole grid of strengths, and of implicit's `recommend`, in one run.

    python benchmarks/bench_ranking.py [--data ml10m] [--dim 64] [--rounds 5]

"one evaluation" ranks the users and computes every metric, without the bootstrap intervals, which are timed separately;
implicit only ranks.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import implicit.cpu.bpr
import numpy as np
from scipy.sparse import csr_matrix

import counterpop as cp
from counterpop.evaluation import measure_model
from paper_data import load_split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml10m")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    split = load_split(arguments.data)
    train, valid, test = split.train, split.valid, split.test
    fixed = {"loss": "bpr", "negative_power": 0.0, "refit": False}
    run = cp.train(split, dim=arguments.dim, epochs=arguments.epochs, check_every=arguments.epochs, **fixed)
    directions = cp.find_directions(run.model, train)
    adjustment = cp.Recommender(directions.item, directions.user, 0.4, 0.4, embeddings=run.embeddings, seen=train)
    matrix = csr_matrix(
        (np.ones(len(train), np.float32), (train.user_ix, train.item_ix)), shape=(train.n_users, train.n_items)
    )
    peer = implicit.cpu.bpr.BayesianPersonalizedRanking(factors=arguments.dim - 1, iterations=1)
    peer.fit(matrix, show_progress=False)
    users = np.flatnonzero(test.user_counts)
    grids = []
    jobs: dict[str, Callable[[], Any]] = {
        "implicit recommend, test users": lambda: peer.recommend(users, matrix[users], N=20),
        "one evaluation, test users": lambda: measure_model(adjustment, test, resamples=0),
        "the same with intervals": lambda: measure_model(adjustment, test),
        "one evaluation, validation users": lambda: measure_model(adjustment, valid, resamples=0),
        "121 points, validation users": lambda: grids.append(
            cp.search_strengths(run.embeddings, directions, train, valid)
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for round_ in range(arguments.rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if round_:  # the first compiles
                seconds[name].append(time.perf_counter() - start)
    print(f"{arguments.data}, D {arguments.dim}: {len(users):,} test users, {grids[0].users:,} validation users")
    best = {name: min(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(f"{name:34} best {best[name]:.3f} s  median {statistics.median(values):.3f} s")
    one, whole = best["one evaluation, validation users"], best["121 points, validation users"]
    print(f"grid / one evaluation: {whole / one:.1f}")
    print(f"items looked at for each user: {grids[0].looked_at:.0f} of {train.n_items:,}")
    ratio = best["one evaluation, test users"] / best["implicit recommend, test users"]
    print(f"one evaluation / implicit recommend: {ratio:.2f}")
    flops = 2 * len(users) * train.n_items * arguments.dim
    left, right = np.random.default_rng(0).random((2, 2048, 2048), dtype=np.float32)
    start = time.perf_counter()
    left @ right
    rate = 2 * 2048**3 / (time.perf_counter() - start)
    print(f"floor set by the matrix product, test users: {flops / rate:.3f} s at {rate / 1e9:.0f} Gflop/s")


if __name__ == "__main__":
    main()
