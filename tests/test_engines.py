"""The native kernels, torch on the CPU and torch on a GPU take the same steps; LightGCN is what it says."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from conftest import random_log
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.runs import Model
from counterpop.splits import Split
from counterpop.training import Settings, train
from counterpop.training.device.lightgcn import LightGCN as TorchLightGCN
from counterpop.training.device.measuring import directions_of, search_on_device
from counterpop.training.device.sampling import DeviceSampler
from counterpop.training.device.trainees import DeviceEncoder, DeviceTables
from counterpop.training.device.triples import pulls
from counterpop.training.lightgcn import LightGCN
from counterpop.training.mf import MatrixFactorisation
from counterpop.training.sampling import Triples
from counterpop.tuning import search_strengths

GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))
DEVICES = ["cpu", GPU]
VARIANTS = list(itertools.product(["bpr", "bce"], [True, False]))
LR = 0.05


def settings_for(device: str = "cpu", **given: Any) -> Settings:
    """Vectors long enough that a step is well above rounding."""
    usual = {"dim": 12, "initial_scale": 0.7, "reg": 0.02, "ledger_every": 1, "ledger": True, "lr": LR}
    return Settings(**usual | {"engine": "torch"} | given, device=device)


def batch_of(log: Interactions, n: int, apart: bool = False) -> np.ndarray:
    """(3, n) triples of the log; `apart` keeps every user and item to one triple."""
    draw = np.random.default_rng(3)
    touched = [set(log.item_ix[log.user_starts[u] : log.user_starts[u + 1]].tolist()) for u in range(log.n_users)]
    triples: list[tuple[int, int, int]] = []
    users, items = set(), set()
    for row in draw.permutation(len(log)):
        u, i = int(log.user_ix[row]), int(log.item_ix[row])
        j = int(draw.choice([j for j in range(log.n_items) if j not in touched[u]]))
        if apart and (u in users or i in items or j in items):
            continue
        users.add(u)
        items.update((i, j))
        triples.append((u, i, j))
    return np.array(triples[:n], dtype=np.int32).T.copy()


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


def assert_same(first: Model, second: Model, tolerance: float = 1e-5) -> None:
    for name in ("user_vectors", "item_vectors"):
        np.testing.assert_allclose(
            getattr(first.embeddings, name), getattr(second.embeddings, name), atol=tolerance, rtol=0
        )
    for name in ("users", "items"):
        np.testing.assert_allclose(
            getattr(first.ledger, name), getattr(second.ledger, name), atol=tolerance, rtol=1e-6
        )


# --- one step ---


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("loss", "normalised"), VARIANTS)
def test_one_step_of_mf_is_the_same_everywhere(
    log: Interactions, loss: str, normalised: bool, device: str
) -> None:
    triples = batch_of(log, 12, apart=True)
    assert triples.shape == (3, 12)
    native = MatrixFactorisation(log, settings_for(engine="native", loss=loss, normalised=normalised))
    before = native.model()
    order = np.arange(12, dtype=np.int32)
    native._objective.step(0, native._users, native._items, Triples(*triples, None, None), order, LR)
    on_device = DeviceTables(log, settings_for(device, loss=loss, normalised=normalised))
    on_device.step(torch.from_numpy(triples).long().to(device), LR)
    assert_same(native.model(), on_device.model())
    assert np.abs(native.model().embeddings.user_vectors - before.embeddings.user_vectors).max() > 1e-3


def native_step(log: Interactions, triples: np.ndarray, settings: Settings, steps: int = 1) -> LightGCN:
    trainee = LightGCN(log, settings)
    for _ in range(steps):
        trainee.encode()
        trainee.pull(Triples(*triples, None, None), np.arange(triples.shape[1], dtype=np.int32))
        trainee.move(LR)
    return trainee


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize(("loss", "normalised"), VARIANTS)
def test_steps_of_lightgcn_are_the_same_everywhere(
    log: Interactions, loss: str, normalised: bool, layers: int, device: str
) -> None:
    triples = batch_of(log, 60)
    given = {"backbone": "lightgcn", "layers": layers, "loss": loss, "normalised": normalised}
    native = native_step(log, triples, settings_for(engine="native", threads=2, **given), steps=3)
    settings = settings_for(device, **given)
    on_device = DeviceEncoder(TorchLightGCN(log, settings), log, settings)
    before = on_device.model()
    for _ in range(3):
        on_device.step(torch.from_numpy(triples).long().to(device))
    assert_same(native.model(), on_device.model())
    assert np.abs(on_device.model().embeddings.user_vectors - before.embeddings.user_vectors).max() > 1e-2
