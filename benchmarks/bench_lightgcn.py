"""Seconds per epoch of our LightGCN (CPU, D 64, 2 layers, ledger on and off) and of RecBole's, in one run.

    python benchmarks/bench_lightgcn.py [--data ml10m] [--rounds 5] [--no-recbole]

RecBole 1.2.1 is timed over some batches of 2,048, its own default, and the time of an epoch is extrapolated from them
(whole epochs take minutes); tests/recbole.txt says how to install it. implicit's BPR is timed as well.
"""

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.sparse import dok_matrix

import counterpop as cp
from bench_training import peer_seconds
from counterpop.kernels.threads import core_count
from counterpop.training.backbones.contract import Start, Trainable
from counterpop.training.loop import begin
from paper_data import load_split

DIM, LAYERS, PEER_BATCH, PEER_BATCHES = 64, 2, 2048, 24
OURS = {"backbone": "lightgcn", "dim": DIM, "layers": LAYERS}


def our_model(train: cp.Interactions, ledger: bool) -> Trainable:
    """A model in training, with its kernels compiled."""
    model = begin(Start(train, cp.Settings(**OURS, ledger=ledger)))
    model.epoch(0.01)
    return model


def seconds_of(model: Trainable) -> float:
    start = time.perf_counter()
    model.epoch(0.01)
    return time.perf_counter() - start


def recbole_seconds(train: cp.Interactions) -> float:
    """The seconds of an epoch of RecBole's LightGCN, extrapolated from the median of some batches."""
    for old, new in (("float_", "float64"), ("complex_", "complex128"), ("unicode_", "str_")):
        if not hasattr(np, old):  # RecBole 1.2.1 uses names that NumPy 2 has dropped
            setattr(np, old, getattr(np, new))
    if not hasattr(dok_matrix, "_update"):  # and one that SciPy has
        dok_matrix._update = lambda self, values: self._dict.update(values)
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.general_recommender import LightGCN as TheirLightGCN

    with tempfile.TemporaryDirectory() as folder:
        inter = Path(folder) / "log" / "log.inter"
        inter.parent.mkdir()
        rows = "\n".join(f"{u}\t{i}" for u, i in zip(train.user_ix, train.item_ix, strict=True))
        inter.write_text(f"user_id:token\titem_id:token\n{rows}\n")
        config = Config(
            model="LightGCN",
            dataset="log",
            config_dict={
                "data_path": folder,
                "embedding_size": DIM,
                "n_layers": LAYERS,
                "use_gpu": False,
                "train_batch_size": PEER_BATCH,
                "load_col": {"inter": ["user_id", "item_id"]},
                "eval_args": {"split": {"RS": [0.999998, 0.000001, 0.000001]}},
                "state": "ERROR",
                "show_progress": False,
            },
        )
        batches, _, _ = data_preparation(config, create_dataset(config))
        model = TheirLightGCN(config, batches.dataset)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
        times = []
        for n, batch in enumerate(batches):
            start = time.perf_counter()
            optimiser.zero_grad()
            model.calculate_loss(batch).backward()
            optimiser.step()
            times.append(time.perf_counter() - start)
            if n == PEER_BATCHES:
                break
        return statistics.median(times[1:]) * len(batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml10m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-recbole", action="store_true")
    arguments = parser.parse_args()
    train = load_split(arguments.data).train
    with_ledger, without = our_model(train, True), our_model(train, False)
    ours, bare = [], []
    for _ in range(arguments.rounds):
        ours.append(seconds_of(with_ledger))
        bare.append(seconds_of(without))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    steps = cp.Settings(**OURS).steps(len(train))
    size = f"{len(train):,} pairs, D {DIM}, {LAYERS} layers, {steps} steps"
    print(f"{arguments.data}: {size}, {core_count()} threads")
    for label, figure in (("best", min), ("median", statistics.median)):
        print(
            f"{label:6}: ours {figure(ours):.2f} s an epoch, {1e3 * figure(ours) / steps:.0f} ms a step; "
            f"ledger on / off {figure(ours) / figure(bare):.3f}"
        )
    # a step takes a row for each edge in both directions, there and back in each layer
    rate = 2 * LAYERS * 2 * len(train) * 4 * DIM * steps / min(ours)
    print(f"rows gathered at {rate / 1e9:.0f} GB/s; two such models and their ledgers in {peak:.2f} GB")
    implicit = min(peer_seconds(train, DIM))
    print(f"implicit's BPR {implicit:.3f} s an epoch: ours takes {min(ours) / implicit:.0f} of them")
    if not arguments.no_recbole:
        theirs = recbole_seconds(train)
        ratio = theirs / statistics.median(ours)
        print(f"RecBole's LightGCN {theirs:.0f} s an epoch: ours takes 1/{ratio:.0f} of it (medians)")


if __name__ == "__main__":
    main()
