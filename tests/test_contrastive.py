"""SimGCL and PAAC against plain twins: dense matrices and loops, differentiated by autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from builders import random_log
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.training import Settings
from counterpop.training.backbones.contract import Start
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
    assert 0 < len(popular) < len(items)
    for kind, weight in ((True, method.popular_weight), (False, 1 - method.popular_weight)):
        counts = [1.0 if (i in popular) is kind else method.across for i in items]
        rows = [n for n, i in enumerate(items) if (i in popular) is kind]
        contrast = contrast + weight * sum(info_nce(first[at], second[at], t, n, counts) for n in rows) / len(rows)
    for user in users:
        mine = {i for u, i, _ in triples.T.tolist() if u == user}
        for a in mine & popular:
            for b in mine - popular:
                total = total + method.align / len(mine) * (Q[a] - Q[b]).square().sum()
    return total + triples.shape[1] * method.weight * contrast


@pytest.mark.parametrize("method", CASES, ids=lambda method: method.name)
def test_a_step_has_the_gradient_of_the_twin(log: Interactions, method: Method) -> None:
    start = start_with(log, method)
    trainee = DeviceEncoder(Smoothed(start), start)
    triples = torch.from_numpy(triples_of(log, start.settings, 80)).long()
    assert len(set(map(tuple, triples[:2].T.tolist()))) > len(set(triples[0].tolist()))  # users with several items
    generator = torch.Generator()
    generator.set_state(trainee._module.generator.get_state())
    tables = trainee._module.tables.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(twin(log, start.settings, tables, triples, generator), [tables])
    trainee.step(triples)
    torch.testing.assert_close(trainee._module.tables.grad, expected, rtol=1e-3, atol=1e-4)
    assert expected.abs().max() > 0.1


def test_noise_has_its_length_and_the_signs_of_what_it_moves(log: Interactions) -> None:
    module = Smoothed(start_with(log, SimGCL(), dim=16))
    module._layers = 1
    clean = torch.cat(module())
    torch.testing.assert_close(clean, dense_graph(log) @ module.tables, rtol=1e-5, atol=1e-5)
    noisy = module.noisy(0.3)
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
