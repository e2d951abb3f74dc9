"""Seconds per epoch with torch on a device: MF and LightGCN, ledger on and off, and the floor set by its memory.

    python benchmarks/bench_device.py DATA/ml10m.npz [--device cuda] [--profile]

Needs only torch, NumPy and SciPy.
"""

import argparse
import time
from pathlib import Path

import torch

from counterpop.training.backbones.contract import Start
from counterpop.training.loop import begin
from counterpop.training.settings import Settings
from paper_data import read_split

ROUNDS = 12


def epoch_seconds(trainee: object, lr: float) -> float:
    """The best of several epochs."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        trainee.epoch(lr)  # its loss is read by the host, so the epoch has ended
        times.append(time.perf_counter() - start)
    return min(times)


def bandwidth(device: str) -> float:
    """Bytes per second when copying 1 GiB, counting reads and writes."""
    source = torch.ones(1 << 28, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        target.copy_(source)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * 4 * len(source) / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    device = arguments.device
    train = read_split(arguments.data).train
    speed = bandwidth(device)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    print(f"{name}, torch {torch.__version__}, copies {speed / 1e12:.2f} TB/s; {len(train):,} pairs")
    for backbone, dim, batch in (("mf", 128, 4096), ("lightgcn", 64, 16384), ("lightgcn", 64, 2048)):
        seconds = {}
        for ledger in (True, False):
            settings = Settings(backbone=backbone, dim=dim, device=device, engine="torch", ledger=ledger, batch=batch)
            trainee = begin(Start(train, settings))
            trainee.epoch(settings.lr)
            seconds[ledger] = epoch_seconds(trainee, settings.lr)
            if ledger and arguments.profile:
                with torch.profiler.profile() as profile:
                    trainee.epoch(settings.lr)
                print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=50))
        rows = 6 * 4 * dim * len(train)  # three rows read and written for each triple
        if backbone == "lightgcn":  # in each step and layer, forward and backward: a row for each edge, both ways
            rows += settings.steps(len(train)) * 2 * settings.layers * 2 * len(train) * 4 * dim
        print(
            f"{backbone} D {dim} batch {batch}: {seconds[True]:.4f} s an epoch, ledger on / off "
            f"{seconds[True] / seconds[False]:.3f}; floor of memory {rows / speed:.4f} s "
            f"({seconds[True] * speed / rows:.1f} times it)"
        )


if __name__ == "__main__":
    main()
