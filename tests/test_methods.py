"""Every method's kernels against autograd of its torch loss, the one oracle; and each method's own rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from builders import make_log, random_log
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.kernels.drawing import Triples
from counterpop.ledger import PULL, PULL_SLOPE, PUSH, PUSH_SLOPE
from counterpop.splits import Split, split_intervened
from counterpop.training import Settings, train
from counterpop.training.backbones.contract import Backbone, Start
from counterpop.training.backbones.mf import MatrixFactorisation
from counterpop.training.device.sampling import DeviceSampler
from counterpop.training.loop import begin
from counterpop.training.methods import DICE, IPS, MACR, METHODS, CausE, Contrast, Method, Plain, make_method
from counterpop.training.methods.dice.native import distance_correlation
from counterpop.training.methods.dice.torch import distance_correlation as torch_correlation
from counterpop.training.methods.macr.native import BRANCH_EVERY, BRANCH_RATE, sigmoid
from counterpop.training.methods.plain.native import walk
from counterpop.training.native import Objective, Tables
from counterpop.training.sampling import TripleSampler
from counterpop.tuning import tune
from counterpop.worlds import World
from training_cases import BASELINES, LR, SCORES, VARIANTS, settings_for, start_of, triples_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]
CASES = [{"method": "plain"}, *SCORES, *BASELINES]


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


def rows_for(log: Interactions, settings: Settings, user_copies: int = 1) -> Tables:
    draw = np.random.default_rng(7)
    sizes = user_copies * log.n_users, settings.method.item_copies * log.n_items
    return Tables(*(draw.normal(size=(n, settings.dim)).astype(np.float32) for n in sizes))


def autograd(loss: torch.nn.Module, tables: list[np.ndarray], triples: np.ndarray) -> tuple[list[np.ndarray], float]:
    """The gradient of everything a batch minimises at both tables and the method's own parameters; its loss."""
    values = [torch.from_numpy(table.astype(np.float64)).requires_grad_() for table in tables]
    total, losses = loss(*values, torch.from_numpy(triples).long())
    slopes = torch.autograd.grad(total, [*values, *loss.parameters()])
    return [slope.numpy() for slope in slopes], float(losses.sum().detach())


def as_triples(triples: np.ndarray) -> Triples:
    return Triples(*triples, np.arange(triples.shape[1], dtype=np.int32), np.zeros(1, np.int64))


def assert_rows(kernel: list[np.ndarray], oracle: list[np.ndarray]) -> None:
    for mine, theirs in zip(kernel, oracle, strict=True):
        assert np.allclose(mine, theirs, rtol=2e-4, atol=2e-4 * np.abs(theirs).max())


# --- the oracle ---


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_the_gradient_is_autograds(log: Interactions, given: dict[str, Any]) -> None:
    """Summed over triples that share users and items; a second graph has its own rows of the same users."""
    settings = settings_for(engine="native", **given)
    tables = rows_for(log, settings, settings.method.item_copies)
    drawn, order = triples_of(log, settings, 90), np.random.default_rng(0).permutation(90).astype(np.int32)
    objective, loss = (make(log, settings) for make in (native, oracle))
    into = Tables(*(np.zeros_like(table) for table in tables))
    before = [table.copy() for table in tables]
    recorded = objective.step(0, tables, as_triples(drawn), order, -1.0, into)
    slopes, lost = autograd(loss, list(tables), drawn)
    own = [objective._gradient[0]] if isinstance(settings.method, MACR) else []
    assert_rows([*into, *own], slopes)
    assert recorded == (pytest.approx(lost, rel=1e-5), 90)
    assert all(np.array_equal(table, old) for table, old in zip(tables, before, strict=True))
    assert all(np.abs(slope).max() > 0.1 for slope in slopes)


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_steps_go_down_autograds_slope_one_after_another(log: Interactions, given: dict[str, Any]) -> None:
    settings = settings_for(engine="native", **given)
    tables = rows_for(log, settings)
    drawn, order = triples_of(log, settings, 60), np.random.default_rng(1).permutation(60).astype(np.int32)
    objective, loss = (make(log, settings) for make in (native, oracle))
    slow = [table.astype(np.float64) for table in tables]
    first = [table.copy() for table in slow]
    total = 0.0
    for m, at in enumerate(order):
        slopes, lost = autograd(loss, slow, drawn[:, at : at + 1])
        total += lost
        for table, slope in zip(slow, slopes[:2], strict=True):
            table -= LR * slope
        for own, slope in zip(loss.parameters(), slopes[2:], strict=True):  # one triple in a few moves them
            own.data -= (m % BRANCH_EVERY == 0) * BRANCH_RATE * LR * torch.from_numpy(slope)
    recorded = objective.step(0, tables, as_triples(drawn), order, LR)
    assert_rows(list(tables), slow)
    assert recorded == (pytest.approx(total, rel=1e-4), 60)
    assert all(np.abs(table - old).max() > 0.05 for table, old in zip(slow, first, strict=True))
    if isinstance(settings.method, MACR):
        assert np.allclose(objective._copies[0], loss.branches.detach().numpy(), atol=1e-5)


def native(log: Interactions, settings: Settings) -> Objective:
    return settings.method.native(log, settings, 1)


def oracle(log: Interactions, settings: Settings) -> torch.nn.Module:
    return settings.method.torch(log, settings).double()


def test_a_bpr_step_by_hand() -> None:
    # p = (1, 0), s_i = 0, s_j = 0: the slope is 1/2, so with lr 1 each item moves by half of p
    tables = Tables(np.array([[2, 0]], np.float32), np.array([[0, 4], [0, 2]], np.float32))
    none = Tables(*np.zeros((2, 0, 4, 2), np.float32))
    triple = as_triples(np.array([[0], [0], [1]], np.int32))
    rates = np.float32(1.0), np.float32(0.0)
    loss, _ = walk(tables, None, triple, triple.order, rates, (False, True), none, 1, np.zeros(0, np.float32))
    assert loss == pytest.approx(np.log(2))
    assert np.allclose(tables.users, [[2, 0.5]])  # (2 - 1) / |P| along the second axis
    assert np.allclose(tables.items, [[0.5, 4], [-0.5, 2]])


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize(("loss", "normalised"), VARIANTS)
def test_the_ledger_by_hand(log: Interactions, loss: str, normalised: bool, engine: str) -> None:
    settings = settings_for(engine="native", loss=loss, normalised=normalised)
    tables, drawn = rows_for(log, settings), triples_of(log, settings, 50)
    expected = Tables(*(np.zeros((len(table), 4, settings.dim)) for table in tables))
    for u, i, j in drawn.T:
        P, A, B = (row.astype(np.float64) for row in (tables.users[u], tables.items[i], tables.items[j]))
        p = P / np.linalg.norm(P) if normalised else P
        s_i, s_j = p @ A, p @ B
        g_i, g_j = (
            (1 / (1 + np.exp(s_i)), 1 / (1 + np.exp(-s_j))) if loss == "bce" else [1 / (1 + np.exp(s_i - s_j))] * 2
        )
        for rows, which, sums in (
            (expected.items[i], (PULL, PULL_SLOPE), (p, g_i * p)),
            (expected.items[j], (PUSH, PUSH_SLOPE), (p, g_j * p)),
            (expected.users[u], (PULL, PUSH, PULL_SLOPE, PUSH_SLOPE), (A, B, g_i * A, g_j * B)),
        ):
            rows[list(which)] += sums
    if engine == "native":
        objective = native(log, settings)
        into = Tables(*(np.zeros_like(table) for table in tables))
        objective.step(0, tables, as_triples(drawn), np.arange(50, dtype=np.int32), -1.0, into)
        ledger = objective.model(tables, 50, 50, copy=True).ledger
    else:
        trainee = begin(start_of(log, settings_for(loss=loss, normalised=normalised)))
        trainee._users, trainee._items = (torch.from_numpy(table.copy()) for table in tables)
        trainee.step(torch.from_numpy(drawn).long(), LR)
        ledger = trainee.model().ledger
    np.testing.assert_allclose(ledger.items, expected.items, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ledger.users, expected.users, rtol=1e-5, atol=1e-5)


def test_the_ledger_records_every_nth_triple_and_no_other() -> None:
    # one item pair and one user for each triple; the k-th triple's row is recorded if k % 3 == 0
    n, dim = 10, 4
    ix, order = np.arange(n, dtype=np.int32), np.random.default_rng(0).permutation(n).astype(np.int32)
    tables = Tables(np.ones((n, dim), np.float32), np.ones((2 * n, dim), np.float32))
    sums = Tables(np.zeros((n, 4, dim), np.float32), np.zeros((2 * n, 4, dim), np.float32))
    triples = Triples(ix, ix, ix + np.int32(n), order, np.zeros(1, np.int64))
    rates = np.float32(0.1), np.float32(0.1)
    _, recorded = walk(tables, None, triples, order, rates, (False, True), sums, 3, np.zeros(0, np.float32))
    expected = sorted(order[[0, 3, 6, 9]])
    assert recorded == 4
    assert np.flatnonzero(sums.users[:, PULL].any(axis=1)).tolist() == expected
    assert np.flatnonzero(sums.items[:, PULL].any(axis=1)).tolist() == expected
    assert np.flatnonzero(sums.items[:, PUSH].any(axis=1)).tolist() == [n + at for at in expected]
    assert np.allclose(sums.items[expected, PULL], 0.5)  # p of (1, 1, 1, 1)
    assert np.allclose(sums.items[expected, PULL_SLOPE], 0.25)  # slope 1/2 of equal scores


# --- the distance correlation ---


def test_the_distance_correlation_and_its_slope() -> None:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(40, 5)).astype(np.float32)
    y = (x[:, :4] ** 2 + draw.normal(size=(40, 4))).astype(np.float32)
    value, along_x, along_y = distance_correlation(x, y)
    # as defined: every pair, centred by row, column and all
    a, b = (np.sqrt(((r[:, None] - r) ** 2).sum(-1)) for r in (x.astype(np.float64), y.astype(np.float64)))
    a, b = (d - d.mean(0) - d.mean(1)[:, None] + d.mean() for d in (a, b))
    expected = np.sqrt((a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean()))
    assert value == pytest.approx(expected, rel=1e-5)
    X, Y = (torch.tensor(rows, dtype=torch.float64, requires_grad=True) for rows in (x, y))
    by_autograd = torch_correlation(X, Y)
    by_autograd.backward()
    assert value == pytest.approx(by_autograd.item(), rel=1e-5)
    assert np.allclose(along_x, X.grad.numpy(), atol=1e-6) and np.allclose(along_y, Y.grad.numpy(), atol=1e-6)
    assert np.abs(along_x).max() > 1e-3
    assert np.isfinite(distance_correlation(np.repeat(x[:1], 9, axis=0), y[:9])[1]).all()  # all rows equal


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_dcor_separates_the_halves(backbone: str, split: Split) -> None:
    given = {"backbone": backbone, "dim": 8, "epochs": 6, "threads": 2, "check_every": 6, "lr": 0.02}
    found = {}
    for penalty in (0.0, 0.3):
        run = train(split, method=DICE(discrepancy="dcor", penalty=penalty), **given)
        x, y = np.split(run.embeddings.item_vectors, 2, axis=1)
        found[penalty] = distance_correlation(x, y)[0]
    assert found[0.3] < 0.9 * found[0.0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "backbone"),
    [(m.name, backbone) for m in METHODS for backbone in ("mf", "lightgcn") if backbone != "mf" or not m.needs_graph],
)
def test_every_method_trains_with_torch(world: World, name: str, backbone: str, device: str) -> None:
    split = split_intervened(world.log)
    given = {"dim": 8, "epochs": 2, "check_every": 2, "batch": 512, "ledger_every": 1, "lr": 0.05, "initial_scale": 0.3}
    run = train(split, method=name, backbone=backbone, engine="torch", device=device, **given)
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    tune(run, split, point="gain")


# --- negatives of clearly different popularity ---


class Contrasted(DICE):
    """DICE with the contrast of the test, whatever the epoch."""

    def negatives(self, epoch: int) -> Contrast:
        return Contrast(self.margin, self.pool)


@pytest.mark.parametrize("engine", ["native", *DEVICES])
def test_contrast_draws_what_is_clearly_more_or_less_popular(engine: str) -> None:
    log = random_log(200, 90, np.geomspace(0.6, 0.01, 90), seed=2)
    counts, margin, pool = log.item_counts, 12.0, 10.0
    method = Contrasted(margin=margin, pool=pool)
    start = Start(log, Settings(method=method, sampling="interactions", negatives=2, engine="torch"))
    if engine == "native":
        drawn = TripleSampler(start, threads=1).epoch(0)[0]
        n = drawn.block_starts[-1]
        users, items, negatives = drawn.users[:n], drawn.items[:n], drawn.negatives[:n]
    else:
        users, items, negatives = DeviceSampler(start, torch.device(engine)).epoch(Contrast(margin, pool)).cpu().numpy()
    touched = np.zeros((200, 90), dtype=bool)
    touched[log.user_ix, log.item_ix] = True
    assert touched[users, items].all() and not touched[users, negatives].any()
    assert len(users) == 2 * len(log)
    own, other = counts[items], counts[negatives]
    more, less = other > own + margin, other < own / 2
    above = np.array([(counts > count + margin).sum() for count in own]) >= pool
    below = np.array([(counts < count / 2).sum() for count in own]) >= pool
    assert (above & below).sum() > 300 and (above & ~below).any() and (~above & below).any()
    # the few that fall elsewhere have touched all of their side (the native sampler leaves those out)
    assert (more | less)[above | below].mean() > (0.999 if engine == "native" else 0.98)
    assert less[~above & below].mean() > 0.98
    assert abs(more[above & below].mean() - 0.5) < 0.08


def test_threads_keep_contrasting_negatives_in_their_block() -> None:
    log = random_log(60, 80, np.geomspace(0.6, 0.03, 80), seed=4)
    sampler = TripleSampler(Start(log, Settings(method=Contrasted(margin=4.0, pool=10.0))), threads=2)
    for epoch in range(5):
        drawn = sampler.epoch(epoch)
        for turn in range(2):
            rows = [
                {*t.items[t.block((part + turn) % 2)], *t.negatives[t.block((part + turn) % 2)]}
                for part, t in enumerate(drawn)
            ]
            assert not rows[0] & rows[1]


# --- IPS, MACR, CausE ---


def test_the_variants_of_ips() -> None:
    counts = np.array([100, 50, 10, 4, 1])
    assert IPS(1, clip=1, normalised=False).weights(counts) == pytest.approx([1, 2, 10, 25, 100])
    assert IPS(1, normalised=False).weights(counts) == pytest.approx([1, 2, 10, 10, 10])
    assert IPS(1, clip=1).weights(counts) == pytest.approx([0.01, 0.02, 0.1, 0.25, 1])
    assert IPS(1).weights(counts) == pytest.approx([0.1, 0.2, 1, 1, 1])
    assert IPS(power=0.5, clip=1, normalised=False).weights(counts) == pytest.approx([1, 2**0.5, 10**0.5, 5, 10])
    assert IPS(power=0).weights(counts) == pytest.approx(np.ones(5))
    assert np.isfinite(IPS().weights(np.array([3, 0]))).all()


def test_macr_has_a_fast_sigmoid() -> None:
    x = np.concatenate([np.linspace(-40, 40, 200_001), np.linspace(-1e-3, 1e-3, 101)]).astype(np.float32)
    found = np.array([sigmoid(value) for value in x])
    assert np.abs(found - 1 / (1 + np.exp(-x.astype(np.float64)))).max() < 3e-7
    assert found.min() >= 0 and found.max() <= 1


def test_macr_vectors_rank_by_its_formula(split: Split) -> None:
    """(s - c) z_u z_i, whatever c: the strength is c over the mean best score."""
    trainee = MatrixFactorisation(Start(split.train, Settings(method="macr", dim=8, initial_scale=0.6, threads=1)))
    trainee.epoch(0.1)
    model = trainee.model()
    users, items = (table.astype(np.float64) for table in trainee._tables)
    w_user, w_item = trainee._objective._branches.astype(np.float64)
    z_u, z_i = 1 / (1 + np.exp(-users @ w_user)), 1 / (1 + np.exp(-items @ w_item))
    scores = users @ items.T
    unit = np.abs(scores.max(axis=1)).mean()
    run = train(split, method="macr", dim=8, epochs=2, check_every=2, threads=1)
    adjustment = tune(run, split, point="gain")
    for strength in (0.0, 0.7, 2.0):
        expected = (scores - strength * unit) * z_u[:, None] * z_i
        ours = adjustment.query(model.embeddings.user_vectors, 0.0, strength) @ model.embeddings.item_vectors.T
        assert np.allclose(ours * z_u[:, None], expected, atol=1e-4)


def test_cause_says_how_to_make_the_split_it_needs(split: Split) -> None:
    with pytest.raises(InputError, match=r"CausE.*drawn by intervention.*split_intervened.*--protocol intervened"):
        train(split, method="cause", epochs=1)


def test_a_refit_of_cause_counts_validation_as_intervened(world: World) -> None:
    known = split_intervened(world.log, ordinary=0.05).development
    again, mask = known.refit_train(), known.refit_intervened()
    assert mask.sum() == known.intervened.sum() + len(known.valid)
    keys = set((again.user_ix[mask].astype(np.int64) * again.n_items + again.item_ix[mask]).tolist())
    assert set((known.valid.user_ix.astype(np.int64) * again.n_items + known.valid.item_ix).tolist()) <= keys
    run = train(known, method="cause", epochs=2, check_every=2, dim=8, refit=True)
    assert run.refit.embeddings.item_vectors.shape == (world.log.n_items, 8)


@pytest.mark.parametrize("dim", [3, 48])
def test_the_penalty_of_cause_is_a_mean_over_the_width(dim: int, log: Interactions) -> None:
    """Control vectors all 2, treatment vectors all 5: each item of a triple costs penalty x 9, at any width."""
    settings = settings_for(method=CausE(0.5), dim=dim, reg=0.0)
    loss = settings.method.torch(log, settings)
    users = torch.zeros(log.n_users, dim)
    items = torch.cat([torch.full((log.n_items, dim), 2.0), torch.full((log.n_items, dim), 5.0)])
    total, losses = loss(users, items, torch.tensor([[0, 1], [3, 4], [7, 8]]))
    assert (total - losses.sum()).item() == pytest.approx(2 * 2 * 0.5 * 9, rel=1e-5)


def test_treated_rows_teach_only_the_second_vectors() -> None:
    log = make_log([(0, 0), (0, 1), (1, 2), (1, 3), (2, 0), (2, 3)], 3, 40)
    treated = np.array([True, False, False, False, False, True])
    settings = Settings(method=CausE(penalty=0.0), reg=0.0, dim=4, threads=1, sampling="interactions")
    trainee = MatrixFactorisation(Start(log, settings, treated))
    before = trainee._tables.items.copy()
    assert np.array_equal(before[:40], before[40:])
    trainee.epoch(0.1)
    moved = (trainee._tables.items != before).any(axis=1)
    assert moved[[0, 1, 2, 3]].all() and moved[[40, 43]].all()  # the rows of item 0: (2, 0), and (0, 0) treated
    assert 2 < moved[40:].sum() <= 4  # two positives and their negatives


# --- settings ---


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "dice", "loss": "bce"}, "the loss of dice must be bpr, got 'bce'"),
        ({"method": "macr", "loss": "bpr"}, "the loss of macr must be bce, got 'bpr'"),
        ({"method": "dice", "dim": 7}, "dim must be even"),
        ({"method": "dice", "negative_power": 0.5}, "dice draws its negatives by its own rule"),
        ({"method": "macr", "ledger": True}, "macr supports neither normalised users nor a ledger"),
        ({"method": "dice", "encoder": torch.nn.Identity()}, "dice cannot train an encoder of your own"),
        ({"method": 7}, "method must be a name or a Method value, got 7"),
    ],
)
def test_wrong_settings_of_methods_are_refused(split: Split, settings: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        train(split, epochs=1, **settings)


@pytest.mark.parametrize(
    ("method", "given", "sentence"),
    [
        ("dice", {"margins": 3}, "'margins' is not an option of dice; it has weight, margin"),
        ("plain", {"power": 1}, "'power' is not an option of plain; it has none"),
        ("ips", {"clip": 2.0}, "clip of ips is a quantile"),
        ("ips", {"power": -1.0}, "power of ips must be a finite number of at least 0, got -1.0"),
        ("dice", {"discrepancy": "l3"}, "discrepancy of dice must be one of dcor, l1, l2, got 'l3'"),
        ("dice", {"decay": 1.5}, "decay of dice must be at most 1"),
        ("macr", {"item_weight": "much"}, "item_weight of macr must be a finite number"),
    ],
)
def test_wrong_options_are_refused(method: str, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make_method(method, given)


def test_a_method_may_be_a_value(split: Split) -> None:
    run = train(split, method=DICE(margin=5), dim=8, epochs=1)
    assert run.settings["method"] == "dice" and run.settings["options"]["margin"] == 5


# --- methods from outside ---


@dataclass(frozen=True)
class Hinge(Method):
    """As a notebook would have it: a loss, and nothing else."""

    name: ClassVar[str] = "hinge"
    margin: float = 1.0

    def loss_of(self, users: torch.Tensor, seen: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
        return (self.margin - (users * (seen - negatives)).sum(1)).relu()


@dataclass(frozen=True)
class Nothing(Method):
    name: ClassVar[str] = "nothing"


def test_a_loss_is_enough_for_a_method(log: Interactions) -> None:
    """One step goes down the slope of the loss that was written, and of nothing else."""
    settings = Settings(method=Hinge(0.8), dim=6, initial_scale=0.5, reg=0.01)
    assert (settings.engine, settings.loss, settings.keeps_ledger) == ("torch", "own", False)
    trainee = begin(Start(log, settings))
    P, Q = (table.numpy().astype(np.float64) for table in trainee.vectors())
    triples = triples_of(log, settings, 15, distinct=True)
    losses = trainee.step(torch.from_numpy(triples).long(), LR).numpy()
    for u, i, j in triples.T:
        inside = 0.8 - P[u] @ (Q[i] - Q[j]) > 0
        p, a, b = P[u].copy(), Q[i].copy(), Q[j].copy()
        P[u] -= LR * (0.01 * p - inside * (a - b))
        Q[i] -= LR * (0.01 * a - inside * p)
        Q[j] -= LR * (0.01 * b + inside * p)
    assert 0 < (losses > 0).sum() < 15
    for mine, expected in zip(trainee.vectors(), (P, Q), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), expected, atol=1e-6)


def test_a_method_without_mathematics_for_the_engine_is_refused(split: Split) -> None:
    with pytest.raises(InputError, match="hinge has no mathematics for engine native; train it with engine torch"):
        train(split, method=Hinge(), engine="native")
    with pytest.raises(InputError, match=r"nothing has no mathematics for engine torch: it must define loss_of"):
        train(split, method=Nothing())
    with pytest.raises(InputError, match="backbone bare has no engine torch"):
        Backbone("bare", "bare", {}).begin(Start(split.train, Settings(engine="torch")))


def test_a_new_loss_replaces_what_a_built_in_method_has_for_every_engine(split: Split) -> None:
    @dataclass(frozen=True)
    class Other(Plain):
        name: ClassVar[str] = "other"
        loss_of = Hinge.loss_of
        margin: float = 0.5

    @dataclass(frozen=True)
    class Same(Plain):
        name: ClassVar[str] = "same"

    assert Settings(method=Other()).engine == "torch" and Settings(method=Same()).engine == "native"
    same = {"dim": 4, "epochs": 1, "lr": 0.2, "reg": 0.0, "initial_scale": 0.1}
    own, hinge = (train(split, method=method, **same) for method in (Other(), Hinge(0.5)))
    assert own.history[0]["loss"] == hinge.history[0]["loss"]
    with pytest.raises(InputError, match="other has no mathematics for engine native"):
        train(split, method=Other(), engine="native")


def test_mistakes_in_a_method_of_ones_own_are_named(split: Split) -> None:
    class Mean(Hinge):
        def loss_of(self, *rows: torch.Tensor) -> torch.Tensor:
            return super().loss_of(*rows).mean()

    class Recorded(Hinge):
        keeps_ledger: ClassVar[bool] = True

    class Contrasted(Hinge):
        def negatives(self, epoch: int) -> Contrast:
            return Contrast(1.0, 2.0)

    class Nameless(Method):
        pass

    for backbone in ("mf", "lightgcn"):
        with pytest.raises(InputError, match=r"loss_of of hinge must return one number for each of the .* got shape"):
            train(split, method=Mean(), backbone=backbone, epochs=1)
    with pytest.raises(InputError, match="hinge supports neither normalised users nor a ledger"):
        train(split, method=Recorded(), epochs=1)
    with pytest.raises(InputError, match="hinge draws its negatives by its own rule"):
        train(split, method=Contrasted(), negative_power=1.0, epochs=1)
    with pytest.raises(InputError, match=r"a method needs a name.*Nameless has none"):
        Nameless()
