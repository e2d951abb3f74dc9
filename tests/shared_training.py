"""The trainings of test_sharing.py: in one process when called, in several when torchrun runs this file."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import counterpop as cp
from counterpop.errors import InputError
from counterpop.interactions import Interactions


class Towers(torch.nn.Module):
    """A vector for each user, and a net for the items."""

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        self.users = torch.nn.Parameter(0.1 * torch.randn(train.n_users, 6))
        self.items = torch.nn.Parameter(0.1 * torch.randn(train.n_items, 8))
        self.net = torch.nn.Parameter(torch.randn(8, 6))
        self.register_buffer("shift", 0.1 * torch.randn(6))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.users, torch.tanh(self.items @ self.net) + self.shift


COMMON: dict[str, Any] = {"epochs": 6, "check_every": 3, "ledger_every": 1, "refit": False, "seed": 0}
COMMON |= {"loss": "bpr", "negative_power": 0.0, "batch": 512, "method": "gradient"}
CASES: dict[str, dict[str, Any]] = {
    "mf": {"backbone": "mf", "engine": "torch", "dim": 6},
    "lightgcn": {"backbone": "lightgcn", "engine": "torch", "dim": 6, "layers": 2},
    "encoder": {"encoder": Towers},
}


def train_all(rank: int = 0) -> dict[str, np.ndarray]:
    """Vectors, ledgers and validation recalls of every case, and what a loss that cannot be shared says.

    Torch's own generator differs by rank, so own encoders start differently: all must take the first one's start.
    """
    split = cp.split_uniform(cp.make_world(300, 90, mean_activity=14, seed=0).log, test=3, valid=3, seed=0)
    found: dict[str, np.ndarray] = {}
    for name, case in CASES.items():
        torch.manual_seed(rank)
        run = cp.train(split, **COMMON | case)
        vectors, ledger = run.model.embeddings, run.model.ledger
        assert ledger is not None
        found |= {f"{name}.users": vectors.user_vectors, f"{name}.items": vectors.item_vectors}
        found |= {f"{name}.ledger_items": ledger.items, f"{name}.ledger_users": ledger.users}
        found[f"{name}.triples"] = np.array([ledger.triples, ledger.scale])
        found[f"{name}.valid"] = np.array([entry["valid"] for entry in run.history if "valid" in entry])
        found[f"{name}.loss"] = np.array([entry["loss"] for entry in run.history])
    try:
        cp.train(split, **COMMON | CASES["mf"] | {"loss": "softmax"})
        found["refused"] = np.array("")
    except InputError as error:
        found["refused"] = np.array(str(error))
    return found


if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    np.savez(f"{sys.argv[1]}/{rank}.npz", **train_all(rank))
    torch.distributed.destroy_process_group()
