"""Golden runs: the results of three epochs of every method, loss, backbone and engine on a small world.

    python tests/golden.py      # records them in golden.json

test_golden.py compares runs with the record. Record again only after raising `counterpop.numbers.NUMBERS`, or to add
a new method, a GPU or another kind of CPU; what is recorded and cannot be run here is kept.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import counterpop as cp
from counterpop.numbers import NUMBERS
from counterpop.training.methods import METHODS

PATH = Path(__file__).with_suffix(".json")
BACKBONES = {"mf": {"lr": 0.2}, "lightgcn": {"lr": 0.02}}
ENGINES = {"native": {"engine": "native"}, "torch": {"engine": "torch"}, "cuda": {"engine": "torch", "device": "cuda"}}
# Rates and first values at which three epochs learn something: with the defaults of some methods they hardly do.
SMALL = {"dim": 16, "epochs": 3, "threads": 2, "check_every": 3, "ledger_every": 4, "initial_scale": 0.1}
SMALL |= {"negative_power": 0.0, "refit": False}


@dataclass(frozen=True)
class Case:
    engine: str
    backbone: str
    method: str
    loss: str

    def __str__(self) -> str:
        return " ".join((self.engine, self.backbone, self.method, self.loss))

    @property
    def has_digest(self) -> bool:
        """Whether its bits are recorded: those of softmax also depend on the version of BLAS."""
        return self.engine == "native" and self.loss != "softmax"

    @property
    def settings(self) -> dict[str, Any]:
        own = {"backbone": self.backbone, "method": self.method, "loss": self.loss}
        return SMALL | BACKBONES[self.backbone] | ENGINES[self.engine] | own


CASES = [
    Case(engine, backbone, method.name, loss)
    for engine, backbone, method in itertools.product(ENGINES, BACKBONES, METHODS)
    for loss in method.losses
    if not method.needs_graph or (backbone == "lightgcn" and engine != "native")
]


def why_not(case: Case) -> str | None:
    """Why a case cannot be run here, or None."""
    if case.engine == "native":
        return None if find_spec("numba") else "numba is not installed"
    if not find_spec("torch"):
        return "torch is not installed"
    import torch

    return "torch finds no GPU here" if case.engine == "cuda" and not torch.cuda.is_available() else None


@cache
def split() -> cp.Split:
    return cp.split_intervened(cp.make_world(300, 150, mean_activity=20).log, ordinary=0.0)


@cache
def run(case: Case) -> cp.Run:
    if case.engine != "native":
        import torch

        torch.set_num_threads(1)  # vectors this small are slower with more
    return cp.train(split(), **case.settings)


def values_of(run: cp.Run) -> dict[str, Any]:
    """What must agree to 1e-4 on every machine. No ranks: a tie that is broken otherwise would move them by more."""
    vectors, ledger, held = run.model.embeddings, run.model.ledger, split().valid
    scores = np.sum(vectors.user_vectors[held.user_ix] * vectors.item_vectors[held.item_ix], axis=1)
    return {
        "loss": [entry["loss"] for entry in run.history],
        "user_length": float(np.linalg.norm(vectors.user_vectors, axis=1).mean()),
        "item_length": float(np.linalg.norm(vectors.item_vectors, axis=1).mean()),
        "score_of_held_out_pairs": float(scores.mean()),
        "ledger": [float(np.abs(sums).mean()) for sums in (ledger.users, ledger.items)] if ledger else [],
    }


def digest_of(run: cp.Run) -> str:
    """A fingerprint of all bits of the vectors and the ledger."""
    vectors, ledger = run.model.embeddings, run.model.ledger
    arrays = [vectors.user_vectors, vectors.item_vectors, *([ledger.users, ledger.items] if ledger else [])]
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def kind_of_cpu() -> str:
    """What decides the last bits of native runs: compiled code uses the instructions that the CPU has."""
    import llvmlite.binding as llvm
    import numba

    features = zlib.crc32(llvm.get_host_cpu_features().flatten().encode())
    return f"{llvm.get_host_cpu_name()} {features:08x}, numba {numba.__version__}"


def record() -> None:
    """Writes golden.json: all cases that can be run here, and what is recorded for the others."""
    old = json.loads(PATH.read_text()) if PATH.is_file() else {"numbers": None}
    kept = old if old["numbers"] == NUMBERS else {"values": {}, "digests": {}}
    names = {str(case) for case in CASES}
    values = {name: value for name, value in kept["values"].items() if name in names}
    digests = {}
    for case in CASES:
        if reason := why_not(case):
            print(f"{case}: {reason}", file=sys.stderr)
            continue
        values[str(case)] = values_of(run(case))
        if case.has_digest:
            digests[str(case)] = digest_of(run(case))
    whole = {"numbers": NUMBERS, "values": values, "digests": kept["digests"] | {kind_of_cpu(): digests}}
    PATH.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    record()
