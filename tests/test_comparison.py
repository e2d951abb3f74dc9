"""Several seeds, and models compared: figures by hand, paired tests against SciPy's, and the commands end to end."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from scipy import stats

import counterpop as cp
from builders import vectors_for
from counterpop import artifacts
from counterpop.cli import main
from counterpop.comparison import summarise_seeds
from counterpop.errors import ArtifactError, InputError
from counterpop.interactions import join
from counterpop.reporting import comparison_sentences, comparison_sheet, printed_table, write_comparison
from counterpop.reporting.tables import format_figure
from counterpop.uncertainty import resample, unpack

QUICK = ("--dim", 4, "--epochs", 3, "--loss", "bpr", "--negative-power", 0, "--no-refit")


def model_of(split: cp.Split, seed: int, shift: float = 0.0) -> cp.Recommender:
    """Vectors that know the test pairs a little, by `shift`: the more, the better."""
    vectors = vectors_for(split.train, seed=seed)
    users = vectors.user_vectors.copy()
    np.add.at(users, split.test.user_ix, np.float32(shift) * vectors.item_vectors[split.test.item_ix])
    axis = np.eye(1, vectors.dim, dtype=np.float32)[0]
    seen = split.development.refit_train()
    return cp.Recommender(axis, axis, 0.0, 0.0, embeddings=replace(vectors, user_vectors=users), seen=seen)


def test_means_and_deviations_are_those_of_the_seeds(split: cp.Split) -> None:
    better, worse = ([model_of(split, seed, shift) for seed in range(3)] for shift in (0.5, 0.0))
    found = cp.compare({"better": better, "worse": worse}, split)
    recalls = [cp.evaluate(model, split, resamples=0).adjusted.recall for model in better]
    figure = found.figures["better"]["recall"]
    assert found.values["better"]["recall"] == recalls
    assert figure["mean"] == pytest.approx(np.mean(recalls))
    assert figure["std"] == pytest.approx(np.std(recalls, ddof=1))
    assert figure["seeds"] == 3
    row = found.differences["worse"]["recall"]
    assert row["difference"] == pytest.approx(np.mean(recalls) - found.figures["worse"]["recall"]["mean"])
    assert row["low"] > 0 and row["corrected"] >= row["p_value"]
    assert found.figures["better"]["gini"]["low"] is None
    assert "better minus worse: recall +" in comparison_sentences(found)[0]


def test_one_seed_gives_the_p_value_of_a_paired_t_test(split: cp.Split) -> None:
    first, second = (model_of(split, 0, shift) for shift in (0.12, 0.1))
    found = cp.compare([first, second], split).differences["model 2"]["recall"]
    one, two = (cp.evaluate(model, split, resamples=0).adjusted.per_user["recall"] for model in (first, second))
    assert found["difference"] == pytest.approx((one - two).mean())
    assert found["p_value"] == pytest.approx(stats.ttest_rel(one, two).pvalue, rel=0.2, abs=0.03)


def test_weights_of_users_count_in_draws() -> None:
    """A user of weight 0 does not count: the draws are those of a mean over the others."""
    draw = np.random.default_rng(0)
    values, weights = draw.random(800), np.repeat([1.0, 0.0], 400)
    deviations = unpack(resample({"m": values}, weights)["m"])
    assert deviations.std() == pytest.approx(values[:400].std() / 20, rel=0.1)
    assert abs(deviations.mean()) < 0.002


def test_different_held_out_pairs_are_not_compared(split: cp.Split, world: cp.World) -> None:
    other = cp.split_uniform(world.log, test=2, valid=3, ordinary=0.05)
    evaluations = [cp.evaluate(model_of(one, 0), one, resamples=0) for one in (split, other)]
    with pytest.raises(InputError, match="the same held-out pairs"):
        summarise_seeds({"a": evaluations[:1], "b": evaluations[1:]})
    with pytest.raises(InputError, match=r"list of models or folders, .* got Measures"):
        cp.compare(evaluations[0].adjusted, split)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pass it as compare"):
        cp.compare([model_of(split, 0)])


def call(*words: object) -> Any:
    return CliRunner().invoke(main, [str(word) for word in words])


def call_json(*words: object) -> dict[str, Any]:
    done = call(*words, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def folder(split: cp.Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("seeds")
    cp.save_split(split, path / "split")
    call_json("train", path / "split", "--seeds", 3, "--out", path / "ours", *QUICK)
    call_json("train", path / "split", "--seeds", 2, "--method", "plain", "--out", path / "plain", *QUICK)
    return path


def test_seeds_are_ordinary_runs_and_are_tuned_and_evaluated_together(folder: Path, split: cp.Split) -> None:
    tuned = call_json("tune", folder / "ours", "--point", "gain")
    assert list(tuned["seeds"]) == ["seed-0", "seed-1", "seed-2"]
    single = [call_json("evaluate", folder / "ours" / f"seed-{seed}") for seed in range(3)]
    found = call_json("evaluate", folder / "ours")
    for kind in ("plain", "adjusted"):
        recalls = [one[kind]["recall"] for one in single]
        assert found[kind]["recall"]["mean"] == pytest.approx(np.mean(recalls))
        assert found[kind]["recall"]["std"] == pytest.approx(np.std(recalls, ddof=1))
    assert found["users"] == single[0]["users"]
    against = call_json("evaluate", folder / "ours", "--against", folder / "plain")["against"]
    assert against["adjusted"]["recall"]["seeds"] == 2
    assert "±" in call("evaluate", folder / "ours").stdout


@pytest.mark.parametrize(
    "words", [("--names", "x.csv"), ("--explain",), ("--seed", 0), ("--no-header",), ("--item", "film"), ("--users", 5)]
)
def test_options_without_effect_on_several_seeds_are_refused(folder: Path, words: tuple[object, ...]) -> None:
    refused = call("evaluate", folder / "ours", *words)
    assert refused.exit_code == 2
    option = str(words[0]).replace("no-", "")
    assert f"{option} does not go with a folder of several seeds" in " ".join(refused.stderr.split())


def test_compare_takes_sets_and_single_runs_and_writes_tables(folder: Path, tmp_path: Path) -> None:
    runs = folder / "ours", folder / "plain", folder / "plain" / "seed-0"
    files = [word for kind in ("csv", "tex", "markdown") for word in (f"--{kind}", tmp_path / f"table.{kind}")]
    found = call_json("compare", *runs, *files)
    assert [one["recall"]["seeds"] for one in found["figures"].values()] == [3, 2, 1]
    assert found["figures"]["seed-0"]["recall"]["std"] is None
    again = cp.compare(runs)
    assert again.to_json()["differences"] == found["differences"]
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert float(rows[0]["Recall"]) == found["figures"]["ours"]["recall"]["mean"]
    assert float(rows[0]["Recall std"]) == found["figures"]["ours"]["recall"]["std"]
    tex = (tmp_path / "table.tex").read_text()
    assert r"\toprule" in tex and r"$\pm$" in tex and tex.count(r"\\") == 4
    assert (tmp_path / "table.markdown").read_text().count("| ours |") == 1
    shown = call("compare", *runs[:2]).stdout
    assert "ours minus plain: recall " in shown
    with pytest.raises(InputError, match=r"\.csv, \.tex or \.md"):
        write_comparison(again, tmp_path / "x.html")


def test_missing_seeds_are_reported_and_resumed(folder: Path, tmp_path: Path) -> None:
    words = ("train", folder / "split", "--seeds", 2, "--out", tmp_path / "run", *QUICK)
    call_json(*words)
    first = (tmp_path / "run" / "seed-0" / "manifest.json").read_bytes()
    for part in (tmp_path / "run" / "seed-1").glob("manifest.json"):
        part.unlink()
    with pytest.raises(ArtifactError, match="has 1 of 2 seeds; repeat its training with --resume"):
        artifacts.seed_folders(tmp_path / "run")
    assert "has 1 of 2 seeds" in call("evaluate", tmp_path / "run").stderr
    shutil.rmtree(tmp_path / "run" / "seed-1")
    assert "pass --resume" in call(*words).stderr
    call_json(*words, "--resume")
    assert (tmp_path / "run" / "seed-0" / "manifest.json").read_bytes() == first
    assert len(artifacts.seed_folders(tmp_path / "run")) == 2
    refused = call("train", folder / "split", "--seeds", 2, "--out", folder / "split", *QUICK)
    assert "holds a split, which is not overwritten" in refused.stderr
    other = cp.split_uniform(cp.load_split(folder / "split").train, test=2, valid=2, ordinary=0)
    cp.save_split(other, tmp_path / "other")
    resumed = (*words[2:], "--resume")
    assert "was trained on another split" in call("train", tmp_path / "other", *resumed).stderr
    assert "was trained with dim" in call(*(5 if word == 4 else word for word in (*words, "--resume"))).stderr
    by_dice = [*words, "--force", "--method", "dice"]
    call_json(*by_dice, "--option", "margin=20")
    refused = call(*by_dice[:-3], "--resume", "--method", "dice", "--option", "margin=30")
    assert "was trained with options" in refused.stderr and "'margin': 20.0" in refused.stderr
    artifacts.begin_seeds(tmp_path / "run", range(2), force=True)  # and stopped at once
    with pytest.raises(ArtifactError, match="has 0 of 2 seeds"):
        artifacts.seed_folders(tmp_path / "run")


def test_a_model_that_knows_validation_pairs_is_not_compared_on_them(folder: Path, tmp_path: Path) -> None:
    split = cp.load_split(folder / "split")
    other = cp.split_from_logs(join(split.train, split.valid), split.test, split.development.ordinary)
    cp.save_split(other, tmp_path / "other")
    call_json("train", tmp_path / "other", "--method", "plain", "--out", tmp_path / "knows", *QUICK)
    with pytest.raises(InputError, match="knows was trained on pairs that are held out here"):
        cp.compare([folder / "plain", tmp_path / "knows"], on="valid")
    tuned = cp.tune(cp.load_run(folder / "ours" / "seed-0").run, split, point="gain")  # leaves out validation on test
    assert cp.compare([tuned], split, on="valid").values["model 1"]["recall"] == [tuned.measured["recall"]]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_terminal_shows_every_figure_whole(split: cp.Split, width: int) -> None:
    found = cp.compare({f"model {n}": [model_of(split, n, 0.5)] for n in range(4)}, split)
    screen = Console(file=StringIO(), width=width)
    screen.print(printed_table(comparison_sheet(found)))
    shown = screen.file.getvalue()
    assert "…" not in shown
    for figures in found.figures.values():
        assert format_figure("recall", figures["recall"]["mean"]) in shown
