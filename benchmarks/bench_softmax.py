"""Seconds per epoch of MF with the softmax loss: ours, a plain torch version, and what the matrix products need.

    python benchmarks/bench_softmax.py [--data ml10m] [--batches 512 4096] [--rounds 5] [--threads 2] [--device cuda]

Some batches are timed and scaled to an epoch; rounds alternate between the candidates. The floor is three products of a
batch of users with a batch of items (scores, and both gradients) at the speed that these products have here. Our CPU
engine can be below it, because it takes repeated items only once. `--threads 1 --processor` counts processor time, for
a machine that others use at the same time. On a GPU whole epochs are timed, ours as training takes them: kernels, or
torch without Triton, and a recorded step from the second epoch on. Plain torch and the floor take float32 products as
torch is set (`--precision high` allows tf32), our kernels half precision. Batches of more than a 64th of the pairs are
smaller in ours, as in training.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

import counterpop as cp
from counterpop.kernels.threads import core_count, crew, in_parallel, without_blas_threads
from counterpop.training.backbones.contract import Start
from counterpop.training.backbones.mf import MatrixFactorisation
from counterpop.training.device.trainees import DeviceTables
from counterpop.training.methods.plain.softmax import log_weights
from paper_data import load_split

TIMED = 1 << 15  # pairs in a round; on a GPU all, of which an epoch is cut into batches


class PlainTorch:
    """What one would write in ten lines: embeddings with sparse gradients, the whole square of scores, SGD."""

    def __init__(self, start: Start, device: str) -> None:
        users, items = (torch.from_numpy(values) for values in start.first_values())
        self.users = torch.nn.Embedding.from_pretrained(users, freeze=False, sparse=True).to(device)
        self.items = torch.nn.Embedding.from_pretrained(items, freeze=False, sparse=True).to(device)
        self.optimiser = torch.optim.SGD([*self.users.parameters(), *self.items.parameters()], lr=start.settings.lr)
        self.bias = torch.from_numpy(log_weights(start.train, start.settings)[1]).to(device)
        self.temperature = start.settings.temperature

    def step(self, users: torch.Tensor, items: torch.Tensor) -> None:
        P, Q = normalize(self.users(users)), normalize(self.items(items))
        same = (items[:, None] == items) & ~torch.eye(len(items), dtype=torch.bool, device=items.device)
        scores = (P @ Q.T / self.temperature + self.bias[items]).masked_fill(same, -torch.inf)
        loss = cross_entropy(scores, torch.arange(len(items), device=items.device), reduction="sum")
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


def timed(train: cp.Interactions, batch: int, device: str) -> int:
    """Pairs in a round: whole batches."""
    return (len(train) if device == "cuda" else max(TIMED, batch)) // batch * batch


def candidates(train: cp.Interactions, batch: int, device: str, threads: int) -> dict[str, Callable[[], None]]:
    """What is timed: each goes along the same batches of pairs."""
    given = {"loss": "softmax", "batch": batch, "dim": 128, "device": device, "threads": threads, "reg": 0.0}
    start = Start(train, cp.Settings(**given))
    rows = np.random.default_rng(0).permutation(len(train))[: timed(train, batch, device)]
    triples = np.stack([train.user_ix[rows], train.item_ix[rows], train.item_ix[rows]])
    batches = np.split(triples, len(rows) // batch, axis=1)
    on_device = [torch.from_numpy(part).long().to(device) for part in batches]
    plain = PlainTorch(start, device)
    found = {"plain torch": lambda: [plain.step(part[0], part[1]) for part in on_device]}
    if device == "cuda":
        tables, epoch = DeviceTables(start), torch.cat(on_device, 1)
        return found | {"counterpop": lambda: tables.run(epoch, 0.01)}
    native = MatrixFactorisation(start)

    def ours() -> None:
        with crew(native._threads) as together, without_blas_threads():
            for part in batches:
                native._objective.step_batch(together, native._tables, part, 0.01)

    return found | {"counterpop": ours}


def products(batch: int, dim: int, device: str, threads: int, number: int) -> Callable[[], None]:
    """The three products of one batch; on a GPU of as many as a round has, so that no launch is waited for."""
    if device == "cuda":
        P, Q = torch.randn(2, batch, dim, device=device)
        return lambda: [((S := P @ Q.T) @ Q, S.T @ P) for _ in range(number)]
    P, Q = np.random.default_rng(0).standard_normal((2, batch, dim), dtype=np.float32)
    S = np.empty((batch, batch), np.float32)

    def mine(part: int) -> None:
        rows = slice(batch * part // threads, batch * (part + 1) // threads)
        np.matmul(P[rows], Q.T, out=S[rows])
        S[rows] @ Q, S[rows].T @ P[rows]

    def work() -> None:
        with without_blas_threads():
            in_parallel(mine, threads)

    return work


def seconds_of(work: Callable[[], None], device: str, clock: Callable[[], float]) -> float:
    start = clock()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml10m")
    parser.add_argument("--batches", type=int, nargs="+", default=[512, 4096])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=core_count())
    parser.add_argument("--processor", action="store_true", help="processor time instead of time")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["highest", "high"], default="highest")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.processor else time.perf_counter
    torch.set_float32_matmul_precision(arguments.precision)
    train, device = load_split(arguments.data).train, arguments.device
    where = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{arguments.threads} threads{', processor time' if arguments.processor else ''}"
    )
    print(f"{arguments.data}: {len(train):,} pairs, D 128, {where}, best (median) of {arguments.rounds} rounds")
    for batch in arguments.batches:
        work = candidates(train, batch, device, arguments.threads)
        pairs = timed(train, batch, device)
        done = dict.fromkeys(work, pairs) | {"products": pairs if device == "cuda" else batch}
        work |= {"products": products(batch, 128, device, arguments.threads, pairs // batch)}
        times: dict[str, list[float]] = {name: [] for name in work}
        for name in work:  # compiles
            seconds_of(work[name], device, clock)
        for _ in range(arguments.rounds):
            for name in work:
                times[name].append(seconds_of(work[name], device, clock) * len(train) / done[name])
        for name, seconds in times.items():
            print(f"batch {batch:5}  {name:18} {min(seconds):8.3f} s ({statistics.median(seconds):.3f}) per epoch")
        theirs, ours, floor = times.values()
        speed = 6 * batch * len(train) * 128 / min(floor) / 1e9
        print(
            f"batch {batch:5}  ours / plain torch {min(ours) / min(theirs):.2f} "
            f"({statistics.median(ours) / statistics.median(theirs):.2f}); "
            f"ours / products {min(ours) / min(floor):.2f}; products at {speed:,.0f} GFLOP/s"
        )


if __name__ == "__main__":
    main()
