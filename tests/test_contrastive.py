"""SimGCL and PAAC against plain twins: dense matrices and loops, differentiated by autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from builders import random_log
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.training import Settings
from counterpop.training.backbones.contract import Start
from counterpop.training.device import trainees
from counterpop.training.device.propagation import Smoothed
from counterpop.training.device.trainees import DeviceEncoder
from counterpop.training.loop import begin
from counterpop.training.methods import PAAC, Method, SimGCL
from training_cases import settings_for, triples_of

CASES = [SimGCL(0.7, noise=0.3, temperature=0.5), PAAC(0.7, noise=0.3, temperature=0.5, align=0.4, share=0.3)]


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


def start_with(log: Interactions, method: Method, **given: Any) -> Start:
    return Start(log, settings_for(method=method, backbone="lightgcn", layers=3, **given))


def dense_graph(log: Interactions) -> Tensor:
    """(U + I, U + I) the adjacency divided by the roots of both degrees, entry by entry."""
    size = log.n_users + log.n_items
    graph = torch.zeros(size, size)
    for u, i in zip(log.user_ix.tolist(), log.item_ix.tolist(), strict=True):
        value = 1 / np.sqrt(log.user_counts[u] * log.item_counts[i])
        graph[u, log.n_users + i] = graph[log.n_users + i, u] = value
    return graph


def encode(tables: Tensor, graph: Tensor, layers: int, noise: list[Tensor] | None = None) -> Tensor:
    """The mean of layers 1 to L; `noise` is added to each layer."""
    vectors, found = tables, []
    for layer in range(layers):
        vectors = graph @ vectors
        if noise:
            vectors = vectors + noise[layer]
        found.append(vectors)
    return torch.stack(found).mean(0)


def drawn_noise(tables: Tensor, graph: Tensor, layers: int, length: float, generator: torch.Generator) -> list[Tensor]:
    """What the same generator adds in each layer: a positive unit vector with the signs of the row that it moves."""
    vectors, found = tables.detach(), []
    for _ in range(layers):
        vectors = graph @ vectors
        drawn = torch.rand(vectors.shape, generator=generator)
        found.append(length * vectors.sign() * drawn / drawn.square().sum(1, keepdim=True).sqrt())
        vectors = vectors + found[-1]
    return found


def info_nce(first: Tensor, second: Tensor, temperature: float, row: int, counts: list[float]) -> Tensor:
    """Of one row; `counts` says how much each row of `second` counts in the sum, its own always once."""
    score = [torch.cosine_similarity(first[row], other, dim=0) / temperature for other in second]
    weights = [1.0 if n == row else counts[n] for n in range(len(second))]
    return -score[row] + torch.log(sum(w * s.exp() for w, s in zip(weights, score, strict=True)))  # type: ignore[arg-type]


def twin(log: Interactions, settings: Settings, tables: Tensor, triples: Tensor, generator: torch.Generator) -> Tensor:
    """Everything that a batch minimises, written from the methods' mathematics."""
    method, graph = settings.method, dense_graph(log)
    assert isinstance(method, SimGCL)
    E = encode(tables, graph, settings.layers)
    P, Q = E[: log.n_users], E[log.n_users :]
    total = torch.zeros(())
    for u, i, j in triples.T.tolist():
        rows = P[u].square().sum() + Q[i].square().sum() + Q[j].square().sum()
        total = total - torch.nn.functional.logsigmoid(P[u] @ Q[i] - P[u] @ Q[j]) + 0.5 * settings.reg * rows
    first, second = (
        encode(tables, graph, settings.layers, drawn_noise(tables, graph, settings.layers, method.noise, generator))
        for _ in range(2)
    )
    users, items = (sorted(set(row.tolist())) for row in triples[:2])
    ones = [1.0] * max(len(users), len(items))
    t, at = method.temperature, [log.n_users + i for i in items]
    contrast = torch.stack([info_nce(first[users], second[users], t, n, ones) for n in range(len(users))]).mean()
    if not isinstance(method, PAAC):
        of_items = [info_nce(first[at], second[at], t, n, ones) for n in range(len(items))]
        return total + triples.shape[1] * method.weight * (contrast + torch.stack(of_items).mean())
    popular = set(sorted(items, key=lambda i: -log.item_counts[i])[: round(method.share * len(items))])
    for kind, weight in ((True, method.popular_weight), (False, 1 - method.popular_weight)):
        counts = [1.0 if (i in popular) is kind else method.across for i in items]
        rows = [n for n, i in enumerate(items) if (i in popular) is kind]
        contrast = contrast + weight * sum(info_nce(first[at], second[at], t, n, counts) for n in rows) / max(
            1, len(rows)
        )
    for user in users:
        mine = {i for u, i, _ in triples.T.tolist() if u == user}
        for a in mine & popular:
            for b in mine - popular:
                total = total + method.align / len(mine) * (Q[a] - Q[b]).square().sum()
    return total + triples.shape[1] * method.weight * contrast


def batch_of(log: Interactions) -> Tensor:
    """Triples in which users have several items."""
    triples = torch.from_numpy(triples_of(log, settings_for(), 80)).long()
    assert len(set(map(tuple, triples[:2].T.tolist()))) > len(set(triples[0].tolist()))
    return triples


def assert_gradient_of_twin(log: Interactions, method: Method, triples: Tensor) -> None:
    """Of a step that keeps repeated rows, as on a GPU, and of one that drops them."""
    start = start_with(log, method)
    trainee, generator = DeviceEncoder(Smoothed(start), start), torch.Generator()
    before = trainee.state()
    generator.set_state(trainee._module.generator.get_state())
    tables = trainee._module.tables.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(twin(log, start.settings, tables, triples, generator), [tables])
    assert expected.abs().max() > 0.1
    for keeps_shapes in (True, False):
        trainee.restore(before)
        trainee._loss.keeps_shapes = keeps_shapes
        trainee.step(triples)
        torch.testing.assert_close(trainee._module.tables.grad, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("method", CASES, ids=lambda method: method.name)
def test_a_step_has_the_gradient_of_the_twin(log: Interactions, method: Method) -> None:
    assert_gradient_of_twin(log, method, batch_of(log))


@pytest.mark.parametrize("method", CASES, ids=lambda method: method.name)
def test_pairs_that_a_batch_repeats_count_once_where_they_should(log: Interactions, method: Method) -> None:
    """In any order; what is summed over triples counts each of them."""
    triples = batch_of(log)
    triples = torch.cat((triples[:, :30], triples[:, 10:], triples[:, :5]), 1)
    assert_gradient_of_twin(log, method, triples)
    assert_gradient_of_twin(log, method, triples[:, torch.randperm(triples.shape[1], generator=torch.manual_seed(1))])


@pytest.mark.parametrize("across", [0.0, 0.4])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_half_of_paac_may_be_empty(log: Interactions, share: float, across: float) -> None:
    """By its share, or because a batch has one item only."""
    method, triples = PAAC(0.7, noise=0.3, temperature=0.5, align=0.4, share=share, across=across), batch_of(log)
    one = triples[:, triples[1] == triples[1].mode().values]
    assert one.shape[1] > 1
    for batch in (triples, one.repeat(1, 3)):
        assert_gradient_of_twin(log, method, batch)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 1.0])
def test_popular_is_a_share_of_distinct_items(share: float) -> None:
    """Ties go to the first, and items that are repeated have one place."""
    log = random_log(30, 12, np.repeat([0.6, 0.3], 6))
    loss = start_with(log, PAAC(share=share)).settings.method.torch(log, settings_for())
    draw = np.random.default_rng(2)
    for size in (1, 3, 10, 40):
        items = draw.integers(log.n_items, size=size).tolist()
        distinct = sorted(set(items), key=lambda i: (-log.item_counts[i], i))
        popular = distinct[: round(share * len(distinct))]
        assert loss.is_popular(torch.tensor(items)).tolist() == [i in popular for i in items]
    assert len(set(log.item_counts.tolist())) < log.n_items


class NoWaiting(TorchDispatchMode):
    """Refuses what a recorded step cannot do: results whose shape or value the host must wait for, and its own data."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        refused = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)
        assert not refused and func is not torch.ops.aten.lift_fresh.default, func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", CASES, ids=lambda method: method.name)
def test_a_step_can_be_recorded(log: Interactions, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    start = start_with(log, method)
    trainee, triples = DeviceEncoder(Smoothed(start), start), batch_of(log)
    trainee._loss.keeps_shapes = True
    assert trainee._loss.repeats
    monkeypatch.setattr(trainee._optimiser, "step", lambda: None)  # on the CPU it reads its count of steps
    with NoWaiting():
        trainee.step(triples)
    assert trainee._module.tables.grad.abs().max() > 0.1
    trainee._loss.keeps_shapes = False
    with NoWaiting(), pytest.raises(AssertionError, match=r"aten\.index"):
        trainee.step(triples)


def test_the_gradient_of_a_kernel_joins_that_of_the_contrast(
    log: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, gradients = start_with(log, SimGCL(0.7)), []
    for kernel in (False, True):
        monkeypatch.setattr(trainees, "has_kernels", lambda device, kernel=kernel: kernel)
        trainee = DeviceEncoder(Smoothed(start), start)
        loss = trainee._loss

        def add_gradient(users: Tensor, items: Tensor, triples: Tensor, into: Any, loss: Any = loss) -> Tensor:
            with torch.enable_grad():
                tables = [rows.detach().requires_grad_() for rows in (users, items)]
                total, losses = loss(*tables, triples)
                for table, slope in zip(into, torch.autograd.grad(total, tables), strict=True):
                    table += slope
            return losses.detach().mean()

        monkeypatch.setattr(loss, "add_gradient", add_gradient)
        trainee.step(batch_of(log))
        gradients.append(trainee._module.tables.grad)
    torch.testing.assert_close(*gradients)


def test_noisy_encodings_have_all_edges(log: Interactions) -> None:
    """Whichever edges are dropped from the other one."""
    start = start_with(log, SimGCL(0.7, noise=0.3), edge_dropout=0.5)
    module, loss, gradients = Smoothed(start), start.settings.method.torch(log, start.settings), []
    for training in (True, False):
        vectors = module.train(training)()
        module.generator.manual_seed(5)
        found = loss.contrast(module, *vectors, batch_of(log))
        gradients += torch.autograd.grad(found, [module.tables])
    torch.testing.assert_close(*gradients)


def test_noise_has_its_length_and_the_signs_of_what_it_moves(log: Interactions) -> None:
    module = Smoothed(start_with(log, SimGCL(), dim=16))
    module._layers = 1
    clean = torch.cat(module())
    torch.testing.assert_close(clean, dense_graph(log) @ module.tables, rtol=1e-5, atol=1e-5)
    every = torch.arange(log.n_users), torch.arange(log.n_items)
    noisy = module.noisy(module(), every, 0.3)
    for vectors in noisy:
        moved = (vectors - clean)[clean.abs().sum(1) > 0]
        torch.testing.assert_close(moved.norm(dim=1), torch.full((len(moved),), 0.3), rtol=1e-4, atol=1e-4)
        assert ((moved * clean[clean.abs().sum(1) > 0]) >= -1e-5).all()
    assert not torch.equal(*noisy)


def test_without_its_own_terms_paac_is_simgcl(log: Interactions) -> None:
    """Popular items by half, negatives of both kinds alike, nothing aligned: the mean of two halves."""
    triples = torch.from_numpy(triples_of(log, settings_for(), 80)).long()
    if len(triples[1].unique()) % 2:
        triples = triples[:, triples[1] != triples[1, 0]]
    gradients = []
    for method in (SimGCL(2.0), PAAC(2.0, align=0.0, popular_weight=0.5, across=1.0)):
        start = start_with(log, method)
        trainee = DeviceEncoder(Smoothed(start), start)
        trainee.step(triples)
        gradients.append(trainee._module.tables.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_what_they_cannot_train_is_refused_in_one_sentence(log: Interactions) -> None:
    for name in ("simgcl", "paac"):
        for backbone in ("mf", "encoder"):
            with pytest.raises(
                InputError, match=f"trains only backbones with a graph, such as lightgcn, got {backbone}"
            ):
                Settings(method=name, backbone=backbone)  # type: ignore[arg-type]
        assert Settings(method=name, backbone="lightgcn").engine == "torch"  # type: ignore[arg-type]
        native = Settings(method=name, backbone="lightgcn", engine="native")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"method {name} has no mathematics for engine native; train it with"):
            begin(Start(log, native))
        with pytest.raises(InputError, match=f"the loss of {name} must be bpr"):
            Settings(method=name, backbone="lightgcn", loss="bce")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"{name} supports neither normalised users nor a ledger"):
            Settings(method=name, backbone="lightgcn", ledger=True)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="temperature of simgcl must be above 0"):
        SimGCL(temperature=0.0)
    with pytest.raises(InputError, match="share of paac is a share, from 0 to 1, got 2"):
        PAAC(share=2.0)
