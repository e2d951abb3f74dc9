"""Training with torch: steps on a GPU equal those on the CPU, draws keep their law, kernels step as batches do.

Nothing here needs numba, so that this file also runs on a machine that has only torch. If Triton is installed,
TRITON_INTERPRET=1 runs its kernels without a GPU (its interpreter needs NumPy below 2.4).
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import random_log
from counterpop.interactions import Interactions
from counterpop.runs import Run
from counterpop.splits import Development
from counterpop.training import train
from counterpop.training.backbones.contract import Start
from counterpop.training.methods import DICE, IPS, MACR, PAAC, Contrast, Method, SimGCL
from training_cases import (
    BASELINES,
    LR,
    SCORES,
    VARIANTS,
    assert_same,
    how_far,
    settings_for,
    start_of,
    train_in_pieces,
    triples_of,
)

torch = pytest.importorskip("torch", reason="torch is not installed")

from counterpop.training.device import contrast, sampling  # noqa: E402
from counterpop.training.device.propagation import DeviceGraph, Smoothed, adjacency  # noqa: E402
from counterpop.training.device.sampling import DeviceSampler  # noqa: E402
from counterpop.training.device.trainees import DeviceEncoder, DeviceTables  # noqa: E402

torch.set_num_threads(1)  # vectors this small are slower with more
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
KERNELS_ON = "cuda" if torch.cuda.is_available() else "cpu"
needs_kernels = pytest.mark.skipif(
    KERNELS_ON == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
    reason="torch finds no GPU here, and TRITON_INTERPRET=1 is not set",
)
CASES = [*SCORES, *BASELINES, {"method": DICE(weight=0.5, discrepancy="dcor", penalty=0.1)}]
CONTRASTED = [SimGCL(0.7, noise=0.0), PAAC(0.7, noise=0.0, align=0.4, share=0.3)]


def tables_for(log: Interactions, device: str, **given: Any) -> DeviceTables:
    return DeviceTables(start_of(log, settings_for(device, **given)))


def parts_of(trainee: DeviceTables) -> list[np.ndarray]:
    """All that training moves: both tables, the method's own parameters, the ledger."""
    loss = trainee._loss
    ledger = [loss.ledger.users, loss.ledger.items] if loss.ledger else []
    return [part.detach().cpu().numpy().copy() for part in (*trainee.vectors(), *loss.parameters(), *ledger)]


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


# --- a GPU takes the steps of the CPU ---


@needs_gpu
@pytest.mark.parametrize("given", CASES, ids=repr)
def test_mf_steps_on_a_gpu_as_on_the_cpu(log: Interactions, given: dict[str, Any]) -> None:
    cpu, gpu = tables_for(log, "cpu", **given), tables_for(log, "cuda", **given)
    triples = torch.from_numpy(triples_of(log, cpu._settings, 12, distinct=True)).long()
    losses = cpu.step(triples, LR)
    np.testing.assert_allclose(losses.numpy(), gpu.step(triples.cuda(), LR).cpu().numpy(), atol=1e-5)
    for one, other in zip(parts_of(cpu), parts_of(gpu), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@needs_kernels
@pytest.mark.parametrize("dim", [12, 64, 128])
@pytest.mark.parametrize("given", CASES, ids=repr)
def test_a_kernel_steps_as_a_batch_does(log: Interactions, given: dict[str, Any], dim: int) -> None:
    """Where no two triples share a row, all that training moves agrees to 1e-5."""
    batch, kernel = tables_for(log, "cpu", dim=dim, **given), tables_for(log, KERNELS_ON, dim=dim, **given)
    macr = isinstance(batch._settings.method, MACR)
    number, lr = (1, 0.5) if macr else (7, LR)  # MACR's second triple would meet a copy that has moved
    triples = torch.from_numpy(triples_of(log, batch._settings, number, distinct=True)).long()
    first = parts_of(batch)
    losses = batch.step(triples, lr)
    mean = float(kernel._loss.step_epoch(*kernel.vectors(), triples.to(KERNELS_ON), lr))
    assert mean == pytest.approx(float(losses.mean()), abs=1e-5)
    for before, one, other in zip(first, parts_of(batch), parts_of(kernel), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)
        assert np.abs(one - before).max() > 1e-4


@needs_kernels
@pytest.mark.parametrize("given", CASES, ids=repr)
def test_epochs_in_a_kernel_learn_as_batches_do(given: dict[str, Any]) -> None:
    """Rows are shared now, and what goes on at the same time differs, so the two agree only nearly."""
    log = random_log(20, 30, np.linspace(0.5, 0.05, 30))  # small, because the interpreter is slow
    given, slow = given | {"negatives": 2}, LR / 5  # enough triples for more than one program
    batches, kernel = tables_for(log, "cpu", **given), tables_for(log, KERNELS_ON, **given)
    first = parts_of(batches)
    for _ in range(2):
        triples = batches.draw()
        kernel.draw()  # which lets DICE's weight shrink
        lost = (
            float(batches.run(triples, slow)),
            float(kernel._loss.step_epoch(*kernel.vectors(), triples.to(KERNELS_ON), slow)),
        )
        assert lost[1] == pytest.approx(lost[0], rel=0.02)
    for before, one, other in zip(first, parts_of(batches), parts_of(kernel), strict=True):
        assert np.linalg.norm(one - other) < 0.1 * np.linalg.norm(one - before)


@needs_kernels
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("given", SCORES, ids=repr)
def test_a_kernel_adds_up_the_gradient_of_a_batch(log: Interactions, given: dict[str, Any], every: int) -> None:
    """What LightGCN carries back: rows are shared, and every triple counts as it stands."""
    given = given | {"ledger_every": every}
    batch, kernel = tables_for(log, "cpu", **given), tables_for(log, KERNELS_ON, **given)
    triples = torch.from_numpy(triples_of(log, batch._settings, 90)).long()
    tables = [table.requires_grad_() for table in batch.vectors()]
    total, losses = batch._loss(*tables, triples)
    slopes, losses = torch.autograd.grad(total, tables), losses.detach()
    added = tuple(torch.zeros_like(table) for table in kernel.vectors())
    mean = kernel._loss.add_gradient(*kernel.vectors(), triples.to(KERNELS_ON), added)
    assert float(mean) == pytest.approx(float(losses[::every].mean()), abs=1e-5)
    for one, other in zip(slopes, added, strict=True):
        np.testing.assert_allclose(one.numpy(), other.cpu().numpy(), atol=1e-5, rtol=1e-5)
    for one, other in zip(parts_of(batch), parts_of(kernel), strict=True):  # of these, the ledger moved
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@needs_gpu
@pytest.mark.parametrize("given", CASES, ids=repr)
def test_epochs_on_a_gpu_go_through_the_kernel(
    log: Interactions, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(DeviceTables, "step")
    trainee = tables_for(log, "cuda", **given)
    lost = [trainee.epoch(LR) for _ in range(8)]
    assert lost[-1] < lost[0]


@needs_gpu
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize(("loss", "normalised"), VARIANTS)
def test_lightgcn_steps_on_a_gpu_as_on_the_cpu(log: Interactions, loss: str, normalised: bool, layers: int) -> None:
    models = []
    for device in ("cpu", "cuda"):
        settings = settings_for(device, backbone="lightgcn", layers=layers, loss=loss, normalised=normalised, batch=60)
        start = start_of(log, settings)
        module = Smoothed(start)
        module._rough = module._graph  # as the CPU: neighbours are read in full
        trainee, triples = DeviceEncoder(module, start), torch.from_numpy(triples_of(log, settings, 60)).long()
        before = trainee.model()
        for _ in range(3):
            trainee.step(triples.to(device))
        models.append(trainee.model())
        assert how_far(before, models[-1]) > 1e-2
    assert_same(*models)


@needs_kernels
@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("dim", [12, 64])
def test_a_kernel_multiplies_a_graph(rough: bool, dim: int) -> None:
    """Rows longer than a stretch, and rows without entries."""
    log = random_log(300, 40, np.linspace(0.6, 0.0, 40))
    from counterpop.training.device import fused_graph  # needs Triton

    graph, _ = adjacency(log, torch.device(KERNELS_ON))
    graph = DeviceGraph(graph.entries, rough, fused_graph.cut(graph.entries))
    assert len(graph.stretches.rows) > int((graph.entries.crow_indices().diff() > 0).sum())
    draw = torch.Generator().manual_seed(0)
    base, vectors = (torch.randn(len(graph.entries), dim, generator=draw).to(KERNELS_ON) for _ in range(2))
    near = {"rtol": 1e-2, "atol": 1e-2} if rough else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(graph @ vectors, graph.entries.to_dense() @ vectors, **near)
    torch.testing.assert_close(graph.add_to(base, vectors), base + graph.entries.to_dense() @ vectors, **near)


@needs_gpu
@pytest.mark.parametrize(
    ("given", "dropout"),
    [
        ({}, 0.0),
        ({}, 0.3),
        ({"loss": "softmax"}, 0.0),
        *(({"method": method}, dropout) for method in CONTRASTED for dropout in (0.0, 0.3)),
    ],
    ids=repr,
)
def test_a_recorded_step_is_the_step(log: Interactions, given: dict[str, Any], dropout: float) -> None:
    """After the first epoch a GPU repeats a recorded step: the same training as calling it each time.

    With dropped edges a recorded step draws others each time, though not those that calling it would. Softmax rounds
    to half precision, which now and then turns the last digit of a sum into a larger one.
    """
    start = start_of(log, settings_for("cuda", backbone="lightgcn", edge_dropout=dropout, **given))
    models, losses = [], []
    for replay in (False, True):
        trainee = DeviceEncoder(Smoothed(start), start, replay=replay)
        losses.append([trainee.epoch(lr) for lr in (0.05, 0.02, 0.01)])
        assert bool(trainee._recorded) == replay
        models.append(trainee.model())
    rounded = "loss" in given or isinstance(given.get("method"), SimGCL)
    if not rounded and not dropout:
        assert_same(*models)
    assert losses[0] == pytest.approx(losses[1], abs=0.05 if dropout else 1e-3 if rounded else 1e-5)
    if "method" not in given:
        assert models[0].ledger.triples == models[1].ledger.triples == 3 * 64 * (len(log) // 64)


@needs_gpu
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("method", [SimGCL, PAAC])
def test_a_recorded_step_draws_new_noise(log: Interactions, method: type[SimGCL], noise: float) -> None:
    start = start_of(log, settings_for("cuda", backbone="lightgcn", method=method(0.7, noise=noise)))
    trainee, gradients = DeviceEncoder(Smoothed(start), start, replay=True), []
    trainee.epoch(0.05)
    trainee._lr.zero_()  # so that both steps start from the same vectors
    for _ in range(2):
        trainee._recorded.replay()
        gradients.append(trainee._module.tables.grad.clone())
    moved = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert moved > 1e-2 if noise else moved < 1e-4


@needs_gpu
@pytest.mark.parametrize("method", CONTRASTED, ids=repr)
def test_contrast_steps_on_a_gpu_as_on_the_cpu(log: Interactions, method: Method) -> None:
    gradients = []
    for device in ("cpu", "cuda"):
        start = start_of(log, settings_for(device, backbone="lightgcn", method=method))
        trainee = DeviceEncoder(Smoothed(start), start)
        triples = torch.from_numpy(triples_of(log, start.settings, 60)).long()
        trainee.step(torch.cat((triples, triples[:, :9]), 1).to(device))
        gradients.append(trainee._module.tables.grad.cpu())
    near = 5e-3  # neighbours are read as bfloat16 there, and softmax rounds to half precision
    assert (gradients[0] - gradients[1]).abs().max() < near * gradients[0].abs().max()


# --- softmax ---

SOFTMAX: list[dict[str, Any]] = [
    {"normalised": True},
    {"normalised": False},
    {"shared_negatives": 9},
    {"method": IPS(0.5), "ledger": True},
    {"method": "gradient", "ledger_every": 3},
]


def summed(queries: Any, keys: Any, bias: Any, labels: Any) -> Any:
    """The plain twin: all scores at once."""
    scores = (queries @ keys.T + bias).masked_fill(labels[0][:, None] == labels[1], contrast.LOWEST)
    return scores.logsumexp(1)


@needs_kernels
@pytest.mark.parametrize("operands", ["float32", "float16"])
@pytest.mark.parametrize(
    ("B", "N", "D"), [(1, 2, 1), (37, 150, 12), (130, 65, 64), (300, 700, 128), (140, 140, 100), (90, 200, 256)]
)
def test_a_kernel_sums_up_as_scores_at_once(
    B: int, N: int, D: int, operands: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and both gradients, with labels that repeat; a row without a key gives -1e30 and moves nothing."""
    from counterpop.training.device import fused_contrast

    monkeypatch.setattr(fused_contrast, "OPERANDS", getattr(torch, operands))
    tolerance = 2e-3 if operands == "float16" else 1e-5 if KERNELS_ON == "cpu" else 1e-2  # a GPU takes tf32, cut off
    draw = torch.Generator().manual_seed(B)
    queries, keys = 2 / D**0.5 * torch.randn(B, D, generator=draw), torch.randn(N, D, generator=draw)
    bias, slopes = torch.randn(N, generator=draw), torch.randn(B, generator=draw) / B
    labels = torch.randint(6, (B,), generator=draw), torch.randint(6, (N,), generator=draw)
    kinds = [summed, contrast.log_sum_exp, fused_contrast.FusedLogSumExp.apply]
    found = []
    for kind in kinds:
        device = KERNELS_ON if kind is kinds[-1] else "cpu"
        given = [part.to(device) for part in (queries, keys, bias, *labels)]
        vectors = [part.requires_grad_() for part in given[:2]]
        sums = kind(*vectors, given[2], tuple(given[3:]))
        gradients = torch.autograd.grad((sums * slopes.to(device)).sum(), vectors)
        found.append([part.detach().cpu() for part in (sums, *gradients)])
    for plain, chunks, kernel in zip(*found, strict=True):
        torch.testing.assert_close(chunks, plain, rtol=1e-5, atol=1e-5)
        assert (kernel - plain).abs().max() <= tolerance * plain.abs().max()
    alone = labels[0].to(KERNELS_ON), torch.full((N,), int(labels[0][0]), device=KERNELS_ON)
    vectors = [part.to(KERNELS_ON).requires_grad_() for part in (queries, keys)]
    sums = fused_contrast.FusedLogSumExp.apply(*vectors, bias.to(KERNELS_ON), alone)
    none = alone[0] == alone[1][0]
    to_queries, to_keys = torch.autograd.grad(sums[none].sum(), vectors)
    assert (sums == contrast.LOWEST).tolist() == none.tolist()
    assert not to_queries.any() and not to_keys.any()


@needs_kernels
def test_kernels_take_a_bias_of_each_kind_of_query() -> None:
    from counterpop.training.device import fused_contrast

    draw = torch.Generator().manual_seed(3)
    queries, keys, bias = (torch.randn(*shape, generator=draw) for shape in ((40, 32), (50, 32), (3, 50)))
    bias[2] = contrast.LOWEST  # a kind without a key, and without a query
    labels = torch.randint(9, (40,), generator=draw), torch.randint(9, (50,), generator=draw)
    kinds, slopes, found = torch.randint(2, (40,), generator=draw), torch.randn(40, generator=draw), []
    for device, kind in (("cpu", contrast.log_sum_exp), (KERNELS_ON, fused_contrast.fused_log_sum_exp)):
        vectors = [rows.to(device).requires_grad_() for rows in (queries, keys)]
        sums = kind(*vectors, bias.to(device), tuple(part.to(device) for part in labels), kinds.to(device))
        gradients = torch.autograd.grad((sums * slopes.to(device)).sum(), vectors)
        found.append([part.detach().cpu() for part in (sums, *gradients)])
    for plain, kernel in zip(*found, strict=True):
        assert (kernel - plain).abs().max() <= 2e-3 * plain.abs().max()


@needs_kernels
@pytest.mark.parametrize("given", SOFTMAX, ids=repr)
def test_kernels_take_the_step_of_the_softmax_loss(log: Interactions, given: dict[str, Any]) -> None:
    """Rows are shared within the batch; tables, losses and ledger agree as closely as half precision lets them."""
    given = {"loss": "softmax", "batch": 64, "reg": 0.1, "temperature": 0.3} | given
    batch, kernel = tables_for(log, "cpu", **given), tables_for(log, KERNELS_ON, **given)
    triples = torch.from_numpy(triples_of(log, batch._settings, 100)).long()
    first, lr = parts_of(batch), torch.tensor(LR, device=KERNELS_ON)
    losses = batch.step(triples, LR)
    quick = kernel._loss.step_batch(*kernel.vectors(), triples.to(KERNELS_ON), lr)
    torch.testing.assert_close(quick.cpu(), losses, atol=5e-3, rtol=5e-3)
    for before, one, other in zip(first, parts_of(batch), parts_of(kernel), strict=True):
        assert np.abs(one - other).max() <= 5e-3 * np.abs(one - before).max()


@needs_kernels
def test_a_kernel_leaves_a_pair_without_a_negative(log: Interactions) -> None:
    """All pairs have the same item: nothing to learn, and no NaN."""
    trainee = tables_for(log, KERNELS_ON, loss="softmax", reg=0.0, batch=64)
    before, item = parts_of(trainee), int(log.item_counts.argmax())
    users = log.user_ix[log.item_ix == item][:8].astype(np.int64)
    triples = torch.from_numpy(np.stack([users, np.full_like(users, item), np.zeros_like(users)])).to(KERNELS_ON)
    losses = trainee._loss.step_batch(*trainee.vectors(), triples, torch.tensor(LR, device=KERNELS_ON))
    assert not losses.any()
    for one, other in zip(before[:2], parts_of(trainee)[:2], strict=True):
        np.testing.assert_array_equal(one, other)


@needs_gpu
@pytest.mark.parametrize("dim", [12, 300])  # kernels, autograd
@pytest.mark.parametrize("given", SOFTMAX, ids=repr)
def test_recorded_steps_of_mf_are_the_steps(log: Interactions, given: dict[str, Any], dim: int) -> None:
    """From the second epoch on a GPU repeats a recorded step; the last batch is smaller and is not recorded."""
    given = {"loss": "softmax", "batch": 13, "dim": dim, "temperature": 1.0} | given
    trainees = [tables_for(log, "cuda", **given) for _ in range(2)]
    trainees[1]._replays = False
    first = parts_of(trainees[0])
    for lr in (LR, LR / 2, LR / 3):
        triples = trainees[0].draw()
        assert triples.shape[1] % -(-triples.shape[1] // trainees[0]._settings.steps(triples.shape[1]))
        lost = [float(trainee.run(triples, lr)) for trainee in trainees]
        assert lost[0] == pytest.approx(lost[1], abs=1e-4)
    assert trainees[0]._repeated._recorded and not trainees[1]._repeated
    for before, one, other in zip(first, *(parts_of(trainee) for trainee in trainees), strict=True):
        assert np.abs(one - other).max() <= 1e-3 * np.abs(one - before).max()
    if ledger := trainees[0]._loss.ledger:
        other = trainees[1]._loss.ledger
        assert (ledger.triples, ledger.records) == (other.triples, other.records)
        assert ledger.triples == 3 * triples.shape[1]


# --- sampling ---


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("power", [0.0, 0.75])
@pytest.mark.parametrize("sampling", ["interactions", "users"])
def test_draws_keep_their_law(log: Interactions, sampling: Any, power: float, device: str) -> None:
    """Positives are touched, negatives are not; every row or user the same number of times; negatives by their law."""
    settings = settings_for(sampling=sampling, negatives=2, negative_power=power, seed=4)
    sampler = DeviceSampler(Start(log, settings), torch.device(device))
    epochs = [sampler.epoch().cpu().numpy() for _ in range(150)]
    users, items, negatives = np.concatenate(epochs, axis=1)
    touched = np.zeros((log.n_users, log.n_items), dtype=bool)
    touched[log.user_ix, log.item_ix] = True
    assert touched[users, items].all() and not touched[users, negatives].any()
    drawn = np.zeros(touched.shape)
    np.add.at(drawn, (users, items), 1)
    if sampling == "interactions":
        assert (drawn[touched] == 2 * 150).all()
    else:
        per_user = [np.bincount(u, minlength=log.n_users) for u, _, _ in epochs]
        assert max(np.ptp(counts) for counts in per_user) <= 1
        share = drawn / drawn.sum(axis=1, keepdims=True) * log.user_counts[:, None]
        assert np.abs(share[touched] - 1).max() < 0.35  # 500 draws or so of each
    law = np.where(touched, 0, log.item_counts**power)
    expected = law / law.sum(axis=1, keepdims=True) * np.bincount(users)[:, None]
    got = np.zeros(touched.shape)
    np.add.at(got, (users, negatives), 1)
    spread = (got - expected)[~touched] / np.sqrt(expected[~touched])
    freedom = len(spread) - log.n_users
    assert abs(np.sum(spread**2) - freedom) < 4 * np.sqrt(2 * freedom)  # chi-squared
    assert np.abs(spread).max() < 6


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("pool", [1.0, 12.0])
def test_contrasting_draws_keep_their_law(log: Interactions, pool: float, device: str) -> None:
    """Half are more popular by the margin, half less than half as popular; if a side is too small, all are from the
    other, or any; any, too, if the user has touched the whole side."""
    settings = settings_for(method="dice", sampling="interactions", negatives=2, seed=4)
    sampler = DeviceSampler(Start(log, settings), torch.device(device))
    margin, epochs = 7.0, 200
    touched = np.zeros((log.n_users, log.n_items), dtype=bool)
    touched[log.user_ix, log.item_ix] = True
    got = np.zeros((log.n_users, log.n_items, log.n_items))
    for _ in range(epochs):
        np.add.at(got, tuple(sampler.epoch(Contrast(margin, pool)).cpu().numpy()), 1)
    got = got[log.user_ix, log.item_ix]  # (N, I)
    own, counts = log.item_counts[log.item_ix][:, None], log.item_counts
    free = ~touched[log.user_ix]
    sides = [counts > own + margin, counts < own / 2]
    wide = [side.sum(axis=1) >= pool for side in sides]
    law, chances = np.zeros(got.shape), [np.where(wide[1 - n], 0.5, 1.0) * wide[n] for n in range(2)]
    for side, chance in zip([*sides, np.ones_like(free)], [*chances, ~(wide[0] | wide[1])], strict=True):
        side = np.where((side & free).any(axis=1, keepdims=True), side & free, free)
        law += np.asarray(chance)[:, None] * side / side.sum(axis=1, keepdims=True)
    assert (wide[0] & wide[1]).any() and (wide[0] ^ wide[1]).any()
    assert (~(sides[0] & free).any(axis=1) & wide[0]).any() == (pool == 1)
    assert (got[law == 0] == 0).all() and (got.sum(axis=1) == 2 * epochs).all()
    expected = 2 * epochs * law[law > 0]
    spread = (got[law > 0] - expected) / np.sqrt(expected)
    freedom = len(spread) - len(log)
    assert abs(np.sum(spread**2) - freedom) < 4 * np.sqrt(2 * freedom)  # chi-squared


def test_many_users_keep_the_keys_whole(log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "KEYS", 1 << 24)
    sampler = DeviceSampler(Start(log, settings_for(negative_power=0.5)), torch.device("cpu"))
    assert (1 << 23) < sampler._width * log.n_users <= 1 << 24
    assert sampler._keys.max() < 1 << 24


def test_users_who_touched_everything_or_nothing_are_left_out() -> None:
    log = random_log(6, 5, 0.5, seed=1)
    rows = [(0, i) for i in range(5)] + [(u, i) for u in (2, 3) for i in (1, 3)]
    log = type(log)(*np.array(rows, np.int32).T.copy(), log.user_ids, log.item_ids)
    for how in ("interactions", "users"):
        sampler = DeviceSampler(Start(log, settings_for(sampling=how)), torch.device("cpu"))
        users, _, negatives = sampler.epoch()
        assert set(users.tolist()) == {2, 3} and sampler.triples == 4
        assert set(negatives.tolist()) <= {0, 2, 4}


# --- a training that was stopped goes on ---


def distance(one: Run, other: Run) -> float:
    """How far the vectors of two runs lie from each other, over their length."""
    first, second = (
        np.concatenate([*run.embeddings.user_vectors, *run.embeddings.item_vectors]) for run in (one, other)
    )
    return float(np.linalg.norm(first - second) / np.linalg.norm(first))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize(
    "given",
    [
        {"loss": "bpr"},
        {"loss": "bce", "method": "macr"},
        {"loss": "softmax"},
        {"loss": "bce", "backbone": "lightgcn", "edge_dropout": 0.2},
    ],
    ids=str,
)
def test_a_stopped_training_goes_on(log: Interactions, tmp_path: Path, device: Any, given: dict[str, Any]) -> None:
    """To the same bits on the CPU; on a GPU as near as two trainings that were left alone are to each other."""
    held = np.arange(len(log)) % 5 == 0
    known = Development(log.rows(~held), log.rows(held))
    settings: dict[str, Any] = {"dim": 12, "epochs": 5, "check_every": 5, "engine": "torch", "threads": 1}
    settings |= {"negative_power": 0.0, "device": device, "progress": False} | given
    whole, *others = (train(known, **settings) for _ in range(2 if device == "cpu" else 6))
    run, stops = train_in_pieces(known, tmp_path / "x", 1, **settings)
    assert len(stops) > 2 and [entry["epoch"] for entry in run.history] == [entry["epoch"] for entry in whole.history]
    alone = [distance(*pair) for pair in itertools.combinations((whole, *others), 2)]
    assert distance(whole, run) <= (0 if device == "cpu" else 1e-5 + 2 * max(alone))
