"""The native kernels and torch take the same steps; LightGCN is what it says; encoders are trained."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from builders import make_log, random_log
from counterpop import artifacts
from counterpop.cli import main
from counterpop.directions import find_directions
from counterpop.errors import InputError
from counterpop.interactions import Interactions
from counterpop.kernels.drawing import Triples
from counterpop.kernels.graph import adam
from counterpop.kernels.threads import crew
from counterpop.splits import Development, Split
from counterpop.training import train
from counterpop.training.backbones.contract import Start
from counterpop.training.backbones.lightgcn import LightGCN
from counterpop.training.backbones.mf import MatrixFactorisation
from counterpop.training.device.measuring import directions_of, find_best, search_on_device, stretch_width
from counterpop.training.device.propagation import Smoothed
from counterpop.training.device.trainees import DeviceEncoder, DeviceTables
from counterpop.tuning import search_strengths, tune
from counterpop.worlds import World, taste_recall
from training_cases import BASELINES, LR, SCORES, VARIANTS, assert_same, how_far, settings_for, start_of, triples_of

QUICK = {"dim": 8, "epochs": 4, "check_every": 2, "ledger_every": 1}


@pytest.fixture(scope="module")
def log() -> Interactions:
    return random_log(40, 60, np.linspace(0.5, 0.05, 60))


# --- one step is the same everywhere (a GPU is held to torch's CPU in test_device) ---


CASES = [*SCORES, *BASELINES]


def as_triples(triples: np.ndarray) -> Triples:
    return Triples(*triples, np.arange(triples.shape[1], dtype=np.int32), np.zeros(1, np.int64))


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_one_step_of_mf(log: Interactions, given: dict[str, Any]) -> None:
    """On triples that share no row; the vectors that rank, and the ledger."""
    native = MatrixFactorisation(start_of(log, settings_for(**given | {"engine": "native"})))
    with_torch = DeviceTables(start_of(log, settings_for(**given)))
    one = not with_torch._loss.ranks_as_trained  # MACR's second triple would meet shared vectors that have moved
    triples = triples_of(log, native._settings, 1 if one else 12, distinct=True)
    before = native.model()
    drawn = as_triples(triples)
    native._objective.step(0, native._tables, drawn, drawn.order, LR)
    with_torch.step(torch.from_numpy(triples).long(), LR)
    for mine, theirs in zip(native._tables, with_torch.vectors(), strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), atol=1e-5)
    if not one:
        assert_same(native.model(), with_torch.model())
    assert how_far(native.model(), before) > 1e-3


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize("given", CASES, ids=repr)
def test_three_steps_of_lightgcn(log: Interactions, given: dict[str, Any], layers: int) -> None:
    given = given | {"backbone": "lightgcn", "layers": layers}
    native = LightGCN(start_of(log, settings_for(**given | {"engine": "native", "threads": 2})))
    start = start_of(log, settings_for(**given))
    with_torch = DeviceEncoder(Smoothed(start), start)
    before = with_torch.model()
    triples = triples_of(log, start.settings, 60)
    drawn = as_triples(triples)
    with crew(native._threads) as together:
        for _ in range(3):
            native.encode(together)
            native.add_gradient(drawn, drawn.order)
            native.move(LR, together)
            with_torch.step(torch.from_numpy(triples).long())
    assert_same(native.model(), with_torch.model())
    assert how_far(with_torch.model(), before) > 1e-2


def test_adam_is_torchs() -> None:
    draw = np.random.default_rng(0)
    values, gradients = draw.normal(size=(7, 5)).astype(np.float32), draw.normal(size=(4, 7, 5))
    theirs = torch.nn.Parameter(torch.from_numpy(values.copy()))
    optimiser = torch.optim.Adam([theirs], lr=0.03)
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for step, gradient in enumerate(gradients.astype(np.float32), start=1):
        adam(values, gradient, mean, square, 0.03, step)
        theirs.grad = torch.from_numpy(gradient)
        optimiser.step()
    np.testing.assert_allclose(values, theirs.detach().numpy(), atol=1e-6)


# --- LightGCN is what it says ---


def dense_lightgcn(
    log: Interactions, tables: torch.Tensor, layers: int, kept: np.ndarray | float = 1.0
) -> torch.Tensor:
    """Ten lines that anybody can check, with a matrix of all nodes by all nodes; `kept` weighs each edge."""
    n_users, n = log.n_users, log.n_users + log.n_items
    touched = torch.zeros(n, n, dtype=tables.dtype)
    touched[log.user_ix, log.item_ix + n_users] = 1
    root = (touched + touched.T).sum(1).clamp(min=1).sqrt()
    touched[log.user_ix, log.item_ix + n_users] *= torch.as_tensor(kept, dtype=tables.dtype)
    graph = (touched + touched.T) / root[:, None] / root[None, :]
    powers = [tables]
    for _ in range(layers):
        powers.append(graph @ powers[-1])
    return torch.stack(powers).mean(0)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_vectors_are_those_of_the_dense_reference(log: Interactions, layers: int, threads: int) -> None:
    settings = settings_for(engine="native", backbone="lightgcn", layers=layers, threads=threads)
    trainee = LightGCN(Start(log, settings))
    expected = dense_lightgcn(log, torch.from_numpy(trainee._tables.copy()).double(), layers).numpy()
    found = trainee.model().embeddings
    np.testing.assert_allclose(found.user_vectors, expected[: log.n_users], atol=1e-6)
    np.testing.assert_allclose(found.item_vectors, expected[log.n_users :], atol=1e-6)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("loss", "normalised"), VARIANTS)
def test_the_gradient_is_autograds(log: Interactions, loss: str, normalised: bool, layers: int, dropout: float) -> None:
    """At the tables, through the dense reference."""
    given = {"layers": layers, "loss": loss, "normalised": normalised, "threads": 2, "edge_dropout": dropout}
    settings = settings_for(engine="native", backbone="lightgcn", **given)
    trainee, triples = LightGCN(Start(log, settings)), triples_of(log, settings, 60)
    drawn = as_triples(triples)
    with crew(trainee._threads) as together:
        trainee.encode(together)
        trainee.add_gradient(drawn, drawn.order)
        trainee._propagate(trainee._gradient, trainee._gradient, trainee._vectors, together)
    kept = trainee._kept / (1 - dropout) if dropout else 1.0  # what is left makes up for what is not
    values = torch.from_numpy(trainee._tables.astype(np.float64)).requires_grad_()
    vectors = dense_lightgcn(log, values, layers, kept)
    batch = settings.method.torch(log, settings).double()
    batch(vectors[: log.n_users], vectors[log.n_users :], torch.from_numpy(triples).long())[0].backward()
    expected = values.grad.numpy()
    np.testing.assert_allclose(trainee._gradient, expected, atol=4e-6)
    assert np.abs(expected).max() > 0.1
    assert not dropout or 0.5 < trainee._kept.mean() < 0.7


def test_edges_dropped_with_torch(log: Interactions) -> None:
    """The same seed drops the same edges, a share of them, both ways alike."""
    settings = settings_for(backbone="lightgcn", layers=1, edge_dropout=0.3, seed=3)
    before = torch.get_rng_state()
    modules = [Smoothed(Start(log, settings)).train() for _ in range(2)]
    for _ in range(3):
        first, again = (torch.cat(module()) for module in modules)
        assert torch.equal(first, again)
    assert torch.equal(before, torch.get_rng_state())
    root = np.sqrt(np.concatenate([log.user_counts, log.item_counts]))
    one = torch.eye(log.n_users + log.n_items)
    modules[0].tables = torch.nn.Parameter(one)
    graph = 2 * torch.cat(modules[0]()).detach().numpy() - one.numpy()
    u, i = log.user_ix, log.item_ix + log.n_users
    weights = graph[u, i] * root[u] * root[i]
    np.testing.assert_allclose(graph, graph.T, atol=1e-6)
    np.testing.assert_allclose(np.unique(weights.round(4)), [0.0, 1 / 0.7], atol=1e-3)
    assert 0.6 < np.mean(weights > 0) < 0.8


def test_every_triple_is_taken_once(log: Interactions) -> None:
    """With three threads, each meets each block of items once in every step."""
    settings = settings_for(engine="native", backbone="lightgcn", threads=3, sampling="interactions")
    trainee = LightGCN(Start(log, settings))
    trainee.epoch(LR)
    assert trainee._threads == 3 and trainee._recorded == trainee._triples == len(log)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_triple_in_fifty_is_recorded(split: Split, threads: int) -> None:
    """However many threads, blocks and batches an epoch is cut into."""
    settings = settings_for(engine="native", backbone="lightgcn", threads=threads, ledger_every=50)
    trainee = LightGCN(Start(split.train, settings))
    trainee.epoch(LR)
    assert abs(trainee._recorded - trainee._triples / 50) <= threads


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_and_threads_give_the_same_bits(split: Split, threads: int) -> None:
    first, again, other = (train(split, backbone="lightgcn", threads=threads, seed=seed, **QUICK) for seed in (5, 5, 6))
    assert np.array_equal(first.embeddings.item_vectors, again.embeddings.item_vectors)
    assert np.array_equal(first.ledger.users, again.ledger.users)
    assert not np.array_equal(first.embeddings.item_vectors, other.embeddings.item_vectors)


# --- training with each engine ---


@pytest.mark.parametrize(("backbone", "engine"), [("lightgcn", "native"), ("lightgcn", "torch"), ("mf", "torch")])
def test_true_taste_is_found(world: World, split: Split, backbone: str, engine: str) -> None:
    """Adjusted lists hold more of what users truly like than plain ones."""
    lr = 0.02 if backbone == "lightgcn" else 0.1
    run = train(split, backbone=backbone, engine=engine, dim=16, epochs=20, lr=lr, ledger_every=1, batch=64)
    best, users = tune(run, split, point="gain"), np.arange(split.train.n_users, dtype=np.int32)
    adjusted, plain = (
        np.nanmean(
            taste_recall(world, dataclasses.replace(how, seen=split.train).recommend(users, 10)[0], users, split.train)
        )
        for how in (best, dataclasses.replace(best, item_strength=0.0, user_strength=0.0))
    )
    assert adjusted > plain + 0.02 > 0.1
    assert run.settings["backbone"] == backbone and run.ledger.triples > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_grid_on_a_device_is_the_grid(split: Split, weighted: bool) -> None:
    run = train(split, dim=12, epochs=6, lr=0.1, ledger_every=1)
    directions = find_directions(run.model, split.train)
    vectors, held = run.model.embeddings, split.development.valid
    if weighted:
        weight = np.random.default_rng(0).integers(1, 9, len(held)).astype(np.float32)
        held = dataclasses.replace(held, weight=weight)
    groups = (np.arange(split.train.n_users) % 3).astype(np.int32)
    expected = search_strengths(vectors, directions, split.train, held, user_groups=groups)
    found = search_on_device(
        (torch.from_numpy(vectors.user_vectors), torch.from_numpy(vectors.item_vectors)),
        (torch.from_numpy(directions.item), torch.from_numpy(directions.user)),
        split.train,
        held,
        user_groups=groups,
    )
    assert len(found.user_groups) == 3
    for one, other in zip((found, *found.user_groups), (expected, *expected.user_groups), strict=True):
        assert one.item_strengths == other.item_strengths and one.users == other.users
        assert one.weight == (pytest.approx(other.weight) if weighted else None)
        assert set(one.values) == set(other.values)
        for name, values in other.values.items():
            # two scores within rounding of each other may change places, at one point of the grid or so
            same = np.isclose(one.values[name], values, rtol=1e-6 if weighted else 1e-9)  # weights are 32 bits wide
            assert same.mean() > 0.98, name
            rtol = 1e-3 * expected.users / other.users  # one such user weighs more in a small group
            np.testing.assert_allclose(one.values[name], values, rtol=rtol, err_msg=name)


def test_the_best_of_long_rows_are_the_best() -> None:
    draw = torch.Generator().manual_seed(0)
    for n_items, k in ((64, 3), (1000, 20), (70, 20), (41, 40)):
        width = stretch_width(n_items, k)
        scores = torch.randn(50, n_items + -n_items % width, generator=draw)
        scores[:, n_items:] = -torch.inf
        best, at = find_best(scores, k, width)
        torch.testing.assert_close(best, scores.topk(k).values)
        torch.testing.assert_close(scores.gather(1, at), best)
    assert stretch_width(41_000, 20) == 64


@pytest.mark.parametrize("ledger", [True, False])
def test_directions_on_a_device_are_the_directions(log: Interactions, ledger: bool) -> None:
    trainee = DeviceTables(Start(log, settings_for(ledger=ledger)))
    trainee.epoch(LR)
    expected = find_directions(trainee.model(), log)
    item, user = directions_of(*(table.detach() for table in trainee.vectors()), trainee._loss.ledger, log)
    np.testing.assert_allclose(item.numpy(), expected.item, atol=1e-6)
    np.testing.assert_allclose(user.numpy(), expected.user, atol=1e-6)


# --- an encoder of one's own ---


class Towers(torch.nn.Module):
    """Users are a table; items are seen through made-up features alone."""

    def __init__(self, n_users: int, features: np.ndarray) -> None:
        super().__init__()
        self.users = torch.nn.Parameter(torch.randn(n_users, 6, generator=torch.Generator().manual_seed(1)).double())
        self.register_buffer("features", torch.from_numpy(features))  # float64, as NumPy has it
        self.net = torch.nn.Linear(features.shape[1], 6, bias=False, dtype=torch.float64)
        torch.nn.init.constant_(self.net.weight, 0.1)

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.users, self.net(self.features)


def test_an_encoder_is_trained_and_left_as_it_was(split: Split) -> None:
    features = np.random.default_rng(0).normal(size=(split.train.n_items, 9))
    module = Towers(split.train.n_users, features)
    before = [value.clone() for value in module.parameters()]
    run = train(split, encoder=module, refit=True, epochs=4, check_every=2, lr=0.01, ledger_every=1)
    assert all(torch.equal(value, old) for value, old in zip(module.parameters(), before, strict=True))
    assert run.settings["backbone"] == "encoder" and run.settings["dim"] == 6
    items = run.model.embeddings.item_vectors
    weights = np.linalg.lstsq(features, items, rcond=None)[0]
    np.testing.assert_allclose(features @ weights, items, atol=1e-4)  # still seen through the features
    assert run.history[-1]["loss"] < run.history[0]["loss"]
    again = train(
        split, encoder=lambda log: Towers(log.n_users, features), epochs=4, check_every=2, lr=0.01, ledger_every=1
    )
    np.testing.assert_array_equal(again.model.embeddings.item_vectors, items)


def test_the_ledger_is_tapped_at_the_output(log: Interactions) -> None:
    """A table behind an encoder gets the ledger that MF gets from the same triples at the same vectors."""
    start = Start(log, settings_for(loss="bce"))
    triples = torch.from_numpy(triples_of(log, start.settings, 60)).long()
    tables = DeviceTables(start)
    users, items = (torch.nn.Parameter(table.clone()) for table in tables.vectors())

    class Tables(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = users, items

        def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
            return self.users * 1.0, self.items * 1.0

    encoder = DeviceEncoder(Tables(), start)
    encoder.step(triples)
    tables.step(triples, LR)
    np.testing.assert_allclose(encoder.model().ledger.items, tables.model().ledger.items, atol=1e-6)
    np.testing.assert_allclose(encoder.model().ledger.users, tables.model().ledger.users, atol=1e-6)


# --- what is refused ---


class Wrong(torch.nn.Module):
    def __init__(self, *found: object) -> None:
        super().__init__()
        self.found = found

    def forward(self) -> tuple[object, ...]:
        return self.found


def test_an_encoder_must_return_vectors_of_users_and_items(split: Split) -> None:
    n_users, n_items = split.train.n_users, split.train.n_items
    for found in (
        (torch.zeros(n_users, 4), torch.zeros(n_items, 5)),
        (torch.zeros(n_items, 4), torch.zeros(n_users, 4)),
        (torch.zeros(n_users, 4),),
        (torch.zeros(n_users), torch.zeros(n_items)),
        (np.zeros((n_users, 4)), np.zeros((n_items, 4))),
        (torch.zeros(()), torch.zeros(())),
        (None,),
    ):
        with pytest.raises(InputError, match="an encoder must return"):
            train(split, encoder=Wrong(*found))
    with pytest.raises(InputError, match="nothing that it returned can be trained"):
        train(split, encoder=Wrong(torch.zeros(n_users, 4), torch.zeros(n_items, 4)))
    for wrong in (5, lambda log: None):
        with pytest.raises(InputError, match="encoder must be a torch module"):
            train(split, encoder=wrong)
    with pytest.raises(InputError, match="dim is decided by the encoder"):
        train(split, encoder=Wrong(), dim=8)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"backbone": "lightgcn", "layers": 5}, "lightgcn has 1 to 4 layers, got 5"),
        ({"backbone": "lightgcn", "layers": 0}, "lightgcn has 1 to 4 layers, got 0"),
        ({"layers": 2}, "mf has no layers, got 2"),
        ({"edge_dropout": 0.1}, "edge_dropout must be 0, because mf has no graph"),
        ({"backbone": "lightgcn", "edge_dropout": 1.0}, "edge_dropout must be a share below 1"),
        ({"device": "cuda", "engine": "native"}, "the native engine runs on the CPU only"),
        ({"device": "tpu"}, "device must be one of cpu, cuda, got 'tpu'"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"backbone": "encoder"}, "backbone encoder needs an encoder"),
    ],
)
def test_settings_that_make_no_sense(split: Split, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        train(split, **given)


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_a_log_without_negatives_is_refused(backbone: str, engine: str) -> None:
    log = make_log([(u, i) for u in range(3) for i in range(4)], 3, 4)
    with pytest.raises(InputError, match="every user has touched every item"):
        train(Development(log, log), backbone=backbone, engine=engine, refit=False)


def test_a_ledger_of_nothing_names_the_remedy(log: Interactions) -> None:
    remedy = r"direction is zero.*lower ledger_every"
    trainee = DeviceTables(Start(log, settings_for()))  # before its first step
    with pytest.raises(InputError, match=remedy):
        directions_of(*(table.detach() for table in trainee.vectors()), trainee._loss.ledger, log)
    with pytest.raises(InputError, match=remedy):
        find_directions(trainee.model(), log)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused(split: Split) -> None:
    with pytest.raises(InputError, match="torch finds no GPU here"):
        train(split, device="cuda")


def test_without_torch_the_remedy_is_named(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("counterpop.training.device")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'counterpop\[torch\]'"):
        train(split, engine="torch")


def test_out_of_memory_says_what_to_lower(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(DeviceTables, "epoch", full)
    with pytest.raises(InputError, match=r"ran out of memory on cpu; lower dim \(now 16\) or batch \(now 4096\)"):
        train(split, engine="torch", dim=16)


def test_from_the_command_line(split: Split, tmp_path: Path) -> None:
    """LightGCN's run folder goes the way of every other; a missing device is one sentence and exit 1."""

    def call(*words: object) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words])

    artifacts.save_split(split, tmp_path / "split")
    words = ("train", tmp_path / "split", "--backbone", "lightgcn", "--dim", 8, "--epochs", 4, "--check-every", 2)
    made = call(*words, "--layers", 1, "--out", tmp_path / "run", "--json")
    settings = json.loads(made.stdout)["settings"]
    assert (settings["backbone"], settings["layers"], settings["lr"]) == ("lightgcn", 1, 0.02)
    assert call("tune", tmp_path / "run").exit_code == 0
    found = json.loads(call("evaluate", tmp_path / "run", "--on", "valid", "--json").stdout)
    assert 0 < found["adjusted"]["recall"] <= 1
    refused = call(*words, "--layers", 9, "--out", tmp_path / "other")
    assert refused.exit_code == 1 and "lightgcn has 1 to 4 layers, got 9" in refused.stderr
    if not torch.cuda.is_available():
        refused = call(*words, "--device", "cuda", "--out", tmp_path / "other")
        assert refused.exit_code == 1 and "torch finds no GPU here" in refused.stderr
        assert "Traceback" not in refused.stderr and not (tmp_path / "other").exists()


def test_the_example_of_an_own_encoder_runs() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import own_encoder

    plain, adjusted = own_encoder.main(n_users=600, n_items=200, epochs=10)
    assert adjusted > plain > 0.2  # .316 and .302
