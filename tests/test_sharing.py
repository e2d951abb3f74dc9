"""Training in two processes that torch.distributed connects (gloo, on the CPU) is training in one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import counterpop as cp
from shared_training import CASES, train_all


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """The trainings of one process, and those of each of two."""
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).parent / "shared_training.py"
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), str(folder)]
    found = {"PYTHONPATH": str(Path(cp.__path__[0]).parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, env=os.environ | found, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return train_all(), ranks
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_take_the_steps_of_one(name: str, trained: tuple[dict, list[dict]]) -> None:  # type: ignore[type-arg]
    one, (first, second) = trained
    for part in ("users", "items", "ledger_items", "ledger_users", "valid", "loss", "triples"):
        key = f"{name}.{part}"
        assert (first[key] == second[key]).all(), key  # the same bits in both
    # Adam divides by the size of a slope, so where that is nearly 0 the order of a sum shows
    close = 1e-5 if name == "mf" else 1e-3
    for part in ("users", "items"):
        assert first[f"{name}.{part}"] == pytest.approx(one[f"{name}.{part}"], abs=close)
    for part in ("ledger_items", "ledger_users"):
        sums = one[f"{name}.{part}"]
        assert first[f"{name}.{part}"] == pytest.approx(sums, abs=close * float(np.abs(sums).max()))
    assert first[f"{name}.loss"] == pytest.approx(one[f"{name}.loss"], rel=1e-4)
    assert first[f"{name}.valid"] == pytest.approx(one[f"{name}.valid"], abs=0.005)  # one list in 200
    assert (first[f"{name}.triples"] == one[f"{name}.triples"]).all()


def test_a_loss_that_compares_the_rows_of_a_batch_is_refused(trained: tuple[dict, list[dict]]) -> None:  # type: ignore[type-arg]
    one, (first, _) = trained
    assert str(one["refused"]) == ""
    assert str(first["refused"]).startswith("several processes can train only losses that are a sum over triples")
