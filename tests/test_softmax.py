"""The softmax loss: every engine against a loss of ten lines, the ledger against loops, and worlds it must learn."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from builders import random_log
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.kernels.exponent import exp32
from counterpop.kernels.threads import crew
from counterpop.ledger import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE
from counterpop.splits import Split
from counterpop.training import IPS, Plain, Settings, train
from counterpop.training.backbones.contract import Start
from counterpop.training.backbones.lightgcn import LightGCN
from counterpop.training.backbones.mf import MatrixFactorisation
from counterpop.training.device import contrast
from counterpop.training.device.propagation import Smoothed
from counterpop.training.device.trainees import DeviceEncoder, DeviceTables
from counterpop.training.methods.plain.softmax import log_weights
from counterpop.training.methods.plain.softmax import native as kernels
from counterpop.training.methods.plain.torch import ScoresLoss
from counterpop.tuning import tune
from counterpop.worlds import World, taste_recall
from training_cases import LR, how_far, settings_for, triples_of

torch.set_num_threads(1)  # vectors this small are slower with more
SOFTMAX = {"loss": "softmax", "temperature": 0.3, "logq": 0.7}
CASES: list[dict[str, Any]] = [
    *({"normalised": cosine, "shared_negatives": n} for cosine, n in itertools.product([True, False], [0, 9])),
    {"logq": -0.5, "sampling": "interactions"},
    {"shared_negatives": 9, "negative_power": 0.6, "logq": 0.2},
    {"method": IPS(0.5), "ledger": True},
]


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


def settings_of(**given: Any) -> Settings:
    return settings_for(**SOFTMAX | given)


def batch_of(log: Interactions, settings: Settings, n: int = 50) -> np.ndarray:
    """Pairs that share users and items, and a negative each."""
    return triples_of(log, settings, n)


def ten_lines(P: torch.Tensor, Q: torch.Tensor, batch: np.ndarray, log: Interactions, s: Settings) -> torch.Tensor:
    """The loss as its formula says, a number for each pair, with a matrix of all pairs by all negatives."""
    u, i, j = batch
    if s.normalises:
        P, Q = P / P.norm(dim=1, keepdim=True), Q / Q.norm(dim=1, keepdim=True)
    weight = 1 / log.user_counts[log.user_ix] if s.sampling == "users" else np.ones(len(log))
    e = np.array([weight[log.item_ix == item].sum() for item in range(log.n_items)])
    drawn = j[: s.shared_negatives] if s.shared_negatives else i
    d = log.item_counts**s.negative_power if s.shared_negatives else e
    e, d = torch.from_numpy(e / e.sum()), torch.from_numpy(d / d.sum())
    x_i = (P[u] * Q[i]).sum(1) / s.temperature - s.logq * e[i].log()
    x_j = P[u] @ Q[drawn].T / s.temperature + ((1 - s.logq) * e.log() - d.log())[drawn]
    x_j = x_j.masked_fill(torch.from_numpy(i[:, None] == drawn[None, :]), -torch.inf)
    losses = torch.logsumexp(torch.cat([x_i[:, None], x_j], 1), 1) - x_i
    return losses * torch.from_numpy(
        s.method.weights(log.item_counts)[i] if isinstance(s.method, IPS) else np.ones(len(i))
    )


def expected_gradient(log: Interactions, settings: Settings, batch: np.ndarray) -> tuple[np.ndarray, ...]:
    """By autograd at the first values, with L2: once for each pair's two rows, and for each drawn negative's."""
    P, Q = (torch.from_numpy(v.astype(np.float64)).requires_grad_() for v in Start(log, settings).first_values())
    u, i, j = batch
    squares = P[u].square().sum() + Q[i].square().sum() + Q[j[: settings.shared_negatives]].square().sum()
    losses = ten_lines(P, Q, batch, log, settings)
    (losses.sum() + settings.reg / 2 * squares).backward()
    return P.grad.numpy(), Q.grad.numpy(), losses.detach().numpy()


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_torch_has_the_loss_and_gradient_of_the_formula(log: Interactions, given: dict[str, Any]) -> None:
    settings = settings_of(**given)
    batch = batch_of(log, settings)
    loss = settings.method.torch(log, settings).double()
    P, Q = (torch.from_numpy(v.astype(np.float64)).requires_grad_() for v in Start(log, settings).first_values())
    total, losses = loss(P, Q, torch.from_numpy(batch).long())
    total.backward()
    to_users, to_items, expected = expected_gradient(log, settings, batch)
    np.testing.assert_allclose(losses.detach().numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(P.grad.numpy(), to_users, atol=1e-5)
    np.testing.assert_allclose(Q.grad.numpy(), to_items, atol=1e-5)
    assert np.abs(to_items).max() > 0.1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("given", CASES, ids=repr)
def test_native_has_the_loss_and_gradient_of_the_formula(
    log: Interactions, given: dict[str, Any], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CHUNK", 7)  # more than one stretch in a thread
    settings = settings_of(**given | {"engine": "native", "threads": threads})
    trainee, batch = MatrixFactorisation(Start(log, settings)), batch_of(log, settings)
    added = type(trainee._tables)(*(np.zeros_like(table) for table in trainee._tables))
    with crew(threads) as together:
        lost, recorded = trainee._objective.step_batch(together, trainee._tables, batch, -1.0, added)
    to_users, to_items, losses = expected_gradient(log, settings, batch)
    assert recorded == len(losses) and lost == pytest.approx(losses.sum(), rel=1e-5)
    np.testing.assert_allclose(added.users, to_users, atol=3e-5, rtol=1e-5)
    np.testing.assert_allclose(added.items, to_items, atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_mf_goes_the_same_way_on_both_engines(log: Interactions, given: dict[str, Any]) -> None:
    """Ten steps, each along another batch; the vectors that rank, and the ledger."""
    native = MatrixFactorisation(Start(log, settings_of(**given | {"engine": "native", "threads": 2})))
    with_torch = DeviceTables(Start(log, settings_of(**given)))
    before = native.model()
    batches = np.array_split(np.random.default_rng(1).permutation(batch_of(log, native._settings, 300), axis=1), 10, 1)
    with crew(2) as together:
        for batch in batches:
            native._objective.step_batch(together, native._tables, batch, LR)
            with_torch.step(torch.from_numpy(batch).long(), LR)
            native._triples, native._recorded = native._triples + batch.shape[1], native._recorded + batch.shape[1]
            with_torch._loss.ledger.count(batch.shape[1])
    one, other = native.model(), with_torch.model()
    for name in ("user_vectors", "item_vectors"):
        np.testing.assert_allclose(getattr(one.embeddings, name), getattr(other.embeddings, name), atol=1e-4)
    for name in ("users", "items"):
        np.testing.assert_allclose(getattr(one.ledger, name), getattr(other.ledger, name), atol=1e-3, rtol=1e-3)
    assert how_far(one, before) > 0.05


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_three_steps_of_lightgcn(log: Interactions, given: dict[str, Any]) -> None:
    given = given | {"backbone": "lightgcn", "layers": 2}
    native = LightGCN(Start(log, settings_of(**given | {"engine": "native", "threads": 2})))
    start = Start(log, settings_of(**given))
    with_torch = DeviceEncoder(Smoothed(start), start)
    batch, before = batch_of(log, start.settings), with_torch.model()
    with crew(2) as together:
        for _ in range(3):
            native.step_batch(together, batch, LR)
            with_torch.step(torch.from_numpy(batch).long())
    one, other = native.model(), with_torch.model()
    for name in ("user_vectors", "item_vectors"):
        np.testing.assert_allclose(getattr(one.embeddings, name), getattr(other.embeddings, name), atol=1e-4)
    for name in ("users", "items"):
        np.testing.assert_allclose(getattr(one.ledger, name), getattr(other.ledger, name), atol=1e-3, rtol=1e-3)
    assert how_far(other, before) > 1e-2


@pytest.mark.parametrize("shared", [0, 9])
def test_scores_in_stretches_are_the_scores_at_once(
    log: Interactions, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(shared_negatives=shared)
    batch, found = torch.from_numpy(batch_of(log, settings)).long(), []
    for limit in (1 << 24, 100):
        monkeypatch.setattr(contrast, "SCORES", limit)
        trainee = DeviceTables(Start(log, settings))
        tables = [table.requires_grad_() for table in trainee.vectors()]
        total, losses = trainee._loss(*tables, batch)
        found.append([losses.detach(), *torch.autograd.grad(total, tables), trainee._loss.ledger.items])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_large_batch_never_holds_its_square() -> None:
    rows, labels = (torch.zeros(16_384, *width, device="meta") for width in ((128,), ()))  # shapes without numbers
    held = [scores.numel() for _, scores in contrast.scores_of(rows, rows, labels, (labels, labels))]
    assert sum(held) == 16_384**2 and max(held) <= contrast.SCORES == 16_384**2 // 16


def test_a_pair_without_a_negative_stays_where_it_is(log: Interactions) -> None:
    """All pairs of a batch have the same item: nothing to learn, and no NaN."""
    item = int(log.item_counts.argmax())
    users = log.user_ix[log.item_ix == item][:8]
    batch = np.stack([users, np.full_like(users, item), np.zeros_like(users)])
    native = MatrixFactorisation(Start(log, settings_of(engine="native", reg=0.0)))
    with_torch, before = DeviceTables(Start(log, settings_of(reg=0.0))), native.model()
    with crew(native._threads) as together:
        lost, _ = native._objective.step_batch(together, native._tables, batch, LR)
    losses = with_torch.step(torch.from_numpy(batch).long(), LR)
    assert lost == 0 and not losses.any()
    assert how_far(native.model(), before) == 0
    np.testing.assert_allclose(with_torch.model().embeddings.user_vectors, before.embeddings.user_vectors, atol=1e-6)


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize("given", CASES[:4], ids=repr)
def test_the_ledger_is_that_of_plain_loops(log: Interactions, given: dict[str, Any], every: int) -> None:
    settings = settings_of(**given | {"engine": "native", "threads": 2, "ledger_every": every})
    trainee, batch = MatrixFactorisation(Start(log, settings)), batch_of(log, settings, 100)
    P, Q = (table.astype(np.float64) for table in Start(log, settings).first_values())
    if settings.normalises:
        P, Q = P / np.linalg.norm(P, axis=1, keepdims=True), Q / np.linalg.norm(Q, axis=1, keepdims=True)
    users, items = np.zeros((log.n_users, 4, 12)), np.zeros((log.n_items, 4, 12))
    as_positive, as_negative = log_weights(log, settings)
    with crew(2) as together:
        for part in (batch[:, :50], batch[:, 50:]):
            trainee._objective.step_batch(together, trainee._tables, part, 1e-12)
    for first in (0, 50):
        part = batch[:, first : first + 50]
        drawn = part[2, : settings.shared_negatives] if settings.shared_negatives else part[1]
        for m in range(50):
            if (first + m) % every:
                continue
            u, i, _ = part[:, m]
            others = [j for j in drawn if j != i]
            own = np.exp(P[u] @ Q[i] / settings.temperature + as_positive[i])
            odds = [np.exp(P[u] @ Q[j] / settings.temperature + as_negative[j]) for j in others]
            slopes = np.array(odds) / (own + sum(odds)) / settings.temperature
            items[i, PULL] += P[u]
            items[i, PULL_SLOPE] += slopes.sum() * P[u]
            users[u, PULL] += Q[i]
            users[u, PULL_SLOPE] += slopes.sum() * Q[i]
            for j, slope in zip(others, slopes, strict=True):
                items[j, PUSH] += P[u] / len(others)
                items[j, PUSH_SLOPE] += slope * P[u]
                users[u, PUSH] += Q[j] / len(others)
                users[u, PUSH_SLOPE] += slope * Q[j]
    np.testing.assert_allclose(trainee._objective._ledger.users, users, atol=1e-4)
    np.testing.assert_allclose(trainee._objective._ledger.items, items, atol=1e-4)
    assert np.abs(items[:, PUSH_SLOPE]).max() > 0.1


@pytest.mark.parametrize("sampling", ["interactions", "users"])
@pytest.mark.parametrize(
    "given", [{}, {"shared_negatives": 5}, {"shared_negatives": 5, "negative_power": 0.4}], ids=repr
)
def test_logq_says_which_negatives_count(log: Interactions, sampling: Any, given: dict[str, Any]) -> None:
    """However they are drawn, they stand for uniform ones at 1 and for the law of positives at 0."""
    settings = settings_of(sampling=sampling, **given)
    trainee = DeviceTables(Start(log, settings_of(sampling=sampling)))
    epochs = [trainee.draw() for _ in range(1500)]
    positives = np.mean([np.bincount(e[1], minlength=log.n_items) for e in epochs], axis=0) / len(log)
    power = given.get("negative_power", 0.0)
    drawn = log.item_counts**power / (log.item_counts**power).sum() if given else positives
    for logq, law in ((1.0, np.ones(log.n_items)), (0.0, positives), (-0.5, positives**1.5)):
        weights = np.exp(log_weights(log, dataclasses.replace(settings, logq=logq))[1].astype(np.float64))
        stands_for = drawn * weights
        np.testing.assert_allclose(stands_for / stands_for.sum(), law / law.sum(), rtol=0.1)


def test_the_exponential_is_right() -> None:
    values = np.linspace(-87, 88, 10_001, dtype=np.float32)
    found = np.array([exp32(x) for x in values], dtype=np.float64)
    wrong = np.abs(found / np.exp(values.astype(np.float64)) - 1)
    assert (wrong < 1e-7 * (1 + np.abs(values)) + 1e-7).all()
    assert exp32(np.float32(-1e30)) == exp32(np.float32(-87))


def test_every_triple_of_an_epoch_is_in_one_batch(log: Interactions) -> None:
    trainee = MatrixFactorisation(Start(log, settings_of(engine="native", threads=3, sampling="interactions")))
    drawn, number = trainee.draw()
    triples = trainee._sampler.shuffled(drawn)
    assert number == triples.shape[1] == len(log)
    assert sorted(map(tuple, triples[:2].T)) == sorted(zip(log.user_ix, log.item_ix, strict=True))
    assert np.abs(np.diff(triples[0])).mean() > log.n_users / 5  # neighbouring users are far apart


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_and_threads_give_the_same_bits(split: Split, threads: int, backbone: str) -> None:
    given = {"dim": 8, "epochs": 4, "check_every": 2, "ledger_every": 3, "threads": threads, "backbone": backbone}
    first, again, other = (train(split, loss="softmax", seed=seed, refit=False, **given) for seed in (5, 5, 6))
    for name in ("user_vectors", "item_vectors"):
        assert np.array_equal(getattr(first.embeddings, name), getattr(again.embeddings, name))
    assert np.array_equal(first.ledger.items, again.ledger.items)
    assert not np.array_equal(first.embeddings.item_vectors, other.embeddings.item_vectors)


@pytest.mark.parametrize(
    ("backbone", "engine"), [("mf", "native"), ("mf", "torch"), ("lightgcn", "native"), ("lightgcn", "torch")]
)
def test_true_taste_is_found(world: World, split: Split, backbone: str, engine: str) -> None:
    """Unit vectors rank; adjusted lists hold more of what users truly like than plain ones."""
    given = {"dim": 16, "epochs": 20, "ledger_every": 1, "batch": 64, "temperature": 0.3, "logq": 1.0}
    run = train(split, backbone=backbone, engine=engine, loss="softmax", refit=False, **given)
    np.testing.assert_allclose(np.linalg.norm(run.embeddings.item_vectors, axis=1), 1, atol=1e-5)
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    best, users = tune(run, split, point="gain"), np.arange(split.train.n_users, dtype=np.int32)
    adjusted, plain = (
        np.nanmean(
            taste_recall(world, dataclasses.replace(how, seen=split.train).recommend(users, 10)[0], users, split.train)
        )
        for how in (best, dataclasses.replace(best, item_strength=0.0, user_strength=0.0))
    )
    assert adjusted > plain + 0.05 > 0.2  # .38 and .24


class Towers(torch.nn.Module):
    """Two tables, scaled."""

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.users, self.items = (
            torch.nn.Parameter(torch.randn(n, 12, generator=draw)) for n in (train.n_users, train.n_items)
        )

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.users * 0.5, self.items * 2.0


def test_an_encoder_of_ones_own(split: Split) -> None:
    given = {"epochs": 12, "check_every": 4, "lr": 0.02, "batch": 128, "ledger_every": 4}
    run = train(split, encoder=Towers, loss="softmax", refit=False, **given)
    assert run.history[-1]["loss"] < 0.8 * run.history[0]["loss"]
    np.testing.assert_allclose(np.linalg.norm(run.embeddings.user_vectors, axis=1), 1, atol=1e-5)
    assert run.ledger.triples > 0


class Contrasted(ScoresLoss):
    """BPR, and each item of the batch against the others in two encodings of which one has noise."""

    def contrast(
        self, encoder: torch.nn.Module, users: torch.Tensor, items: torch.Tensor, triples: torch.Tensor
    ) -> torch.Tensor:
        once, again = encoder()[1], encoder()[1] + 0.1
        at = triples[1].unique()
        others = contrast.log_sum_exp(once[at], again[at], torch.zeros(len(at)), (at, at + len(once)))
        return (others - (once[at] * again[at]).sum(1)).sum()


@dataclasses.dataclass(frozen=True)
class WithContrast(Plain):
    name: ClassVar[str] = "contrasted"

    def torch(self, train: Interactions, settings: Settings) -> Contrasted:
        return Contrasted(train, settings, np.empty(0, np.float32))


def test_a_loss_may_add_what_needs_the_encoder(log: Interactions) -> None:
    """Its gradient joins that of the triples."""
    start = Start(log, settings_for(method=WithContrast(), backbone="lightgcn"))
    trainee, batch = DeviceEncoder(Smoothed(start), start), torch.from_numpy(batch_of(log, start.settings)).long()
    tables = trainee._module.tables
    users, items = trainee._module()
    total, (_, Q) = trainee._loss(users, items, batch)[0], trainee._module()
    at = batch[1].unique()
    total = total + (torch.logsumexp(Q[at] @ (Q[at] + 0.1).T, 1) - (Q[at] * (Q[at] + 0.1)).sum(1)).sum()
    (expected,) = torch.autograd.grad(total, [tables])
    trainee.step(batch)
    torch.testing.assert_close(tables.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"loss": "bpr", "temperature": 0.1}, "temperature belongs to loss softmax and has no effect on bpr"),
        ({"loss": "bce", "logq": 0.0}, "logq belongs to loss softmax"),
        ({"method": "dice", "shared_negatives": 3}, "shared_negatives belongs to loss softmax"),
        ({"method": "macr", "loss": "softmax"}, "the loss of macr must be .*, got 'softmax'"),
        ({"loss": "softmax", "temperature": 0.0}, "temperature must be a finite number above 0, got 0.0"),
        ({"loss": "softmax", "logq": float("nan")}, "logq must be a finite number, got nan"),
        ({"loss": "softmax", "shared_negatives": 99, "batch": 64}, r"from 0 to batch \(64\), got 99"),
        ({"loss": "softmax", "negatives": 2}, "set batch= or shared_negatives=, not negatives="),
        ({"loss": "softmax", "negative_power": 0.5}, "negative_power has no effect on softmax with the batch's own"),
    ],
)
def test_settings_without_an_effect_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Settings(**given)
