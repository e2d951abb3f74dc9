"""The paper's tables and figures: on small simulated data, and on the real data if they are there."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from counterpop.cli import main
from counterpop.encoding import to_json
from counterpop.kernels.threads import core_count
from counterpop.paper import cache, cost, frontier, groups, plan, published, runs, writing
from counterpop.paper.cache import Cache, machine, source
from counterpop.paper.cells import run_cell
from counterpop.paper.datasets import (
    HOW_TO_GET,
    TITLES,
    draw_intervened,
    find_datasets,
    load_dataset,
    observed,
    thin,
    whole,
)
from counterpop.paper.making import ITEMS, make_items
from counterpop.paper.plan import Plan
from counterpop.paper.proportion import mix
from counterpop.paper.results import OWN, Claim, Figure, Item, Table, read_item
from counterpop.paper.runs import Bench
from counterpop.paper.statistics import make_table1, make_table2
from counterpop.reporting.tables import GROUP_NAMES
from counterpop.training import Interrupted
from paper_worlds import write_datasets

REAL = Path(os.environ.get("COUNTERPOP_DATA", Path(__file__).parents[2] / "shared" / "data"))
BESIDE_PUBLIC = "paper", "reporting", "encoding", "kernels.threads"  # modules that the paper may import from
MF = Plan(quick=True, backbones=("mf",))


def call(*words: object) -> Result:
    return CliRunner().invoke(main, ["paper", *map(str, words)])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_datasets(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def out(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All items with MF, made by the command."""
    folder = tmp_path_factory.mktemp("paper")
    done = call("all", "--data", data, "--out", folder, "--quick", "--backbone", "mf", "--seeds", 2, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["new_runs"] > 0
    return folder


def test_runs_made_on_a_gpu_have_the_splits_of_the_command(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    for folder in ("experiments", "benchmarks"):
        monkeypatch.syspath_prepend(Path(__file__).parents[1] / folder)
    tools = importlib.import_module("paper_on_gpu").tools_on("cpu")
    for path in data.glob("*.npz"):
        one, other = tools.load(path), load_dataset(path)
        for name in ("train", "valid"):
            parts = [getattr(split.development, name) for split in (one, other)]
            for side in ("user_ix", "item_ix"):
                np.testing.assert_array_equal(*(getattr(part, side) for part in parts))
            weights = [np.ones(len(part)) if part.weight is None else part.weight for part in parts]
            np.testing.assert_array_equal(*weights)


def test_table3_has_the_agreed_form_and_what_the_library_measures(data: Path, out: Path) -> None:
    rows = json.loads((out / "table3.json").read_text())
    places = {(r["backbone"], r["dataset"], r["method"]) for r in rows}
    for dataset in ("ml10m", "adressa"):
        assert {("mf", dataset, "plain"), ("mf", dataset, "gradient")} <= places
    assert {method for _, _, method in places} <= {method.name for method in cp.METHODS}
    for row in rows:
        for metric in ("recall", "hit_rate", "ndcg"):
            figure = row[metric]
            assert set(figure) == {"mean", "low", "high", "seeds"}
            assert figure["low"] <= figure["mean"] <= figure["high"]
            assert figure["seeds"] == 2
        chosen = row["chosen"]
        best = max(chosen["searched"], key=lambda one: one.get("recall", -1.0))
        assert [one for one in chosen["searched"] if one.get("chosen")] == [best]
        assert chosen["settings"]["loss"] == best["settings"]["loss"]
        assert len(chosen["searched"]) == plan.QUICK_CANDIDATES  # the same number for every method
        assert chosen["refit"] is (row["dataset"] == "adressa")  # which has no validation part of its own
    row = next(r for r in rows if (r["dataset"], r["method"]) == ("adressa", "gradient"))
    split = load_dataset(data / "adressa.npz")
    recalls = []
    for seed in (0, 1):
        settings = MF.settings("mf", "gradient", loss=row["chosen"]["settings"]["loss"]) | {"seed": seed}
        run = cp.train(split, refit=True, **settings)
        recalls.append(cp.evaluate(cp.tune(run, split, point="gain"), split, resamples=0).adjusted.recall)
    assert row["recall"]["mean"] == pytest.approx(np.mean(recalls), abs=1e-12)


def test_every_item_is_written_in_every_form(out: Path) -> None:
    for name in ITEMS:
        assert json.loads((out / f"{name}.json").read_text())
        assert (out / f"{name}.md").read_text().startswith("# ")
        item = read_item(json.loads((out / "items" / f"{name}.json").read_text())["item"])
        assert item == read_item(json.loads(to_json(item)))
        for n in range(1, len(item.figures) + 1):
            assert (out / "figures" / f"{name}-{n}.png").read_bytes().startswith(b"\x89PNG")
            assert "<svg" in (out / "figures" / f"{name}-{n}.svg").read_text()
    page = (out / "index.html").read_text()
    for heading in ("Table I:", "Table V:", "Figure 1:", "SMOKE RUN", "The paper’s claims"):
        assert heading in page
    results = json.loads((out / "results.json").read_text())
    assert [item["name"] for item in results["items"]] == list(ITEMS)
    sections = [claim["section"] for item in results["items"] for claim in item["claims"]]
    assert sum(results["claims"].values()) == sum(section != OWN for section in sections) > 20
    made = results["items"][2]["made"]
    assert [one["cores"] >= 1 for one in made["machines"]] == [True]
    assert sum(made["runs"].values()) > 0


def test_what_is_missing_is_shown_as_missing_and_never_as_zero(out: Path) -> None:
    with (out / "table3.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    made = {
        (TITLES[row["dataset"]], plan.title_of(row["method"])) for row in json.loads((out / "table3.json").read_text())
    }
    assert len(lines) == 24
    for line in lines:
        assert (line["Recall"] != "") is ((line["Data set"], line["Method"]) in made)
    text = (out / "table3.md").read_text()
    assert "| Gowalla | gradient | missing |" in text
    assert "no data set gowalla in the data folder" in text
    assert "all of LightGCN Gowalla: lightgcn was left out by --backbone" in text
    item = json.loads((out / "items" / "table3.json").read_text())["item"]
    bars = {series["name"]: series["y"] for series in item["figures"][0]["series"]}
    assert bars["plain"][3] is None  # no bar for Gowalla


def test_a_second_call_trains_and_writes_nothing(data: Path, out: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    words = "all", "--data", data, "--out", out, "--quick", "--backbone", "mf", "--seeds", 2
    done = call(*words)
    assert done.exit_code == 0, done.stderr
    assert "No new runs" in done.stdout
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}


def test_after_a_crash_only_what_is_missing_is_made(
    data: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    real = cp.train

    def train(*args: Any, **settings: Any) -> cp.Run:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(settings["method"])
        return real(*args, **settings)

    monkeypatch.setattr(cp, "train", train)
    with pytest.raises(KeyboardInterrupt):
        list(make_items(Bench(data, tmp_path / "runs", MF), ["table3"], tmp_path))
    assert not list(tmp_path.glob("runs/*.part"))
    bench = Bench(data, tmp_path / "runs", MF)
    monkeypatch.setattr(cp, "train", real)
    (item,) = make_items(bench, ["table3"], tmp_path)
    whole_bench = Bench(data, tmp_path / "other", MF)
    (again,) = make_items(whole_bench, ["table3"], tmp_path / "out")
    assert bench.cache.made < whole_bench.cache.made
    assert item.rows == again.rows  # interrupted or not


def test_a_training_that_was_stopped_goes_on(data: Path, tmp_path: Path) -> None:
    seen: list[int] = []

    @contextmanager
    def watch(label: str) -> Iterator[Any]:
        yield lambda progress: seen.append(progress.epoch)

    settings = {"backbone": "mf", "method": "gradient", "loss": "bpr", "epochs": 6, "check_every": 2, "threads": 1}
    stopped = Bench(data, tmp_path / "runs", MF, watch=watch, should_stop=lambda: len(seen) == 3)
    with pytest.raises(Interrupted):
        stopped.validated("ml10m", settings)
    assert len(list(tmp_path.glob("runs/*.checkpoint"))) == 1
    found = Bench(data, tmp_path / "runs", MF, watch=watch).validated("ml10m", settings)
    assert seen == [1, 2, 3, 4, 5, 6]
    whole = Bench(data, tmp_path / "other", MF).validated("ml10m", settings)
    assert (found["valid"], found["grid"], found["looks"]) == (whole["valid"], whole["grid"], whole["looks"])
    assert not list(tmp_path.glob("runs/*.checkpoint"))


def test_a_checkpoint_that_does_not_fit_any_more_is_not_used(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"backbone": "mf", "method": "gradient", "loss": "bpr", "epochs": 2, "check_every": 1, "threads": 1}
    with pytest.raises(Interrupted):
        Bench(data, tmp_path / "runs", MF, should_stop=lambda: True).validated("ml10m", settings)
    assert len(list(tmp_path.glob("runs/*.checkpoint"))) == 1
    bench = Bench(data, tmp_path / "runs", MF)
    known = bench.split("ml10m").development
    other = replace(known, valid=known.valid.rows(np.arange(len(known.valid) - 1)))  # as `proportion` has several
    assert len(bench.train("ml10m", other, settings, refit=False).history) == 2
    for place in ("training.fitting", "paper.runs"):
        monkeypatch.setattr(f"counterpop.{place}.core_count", lambda: 99)
    assert len(Bench(data, tmp_path / "runs", MF).validated("ml10m", settings)["looks"]) == 2


def test_a_run_is_made_again_when_settings_threads_data_or_numbers_change(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MF.settings("mf", "plain")

    def made(where: Path = data, **more: Any) -> int:
        bench = Bench(where, tmp_path / "runs", MF)
        bench.validated("ml10m", settings | more)
        return bench.cache.made

    assert made() == 1
    assert made() == 0
    assert made(lr=0.05) == 1
    other = tmp_path / "data"
    other.mkdir()
    write_datasets(other, ("adressa", "ml10m"))  # another ml10m: the second world
    assert made(other) == 1
    assert made(threads=core_count()) == 0  # the default
    monkeypatch.setattr(runs, "core_count", lambda: core_count() + 1)
    assert made() == 1
    monkeypatch.setattr(runs, "core_count", core_count)
    monkeypatch.setattr(cp, "NUMBERS", cp.NUMBERS + 1)
    assert made() == 1


def test_a_run_chosen_on_another_validation_part_is_another_run(data: Path, tmp_path: Path) -> None:
    def load_uniform(path: Path) -> cp.Split:
        return cp.split_as_given(cp.read_interactions(path), carve="uniform", ordinary=0.0)

    one, other = (Bench(data, tmp_path, MF, tools=tools) for tools in (None, runs.Tools(load=load_uniform)))
    settings = MF.settings("mf", "plain")
    for name, same in {"ml10m": True, "adressa": False}.items():
        assert (one.key("test", name, settings) == other.key("test", name, settings)) == same
    assert one.split("adressa").manifest.carved == one.key("test", "adressa", settings)["carved"] == "matched"


def test_the_threads_of_the_cpu_do_not_count_on_a_gpu() -> None:
    on_cpu, on_gpu = (runs.resolve({"backbone": "lightgcn", "device": device}) for device in ("cpu", "cuda"))
    assert (on_cpu["threads"], on_gpu["threads"]) == (core_count(), None)
    assert runs.resolve({"threads": 3})["threads"] == 3


def test_a_run_file_says_what_made_it_and_is_never_rewritten(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(data, tmp_path, MF)
    bench.validated("ml10m", MF.settings("mf", "plain", threads=1))
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    content = json.loads(text)
    assert content["source"] == source() and content["machine"] == machine()
    assert content["threads"] == content["key"]["settings"]["threads"] == 1
    assert content["key"]["numbers"] == cp.NUMBERS
    assert set(content["machine"]) >= {"python", "numpy", "scipy", "numba", "polars", "counterpop", "cores"}
    assert content["device"] and content["written"]
    assert not {"source", "machine", "device", "written"} & set(content["key"])
    monkeypatch.setattr(cache, "source", lambda: {"commit": "another", "dirty": False})
    again = Bench(data, tmp_path, MF)
    again.validated("ml10m", MF.settings("mf", "plain", threads=1))
    assert again.cache.made == 0 and path.read_text() == text


def test_the_source_is_the_commit_of_the_package_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(root: Path) -> dict[str, Any]:
        monkeypatch.setattr(cp, "__path__", [str(root)])
        return source.__wrapped__()

    def git(*words: str) -> None:
        names = "-c", "user.name=a", "-c", "user.email=a@example.org"
        subprocess.run(["git", "-C", tmp_path, *names, *words], check=True, capture_output=True)

    package = tmp_path / "src"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert found(package) == {"commit": None, "dirty": None}  # no git
    git("init")
    git("commit", "--allow-empty", "-m", "first")
    assert found(package)["commit"] is None  # inside a checkout, but not part of it
    git("add", ".")
    git("commit", "-m", "second")
    (tmp_path / "notes").write_text("")
    clean = found(package)
    assert len(clean["commit"]) == 40 and clean["dirty"] is False
    (package / "new.py").write_text("")
    assert found(package) == clean | {"dirty": True}


def test_the_choice_looks_only_at_validation(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search also makes its choice if the test part cannot be read."""
    bench = Bench(data, tmp_path / "runs", MF)
    split = bench.split("ml10m")
    bench._splits["ml10m"] = replace(split, test=None)
    choice = bench.choose("ml10m", "mf", "gradient")
    recalls = {one["settings"]["loss"]: one["recall"] for one in choice.searched}
    assert set(recalls) == {"bpr", "bce"}
    assert choice.settings["loss"] == max(recalls, key=lambda loss: recalls[loss])


@pytest.mark.parametrize("backbone", published.BACKBONES)
def test_every_method_has_as_many_candidates_as_may_be_asked_for(backbone: str) -> None:
    assert set(published.METHODS) <= {method.name for method in cp.METHODS}, "a row of the tables without a method"
    widest = Plan(candidates=plan.MOST_CANDIDATES)
    for method in published.METHODS:
        found = widest.search(backbone, method)
        assert len({repr(cp.Settings(**one)) for one in found}) == plan.MOST_CANDIDATES, method
        assert Plan(candidates=3).search(backbone, method) == found[:3]
        fewer = 2 if backbone == "lightgcn" else 3
        assert Plan(candidates=3, lightgcn_candidates=2).search(backbone, method) == found[:fewer]
        every = [cp.Settings(**one) for one in found]
        paper_losses = {"bpr", "bce"} & set(plan.find_method(method).losses)
        assert {one.loss for one in every[:2]} == {one.loss for one in every} == paper_losses  # both are tried early
        assert {(one.dim, one.negative_power, one.sampling) for one in every} == {
            (every[0].dim, 0.0, every[0].sampling)
        }
        assert {"loss", "negative_power"} <= found[0].keys()  # named, whatever the defaults of `train` become


def test_a_plan_refuses_what_it_leaves_out_or_does_not_have() -> None:
    with pytest.raises(cp.InputError, match="left out by --backbone"):
        Plan(backbones=("lightgcn",)).check("mf", "plain")
    Plan().check("mf", "plain")
    with pytest.raises(cp.InputError, match="no method other"):
        Plan().check("mf", "other")


def test_without_normalisation_plain_settings_are_tried_as_well() -> None:
    bare = [cp.Settings(**one) for one in Plan().search("mf", "gradient", normalised=False)]
    assert len(bare) == plan.CANDIDATES and not any(one.normalises for one in bare)
    assert [one.initial_scale for one in bare] == [0.1, 0.01, 0.1]


def test_seeds_and_devices_are_those_that_were_asked_for() -> None:
    asked = Plan(seeds=3, seed=5, device="cuda", mf_on_cpu=True)
    assert list(asked.all_seeds) == [5, 6, 7]
    devices = [asked.settings(backbone, "plain")["device"] for backbone in ("mf", "lightgcn")]
    assert devices == ["cpu", "cuda"]


def test_what_another_version_wrote_is_written_again(out: Path, tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    content = json.loads((out / "items" / "table1.json").read_text())
    item = read_item(content["item"])
    path = tmp_path / "items" / "table1.json"
    path.write_text(json.dumps(content))
    assert writing.is_written(item, tmp_path, {})
    content["item"]["lead"] = "edited"
    path.write_text(json.dumps(content))
    with pytest.raises(cp.CounterpopError, match="was edited after it was written; delete it"):
        writing.is_written(item, tmp_path, {})
    del content["made"]["plan"]["mf_on_cpu"], content["checksum"]
    path.write_text(json.dumps(content))
    assert not writing.is_written(item, tmp_path, {}) and writing.read_items(tmp_path, ["table1"]) == []
    for odd in ({}, {"made": None}, {"made": {"plan": []}}, {"made": content["made"]}, content | {"made": {}}):
        path.write_text(json.dumps(odd))
        assert not writing.is_written(item, tmp_path, {}) and writing.read_items(tmp_path, ["table1"]) == []


def test_an_intervened_part_is_drawn_evenly_and_leaves_train_as_it_is(data: Path) -> None:
    known = load_dataset(data / "adressa.npz").development
    assert known.intervened is None
    drawn = draw_intervened(known)
    assert drawn.train is known.train and drawn.valid is known.valid
    marked = drawn.intervened
    assert 0.07 < marked.mean() < 0.13
    counts = known.train.item_counts[known.train.item_ix]
    assert counts[marked].mean() < 0.8 * counts[~marked].mean()  # rare items are drawn more often
    assert np.array_equal(draw_intervened(known).intervened, marked)


def test_a_method_that_cannot_be_trained_is_missing_with_its_reason(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **settings: Any) -> cp.Run:
        raise cp.InputError("it needs an intervened part")

    monkeypatch.setattr(cp, "train", refuse)
    cell = run_cell(Bench(data, tmp_path, MF), "adressa", "mf", "plain")
    assert cell.missing == "it needs an intervened part"
    assert cell.figure("recall") is None


def test_one_side_off_is_the_best_of_the_other_on_validation(data: Path, tmp_path: Path) -> None:
    bench = Bench(data, tmp_path, MF)
    settings = MF.settings("mf", "gradient")
    record, known = bench.tested("ml10m", settings), bench.validated("ml10m", settings)
    recall = np.array(known["grid"]["recall"])
    at = record["item off"]["strengths"]
    assert at[0] == 0
    assert recall[0].max() == recall[0][known["grid"]["user_strengths"].index(at[1])]
    split = bench.split("ml10m")
    tuned = cp.tune(cp.train(split, refit=False, **settings), split, point="gain")
    for side in ("item off", "user off", "plain", "adjusted"):
        strengths = {"plain": (0.0, 0.0), "adjusted": record["strengths"]}.get(side) or record[side]["strengths"]
        found = cp.evaluate(tuned.with_strengths(*strengths), split, resamples=0)
        assert record[side]["recall"] == pytest.approx(found.adjusted.recall, abs=1e-9)


def test_mixed_validation_parts_hold_the_asked_share(data: Path) -> None:
    split = load_dataset(data / "ml10m.npz")
    first, second = split.valid, split.test
    mixed = mix(first, second, 0.75, seed=0)
    size = min(len(first), len(second))
    both = [{*zip(part.user_ix.tolist(), part.item_ix.tolist(), strict=True)} for part in (first, second, mixed)]
    assert len(mixed) == size
    assert len(both[2] & both[0]) == round(0.75 * size)
    assert both[2] <= both[0] | both[1]
    assert len(whole(split)) == sum(map(len, (split.train, split.valid, split.test)))


def test_proportions_are_measured_on_the_same_train_part(out: Path) -> None:
    rows = json.loads((out / "proportion.json").read_text())
    assert sorted({row["proportion"] for row in rows}) == [0, 0.5, 0.75, 0.9, 1]
    at_full = {row["line"]: row["recall"]["mean"] for row in rows if row["proportion"] == 1}
    assert set(at_full) == {"plain", "ordinary", "fixed", "chosen"}
    fixed = {tuple(map(tuple, row["strengths"])) for row in rows if row["line"] == "fixed"}
    assert len(fixed) == 1


def test_thinning_keeps_whole_users(data: Path) -> None:
    split = load_dataset(data / "ml10m.npz")
    few = thin(split, 40)
    kept = np.flatnonzero(few.train.user_counts)
    assert len(kept) <= 40
    assert np.array_equal(few.train.user_counts[kept], split.train.user_counts[kept])
    assert few.development.intervened is not None
    assert len(few.development.intervened) == len(few.train)
    assert thin(split, 10_000) is split


def test_a_split_folder_stands_for_a_data_set(tmp_path: Path) -> None:
    split = cp.split_uniform(cp.make_world(120, 60, seed=3).log, test=2, valid=2)
    cp.save_split(split, tmp_path / "adressa")
    assert find_datasets(tmp_path) == {"adressa": tmp_path / "adressa"}
    assert len(load_dataset(tmp_path / "adressa").train) == len(split.train)
    bench = Bench(tmp_path, tmp_path / "runs", MF)
    assert bench.validated("adressa", MF.settings("mf", "plain"))["valid"]["recall"] >= 0


def test_groups_have_the_names_that_reports_use() -> None:
    assert groups.GROUPS == GROUP_NAMES


def test_published_cells_are_complete_and_in_order() -> None:
    assert published.table3("lightgcn", "gowalla", "gradient") == {"recall": 0.081, "hit_rate": 0.263, "ndcg": 0.053}
    for backbone in published.BACKBONES:
        for dataset in published.DATASETS:
            best = published.table3(backbone, dataset, "gradient")
            for method in published.METHODS:
                cell = published.table3(backbone, dataset, method)
                assert all(0 < cell[metric] <= best[metric] for metric in published.METRICS)
        for n in (0, 1):
            assert published.SECONDS[backbone, "gradient"][n] / published.SECONDS[backbone, "plain"][n] < 1 + cost.CHEAP


def test_text_from_outside_is_escaped_on_the_page(tmp_path: Path) -> None:
    item = Item(
        "table1",
        "A <b>title</b>",
        "lead",
        (Table("t", ("<i>",), [["<script>"]], ("<u>",)),),
        (Figure("<em>", "lines", "x", "y", [{"name": "n", "x": [1], "y": [2]}]),),
        (Claim("<q>", "<a>", "confirmed", "<p>"),),
        missing=("<s>",),
    )
    writing.write_item(item, tmp_path, Plan(), Cache(tmp_path))
    writing.write_overview(tmp_path, list(ITEMS))
    page = (tmp_path / "index.html").read_text()
    for tag in ("<b>title", "<i>", '<script>"', "<u>", "<em>", "<a>", "<s>", "<q>"):
        assert tag not in page


def test_without_matplotlib_the_rest_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    figure = Figure("f", "lines", "x", "y", [{"name": "n", "x": [1], "y": [2]}])
    with pytest.warns(cp.CounterpopWarning, match=r"counterpop\[paper\]"):
        writing.write_item(Item("losses", "t", "l", figures=(figure,)), tmp_path, Plan(), Cache(tmp_path))
    assert (tmp_path / "losses.md").is_file()
    assert not list((tmp_path / "figures").iterdir())


def test_the_command_says_how_to_get_the_data(tmp_path: Path) -> None:
    shown = call("--how-to-get-data")
    assert shown.exit_code == 0
    for word in ("grouplens.org", "--protocol intervened", "--protocol uniform", "gowalla", "MACR"):
        assert word in shown.stdout
    wrong = call("table1", "--data", tmp_path, "--out", tmp_path / "out")
    assert wrong.exit_code == 1
    assert "--how-to-get-data" in wrong.stderr
    (tmp_path / "gowalla.npz").touch()
    lost = call("table2", "--data", tmp_path, "--out", tmp_path / "out", "--dataset", "netflix")
    assert lost.exit_code == 1 and "must hold every --dataset, but it has no netflix" in lost.stderr
    assert call("table9", "--data", tmp_path, "--out", tmp_path).exit_code == 2
    assert call("--data", tmp_path, "--out", tmp_path).exit_code == 2


def test_the_commands_that_rebuild_the_splits_work(tmp_path: Path) -> None:
    """Each as it is printed, on simulated ratings; afterwards all four data sets are found."""
    log = cp.make_world(150, 60, mean_activity=20, seed=4).log
    commands = re.findall(r"counterpop (split (\w+)\.csv [^\\\n]*(?:\\\n.*)?)", HOW_TO_GET)
    assert [name for _, name in commands] == list(published.DATASETS)
    for words, name in commands:
        rated = name in ("ml10m", "netflix")
        lines = [f"{u},{i}{',5,7' if rated else ''}" for u, i in zip(log.user_ix, log.item_ix, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([*lines, *(["1,1,3,9"] if rated else [])]) + "\n")
        words = words.replace("\\\n", " ").replace(f"{name}.csv", str(tmp_path / f"{name}.csv"))
        done = CliRunner().invoke(main, words.replace("DIR", str(tmp_path)).split())
        assert done.exit_code == 0, done.stderr
    bench = Bench(tmp_path, tmp_path / "runs", MF)
    assert list(bench.paths) == list(published.DATASETS)
    assert [row["pairs"] for row in make_table2(bench).rows] == [len(log)] * 4


def test_a_damaged_run_is_named(data: Path, tmp_path: Path) -> None:
    bench = Bench(data, tmp_path / "runs", MF)
    bench.validated("ml10m", MF.settings("mf", "plain"))
    (file,) = (tmp_path / "runs").iterdir()
    file.write_text("{")
    with pytest.raises(cp.CounterpopError, match="is damaged"):
        bench.validated("ml10m", MF.settings("mf", "plain"))


def test_lightgcn_comes_after_all_of_mf(data: Path, tmp_path: Path) -> None:
    done = call("strengths", "--data", data, "--out", tmp_path, "--quick")
    assert done.exit_code == 0, done.stderr
    order = [line for line in done.stderr.splitlines() if "gradient" in line]
    assert ["lightgcn" in line for line in order] == sorted("lightgcn" in line for line in order)
    rows = json.loads((tmp_path / "strengths.json").read_text())
    assert {row["backbone"] for row in rows} == {"mf", "lightgcn"}


def test_the_paper_is_made_from_public_names() -> None:
    for path in Path(runs.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("counterpop"):
                allowed = (
                    "counterpop.paper",
                    "counterpop.reporting",
                    "counterpop.uncertainty",
                    "counterpop.encoding",
                    "counterpop.outputs",
                    "counterpop.tabular",
                    "counterpop.kernels.threads",
                )
                assert str(node.module).startswith(allowed), path.name
                assert not any(alias.name.startswith("_") for alias in node.names)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cp":
                assert node.attr in {*cp.__all__, "__version__", "__path__"}, f"{path.name}: cp.{node.attr}"


@pytest.mark.skipif(not (REAL / "ml10m.npz").exists(), reason="the paper's data are not here (set COUNTERPOP_DATA)")
def test_tables_one_and_two_are_the_papers_on_the_papers_data(tmp_path: Path) -> None:
    bench = Bench(REAL, tmp_path, Plan(quick=True))
    one, two = make_table1(bench), make_table2(bench)
    sizes = [claim for claim in (*one.claims, *two.claims) if "Table I" in claim.section]
    assert [claim.verdict for claim in sizes] == ["confirmed", "confirmed"]
    rows = {(row["dataset"], row["group"]): row for row in one.rows}
    for group, (number, *_) in published.UNBALANCED.items():
        assert rows["ml10m", group]["number"] == number
    log = observed(load_dataset(REAL / "ml10m.npz"))
    popular = rows["ml10m", "popular items"]
    assert 0.79 < (popular["with_head"] + popular["with_rest"]) * 328 / len(log) <= 0.8
    assert bench.cache.made == 0


# --- the frontier ---


@pytest.mark.parametrize("backbone", published.BACKBONES)
def test_the_best_of_ours_has_as_many_candidates_as_any_other(backbone: str) -> None:
    widest = Plan(candidates=plan.MOST_CANDIDATES)
    for method in (published.OURS, published.PLAIN):
        found = widest.search(backbone, method, frontier.CANDIDATES[backbone])
        assert len({repr(cp.Settings(**one)) for one in found}) == plan.MOST_CANDIDATES
    rivals = [method for method in cp.METHODS if backbone == "lightgcn" or not method.needs_graph]
    for rival in rivals:
        assert len(widest.search(backbone, rival.name)) == plan.MOST_CANDIDATES, rival.name
    powered = [cp.Settings(**one) for one in widest.search(backbone, published.PLAIN, negative_power=1.0)]
    assert {one.negative_power for one in powered} == {1.0}


@pytest.mark.parametrize("name", ["simgcl", "paac"])
def test_a_strong_contrast_is_among_the_first_candidates(name: str) -> None:
    found = [cp.Settings(**one).method for one in Plan().search("lightgcn", name)]
    assert [getattr(method, "weight") for method in found] == [0.5, 0.1, 5.0]  # noqa: B009


def test_the_frontier_has_every_method_and_the_best_of_ours(data: Path, tmp_path: Path) -> None:
    """Made by the command; the ensemble of both seeds is what the library makes of their two models."""
    words = ("--data", data, "--out", tmp_path, "--quick", "--seeds", 2, "--dataset", "adressa", "--json")
    done = call("frontier", "--backbone", "mf", *words)
    assert done.exit_code == 0, done.stderr
    rows = json.loads((tmp_path / "frontier.json").read_text())
    assert {row["dataset"] for row in rows} == {"adressa"}
    assert [(row["method"], row["variant"]) for row in rows] == [
        ("plain", ""),
        ("plain", frontier.BY_POPULARITY),
        ("plain", frontier.SAME_CANDIDATES),
        *((name, "") for name in ("ips", "cause", "dice", "macr", "gradient")),
        ("gradient", frontier.BEST),
        ("gradient", frontier.ENSEMBLE),
    ]
    by_title = {(row["method"], row["variant"]): row for row in rows}
    assert by_title["plain", frontier.BY_POPULARITY]["chosen"]["settings"]["negative_power"] == 1.0
    assert by_title["plain", ""]["published"] == published.table3("mf", "adressa", "plain")
    best, ensemble = by_title["gradient", frontier.BEST], by_title["gradient", frontier.ENSEMBLE]
    assert best["best_less_this"] is None and set(ensemble["best_less_this"]) == set(published.METRICS)
    same = by_title["plain", frontier.SAME_CANDIDATES]
    tried, also = ([one["settings"] for one in row["chosen"]["searched"]] for row in (same, best))
    assert tried == also
    difference = by_title["plain", ""]["best_less_this"]["recall"]
    assert difference["difference"] == pytest.approx(best["recall"]["mean"] - by_title["plain", ""]["recall"]["mean"])
    assert difference["corrected"] >= difference["p_value"]
    chosen = {one: best["chosen"]["settings"][one] for one in ("loss", "negative_power")}
    split, trained = load_dataset(data / "adressa.npz"), []
    for seed in (0, 1):
        settings = MF.settings("mf", "gradient", **chosen) | {"seed": seed}
        trained.append(cp.train(split, refit=True, **settings))
    models, refits = ([getattr(run, name) for run in trained] for name in ("model", "refit"))
    together = replace(trained[0], model=cp.combine(models), refit=cp.combine(refits))
    recall = cp.evaluate(cp.tune(together, split, point="gain"), split, resamples=0).adjusted.recall
    assert ensemble["recall"]["mean"] == pytest.approx(recall, abs=1e-12)
    tuned = [cp.tune(run, split, point="gain", prove=False) for run in trained]
    lists = [cp.evaluate(one, split, resamples=0).adjusted for one in tuned]
    assert best["average_popularity"] == pytest.approx(np.mean([one.average_popularity for one in lists]))
    text = (tmp_path / "frontier.md").read_text()
    assert "plain, negatives by popularity" in text and "left out by --dataset" in text
    for name in ("frontier.csv", "frontier.tex", "items/frontier.json"):
        assert (tmp_path / name).is_file()
    assert "all that is known on these splits" in (tmp_path / "index.html").read_text()
    again = call("frontier", "--backbone", "mf", *words)
    assert json.loads(again.stdout)["new_runs"] == 0


def test_seconds_of_a_result_leave_out_those_made_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, now = Cache(tmp_path), [0.0]
    monkeypatch.setattr(cache.time, "perf_counter", lambda: now[0])

    def make(name: str, seconds: float, inner: Callable[[], Any] = dict) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            now[0] += seconds
            inner()
            return {}

        return kept.get({"what": name, "settings": {"device": "cpu", "threads": 1}}, work)

    make("outer", 2.0, lambda: make("inner", 5.0))
    assert sorted(one["seconds"] for one in kept.used.values()) == [2.0, 5.0]
