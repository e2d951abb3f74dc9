"""The command line speaks of options, notices slips, and says little unless asked."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import counterpop as cp
from counterpop.auditing import DEFINITIONS
from counterpop.cli import main
from counterpop.cli.wording import in_options
from counterpop.reporting.terminal import short_audit_table, short_table
from run_reports import make_report, some_audits
from serving_run import make_run


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, its vectors and its log as files, and a log that cannot be read without help."""
    folder = tmp_path_factory.mktemp("manners")
    model = cp.load(make_run(folder))
    for side in ("user", "item"):
        ids = [str(one) for one in getattr(model.embeddings, f"{side}_ids")]
        np.savez(folder / f"{side}.npz", vectors=getattr(model.embeddings, f"{side}_vectors"), ids=ids)
        np.save(folder / f"{side}.npy", getattr(model.embeddings, f"{side}_vectors")[1:])
    log = model.seen
    pairs = pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]})
    pairs.write_csv(folder / "log.csv")
    pl.concat([pairs, pl.DataFrame({"user": ["nobody"], "item": ["i1"]})]).write_csv(folder / "more.csv")
    pairs.with_columns(rating=pl.lit(3)).write_csv(folder / "rated.csv")
    return folder


def debias(folder: Path, kind: str, log: str, *words: object) -> Result:
    vectors = ("--user-vectors", folder / f"user.{kind}", "--item-vectors", folder / f"item.{kind}")
    return call("debias", *vectors, "--interactions", folder / log, "--out", folder / "FIX", "--force", *words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("split", "log.csv", "--protocol", "uniform", "--user", "who", "--out", "x"), "pass the right one as --user"),
        (("split", "log.csv", "--protocol", "temporal", "--out", "x"), "name the time column (--time), or split"),
        (("split", "log.csv", "--protocol", "uniform", "--test", 0, "--out", "x"), "--test must be a number of pairs"),
        (("split", "rated.csv", "--protocol", "uniform", "--min-rating", 9, "--out", "x"), "lower --min-rating"),
        (("train", "run", "--loss", "softmax", "--negatives", 2, "--out", "x"), "--shared-negatives, not --negatives"),
        (
            ("audit", "--user-vectors", "user.npy", "--item-vectors", "item.npy", "--interactions", "log.csv"),
            "pass --user-ids",
        ),
    ],
)
def test_errors_name_options(folder: Path, words: tuple[object, ...], sentence: str) -> None:
    here = [folder / word if str(word).endswith((".csv", ".npy")) or word in ("run", "x") else word for word in words]
    refused = call(*here)
    assert refused.exit_code == 1, refused.stderr
    assert sentence in refused.stderr
    assert "=" not in refused.stderr and "_" not in refused.stderr.replace(str(folder), "")


def test_errors_and_notes_of_debias_name_options(folder: Path) -> None:
    refused = debias(folder, "npz", "more.csv")
    assert refused.exit_code == 1
    assert refused.stderr.strip() == (
        "Error: every user needs a vector, but 1 users of the log have none (first: 'nobody'); pass --drop-unknown to "
        "leave them out"
    )
    refused = debias(folder, "npy", "log.csv")
    assert "without --user-ids there must be one vector for each" in refused.stderr and "pass --user-ids" in (
        refused.stderr
    )
    noted = debias(folder, "npz", "rated.csv")
    assert noted.exit_code == 0, noted.stderr
    assert "every row counts the same; pass --min-rating to drop low ones" in noted.stderr.replace("\n", " ")


def test_only_options_of_the_command_are_renamed() -> None:
    options = {"k": "--k", "item_strength": "--item-strength", "user_ids": "--user-ids", "point": "--point"}
    same = (
        "column 'item_strength' of my_item_strength.csv holds k pairs; see item_positions and threads=2",
        "the point is taken at /data/item_strength/x, so k = 20 (first: 'user_ids')",
        "runs/k=3/x, k=3/x, k=0.5/x and /data/k=3 are no runs",
        "point is not a run folder",
    )
    for text in same:
        assert in_options(text, options) == text
    assert in_options("item_strength must be finite; pass user_ids (--user-ids)", options) == (
        "--item-strength must be finite; pass --user-ids"
    )
    assert in_options("pass point='gain' (--point gain)", options) == "pass --point gain"
    assert in_options("pass point='gain'.", options) == "pass --point gain."
    assert in_options("point is a share, so pass k=5.", options) == "--point is a share, so pass --k 5."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("evaluat", "RUN"), "no such command 'evaluat'; did you mean 'evaluate'?"),
        (("recomend",), "did you mean 'recommend'?"),
        (("xyz",), "no such command 'xyz'; there are demo, split, train, tune,"),
        (("evaluate", "RUN", "--see", "3"), "--seed"),
        (("evaluate", "RUN", "--k", "5", "--k", "6"), "--k was given 2 times, but takes one value"),
        (("train", "S", "--out", "a", "--out", "a"), "--out was given 2 times, but takes one value"),
        (("audit", "--header", "--no-header"), "--header or --no-header was given 2 times, but takes one value"),
    ],
)
def test_slips_are_named(words: tuple[str, ...], sentence: str) -> None:
    refused = call(*words)
    assert refused.exit_code == 2
    assert sentence in " ".join(refused.stderr.split())


def test_options_for_many_values_and_flags_may_be_repeated(folder: Path) -> None:
    told = call("tune", folder / "run", "--floor", "ndcg=0.5", "--floor", "recall=0.5", "--json", "--json")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["floor"] == {"ndcg": 0.5, "recall": 0.5}
    call("tune", folder / "run", "--point", "gain", "--json")


def test_evaluate_begins_with_the_verdict_and_explains_on_request(folder: Path) -> None:
    told = json.loads(call("evaluate", folder / "run", "--json").stdout)
    short, long = (call("evaluate", folder / "run", *words).stdout for words in ((), ("--explain",)))
    assert len(short.splitlines()) <= 12
    recall = {side: f"{told[side]['recall']:.4f}" for side in ("plain", "adjusted")}
    assert recall["plain"] in short and recall["adjusted"] in short
    assert f"price {100 * told['price']['lost']:.1f}" in short
    for word in ("Hit rate", "NDCG", "Held-out pairs of a user and an item"):
        assert word in long and word not in short
    assert long.startswith(short.splitlines()[0])


def test_an_audit_shows_definitions_only_on_request(folder: Path) -> None:
    short, long = (call("audit", folder / "run", *words).stdout for words in ((), ("--explain",)))
    assert len(short.splitlines()) < 30 < 150 < len(long.splitlines())
    assert "Tail share (APLT)" in short and "Tail share (APLT)" in long
    assert "Share of a list that lies in the tail" in long and "Share of a list" not in short


def test_short_tables_hold_the_figures_and_fit_80_columns() -> None:
    reports = [make_report(name, seed) for name, seed in (("first", 0), ("second", 1))]
    audits = some_audits(reports[0])
    for table in (short_table(reports), short_audit_table(audits)):
        out = StringIO()
        Console(file=out, width=80).print(table)
        assert max(map(len, out.getvalue().splitlines())) <= 80
    out = StringIO()
    Console(file=out, width=200).print(short_table(reports))
    found = reports[0].evaluation
    assert f"{found.adjusted.recall:.4f}" in out.getvalue() and "minus second, adjusted" in out.getvalue()
    assert found.gain is not None and f"gain {100 * found.gain['change']:+.1f}" in out.getvalue()
    worst = [one for one in audits.values() if one.verdict.grade == "bad"]
    bad = [name for one in worst for name, grade in one.grades.items() if grade == "bad"]
    assert bad
    out = StringIO()
    Console(file=out, width=200).print(short_audit_table(audits))
    assert all(DEFINITIONS[name].title in out.getvalue() for name in bad)


KEYS = {  # what programs read; more may come, none may go
    "evaluate": "adjusted before_refit comparison even gain item_strength k on ordinary plain price run user_strength "
    "users validation",
    "tune": "adjusted floor frontier item_strength plain point points proven run sentence target user_strength users "
    "warnings",
    "recommend": "item_strength k out recommendations run user_strength users",
    "audit": "amplification average_popularity categories coverage date definitions gini grades groups inputs "
    "intervals item_strength items k log meanings notes over_exposed plain popularity_lift run schema segments "
    "tail_share title users verdict",
    "debias": "agreement allowed_price floor frontier gain gained how_judged item_strength k ordinary out point points "
    "price proven segments sentences target tried uniform user_strength warnings",
    "report": "out runs",
}


@pytest.mark.parametrize("name", KEYS)
def test_json_keeps_its_keys(folder: Path, name: str) -> None:
    words = {"recommend": ("--users", "u1"), "report": ("--out", folder / "page.html"), "tune": ("--point", "gain")}
    if name == "debias":
        done = debias(folder, "npz", "log.csv", "--json")
    else:
        done = call(name, folder / "run", *words.get(name, ()), "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)  # one object and nothing else
    assert {*KEYS[name].split()} - told.keys() == set()
