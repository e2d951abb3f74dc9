"""The commands from a log to a report, as a user types them."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from counterpop.cli import COMMANDS, main


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def call_json(*words: object) -> dict:
    result = call(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with string ids, its split and a tuned run, all created by the commands."""
    folder = tmp_path_factory.mktemp("cli")
    log = cp.make_world(300, 150, seed=5).log
    pl.DataFrame(
        {
            "who": [f"u{n}" for n in log.user_ids[log.user_ix]],
            "what": [f"i{n}" for n in log.item_ids[log.item_ix]],
            "when": log.time,
        }
    ).write_csv(folder / "log.csv")
    made = call_json(
        "split",
        folder / "log.csv",
        "--protocol",
        "uniform",
        "--user",
        "who",
        "--item",
        "what",
        "--time",
        "when",
        "--test",
        2,
        "--valid",
        0.1,
        "--ordinary",
        0.05,
        "--out",
        folder / "split",
    )
    assert made["pairs"] == len(log)
    assert made["protocol"] == "uniform"
    train_run(folder, "run", "gradient")
    call_json("tune", folder / "run", "--point", "gain")
    return folder


def train_run(folder: Path, name: str, method: str, *words: object) -> dict:
    return call_json(
        "train",
        folder / "split",
        "--backbone",
        "mf",
        "--method",
        method,
        "--dim",
        8,
        "--epochs",
        30,
        *(() if "--refit" in words else ("--no-refit",)),
        "--out",
        folder / name,
        *words,
    )


def test_baselines_and_corrections_from_train_to_report(folder: Path) -> None:
    found = train_run(folder, "dice", "dice", "--option", "margin=3", "--option", "discrepancy=l2")
    options = found["settings"]["options"]
    assert (options["margin"], options["discrepancy"], options["pool"]) == (3.0, "l2", 40.0)
    assert train_run(folder, "macr", "macr")["settings"]["loss"] == "bce"
    tuned = call_json("tune", folder / "macr", "--point", "gain")
    model, split = cp.load(folder / "macr"), cp.load_split(folder / "macr")
    grid = cp.load_run(folder / "macr").run.model.dials.user_strengths
    recalls = [cp.evaluate(model.with_strengths(0, c), split, "valid", resamples=0).adjusted.recall for c in grid]
    assert tuned["item_strength"] == 0 and tuned["user_strength"] == grid[int(np.argmax(recalls))] > 0
    assert tuned["adjusted"]["recall"] == pytest.approx(max(recalls), abs=1e-12)
    assert tuned["plain"]["recall"] == pytest.approx(recalls[0], abs=1e-12)
    assert recalls[0] < max(recalls)
    none = call_json("tune", folder / "dice")
    assert (none["item_strength"], none["user_strength"]) == (0, 0)
    assert "dice has no strengths to tune" in call("tune", folder / "dice").stdout
    made = call_json("correct", folder / "run", "--by", "tten", "--out", folder / "tten")
    before, after = (cp.load_run(folder / name).run.model.embeddings for name in ("run", "tten"))
    still = np.zeros(before.dim, np.float32)
    for vectors, shown in ((before, made["plain"]), (after, made["valid"])):
        bare = cp.Recommender(still, still, 0.0, 0.0, embeddings=vectors, seen=split.train)
        assert cp.evaluate(bare, split, "valid", resamples=0).plain.recall == pytest.approx(shown, abs=1e-12)
    assert made["by"] == "tten" and made["valid"] > made["plain"] and made["strengths"] != [0]
    runs = [folder / name for name in ("dice", "macr", "tten")]
    report = call_json("report", *runs, "--out", folder / "baselines.html")
    assert set(report["runs"]) == {str(run) for run in runs}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--method", "dice", "--option", "margins=3"], "'margins' is not an option of dice"),
        (["--method", "dice", "--option", "margin"], "not a name and a value"),
        (["--method", "cause"], "drawn by intervention"),
        (["--minutes", "1"], "--minutes works only together with --auto"),
        (["--threads", "100000"], "'--threads': 100000 is not in the range 1<=x<=1024"),
        (["--auto", "--minutes", "0"], "'--minutes': 0.0 is not in the range x>0"),
        (["--auto", "--minutes", "-1"], "'--minutes': -1.0 is not in the range x>0"),
        (["--auto", "--minutes", "nan"], "--minutes must be a finite number, got nan"),
    ],
)
def test_wrong_options_of_a_method_are_errors(folder: Path, words: list[str], sentence: str) -> None:
    result = call("train", folder / "split", *words, "--out", folder / "never")
    assert result.exit_code in (1, 2) and sentence in " ".join(result.stderr.split())
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tune", "no", "--point", "gain", "--price", 0.1), "--price does not go with --point gain"),
        (("debias", "--check", "no", "--interactions", "no", "--explain"), "--explain does not go with --check"),
        (("recommend", "no", "--out", "x.csv", "--force"), "--force works only together with a folder"),
        (("audit", "--recommendations", "r", "--interactions", "i", "--rank", "a", "--score", "b"), "--rank does not"),
        (("paper", "table1", "--data", "no", "--out", "x", "--device", "cuda"), "--device does not go with table1"),
        (("paper", "table1", "--data", "no", "--out", "x", "--quick"), "--quick does not go with table1"),
        (("paper", "table2", "--data", "no", "--out", "x", "--seed", 1), "--seed does not go with table1"),
        (("paper", "losses", "--data", "no", "--out", "x", "--backbone", "lightgcn"), "only MF is trained"),
        (
            ("paper", "figure1", "--data", "no", "--out", "x", "--device", "cuda", "--mf-on-cpu"),
            "for items with both backbones",
        ),
        (("recommend", "no", "--seed", 1), "--seed works only together with --approximate"),
        (("paper", "table4", "--data", "no", "--out", "x", "--seeds", 2), "--seeds has no effect on table4"),
        (("paper", "losses", "--data", "no", "--out", "x", "--candidates", 2), "--candidates has no effect on losses"),
        (
            ("paper", "proportion", "--data", "no", "--out", "x", "--lightgcn-candidates", 2),
            "--lightgcn-candidates has no",
        ),
        (
            ("paper", "table3", "--data", "no", "--out", "x", "--backbone", "lightgcn", "--lightgcn-candidates", 2),
            "--candidates is enough",
        ),
        (("paper", "all", "--data", "no", "--out", "x", "--mf-on-cpu"), "--mf-on-cpu works only together"),
        (("paper", "all", "--data", "no", "--out", "x", "--quick", "--candidates", 4), "at most 2 candidates"),
    ],
)
def test_options_without_effect_are_refused(words: tuple[object, ...], sentence: str) -> None:
    result = call(*words)
    assert result.exit_code == 2 and sentence in " ".join(result.stderr.split())


def test_train_auto_searches_and_removes_its_journal(folder: Path) -> None:
    words = ["train", folder / "split", "--backbone", "mf", "--epochs", 12, "--dim", 8, "--out", folder / "auto"]
    found = call_json(*words, "--auto", "--minutes", 0.02)["settings"]["search"]
    assert {row["dim"] for row in found["leaderboard"]} == {8}
    assert cp.load_run(folder / "auto").run.settings["search"] == found
    assert not (folder / "auto.search").exists()


def test_train_says_what_it_tried_and_chose(folder: Path) -> None:
    words = ["train", folder / "split", "--dim", 8, "--epochs", 60, "--force", "--out", folder / "raced"]
    raced = call_json(*words, "--negative-power", 0.5)["settings"]
    assert [row["loss"] for row in raced["race"]["tried"]] == ["bpr", "bce"]
    assert raced["refit"] and cp.load_run(folder / "raced").run.settings["race"] == raced["race"]
    assert raced["race"]["sentence"] in call(*words, "--negative-power", 0.5).stdout
    named = call_json(*words, "--no-refit", "--negative-power", 0.5, "--loss", raced["loss"])["settings"]
    assert "race" not in named and not named["refit"]


def test_softmax_has_options_of_its_own(folder: Path) -> None:
    words = ["train", folder / "split", "--dim", 8, "--epochs", 2, "--no-refit", "--force", "--out", folder / "softmax"]
    found = call_json(*words, "--loss", "softmax", "--temperature", 0.2, "--logq", -0.5, "--shared-negatives", 16)
    assert {"temperature": 0.2, "logq": -0.5, "shared_negatives": 16, "normalised": True}.items() <= found[
        "settings"
    ].items()
    refused = call(*words, "--loss", "bpr", "--logq", 0.5)
    assert refused.exit_code == 1 and "logq belongs to loss softmax and has no effect on bpr" in refused.stderr


def test_evaluate_prints_what_the_library_gives(folder: Path) -> None:
    printed = call_json("evaluate", folder / "run", "--on", "test", "--k", 10)
    model, split = cp.load(folder / "run"), cp.load_split(folder / "run")
    expected = json.loads(json.dumps(cp.evaluate(model, split, "test", 10).to_json()))
    assert {key: printed[key] for key in expected} == expected
    wanted = {"recall", "hit_rate", "ndcg", "average_popularity", "tail_share", "coverage", "gini", "groups"}
    for side in ("plain", "adjusted"):
        assert wanted <= printed[side].keys()
    assert printed["item_strength"] == model.item_strength


def test_a_paired_test_between_two_runs(folder: Path) -> None:
    train_run(folder, "plain", "plain")
    printed = call_json("evaluate", folder / "run", "--against", folder / "plain")
    difference = printed["against"]["difference"]["recall"]["difference"]
    assert difference == pytest.approx(printed["adjusted"]["recall"] - printed["against"]["adjusted"]["recall"])
    assert difference != 0
    # the table and the report have the same sign: the named run minus the other
    shown = call("evaluate", folder / "run", "--against", folder / "plain").stdout
    found = re.search(r"run, \w+ minus plain, plain Recall (\S+)", " ".join(shown.split()))
    assert found[1] == f"{difference:+.4f}"
    call_json("report", folder / "run", folder / "plain", "--out", folder / "signs.html")
    page = (folder / "signs.html").read_text()
    row = re.split(r"gradient training, \w+<small>minus plain training, plain</small>", page)[1]
    assert float(re.search(r'<data value="(\S+)">', row)[1]) == difference


@pytest.mark.parametrize("words", [("--no-refit",), ()], ids=["", "refit"])
def test_recall_of_the_written_lists_is_that_of_evaluate(folder: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Plain NumPy on the file of `recommend`: no item is a candidate in one command and not in the other."""
    run = tmp_path / "run"
    call_json("train", folder / "split", "--dim", 8, "--epochs", 30, "--out", run, *words)
    call_json("tune", run)
    call_json("recommend", run, "--out", tmp_path / "lists.csv")
    printed, lists = call_json("evaluate", run), pl.read_csv(tmp_path / "lists.csv")
    test = pl.read_parquet(run / "split" / "test.parquet")
    users, items = (pl.read_parquet(run / "split" / f"{name}.parquet")["id"].to_numpy() for name in ("users", "items"))
    held = list(zip(users[test["user_ix"].to_numpy()], items[test["item_ix"].to_numpy()], strict=True))
    shown = set(lists.select("user", "item").iter_rows())
    recall = {user: [] for user, _ in held}
    for user, item in held:
        recall[user].append((user, item) in shown)
    assert np.mean([np.mean(found) for found in recall.values()]) == pytest.approx(printed["adjusted"]["recall"], 1e-9)
    assert printed["users"] == len(recall)
    known = [pl.read_parquet(run / "split" / f"{name}.parquet") for name in ("train", "valid", "ordinary")]
    touched = {(users[u], items[i]) for part in known for u, i in part.select("user_ix", "item_ix").iter_rows()}
    assert not touched & shown
    # the audit describes the same lists
    audited = call_json("audit", run)
    exposed = np.unique(lists["item"].to_numpy())
    assert audited["coverage"] == pytest.approx(len(exposed) / len(items))


def test_strengths_from_the_command_line_are_used(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "lists.csv"
    call_json(
        "recommend",
        folder / "run",
        "--users",
        "u3,u7",
        "--k",
        5,
        "--item-strength",
        0.7,
        "--user-strength",
        0.2,
        "--out",
        out,
    )
    table = pl.read_csv(out)
    assert table["user"].to_list() == ["u3"] * 5 + ["u7"] * 5
    assert table["rank"].to_list() == [1, 2, 3, 4, 5] * 2
    saved, split = cp.load_run(folder / "run"), cp.load_split(folder / "run")
    assert saved.adjustment is not None
    user = split.train.user_positions(["u3"])[0]
    scores = (
        saved.adjustment.query(saved.run.embeddings.user_vectors[user], 0.7, 0.2) @ saved.run.embeddings.item_vectors.T
    )
    known = split.development.refit_train()
    scores[known.item_ix[known.user_ix == user]] = -np.inf
    best = split.train.item_ids[np.argsort(-scores)[:5]]
    assert table["item"].to_list()[:5] == best.tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_lists_in_every_format(folder: Path, tmp_path: Path, ending: str) -> None:
    users = tmp_path / "users.txt"
    users.write_text("u3\n\nu7\n")
    out = tmp_path / f"lists.{ending}"
    assert call("recommend", folder / "run", "--users", users, "--k", 3, "--out", out).exit_code == 0
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}[ending]
    assert read(out).shape == (6, 4)
    printed = call("recommend", folder / "run", "--users", "u3", "--k", 3)
    assert printed.stdout.splitlines()[0] == "user,rank,item,score"
    assert len(printed.stdout.splitlines()) == 4


def test_tune_writes_into_the_run_and_respects_the_floor(folder: Path) -> None:
    train_run(folder, "floored", "gradient", "--refit")
    free = call_json("tune", folder / "floored", "--target", "average_popularity", "--point", "gain")
    words = "--target", "average_popularity", "--floor", "ndcg=0.98", "--point", "gain"
    held = call_json("tune", folder / "floored", *words)
    assert held["adjusted"]["average_popularity"] > free["adjusted"]["average_popularity"]
    assert cp.load_adjustment(folder / "floored").item_strength == held["item_strength"]
    on_valid = call_json("evaluate", folder / "floored", "--on", "valid")
    assert on_valid["adjusted"]["recall"] == pytest.approx(held["adjusted"]["recall"], abs=1e-6)


def test_tune_says_what_it_did_and_every_command_names_the_validation_part(folder: Path) -> None:
    trained = train_run(folder, "proven", "gradient")
    tuned = call_json("tune", folder / "proven", "--target", "average_popularity", "--price", 0.2)
    assert tuned["proven"] and tuned["p_value"] < 0.05 and tuned["low"] < tuned["gain"] < tuned["high"]
    assert tuned["price"] <= 0.2 and set(tuned["points"]) == {"gain", "balanced", "free"}
    chosen = {name: tuned["points"]["balanced"][name] for name in ("item_strength", "user_strength")}
    assert chosen == {name: tuned[name] for name in chosen} and sum(chosen.values()) > 0
    assert trained["validation"] == tuned["validation"] == call_json("evaluate", folder / "proven")["validation"]
    assert tuned["validation"] == "uniform"
    printed = call("tune", folder / "proven", "--target", "average_popularity", "--price", 0.2).stdout
    assert tuned["sentence"] in printed and "validation part: uniform" in printed
    assert "Validation part of" in call("evaluate", folder / "proven", "--explain").stdout
    call("report", folder / "proven", "--out", folder / "proven.html")
    assert "validation" in (folder / "proven.html").read_text()


def test_tune_gives_the_same_result_without_a_test_part(folder: Path) -> None:
    train_run(folder, "untested", "gradient")
    (folder / "untested" / "split" / "test.parquet").unlink()
    manifest = folder / "untested" / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["files"]["split/test.parquet"], content["checksum"]
    manifest.write_text(json.dumps(content | {"format": 2}))  # which has no checksum of its own
    tuned = call_json("tune", folder / "untested", "--point", "gain")
    reference = cp.load_adjustment(folder / "run")
    assert (tuned["item_strength"], tuned["user_strength"]) == (reference.item_strength, reference.user_strength)


def test_one_thread_is_repeatable_bit_for_bit(folder: Path) -> None:
    for name in ("one", "two"):
        train_run(folder, name, "gradient", "--threads", 1, "--seed", 4)
    first, second = (cp.load_run(folder / name).run.embeddings for name in ("one", "two"))
    assert np.array_equal(first.user_vectors, second.user_vectors)
    assert np.array_equal(first.item_vectors, second.item_vectors)


def test_the_report_of_two_runs(folder: Path, tmp_path: Path) -> None:
    train_run(folder, "other", "plain")
    out = tmp_path / "report.html"
    printed = call_json("report", folder / "run", folder / "other", "--out", out)
    assert set(printed["runs"]) == {str(folder / "run"), str(folder / "other")}
    text = out.read_text()
    assert f"{printed['runs'][str(folder / 'run')]['adjusted']['recall']:.4f}"[1:] in text


def test_the_demo_writes_runs_and_pages(tmp_path: Path) -> None:
    printed = call_json("demo", "--out", tmp_path / "demo", "--users", 800, "--items", 300, "--epochs", 60)
    assert (tmp_path / "demo" / "report.html").is_file()
    assert (tmp_path / "demo" / "audit.html").is_file()
    assert cp.load_run(tmp_path / "demo" / "run").adjustment is not None
    truth = printed["run"]["true_taste_recall"]
    assert truth["adjusted"] > 1.1 * truth["plain"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("split", "missing.csv", "--protocol", "random", "--out", "x"), "missing.csv"),
        (("train", "nowhere", "--out", "x"), "not a split or run folder"),
        (("tune", "nowhere"), "not a run folder"),
        (("evaluate", "nowhere"), "not a run or adjustment folder"),
        (("report", "nowhere", "--out", "x.html"), "not a run or adjustment folder"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_1(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


def test_unknown_users_and_wrong_file_endings_are_errors(folder: Path) -> None:
    for words, sentence in (
        (("--users", "u3,nobody"), "every user must be in the log, but 1 of 2 are not (first: 'nobody')"),
        (("--users", "u3", "--out", "lists.xlsx"), "--out must end in"),
        (("--users", "u3", "--item-strength", "nan"), "--item-strength must be a finite number"),
    ):
        result = call("recommend", folder / "run", *words)
        assert result.exit_code == (2 if "nan" in words else 1)
        assert sentence in result.stderr
    for words in (
        ("tune", folder / "run", "--floor", "ndcg"),
        ("tune", folder / "run", "--floor", "ndcg=1.5"),
        ("evaluate", folder / "run", "--k", 0),
        ("evaluate", folder / "run", "--seed", -1),
        ("split", folder / "log.csv", "--protocol", "as-given", "--test", 0.1, "--out", folder / "x"),
        ("report", folder / "run", folder / "run", "--out", folder / "x.html"),
        ("nonsense",),
    ):
        assert call(*words).exit_code == 2


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "counterpop", "tune", str(tmp_path), "--debug"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    text = call(name, "--help").output
    assert f"Example: counterpop {name}" in text
    assert "--json" in text
    assert "--seed" in text


def test_help_and_import_stay_light() -> None:
    """Importing the package or asking for help loads neither torch, numba, plotly nor polars."""
    code = (
        "import sys, counterpop, counterpop.cli\n"
        "from click.testing import CliRunner\n"
        "assert CliRunner().invoke(counterpop.cli.main, ['--help']).exit_code == 0\n"
        "print([m for m in ('torch', 'numba', 'plotly', 'polars', 'scipy') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_column_called_split_is_used_only_as_given(folder: Path, tmp_path: Path) -> None:
    table = pl.read_csv(folder / "log.csv").with_columns(split=pl.lit("gold"))
    table.write_parquet(tmp_path / "log.parquet")
    words = ("split", tmp_path / "log.parquet", "--user", "who", "--item", "what", "--out", tmp_path / "s")
    assert call_json(*words, "--protocol", "random")["protocol"] == "random"
    assert "split" in call(*words, "--protocol", "as-given").stderr


def test_results_are_on_stdout_and_notes_on_stderr(folder: Path) -> None:
    shown = call("evaluate", folder / "run")
    assert "Recall" in shown.stdout
    assert "Recall" not in shown.stderr


def test_train_checks_its_target_before_training(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused = call("train", folder / "split", "--epochs", 100000, "--out", tmp_path)
    assert refused.exit_code == 1
    assert "holds something else, which is not overwritten" in refused.stderr


def test_the_audit_of_a_run_equals_that_of_the_library(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages" / "audit.html"
    train_run(folder, "audited", "gradient")
    call_json("tune", folder / "audited", "--target", "average_popularity", "--point", "gain")
    printed = call_json("audit", folder / "audited", "--k", 10, "--html", out)
    saved, split = cp.load_run(folder / "audited"), cp.load_split(folder / "audited")
    model = cp.load(folder / "audited")
    for told, way in ((printed, model), (printed["plain"], model.with_strengths(0, 0))):
        expected = cp.audit_model(way, split.train, 10, held=split.test, ledger=saved.run.ledger).as_dict()
        assert {key: told[key] for key in expected} == json.loads(json.dumps(expected))
    assert printed["item_strength"] == model.item_strength
    assert {"cosine_pull", "norm_push"} <= printed["gradient"].keys()
    assert 0 < printed["published"]["PopREO"] <= 1
    assert printed["average_popularity"] < printed["plain"]["average_popularity"]
    headline = printed["plain"]["verdict"]["headline"]
    assert f"plain: {headline[0].lower()}{headline[1:]}" in out.read_text().replace("Plain: ", "plain: ")
    alone = call_json("audit", folder / "audited", "--k", 10)
    assert alone | {name: printed[name] for name in ("html", "date")} == printed


def test_the_audit_of_any_lists(folder: Path, tmp_path: Path) -> None:
    lists = tmp_path / "lists.csv"
    call_json("recommend", folder / "run", "--k", 10, "--item-strength", 0, "--user-strength", 0, "--out", lists)
    log = ("--interactions", folder / "log.csv", "--user", "who", "--item", "what")
    mine = ("--list-user", "user", "--list-item", "item")
    printed = call_json("audit", "--recommendations", lists, *mine, *log)
    assert (printed["k"], printed["order"], printed["users"]) == (10, "rank", 300)
    whole = cp.read_interactions(folder / "log.csv", user="who", item="what")
    found = cp.read_recommendations(lists, whole)
    expected = cp.audit(found.lists, found.users, whole)
    assert printed["average_popularity"] == expected.measures["average_popularity"]
    assert printed["published"]["PopREO"] is None  # nothing was held out
    shown = call("audit", "--recommendations", lists, *mine, *log, "--k", 4)
    assert shown.exit_code == 0
    assert "Rows beyond place 4 of their list, which were not audited: 1,800." in shown.stdout
    assert "Tail share (APLT)" in shown.stdout
    pl.read_csv(lists).head(40).with_columns(item=pl.lit("new")).write_csv(tmp_path / "new.csv")
    refused = call("audit", "--recommendations", tmp_path / "new.csv", *mine, *log)
    assert refused.exit_code == 1 and "every item in the lists must be in the log" in refused.stderr


def test_the_audit_of_vectors_leaves_out_seen_items(folder: Path, tmp_path: Path) -> None:
    saved, split = cp.load_run(folder / "run"), cp.load_split(folder / "run")
    vectors = saved.run.embeddings
    for name, part in (("train", split.train), ("test", split.test)):
        ids = {"user": part.user_ids[part.user_ix].tolist(), "item": part.item_ids[part.item_ix].tolist()}
        pl.DataFrame(ids).write_parquet(tmp_path / f"{name}.parquet")
    for name, matrix, ids in (
        ("users", vectors.user_vectors, vectors.user_ids),
        ("items", vectors.item_vectors, vectors.item_ids),
    ):
        pl.DataFrame({"id": ids.tolist(), "vector": matrix.tolist()}).write_parquet(tmp_path / f"{name}.parquet")
    words = [
        "audit",
        "--user-vectors",
        tmp_path / "users.parquet",
        "--item-vectors",
        tmp_path / "items.parquet",
        "--interactions",
        tmp_path / "train.parquet",
        "--holdout",
        tmp_path / "test.parquet",
        "--k",
        10,
    ]
    printed = call_json(*words)
    model = replace(cp.load(folder / "run").with_strengths(0, 0), seen=split.train)
    expected = cp.audit_model(model, split.train, 10, held=split.test)
    assert printed["published"] == pytest.approx(expected.published)
    assert "already_chosen" not in printed["notes"]
    pl.read_parquet(tmp_path / "items.parquet").tail(-3).write_parquet(tmp_path / "items.parquet")
    refused = call(*words)
    assert refused.exit_code == 1 and "pass --drop-unknown to leave them out" in refused.stderr
    lost = call_json(*words, "--drop-unknown")["notes"]
    assert lost["without_vector"] == split.train.item_counts[:3].sum()
    assert lost["unknown_held_out"] == split.test.item_counts[:3].sum()


def test_vectors_in_another_order_than_the_log_are_refused(folder: Path, tmp_path: Path) -> None:
    saved, split = cp.load_run(folder / "run"), cp.load_split(folder / "run")
    vectors, part = saved.run.embeddings, split.train
    ids = {"user": part.user_ids[part.user_ix].tolist(), "item": part.item_ids[part.item_ix].tolist()}
    pl.DataFrame(ids).write_parquet(tmp_path / "train.parquet")
    order = np.random.default_rng(0).permutation(len(vectors.item_ids))
    np.save(tmp_path / "users.npy", vectors.user_vectors)
    np.save(tmp_path / "items.npy", vectors.item_vectors[order])
    (tmp_path / "items.txt").write_text("".join(f"{i}\n" for i in vectors.item_ids[order].tolist()))
    files = ("--user-vectors", tmp_path / "users.npy", "--item-vectors", tmp_path / "items.npy")
    words = (*files, "--interactions", tmp_path / "train.parquet", "--k", 10)
    for command in (("audit", *words), ("debias", *words, "--out", tmp_path / "fix")):
        refused = call(*command)
        assert refused.exit_code == 1
        assert refused.stderr.count("no more than by chance; check that each vector has the right id") == 1
    right = call_json("audit", *words, "--item-ids", tmp_path / "items.txt")
    model = replace(cp.load(folder / "run").with_strengths(0, 0), seen=split.train)
    assert right["published"]["ARP"] == pytest.approx(cp.audit_model(model, split.train, 10).published["ARP"])
    assert call("audit", *words, "--model", tmp_path / "items.npy").exit_code == 2


def test_an_audit_needs_exactly_one_thing_to_audit(folder: Path) -> None:
    for words in (
        (),
        (folder / "run", "--interactions", folder / "log.csv"),
        (folder / "run", "--holdout", folder / "log.csv"),
        (folder / "run", "--recommendations", "lists.csv"),
        ("--recommendations", "lists.csv"),
        ("--user-vectors", "users.npy", "--interactions", folder / "log.csv"),
        ("--user-vectors", "u", "--item-vectors", "v", "--recommendations", "r", "--interactions", "x"),
    ):
        assert call("audit", *words).exit_code == 2, words
    lists, log = ("--recommendations", "lists.csv"), ("--interactions", folder / "log.csv")
    vectors = ("--user-vectors", "u.npy", "--item-vectors", "v.npy")
    for words, sentence in (
        ((*lists, *log, "--drop-unknown"), "--drop-unknown works only together with vectors"),
        ((*vectors, *log, "--keep-unknown"), "--keep-unknown works only together with --recommendations"),
        ((folder / "run", "--score", "score"), "--score works only together with --recommendations"),
        ((folder / "run", "--user", "who"), "--user works only together with --interactions"),
    ):
        refused = call("audit", *words)
        assert (refused.exit_code, sentence in refused.stderr) == (2, True), refused.stderr


def write_lines(path: Path, log: cp.Interactions, line: str) -> Path:
    """A log as text, one line for each pair: `line` with {u}, {i} and {n}, the number of the pair."""
    pairs = zip(log.user_ids[log.user_ix], log.item_ids[log.item_ix], strict=True)
    path.write_text("".join(line.format(u=u, i=i, n=n) + "\n" for n, (u, i) in enumerate(pairs)))
    return path


def test_separate_files_make_a_split_that_can_be_trained(tmp_path: Path) -> None:
    log = cp.make_world(200, 80, seed=5).log
    made = cp.split_uniform(log, test=2, valid=2, ordinary=0)
    parts = {"train": made.train, "valid": made.valid, "test": made.test}
    columns = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    for name, part in parts.items():
        inter = write_lines(tmp_path / f"world.{name}.inter", part, "{u}\t{i}\t5\t{n}")
        inter.write_text(columns + inter.read_text())
        write_lines(tmp_path / f"{name}.txt", part, "{u} {i} 1")
        by_user = pl.DataFrame({"u": part.user_ids[part.user_ix], "i": part.item_ids[part.item_ix]}).group_by("u").all()
        lists = (f"{user} {' '.join(map(str, items))}\n" for user, items in by_user.iter_rows())
        (tmp_path / f"lists_{name}.txt").write_text("".join(lists))
    for form in ("world.{}.inter", "{}.txt", "lists_{}.txt"):
        files = [(f"--{name}", tmp_path / form.format(name)) for name in parts]
        found = call_json("split", *sum(files, ()), "--ordinary", 0, "--out", tmp_path / "split", "--force")
        counts = found["counts"]
        assert [counts[name] for name in parts] == [len(part) for part in parts.values()]
        assert (found["protocol"], found["carved"], found["pairs"], found["merged"]) == ("as-given", None, len(log), 0)
        split = cp.load_split(tmp_path / "split")
        for name, part in (("train", split.train), ("valid", split.valid), ("test", split.test)):
            assert np.array_equal(part.user_ids[part.user_ix], parts[name].user_ids[parts[name].user_ix])
            assert np.array_equal(part.item_ids[part.item_ix], parts[name].item_ids[parts[name].item_ix])
            assert (part.time is not None) == form.endswith(".inter")
    two = (*files[0], *files[2])
    carved = call_json("split", *two, "--carve", "random", "--out", tmp_path / "split", "--force")
    assert carved["carved"] == "random" and carved["counts"]["valid"] == len(made.test) // 2
    call_json("train", tmp_path / "split", "--epochs", 2, "--dim", 4, "--out", tmp_path / "run")
    assert call_json("evaluate", tmp_path / "run")["adjusted"]["recall"] >= 0


def test_separate_files_are_checked(folder: Path, tmp_path: Path) -> None:
    train = tmp_path / "train.csv"
    train.write_text("user,item,rating\n1,a,5\n1,b,1\n2,a,4\n2,c,5\n3,b,5\n")
    test = tmp_path / "test.csv"
    test.write_text("user,item,rating\n1,c,5\n3,b,5\n9,a,4\n")
    words = ("split", "--train", train, "--test", test, "--carve", "random", "--out", tmp_path / "split")
    refused = call(*words)
    assert refused.exit_code == 1 and "(first: user 3, item 'b'); remove them, or pass" in refused.stderr
    made = call(*words, "--drop-repeated")
    notes = " ".join(made.stderr.split())
    assert "Note: the ratings of" in notes and "1 users of test are not in train (first: 9)" in notes
    assert "1 rows repeated a pair" in made.stdout
    assert "already exists; pass --force" in call(*words, "--drop-repeated").stderr
    assert call_json(*words, "--drop-repeated", "--min-rating", 4, "--force")["counts"]["test"] == 2
    log = folder / "log.csv"
    out = ("--out", tmp_path / "never")
    parted = tmp_path / "parted.csv"
    parted.write_text("user,item,split\n" + "".join(f"{n % 4},{n % 5},{(0, 0, 2, 3)[n // 5]}\n" for n in range(20)))
    for wrong in (
        ("split", parted, "--protocol", "as-given", "--carve", "random", *out),
        ("split", *out),
        ("split", log, *out),
        ("split", "--protocol", "random", *out),
        ("split", log, "--train", train, "--test", test, *out),
        ("split", "--train", train, *out),
        ("split", "--train", train, "--test", test, "--protocol", "random", *out),
        ("split", "--train", train, "--test", test, "--split-column", "x", *out),
        ("split", log, "--protocol", "random", "--test", "test.csv", *out),
        ("split", log, "--protocol", "random", "--drop-repeated", *out),
        ("split", log, "--protocol", "random", "--lists", "--no-header", *out),
        ("split", log, "--protocol", "uniform", "--carve", "random", *out),
        ("split", log, "--protocol", "random", "--proportion", 0.3, *out),
        ("split", log, "--protocol", "random", "--split-column", "x", *out),
        ("split", "--train", train, "--test", test, "--valid", test, "--carve", "random", *out),
    ):
        assert call(*wrong).exit_code == 2, wrong
    assert call("split", "--train", train, "--test", tmp_path / "no.csv", *out).exit_code == 1
    assert not (tmp_path / "never").exists()


def test_the_commands_ask_about_unclear_text_and_take_the_answer(tmp_path: Path) -> None:
    world = cp.make_world(60, 30, seed=1)
    log = world.log
    (tmp_path / "counts.txt").write_text(write_lines(tmp_path / "x.txt", log, "{u} {i} {n}").read_text())
    vectors = {"--user-vectors": world.user_taste, "--item-vectors": world.item_taste}
    given: list[object] = []
    for n, (option, matrix) in enumerate(vectors.items()):
        np.save(tmp_path / f"{n}.npy", matrix)
        given += [option, tmp_path / f"{n}.npy"]
    path = tmp_path / "counts.txt"
    for words in (
        ("split", path, "--protocol", "random", "--out", tmp_path / "split", "--force"),
        ("audit", *given, "--interactions", path),
        ("debias", *given, "--interactions", path, "--out", tmp_path / "fix", "--force"),
    ):
        refused = call(*words)
        assert refused.exit_code == 1 and "--no-header" in refused.stderr and "--lists" in refused.stderr
        answered = call(*words, "--no-header")
        assert answered.exit_code == 0 and "Note: the ratings of" in answered.stderr, answered.stderr
        assert call(*words, "--rating", "plays", "--min-rating", 0).exit_code == 0
    split = call_json("split", path, "--protocol", "random", "--lists", "--out", tmp_path / "split", "--force")
    assert split["pairs"] > len(log)
    fixed = call("debias", "--check", tmp_path / "fix", "--interactions", path)  # the layout was recorded
    assert fixed.exit_code == 0, fixed.stderr


def test_a_number_of_pairs_that_no_item_has_is_a_sentence(folder: Path, tmp_path: Path) -> None:
    words = "--protocol", "uniform", "--user", "who", "--item", "what", "--test", 10**20, "--out", tmp_path / "x"
    assert "--test must be a number of pairs of every item" in call("split", folder / "log.csv", *words).stderr
