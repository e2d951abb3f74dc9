"""The baselines: kernels against slopes taken numerically, torch against the kernels, and their own rules."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from builders import make_log, random_log
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.kernels import cause, dice, macr, twins
from counterpop.kernels.threads import crew
from counterpop.splits import Split, split_intervened
from counterpop.training import Settings, train
from counterpop.training.device.lightgcn import LightGCN as TorchLightGCN
from counterpop.training.device.losses import distance_correlation as torch_correlation
from counterpop.training.device.sampling import DeviceSampler
from counterpop.training.device.trainees import DeviceEncoder, DeviceTables
from counterpop.training.discrepancy import distance_correlation
from counterpop.training.lightgcn import LightGCN
from counterpop.training.methods import DICE, IPS, MACR, CausE, Options, read_options
from counterpop.training.mf import MatrixFactorisation
from counterpop.training.sampling import Triples, TripleSampler
from counterpop.tuning import tune
from counterpop.worlds import World

N_USERS, N_ITEMS, DIM, N, REG = 6, 8, 6, 40, 0.01
LR = 0.05
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


class Case:
    """Rows, triples and popularity that every kernel is run on; users and items repeat."""

    def __init__(self, copies: int = 1) -> None:
        draw = np.random.default_rng(7)
        self.rows = [draw.normal(size=(n, DIM)).astype(np.float32) for n in (N_USERS, copies * N_ITEMS)]
        self.branches = draw.normal(size=(2, DIM)).astype(np.float32)
        self.users = draw.integers(N_USERS, size=N, dtype=np.int32)
        self.items = draw.integers(N_ITEMS, size=N, dtype=np.int32)
        self.negatives = ((self.items + draw.integers(1, N_ITEMS, size=N)) % N_ITEMS).astype(np.int32)
        shift = np.int32(N_ITEMS) * draw.integers(copies, size=N, dtype=np.int32)
        self.items, self.negatives = self.items + shift, self.negatives + shift
        self.order = draw.permutation(N).astype(np.int32)
        self.counts = draw.permutation(N_ITEMS).astype(np.int64)

    @property
    def triples(self) -> tuple[np.ndarray, ...]:
        return self.users, self.items, self.negatives, self.order


def descend(case: Case, loss_of: Any, rows_of: Any, lr: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The rows after one numerical step for each triple, and the slopes of all triples at the first rows."""
    first = [rows.astype(np.float64) for rows in case.rows]
    moved, summed = [rows.copy() for rows in first], [np.zeros_like(rows) for rows in first]
    for at in case.order:
        places = rows_of(case.users[at], case.items[at], case.negatives[at])
        loss = loss_of(case.items[at], case.negatives[at])
        for tables, steps in ((moved, True), (first, False)):
            found = twins.slopes(loss, [tables[table][row] for table, row in places])
            for (table, row), slope in zip(places, found, strict=True):
                if steps:
                    moved[table][row] -= lr * slope
                else:
                    summed[table][row] += slope
    return moved, summed


def assert_rows(kernel: list[np.ndarray], twin: list[np.ndarray]) -> None:
    for mine, slow in zip(kernel, twin, strict=True):
        assert np.allclose(mine, slow, rtol=2e-4, atol=2e-4 * np.abs(slow).max())


def three(u: int, i: int, j: int) -> list[tuple[int, int]]:
    return [(0, u), (1, i), (1, j)]


# --- kernels and their twins ---


@pytest.mark.parametrize("kind", [dice.NONE, dice.L1, dice.L2])
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_dice_goes_down_its_slope(kind: int, weight: float) -> None:
    case, f = Case(), np.float32

    def loss_of(i: int, j: int) -> Any:
        more = bool(case.counts[j] > case.counts[i])
        return partial(twins.dice_loss, more=more, weight=weight, kind=kind, push=0.3, reg=REG)

    moved, summed = descend(case, loss_of, three, LR)
    rows = [rows.copy() for rows in case.rows]
    given = f(REG), case.counts, f(weight), kind, f(0.3), 1
    loss, recorded = dice.step_triples(*rows, *case.triples, f(LR), *given)
    assert_rows(rows, moved)
    gradient = [np.zeros_like(table) for table in case.rows]
    total, _ = dice.pull_triples(*case.rows, *case.triples, *given, *gradient)
    assert_rows(gradient, summed)
    bare = sum(
        twins.dice_loss(
            *(case.rows[t][r].astype(np.float64) for t, r in three(u, i, j)),
            bool(case.counts[j] > case.counts[i]),
            weight,
            dice.NONE,
            0.0,
            0.0,
        )
        for u, i, j in zip(case.users, case.items, case.negatives, strict=True)
    )
    assert total == pytest.approx(bare, rel=1e-5) and recorded == N and loss != total


@pytest.mark.parametrize(("item_weight", "user_weight"), [(0.0, 0.0), (0.4, 0.2)])
def test_macr_goes_down_its_slope(item_weight: float, user_weight: float) -> None:
    case, f = Case(), np.float32
    w_user, w_item = case.branches.astype(np.float64)
    weights = {"item_weight": item_weight, "user_weight": user_weight}

    def loss_of(i: int, j: int) -> Any:
        return partial(twins.macr_loss, w_user=w_user, w_item=w_item, reg=REG, **weights)

    moved, summed = descend(case, loss_of, three, LR)
    rows, still = [rows.copy() for rows in case.rows], case.branches.copy()
    given = f(item_weight), f(user_weight), 1
    macr.step_triples(*rows, *case.triples, f(LR), f(REG), *still, f(0.0), 1, *given)
    assert_rows(rows, moved)
    gradient = [np.zeros_like(table) for table in case.rows]
    at_branches = np.zeros_like(case.branches)
    total, _ = macr.pull_triples(*case.rows, *case.triples, f(REG), *case.branches, *given, *gradient, *at_branches)
    assert_rows(gradient, summed)
    slope, expected = np.zeros_like(at_branches, dtype=np.float64), 0.0
    for u, i, j in zip(case.users, case.items, case.negatives, strict=True):
        P, A, B = (case.rows[t][r].astype(np.float64) for t, r in three(u, i, j))
        loss = lambda a, b, P=P, A=A, B=B: twins.macr_loss(P, A, B, a, b, reg=0.0, **weights)  # noqa: E731
        slope += twins.slopes(loss, [w_user, w_item])
        expected += loss(w_user, w_item)
    assert np.allclose(at_branches, slope, rtol=1e-4, atol=1e-4)
    assert total == pytest.approx(expected, rel=1e-5)
    # in MF one triple in so many moves the two vectors
    rows, moving = [rows.copy() for rows in case.rows], case.branches.copy()
    macr.step_triples(*rows, *case.triples, f(0.0), f(0.0), *moving, f(1.0), N + 1, *given)
    u, i, j = (part[case.order[0]] for part in (case.users, case.items, case.negatives))
    P, A, B = (case.rows[t][r].astype(np.float64) for t, r in three(u, i, j))
    loss = lambda a, b: twins.macr_loss(P, A, B, a, b, reg=0.0, **weights)  # noqa: E731
    assert np.allclose(moving - case.branches, -np.array(twins.slopes(loss, [w_user, w_item])), atol=1e-5)


@pytest.mark.parametrize("bce", [False, True])
def test_cause_goes_down_its_slope(bce: bool) -> None:
    case, f = Case(copies=2), np.float32
    assert (case.items >= N_ITEMS).any() and (case.items < N_ITEMS).any()

    def loss_of(i: int, j: int) -> Any:
        return partial(twins.cause_loss, bce=bce, penalty=0.2, reg=REG)

    def five(u: int, i: int, j: int) -> list[tuple[int, int]]:
        return [*three(u, i, j), (1, (i + N_ITEMS) % (2 * N_ITEMS)), (1, (j + N_ITEMS) % (2 * N_ITEMS))]

    moved, summed = descend(case, loss_of, five, LR)
    rows = [rows.copy() for rows in case.rows]
    cause.step_triples(*rows, *case.triples, f(LR), f(REG), bce, f(0.2), 1)
    assert_rows(rows, moved)
    # in LightGCN treated triples have a second row of the user; the two together are the one of MF
    users = np.concatenate([case.rows[0]] * 2)
    gradient = [np.zeros_like(users), np.zeros_like(case.rows[1])]
    cause.pull_triples(users, case.rows[1], *case.triples, f(REG), bce, f(0.2), 1, *gradient)
    assert_rows([gradient[0][:N_USERS] + gradient[0][N_USERS:], gradient[1]], summed)
    assert gradient[0][N_USERS:].any() and gradient[0][:N_USERS].any()


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
    assert np.allclose(along_x, X.grad, atol=1e-6) and np.allclose(along_y, Y.grad, atol=1e-6)
    assert np.abs(along_x).max() > 1e-3
    assert np.isfinite(distance_correlation(np.repeat(x[:1], 9, axis=0), y[:9])[1]).all()  # all alike


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_dcor_drives_the_halves_apart(backbone: str, split: Split) -> None:
    found = {}
    for penalty in (0.0, 0.3):
        run = train(
            split,
            method=DICE(discrepancy="dcor", penalty=penalty),
            backbone=backbone,
            dim=8,
            epochs=6,
            threads=2,
            check_every=6,
            lr=0.02,
        )
        x, y = np.split(run.embeddings.item_vectors, 2, axis=1)
        found[penalty] = distance_correlation(x, y)[0]
    assert found[0.3] < 0.9 * found[0.0]


# --- native and torch take the same steps ---

METHODS: list[Options] = [
    IPS(power=0.5),
    CausE(penalty=0.2),
    DICE(weight=0.5),
    DICE(discrepancy="l2", penalty=0.3),
    MACR(item_weight=0.2, user_weight=0.1),
]


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


def some_triples(log: Interactions, treated: bool, apart: bool) -> np.ndarray:
    """(3, n) triples; apart: each user and item at most once. Every other one treated, where asked for."""
    draw = np.random.default_rng(5)
    n = 15 if apart else 80
    users = draw.permutation(log.n_users)[:n] if apart else draw.integers(log.n_users, size=n)
    items = draw.permutation(log.n_items)[: 2 * n] if apart else draw.integers(log.n_items, size=2 * n)
    shift = np.where(np.arange(n) % 2, log.n_items if treated else 0, 0)
    return np.stack([users, items[:n] + shift, items[n:] + shift]).astype(np.int32)


def settings_for(method: Options, device: str = "cpu", **given: Any) -> Settings:
    usual = {"dim": 12, "initial_scale": 0.7, "reg": 0.02, "ledger_every": 1, "lr": LR}
    return Settings(method=method.name, options=method, device=device, **usual | given)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_steps_of_mf_are_the_same_with_torch(log: Interactions, method: Options, device: str) -> None:
    treated = np.arange(len(log)) % 2 == 0 if method.name == "cause" else None
    triples = some_triples(log, treated is not None, apart=True)[:, : 1 if method.name == "macr" else None]
    native = MatrixFactorisation(log, settings_for(method), treated)
    order = np.arange(triples.shape[1], dtype=np.int32)
    first = native.model().embeddings
    loss, _ = native._objective.step(
        0, native._users, native._items, Triples(*triples, order, np.zeros(1, np.int64)), order, LR
    )
    other = DeviceTables(log, settings_for(method, device, engine="torch"), treated)
    losses = other.step(torch.from_numpy(triples).long().to(device), LR)
    for mine, theirs in zip((native._users, native._items), other.vectors(), strict=True):
        assert np.allclose(mine, theirs.detach().cpu().numpy(), atol=1e-5)
    assert float(losses.sum()) == pytest.approx(loss, rel=1e-4)
    assert np.abs(native.model().embeddings.user_vectors - first.user_vectors).max() > 1e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_steps_of_lightgcn_are_the_same_with_torch(log: Interactions, method: Options, device: str) -> None:
    treated = np.arange(len(log)) % 3 == 0 if method.name == "cause" else None
    triples = some_triples(log, treated is not None, apart=False)
    given = {"backbone": "lightgcn", "layers": 2}
    native = LightGCN(log, settings_for(method, threads=2, **given), treated)
    order = np.arange(triples.shape[1], dtype=np.int32)
    settings = settings_for(method, device, engine="torch", **given)
    other = DeviceEncoder(TorchLightGCN(log, settings, treated), log, settings, False, treated)
    first = other.model().embeddings
    with crew(native._threads) as together:
        for _ in range(3):
            native.encode(together)
            native.pull(Triples(*triples, order, np.zeros(1, np.int64)), order)
            native.move(LR, together)
            other.step(torch.from_numpy(triples).long().to(device))
    mine, theirs = native.model().embeddings, other.model().embeddings
    assert np.allclose(mine.user_vectors, theirs.user_vectors, atol=2e-5)
    assert np.allclose(mine.item_vectors, theirs.item_vectors, atol=2e-5 * np.abs(mine.item_vectors).max())
    assert np.abs(theirs.item_vectors - first.item_vectors).max() > 1e-2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
@pytest.mark.parametrize("name", ["ips", "cause", "dice", "macr"])
def test_every_method_trains_with_torch(world: World, name: str, backbone: str, device: str) -> None:
    split = split_intervened(world.log)
    run = train(
        split,
        method=name,
        backbone=backbone,
        engine="torch",
        device=device,
        dim=8,
        epochs=2,
        check_every=2,
        batch=512,
        ledger_every=1,
        lr=0.05,
        initial_scale=0.3,
    )
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    tune(run, split)


# --- DICE's negatives ---


@pytest.mark.parametrize("engine", ["native", *DEVICES])
def test_dice_draws_what_is_clearly_more_or_less_popular(engine: str) -> None:
    log = random_log(200, 90, np.geomspace(0.6, 0.01, 90), seed=2)
    counts, margin, pool = log.item_counts, 12.0, 10.0
    given: dict[str, Any] = {"sampling": "interactions", "negatives": 2, "negative_power": 0.0}
    if engine == "native":
        sampler = TripleSampler(log, threads=1, generator=np.random.default_rng(0), **given)
        drawn = sampler.epoch(margin, pool)[0]
        n = drawn.block_starts[-1]
        users, items, negatives = drawn.users[:n], drawn.items[:n], drawn.negatives[:n]
    else:
        on_device = DeviceSampler(log, device=torch.device(engine), seed=0, **given)
        users, items, negatives = on_device.epoch(margin, pool).cpu().numpy()
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


def test_threads_keep_dice_negatives_in_their_block() -> None:
    log = random_log(60, 80, np.geomspace(0.6, 0.03, 80), seed=4)
    sampler = TripleSampler(
        log, sampling="users", negatives=1, negative_power=0.0, threads=2, generator=np.random.default_rng(0)
    )
    for _ in range(5):
        drawn = sampler.epoch(4.0, 10.0)
        for turn in range(2):
            rows = [
                {*t.items[t.block((part + turn) % 2)], *t.negatives[t.block((part + turn) % 2)]}
                for part, t in enumerate(drawn)
            ]
            assert not rows[0] & rows[1]


# --- IPS ---


def test_the_variants_of_ips() -> None:
    counts = np.array([100, 50, 10, 4, 1])
    assert IPS(1, clip=1, normalised=False).weights(counts) == pytest.approx([1, 2, 10, 25, 100])
    assert IPS(1, normalised=False).weights(counts) == pytest.approx([1, 2, 10, 10, 10])
    assert IPS(1, clip=1).weights(counts) == pytest.approx([0.01, 0.02, 0.1, 0.25, 1])
    assert IPS(1).weights(counts) == pytest.approx([0.1, 0.2, 1, 1, 1])
    assert IPS(power=0.5, clip=1, normalised=False).weights(counts) == pytest.approx([1, 2**0.5, 10**0.5, 5, 10])
    assert IPS(power=0).weights(counts) == pytest.approx(np.ones(5))
    assert np.isfinite(IPS().weights(np.array([3, 0]))).all()


# --- MACR ---


def test_macr_vectors_rank_by_its_formula(split: Split) -> None:
    """(s - c) z_u z_i, whatever c: the strength is c over the mean best score."""
    trainee = MatrixFactorisation(split.train, Settings(method="macr", dim=8, initial_scale=0.6, threads=1))
    trainee.epoch(0.1)
    model = trainee.model()
    users, items = trainee._users.astype(np.float64), trainee._items.astype(np.float64)
    w_user, w_item = trainee._objective._branches.astype(np.float64)
    z_u, z_i = 1 / (1 + np.exp(-users @ w_user)), 1 / (1 + np.exp(-items @ w_item))
    scores = users @ items.T
    unit = np.abs(scores.max(axis=1)).mean()
    run = train(split, method="macr", dim=8, epochs=2, check_every=2, threads=1)
    adjustment = tune(run, split)
    for strength in (0.0, 0.7, 2.0):
        expected = (scores - strength * unit) * z_u[:, None] * z_i
        ours = adjustment.query(model.embeddings.user_vectors, 0.0, strength) @ model.embeddings.item_vectors.T
        assert np.allclose(ours * z_u[:, None], expected, atol=1e-4)


# --- CausE ---


def test_cause_says_how_to_make_the_split_it_needs(split: Split) -> None:
    with pytest.raises(InputError, match=r"drawn by intervention.*split_intervened.*--protocol intervened"):
        train(split, method="cause", epochs=1)


def test_a_refit_of_cause_counts_validation_as_intervened(world: World) -> None:
    known = split_intervened(world.log, ordinary=0.05).development
    again, mask = known.refit_train(), known.refit_intervened()
    assert mask.sum() == known.intervened.sum() + len(known.valid)
    keys = set((again.user_ix[mask].astype(np.int64) * again.n_items + again.item_ix[mask]).tolist())
    assert set((known.valid.user_ix.astype(np.int64) * again.n_items + known.valid.item_ix).tolist()) <= keys
    run = train(known, method="cause", epochs=2, check_every=2, dim=8, refit=True)
    assert run.refit.embeddings.item_vectors.shape == (world.log.n_items, 8)


def test_treated_rows_teach_the_second_vectors_alone() -> None:
    log = make_log([(0, 0), (0, 1), (1, 2), (1, 3), (2, 0), (2, 3)], 3, 40)
    treated = np.array([True, False, False, False, False, True])
    trainee = MatrixFactorisation(
        log,
        Settings(method="cause", options=CausE(penalty=0.0), reg=0.0, dim=4, threads=1, sampling="interactions"),
        treated,
    )
    before = trainee._items.copy()
    assert np.array_equal(before[:40], before[40:])
    trainee.epoch(0.1)
    moved = (trainee._items != before).any(axis=1)
    assert moved[[0, 1, 2, 3]].all() and moved[[40, 43]].all()  # the rows of item 0: (2, 0), and (0, 0) treated
    assert 2 < moved[40:].sum() <= 4  # two positives and their negatives


# --- settings ---


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "dice", "loss": "bce"}, "the loss of dice is bpr, got bce"),
        ({"method": "macr", "loss": "bpr"}, "the loss of macr is bce, got bpr"),
        ({"method": "dice", "dim": 7}, "dim must be even"),
        ({"method": "dice", "negative_power": 0.5}, "dice draws its negatives by its own rule"),
        ({"method": "macr", "ledger": True}, "macr has neither normalised users nor a ledger"),
        ({"method": "dice", "encoder": torch.nn.Identity()}, "dice is for mf and lightgcn; your own encoder"),
        ({"method": "ips", "options": MACR()}, "these options are not those of method ips"),
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
        read_options(method, given)


def test_a_method_may_be_a_value(split: Split) -> None:
    run = train(split, method=DICE(margin=5), dim=8, epochs=1)
    assert run.settings["method"] == "dice" and run.settings["options"]["margin"] == 5
