"""Adapters tested with the real libraries: the vectors reproduce the scores of each library."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.sparse import coo_matrix, csr_matrix

import counterpop as cp
from counterpop.adapters import faiss as faiss_adapter
from counterpop.adapters import implicit as implicit_adapter
from counterpop.adapters import lightfm as lightfm_adapter
from counterpop.adapters import recbole as recbole_adapter
from counterpop.adapters import spark as spark_adapter
from counterpop.adapters import towers
from counterpop.adapters import usearch as usearch_adapter
from counterpop.adapters.files import read_ids, read_model
from counterpop.adapters.indexes import recall_of
from counterpop.errors import InputError

EXAMPLES = Path(__file__).parents[1] / "examples"
LOG = cp.make_world(200, 60, mean_activity=10, seed=1).log
MATRIX = csr_matrix((np.ones(len(LOG), np.float32), (LOG.user_ix, LOG.item_ix)), shape=(LOG.n_users, LOG.n_items))


@pytest.fixture
def vectors() -> cp.Embeddings:
    draw = np.random.default_rng(0)
    users, items = (draw.normal(size=(n, 16)).astype(np.float32) + 0.5 for n in (40, 500))
    return cp.Embeddings(users, items, np.arange(40), np.arange(500))


@pytest.fixture
def fix(vectors: cp.Embeddings) -> cp.Recommender:
    q, p = (v.mean(axis=0) / np.linalg.norm(v.mean(axis=0)) for v in (vectors.item_vectors, vectors.user_vectors))
    nothing = cp.Interactions(np.zeros(0, np.int32), np.zeros(0, np.int32), vectors.user_ids, vectors.item_ids)
    return cp.Recommender(q, p, 0.8, 0.6, embeddings=vectors, seen=nothing)


def run_example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def run_separately(name: str, ask: str) -> Any:
    """The value of an expression after an example has run in its own process."""
    code = (
        "import json, runpy, sys, warnings; warnings.simplefilter('ignore')\n"
        f"names = runpy.run_path({str(EXAMPLES / f'{name}.py')!r})\nglobals().update(names)\n"
        f"print(json.dumps({ask}))"
    )
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # halves Java's start-up time
    found = {"PYTHONPATH": str(Path(cp.__path__[0]).parent)}
    with tempfile.TemporaryDirectory() as folder:  # RecBole leaves logs where it runs
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=os.environ | quick | found,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


# --- implicit


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")
@pytest.mark.parametrize(
    "kind", ["als.AlternatingLeastSquares", "bpr.BayesianPersonalizedRanking", "lmf.LogisticMatrixFactorization"]
)
def test_implicit_s_scores_are_the_inner_products(kind: str, tmp_path: Path) -> None:
    module, name = kind.split(".")
    model = getattr(pytest.importorskip(f"implicit.cpu.{module}"), name)(factors=8, iterations=3, random_state=0)
    with pytest.raises(InputError, match=f"must be fitted .* got {name} without them; call fit first"):
        implicit_adapter.vectors_of(model)
    model.fit(MATRIX, show_progress=False)
    found = implicit_adapter.vectors_of(model, user_ids=LOG.user_ids, item_ids=LOG.item_ids)
    extra = {"als": 0, "bpr": 1, "lmf": 2}[module]  # columns of biases
    assert found["item_vectors"].shape == (LOG.n_items, 8 + extra)
    users = np.arange(5)
    items, scores = model.recommend(users, MATRIX[users], N=LOG.n_items, filter_already_liked_items=False)
    ours = found["user_vectors"][users] @ found["item_vectors"].T
    assert scores == pytest.approx(np.take_along_axis(ours, items, axis=1), abs=1e-4)
    model.save(str(tmp_path / "model.npz"))
    again = read_model(tmp_path / "model.npz")
    assert np.array_equal(again["user_vectors"], found["user_vectors"])
    assert np.array_equal(again["item_ids"], np.arange(LOG.n_items))


def test_implicit_models_without_factors_are_refused(tmp_path: Path) -> None:
    nearest = pytest.importorskip("implicit.nearest_neighbours").CosineRecommender()
    with pytest.raises(InputError, match="got CosineRecommender without them"):
        implicit_adapter.vectors_of(nearest)
    np.savez(tmp_path / "other.npz", vectors=np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"must be a model saved by implicit"):
        implicit_adapter.vectors_of(tmp_path / "other.npz")
    with pytest.raises(InputError, match=r"missing\.npz does not exist"):
        implicit_adapter.vectors_of(tmp_path / "missing.npz")


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")
def test_the_implicit_example_lowers_popularity_in_implicit_s_own_lists() -> None:
    pytest.importorskip("implicit")
    names = run_example("implicit_als")
    fix, seen = names["fix"], names["seen"]
    assert fix.gained
    everyone = np.arange(seen.shape[0])
    debiased, _ = names["model"].recommend(everyone, seen, N=20)  # the example has stored the queries in the model
    names["model"].user_factors = fix.embeddings.user_vectors
    plain, _ = names["model"].recommend(everyone, seen, N=20)
    counts = names["log"].item_counts
    assert counts[debiased].mean() < 0.9 * counts[plain].mean()  # within the price that "balanced" allows


# --- FAISS and USearch


def assert_exact(found: np.ndarray, adjustment: cp.Recommender, k: int) -> None:
    """Every list has k different items, none with a score below the k-th best, up to rounding."""
    stored = cp.adjust(adjustment.embeddings, adjustment)
    scores = stored.user_vectors.astype(np.float64) @ stored.item_vectors.T.astype(np.float64)
    bar = np.sort(scores, axis=1)[:, -k]
    assert all(len(np.unique(row)) == k for row in found)
    assert (np.take_along_axis(scores, found, axis=1) >= bar[:, None] - 1e-5 * np.abs(scores).max()).all()


def test_a_flat_index_gives_what_adjusted_vectors_give(vectors: cp.Embeddings, fix: cp.Recommender) -> None:
    faiss = pytest.importorskip("faiss")
    index, adjusted = faiss.IndexFlatIP(16), faiss.IndexFlatIP(16)
    stored = cp.adjust(vectors, fix)
    index.add(vectors.item_vectors)
    adjusted.add(stored.item_vectors)
    before = faiss.serialize_index(index).tobytes()
    scores, found = faiss_adapter.search(index, fix, vectors.user_vectors, 100)
    theirs_scores, theirs = adjusted.search(stored.user_vectors, 100)
    assert np.array_equal(np.sort(found), np.sort(theirs))
    assert scores == pytest.approx(theirs_scores, abs=1e-4)
    assert_exact(found, fix, 100)
    assert faiss.serialize_index(index).tobytes() == before
    one = faiss_adapter.search(index, fix, vectors.user_vectors[3], 10)[1]
    assert np.array_equal(one[0], found[3, :10])
    plain = faiss_adapter.search(index, fix, vectors.user_vectors, 100, item_strength=0.0, user_strength=0.0)[1]
    assert np.array_equal(plain, index.search(vectors.user_vectors, 100)[1])
    assert not np.array_equal(plain, found)


def test_indexes_that_cannot_work_are_refused(vectors: cp.Embeddings, fix: cp.Recommender) -> None:
    faiss = pytest.importorskip("faiss")
    with pytest.raises(InputError, match="must rank by inner product, but this one uses another metric"):
        faiss_adapter.search(faiss.IndexFlatL2(16), fix, vectors.user_vectors, 5)
    with pytest.raises(InputError, match="for vectors of 16 numbers, but the index holds 8"):
        faiss_adapter.search(faiss.IndexFlatIP(8), fix, vectors.user_vectors, 5)
    index = pytest.importorskip("usearch.index").Index
    with pytest.raises(InputError, match="must rank by inner product, but this one uses another metric"):
        usearch_adapter.search(index(ndim=16, metric="cos"), fix, vectors.user_vectors, 5)
    with pytest.raises(InputError, match="for vectors of 16 numbers, but the index holds 8"):
        usearch_adapter.search(index(ndim=8, metric="ip"), fix, vectors.user_vectors, 5)


def test_the_faiss_example_states_recall() -> None:
    pytest.importorskip("faiss")
    names = run_example("faiss_index")
    assert names["recall"]["flat"] == pytest.approx([1.0, 1.0], abs=1e-4)
    for index in ("IVF", "HNSW"):
        plain, transformed = names["recall"][index]
        assert transformed > min(0.95, plain - 0.05)
    _, found = faiss_adapter.search(names["indexes"]["flat"], names["fix"], names["users"], 100)
    assert_exact(found, names["fix"], 100)


def test_the_usearch_example_finds_nearly_all() -> None:
    pytest.importorskip("usearch")
    names = run_example("usearch_index")
    assert min(names["recall"]) > 0.95
    exact = np.argsort(-names["fix"].query(names["users"]) @ names["items"].T, axis=1)[:, :20]
    assert np.mean([np.isin(a, b).mean() for a, b in zip(exact, names["matches"].keys, strict=True)]) > 0.95


def test_a_graph_of_items_stored_without_popularity_finds_what_the_other_misses() -> None:
    faiss = pytest.importorskip("faiss")
    draw = np.random.default_rng(0)
    q = np.eye(16, dtype=np.float32)[0]
    users, items = (draw.normal(size=(n, 16)).astype(np.float32) for n in (300, 8000))
    items[:, 0] = 3 + np.abs(items[:, 0])  # popularity is the first coordinate, and popular items are long
    items *= draw.lognormal(0, 0.5, size=(8000, 1)).astype(np.float32)
    users[:, 0] = 2
    fix = cp.Adjustment(q, q, 1.0, 0.0)
    stored = items - 0.8 * (items @ q)[:, None] * q
    recall = {}
    for name, kept, by in (("as is", items, fix), ("stored", stored, fix.stored_at(0.8))):
        graph = faiss.IndexHNSWFlat(16, 16, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efSearch = 64
        graph.add(kept)
        recall[name] = recall_of(
            lambda _, k, graph=graph, by=by: faiss_adapter.search(graph, by, users, k)[1], items, fix.query(users), 20
        )
    assert recall["as is"] < 0.8
    assert recall["stored"] > 0.95


def test_recall_of_an_index_counts_what_it_finds(vectors: cp.Embeddings) -> None:
    exact = np.argsort(-vectors.user_vectors @ vectors.item_vectors.T, axis=1)

    def half(_: np.ndarray, k: int) -> np.ndarray:
        return np.hstack([exact[:, : k // 2], exact[:, -(k // 2) :]])

    assert recall_of(half, vectors.item_vectors, vectors.user_vectors, 20) == 0.5


# --- RecBole


class Harmful:
    """Writes a file if it is unpickled in the ordinary way."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def save_checkpoint(path: Path, model: str | None, **more: Any) -> None:
    """A file as RecBole's trainer writes it, with a configuration class that cannot be imported elsewhere."""
    torch = pytest.importorskip("torch")
    from types import SimpleNamespace

    tables = {f"{side}_embedding.weight": torch.arange(n * 3.0).reshape(n, 3) for side, n in (("user", 4), ("item", 5))}
    settings = SimpleNamespace(final_config_dict={} if model is None else {"model": model})
    content = {"config": settings, "epoch": 3, "state_dict": tables, "optimizer": {"lr": 0.1}, **more}
    torch.save(content, path, pickle_protocol=4)


def test_a_checkpoint_is_read_and_nothing_in_it_is_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save_checkpoint(tmp_path / "m.pth", "BPR", other_parameter=Harmful(tmp_path / "harm"))
    found = recbole_adapter.vectors_of(
        tmp_path / "m.pth", user_ids=["[PAD]", "a", "b", "c"], item_ids=["w", "x", "y", "z"]
    )
    assert not (tmp_path / "harm").exists()
    assert np.array_equal(found["user_vectors"], np.arange(12.0).reshape(4, 3)[1:])
    assert list(found["user_ids"]) == ["a", "b", "c"]
    assert found["item_vectors"].shape == (4, 3)
    torch.load(tmp_path / "m.pth", weights_only=False)["other_parameter"].close()
    assert (tmp_path / "harm").exists()  # the check above is not vacuous


def test_code_in_a_torchscript_archive_is_not_run(tmp_path: Path) -> None:
    """torch.load passes such a file to torch.jit.load, which runs its __setstate__."""
    path, harm = tmp_path / "script.pth", tmp_path / "harm"
    make = (
        "import torch, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self) -> None:\n"
        "        super().__init__()\n"
        "        self.x = 1\n"
        "    @torch.jit.export\n"
        "    def __getstate__(self) -> tuple[int, bool]:\n"
        "        return self.x, self.training\n"
        "    @torch.jit.export\n"
        "    def __setstate__(self, state: tuple[int, bool]) -> None:\n"
        f"        file = torch.from_file({str(harm)!r}, True, 4, dtype=torch.uint8)\n"
        "        file.fill_(65)\n"
        "        self.x = int(file.sum().item())\n"
        "        self.training = state[1]\n"
        "    def forward(self, x: torch.Tensor) -> torch.Tensor:\n"
        "        return x\n"
        f"torch.jit.script(Net()).save({str(path)!r})\n"
    )
    (tmp_path / "make.py").write_text(make)  # TorchScript reads the source from a file
    torch = pytest.importorskip("torch")
    subprocess.run([sys.executable, tmp_path / "make.py"], check=True)
    with pytest.raises(InputError, match="it is a TorchScript archive, which contains code"):
        recbole_adapter.vectors_of(path, user_ids=["a"], item_ids=["b"])
    assert not harm.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.load(path, weights_only=False)
    assert harm.exists()  # the check above is not vacuous


def test_tables_of_any_make_are_read_and_damaged_ones_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    ids = {"user_ids": ["a", "b", "c"], "item_ids": ["w", "x", "y", "z"]}
    names = {"user_embedding.weight": 4, "item_embedding.weight": 5}
    tables = {name: torch.arange(n * 3.0).reshape(n, 3) for name, n in names.items()}
    for make in (torch.nn.Parameter, torch.Tensor.bfloat16, torch.Tensor.half):
        save_checkpoint(tmp_path / "m.pth", "BPR", state_dict={n: make(t) for n, t in tables.items()})
        found = recbole_adapter.vectors_of(tmp_path / "m.pth", **ids)
        assert np.array_equal(found["user_vectors"], np.arange(12.0).reshape(4, 3)[1:])
    save_checkpoint(tmp_path / "m.pth", "BPR", state_dict=dict.fromkeys(names, 1))
    with pytest.raises(InputError, match="must hold two tables of numbers"):
        recbole_adapter.vectors_of(tmp_path / "m.pth", **ids)
    save_checkpoint(tmp_path / "m.pth", "BPR")
    whole = (tmp_path / "m.pth").read_bytes()
    draw = np.random.default_rng(0)
    at = whole.index(b"state_dict")  # in the pickle, which comes first
    for _ in range(60):
        broken = bytearray(whole)
        broken[at + draw.integers(-100, 300)] = draw.integers(256)
        (tmp_path / "m.pth").write_bytes(broken)
        with contextlib.suppress(InputError):
            recbole_adapter.vectors_of(tmp_path / "m.pth", **ids)


def test_checkpoints_that_cannot_work_are_refused(tmp_path: Path) -> None:
    ids = {"user_ids": ["a", "b", "c"], "item_ids": ["w", "x", "y", "z"]}
    save_checkpoint(tmp_path / "graph.pth", "LightGCN")
    with pytest.raises(InputError, match=r"score by two tables \(BPR\), got LightGCN; compute its vectors with"):
        recbole_adapter.vectors_of(tmp_path / "graph.pth", **ids)
    save_checkpoint(tmp_path / "m.pth", "BPR")
    with pytest.raises(InputError, match="checkpoint does not contain the original ids; pass user_ids and item_ids"):
        recbole_adapter.vectors_of(tmp_path / "m.pth")
    with pytest.raises(InputError, match="each item vector needs an id, got 4 vectors and 3 ids"):
        recbole_adapter.vectors_of(tmp_path / "m.pth", user_ids=ids["user_ids"], item_ids=["w", "x", "y"])
    (tmp_path / "junk.pth").write_bytes(b"junk")
    with pytest.raises(InputError, match="must be a checkpoint that RecBole's trainer saved"):
        recbole_adapter.vectors_of(tmp_path / "junk.pth", **ids)
    with pytest.raises(InputError, match="does not exist"):
        recbole_adapter.vectors_of(tmp_path / "none.pth", **ids)


@pytest.mark.skipif(not importlib.util.find_spec("recbole"), reason="RecBole is not installed (tests/recbole.txt)")
def test_a_checkpoint_of_recbole_itself() -> None:
    same, gap, ids = run_separately(
        "recbole_bpr",
        "[bool((vectors['user_vectors'] == trainer.model.user_embedding.weight.detach().numpy()[1:]).all()),"
        " float(abs(vectors['user_vectors'][4] @ vectors['item_vectors'].T - trainer.model.full_sort_predict("
        "__import__('recbole.data.interaction').data.interaction.Interaction({'user_id': __import__('torch')"
        ".tensor([5])})).detach().numpy()[1:]).max()), list(vectors['user_ids'][:2])]",
    )
    assert same
    assert gap < 1e-5
    assert all(name.startswith("u") for name in ids)


# --- Spark


@pytest.mark.skipif(not importlib.util.find_spec("pyspark"), reason="pyspark is not installed")
@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java (Debian: default-jre-headless)")
def test_the_factors_of_an_als_model_in_memory_and_saved() -> None:
    shapes, same, known = run_separately(
        "spark_als",
        "[[vectors['user_vectors'].shape, vectors['item_vectors'].shape],"
        " [bool((np_sort(vectors, s) == np_sort(saved, s)).all()) for s in ('user', 'item')],"
        " sorted(vectors['item_ids'].tolist()) == log.item_ids.tolist()]".replace(
            "np_sort", "(lambda v, s: v[s + '_vectors'][v[s + '_ids'].argsort()])"
        ),
    )
    assert shapes == [[600, 8], [120, 8]]
    assert same == [True, True]
    assert known


def test_a_saved_als_model_is_plain_parquet(tmp_path: Path) -> None:
    for side, n in (("user", 3), ("item", 2)):
        (tmp_path / "als" / f"{side}Factors").mkdir(parents=True)
        table = {"id": [7, 5, 9][:n], "features": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]][:n]}
        pl.DataFrame(table).write_parquet(tmp_path / "als" / f"{side}Factors" / "part-0.parquet")
    found = read_model(tmp_path / "als")
    assert found["user_ids"].tolist() == [7, 5, 9]
    assert found["user_vectors"].tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(InputError, match="a saved ALSModel contains its ids"):
        read_model(tmp_path / "als", user_ids=[1, 2, 3])
    broken = tmp_path / "als" / "itemFactors" / "part-0.parquet"
    pl.DataFrame({"id": [1, 2], "features": [[1.0], [1.0, 2.0]]}).write_parquet(broken)
    with pytest.raises(InputError, match="vectors must be lists of equal length, but those of features are not"):
        spark_adapter.vectors_of(tmp_path / "als")
    pl.DataFrame({"id": [1, 2]}).write_parquet(broken)
    with pytest.raises(InputError, match="must have the columns id and features"):
        spark_adapter.vectors_of(tmp_path / "als")
    broken.write_bytes(b"junk")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        spark_adapter.vectors_of(tmp_path / "als")
    broken.unlink()
    with pytest.raises(InputError, match="parquet files under itemFactors, but has none"):
        spark_adapter.vectors_of(tmp_path / "als")
    with pytest.raises(InputError, match="must be an ALSModel or the folder of a saved one, got dict"):
        spark_adapter.vectors_of({})


# --- LightFM, two towers, files


def test_lightfm_ranks_by_the_inner_products() -> None:
    model = pytest.importorskip("lightfm", reason="lightfm-next is not installed: it needs a C compiler").LightFM(
        no_components=8, loss="bpr", random_state=0
    )
    with pytest.raises(InputError, match="must be a fitted LightFM model, got LightFM; call fit first"):
        lightfm_adapter.vectors_of(model)
    model.fit(coo_matrix(MATRIX), epochs=2)
    found = lightfm_adapter.vectors_of(model)
    theirs = model.predict(np.full(LOG.n_items, 3), np.arange(LOG.n_items))
    ours = found["user_vectors"][3] @ found["item_vectors"].T
    assert ours - ours[0] == pytest.approx(theirs - theirs[0], abs=1e-5)


def test_the_lightfm_example_runs() -> None:
    pytest.importorskip("lightfm", reason="lightfm-next is not installed: it needs a C compiler")
    names = run_example("lightfm_warp")
    assert names["vectors"]["item_vectors"].shape == (300, 17)
    assert names["fix"].uniform.plain.recall > 0.3


def test_two_towers_in_torch() -> None:
    pytest.importorskip("torch")
    names = run_example("two_towers")
    whole = names["user_tower"](names["users"]).detach().numpy()
    assert names["made"]["user_vectors"] == pytest.approx(whole, abs=1e-6)
    assert names["fix"].uniform.plain.recall > 2 * 20 / 300  # it has learned something


def test_towers_are_any_callables_in_batches() -> None:
    sizes = []

    def tower(rows: list[int]) -> list[list[float]]:
        sizes.append(len(rows))
        return [[row, 1.0] for row in rows]

    found = towers.vectors_of(tower, tower, list(range(5)), [7, 8], user_ids=list("abcde"), batch=2)
    assert found["user_vectors"].tolist() == [[n, 1] for n in range(5)]
    assert found["item_vectors"].tolist() == [[7, 1], [8, 1]]
    assert sizes == [2, 2, 1, 2]
    with pytest.raises(InputError, match=r"the item tower must return one vector for each of its 2 inputs, got"):
        towers.vectors_of(tower, lambda rows: np.zeros(len(rows)), [1], [1, 2])
    with pytest.raises(InputError, match="there must be users, got 4096 and 0 users"):
        towers.vectors_of(tower, tower, [], [1])


def test_the_example_of_plain_files_is_the_same_as_without_them() -> None:
    names = run_example("plain_files")
    direct = cp.debias(names["users"], names["items"], names["log"])
    assert names["fix"].tried == direct.tried
    assert names["again"].query(names["users"]) == pytest.approx(direct.query(names["users"]), abs=1e-5)
    assert direct.gained


def test_ids_and_models_in_files(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a\nb\n")
    np.save(tmp_path / "ids.npy", np.array([3, 4]))
    assert list(read_ids(tmp_path / "ids.txt")) == ["a", "b"]
    assert list(read_ids(tmp_path / "ids.npy")) == [3, 4]
    (tmp_path / "odd.txt").write_bytes("\ufeffa\u2028b\x0bc\r\nd\n".encode())
    assert list(read_ids(tmp_path / "odd.txt")) == ["a\u2028b\x0bc", "d"]
    (tmp_path / "bad.npy").write_bytes(b"junk")
    with pytest.raises(InputError, match="must hold ids, as npy or one per line"):
        read_ids(tmp_path / "bad.npy")
    with pytest.raises(InputError, match=r"a model is read from implicit's \.npz"):
        read_model(tmp_path / "ids.txt")
    for reader in (read_ids, read_model):
        with pytest.raises(InputError, match="does not exist"):
            reader(tmp_path / "missing")
