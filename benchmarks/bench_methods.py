"""Seconds per epoch of every method divided by those of plain training, on one engine and device, in one run.

    python benchmarks/bench_methods.py [--data ml10m] [--backbones mf lightgcn] [--rounds 5]
    python benchmarks/bench_methods.py --device cuda --rounds 50          # needs only torch, NumPy and SciPy

All methods draw one negative for each positive, so an epoch has the same number of triples for all. Rounds alternate
between the methods, epoch by epoch, so that a noisy machine affects them equally. The last line is the peak memory of
the whole run.
"""

import argparse
import resource
import statistics
import time

import counterpop as cp
from counterpop.kernels.threads import core_count
from counterpop.training.backbones.contract import Start, Trainable
from counterpop.training.loop import begin
from paper_data import load_split

METHODS = {
    "plain": "plain",
    "plain, BCE": "plain",
    "gradient": "gradient",
    "ips": cp.IPS(),
    "cause": cp.CausE(),
    "dice": cp.DICE(),
    "dice, dcor": cp.DICE(discrepancy="dcor"),
    "macr": cp.MACR(),
}
PAPER = {"gradient": (1.08, 1.02), "dice": (2.6, 2.4), "macr": (1.2, 2.4)}  # seconds over plain: MF, LightGCN
LR = 0.01


def compiled(known: cp.Development, name: str, backbone: str, device: str, dim: int) -> Trainable:
    """A model in training, with its kernels compiled."""
    method = METHODS[name]
    given = {"loss": "bce"} if name == "plain, BCE" else {}
    settings = cp.Settings(method=method, backbone=backbone, device=device, dim=dim, **given)
    model = begin(Start(known.train, settings, known.intervened))
    model.epoch(LR)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml10m")
    parser.add_argument("--backbones", nargs="+", default=["mf", "lightgcn"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dim", type=int, help="64 by default, 128 for mf on a GPU")
    arguments = parser.parse_args()
    device = arguments.device
    known = load_split(arguments.data).development
    for backbone in arguments.backbones:
        names = [n for n in arguments.methods if n != "cause" or known.intervened is not None]
        dim = arguments.dim or (128 if device == "cuda" and backbone == "mf" else 64)
        models = {name: compiled(known, name, backbone, device, dim) for name in names}
        seconds: dict[str, list[float]] = {name: [] for name in models}
        for _ in range(arguments.rounds):
            for name, model in models.items():
                start = time.perf_counter()
                model.epoch(LR)  # its loss is read by the host, so the epoch has ended on a GPU too
                seconds[name].append(time.perf_counter() - start)
        on = "cuda" if device == "cuda" else f"{core_count()} threads"
        print(f"{arguments.data}, {backbone}, D {dim}, {on}")
        first = seconds[names[0]]
        for name, values in seconds.items():
            paper = PAPER.get(name.split(",")[0])
            published = f"   paper {paper[backbone == 'lightgcn']}" if paper else ""
            ratios = min(values) / min(first), statistics.median(values) / statistics.median(first)
            print(
                f"  {name:12} best {min(values):.5f} s  ratio of best {ratios[0]:.2f}, of medians "
                f"{ratios[1]:.2f}{published}",
                flush=True,
            )
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
