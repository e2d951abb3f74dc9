"""An audit as a document: its schema, comparisons, rules, the record, and a file that a former version wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from audit_world import N_USERS, K, write_world
from builders import random_log
from counterpop.artifacts import audit_schema, documents, read_document, records
from counterpop.auditing import DEFINITIONS, audit, compare_audits, read_rule, weigh_popularity
from counterpop.cli import main
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.recommender import Recommender
from counterpop.reporting import printing

OLD = Path(__file__).parent / "audit-1.json"
ROOT = Path(__file__).parents[1]


def call(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def audited(folder: Path, *words: object, code: int = 0) -> dict[str, Any]:
    """What `audit --json` prints for the lists in a folder."""
    given = ("--recommendations", folder / "lists.csv", "--interactions", folder / "log.csv", "--time", "time")
    done = call("audit", *given, *words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder)
    return folder


def validator() -> Any:
    schemas = pytest.importorskip("jsonschema_rs", reason="validates JSON schemas; comes with schemathesis")
    return schemas.validator_for(audit_schema())


def test_the_document_states_when_and_of_what_it_is(world: Path) -> None:
    told = audited(world, "--title", "Shop", "--note", "Winter.")
    assert told["schema"] == "counterpop-audit/1" and told["counterpop"] == cp.__version__
    assert (told["title"], told["note"], told["k"]) == ("Shop", "Winter.", K)
    times = pl.read_csv(world / "log.csv")["time"]
    assert told["log"]["from"] == "2026-01-01T00:00:00+00:00"
    assert documents.period_of(cp.read_interactions(world / "log.csv", time="time"))["to"] == told["log"]["to"]
    assert told["log"]["pairs"] == len(times)
    assert [one["role"] for one in told["inputs"]] == ["recommendations", "interactions"]
    for one in told["inputs"]:
        content = Path(one["path"]).read_bytes()
        assert (one["bytes"], one["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert audited(world)["title"] == "lists"
    assert told["population"] == f"The lists of {N_USERS} users; 0 other users of the log have no list."


def test_documents_follow_the_published_schema(world: Path, tmp_path: Path) -> None:
    assert json.loads((ROOT / "docs" / "audit.schema.json").read_text()) == audit_schema()
    assert json.loads(call("audit", "--schema").stdout) == audit_schema()
    check = validator()
    rules = ("--fail-if", "gini > 2", "--fail-if", "change gini > 0.5")
    told = audited(world, "--against", OLD, *rules, "--record", "--out", tmp_path / "audit.json")
    check.validate(told)
    written = json.loads((tmp_path / "audit.json").read_text())
    check.validate(written)
    assert written == {name: told[name] for name in written}
    check.validate(json.loads(OLD.read_text()))
    assert not check.is_valid({**told, "k": "ten"}) and not check.is_valid({**told, "gini": "high"})
    assert not check.is_valid({key: value for key, value in told.items() if key != "verdict"})


def test_an_audit_of_a_former_version_is_still_read(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lists of the committed file, audited today: nothing moved."""
    monkeypatch.setattr(documents, "__version__", "9.9.9")
    told = audited(world, "--against", OLD)
    assert told["counterpop"] == "9.9.9" and told["against"]["title"] == "Shop, home page"
    old = json.loads(OLD.read_text())
    known = {name for name in DEFINITIONS if old.get(name) is not None}
    assert {row["name"] for row in told["changes"]} == known and len(known) >= 24
    for row in told["changes"]:
        assert row["difference"] == pytest.approx(0, abs=1e-12) and not row["moved"]
        assert row["before"] == old[row["name"]]
    fewer = {name: value for name, value in old.items() if name not in ("awrf", "without")}
    (world / "older.json").write_text(json.dumps({**fewer, "unheard_of": [1]}))
    told = audited(world, "--against", world / "older.json")
    assert {row["name"] for row in told["changes"]} == known - {"awrf"}
    assert all(row["p_value"] is None for row in told["changes"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nothing", "it is not JSON"),
        ('{"schema": "other/1"}', "is not an audit"),
        ("[1]", "is not an audit"),
        ('{"schema": "counterpop-audit/2"}', "was written by a newer counterpop"),
        ('{"schema": "counterpop-audit/1", "k": 3}', "k is 8 here and 3 in"),
    ],
)
def test_what_is_no_audit_is_refused(world: Path, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "old.json").write_text(text)
    words = ("--recommendations", world / "lists.csv", "--interactions", world / "log.csv")
    refused = call("audit", *words, "--against", tmp_path / "old.json")
    assert refused.exit_code == 1 and sentence in refused.stderr and "Traceback" not in refused.stderr
    with pytest.raises(InputError, match="could not be read as an audit"):
        read_document(tmp_path / "missing.json")


def test_a_real_change_is_told_from_noise(tmp_path: Path) -> None:
    for name, pull, noise in (("same", 1.0, 5), ("other", 1.8, 5)):
        (tmp_path / name).mkdir()
        write_world(tmp_path / name, pull, noise)
    same = {row["name"]: row for row in audited(tmp_path / "same", "--against", OLD)["changes"]}
    other = {row["name"]: row for row in audited(tmp_path / "other", "--against", OLD)["changes"]}
    assert not any(row["moved"] for row in same.values())
    for name in ("average_popularity", "amplification", "popularity_lift", "tail_share", "gini", "exposure_disparity"):
        row = other[name]
        assert row["moved"] and row["p_value"] < 1e-6
        assert row["low"] <= row["difference"] <= row["high"] and row["low"] * row["high"] > 0
        assert row["difference"] == pytest.approx(row["after"] - row["before"])


def test_differences_of_nothing_but_noise_are_rarely_called_moved() -> None:
    """Two systems that draw from the same law, again and again, with overlapping and with new users."""
    draw, log = np.random.default_rng(1), random_log(900, 50, 0.9 / np.arange(1, 51) ** 0.7, seed=2)
    law = np.log1p(log.item_counts)
    small, moved, rounds = 0, 0, 60
    for n in range(rounds):
        users = [np.sort(draw.choice(900, 400, replace=False)).astype(np.int32) for _ in range(2)]
        users[1] = users[0] if n % 2 else users[1]
        one, two = (
            audit(np.argsort(-(law + draw.gumbel(size=(400, 50))), axis=1)[:, :5].astype(np.int32), those, log)
            for those in users
        )
        rows = {row.name: row for row in compare_audits(one.measures, two.measures, one.without, two.without)}
        small += sum(rows[name].p_value < 0.05 for name in ("average_popularity", "tail_share", "gini", "awrf"))
        moved += any(row.moved for row in rows.values())
    assert 0.01 * 4 * rounds < small < 0.1 * 4 * rounds  # 5 % are expected
    assert moved <= 0.1 * rounds


def test_the_same_users_make_a_sharper_comparison() -> None:
    """Lists that differ by a little for every user: the paired test sees what users' variety would hide."""
    log = random_log(600, 80, 0.9 / np.arange(1, 81) ** 0.7, seed=2)
    draw = np.random.default_rng(3)
    base = np.log1p(log.item_counts) * draw.choice([0.2, 2.0], size=(600, 1)) + draw.gumbel(size=(600, 80))
    users = np.arange(600, dtype=np.int32)
    first, second = (
        audit(np.argsort(-scores, axis=1)[:, :10].astype(np.int32), users, log)
        for scores in (base, base + 0.08 * np.log1p(log.item_counts))
    )
    row = next(
        row
        for row in compare_audits(first.measures, second.measures, first.without, second.without)
        if row.name == "average_popularity"
    )
    alone = np.hypot(*(one.intervals["average_popularity"].standard_error for one in (first, second)))
    assert row.p_value < 1e-4 and (row.high - row.low) / 4.05 < 0.5 * alone


def test_several_systems_at_once(world: Path, tmp_path: Path) -> None:
    write_world(tmp_path, 0.2, 3)
    files = ("--recommendations", world / "lists.csv", "--recommendations", tmp_path / "lists.csv")
    words = ("audit", *files, "--interactions", world / "log.csv", "--html", tmp_path / "page.html")
    told = json.loads(call(*words, "--json").stdout)
    second = str(tmp_path / "lists.csv")  # both are called lists, so the whole path tells them apart
    assert list(told["others"]) == [second] == list(told["between"])
    alone = audited(tmp_path)
    assert told["others"][second]["gini"] == alone["gini"] != told["gini"]
    rows = {row["name"]: row for row in told["between"][second]}
    assert rows["gini"]["before"] == told["gini"] and rows["gini"]["after"] == alone["gini"]
    assert rows["gini"]["moved"]
    assert "What the systems do differently" in (tmp_path / "page.html").read_text()
    broken = call(*words, "--fail-if", "change average_popularity < -1")
    assert broken.exit_code == 3 and second in broken.stderr.replace("\n", "")
    validator().validate(told)


# ------------------------------------------------------------------------------------- rules


def test_broken_rules_give_exit_code_3_and_a_line_each(world: Path, tmp_path: Path) -> None:
    gini = audited(world)["gini"]
    rules = (f"gini > {gini - 0.01}", f"gini > {gini + 0.01}", "pop_reo > 0.5", "tail_share < 99 %")
    words = [word for rule in rules for word in ("--fail-if", rule)]
    given = ("--recommendations", world / "lists.csv", "--interactions", world / "log.csv")
    done = call("audit", *given, *words, "--junit", tmp_path / "ci" / "audit.xml", "--json")
    assert done.exit_code == 3
    told = json.loads(done.stdout)
    assert told["exit_code"] == 3
    assert [rule["broken"] for rule in told["rules"]] == [True, False, True, True]
    lines = [line for line in done.stderr.splitlines() if line.startswith("Broken: ")]
    assert len(lines) == 3 and f"gini is {gini:.4g}" in lines[0] and "pop_reo cannot be computed" in lines[1]
    suite = ElementTree.parse(tmp_path / "ci" / "audit.xml").getroot().find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("4", "3")
    cases = suite.findall("testcase")
    assert [case.find("failure") is not None for case in cases] == [True, False, True, True]
    assert [case.get("name") for case in cases] == [f"fail if {rule}" for rule in rules]
    kept = call("audit", *given, "--fail-if", f"gini > {gini + 0.01}", "--junit", tmp_path / "kept.xml")
    assert kept.exit_code == 0 and ElementTree.parse(tmp_path / "kept.xml").getroot().get("failures") == "0"


def test_a_change_breaks_a_rule_only_if_it_is_more_than_noise(tmp_path: Path) -> None:
    for name, pull in (("same", 1.0), ("other", 1.8)):
        (tmp_path / name).mkdir()
        write_world(tmp_path / name, pull, noise=9)
    noisy = audited(tmp_path / "same", "--against", OLD, "--fail-if", "change gini > -1")["rules"][0]
    assert not noisy["broken"] and noisy["sentence"].endswith("which may be noise")
    told = audited(tmp_path / "other", "--against", OLD, "--fail-if", "change gini > 0.01", code=3)
    assert told["rules"][0]["broken"]
    assert (
        audited(tmp_path / "other", "--against", OLD, "--fail-if", "change gini > 0.9")["rules"][0]["broken"] is False
    )


@pytest.mark.parametrize(
    "text", ["gini", "gini > high", "gini = 3", "fun > 1", "gini > 1; rm", "gini > 1 > 2", "gini >"]
)
def test_unclear_rules_are_wrong_usage(text: str) -> None:
    with pytest.raises(InputError, match="a rule must"):
        read_rule(text)
    refused = call("audit", "RUN", "--fail-if", text)
    assert refused.exit_code == 2 and "a rule must" in " ".join(refused.stderr.split())


def test_a_change_needs_something_to_compare_with() -> None:
    assert call("audit", "RUN", "--fail-if", "change gini > 1").exit_code == 2
    assert call("audit", "RUN", "--junit", "x.xml").exit_code == 2


# ------------------------------------------------------------------------------------- the record


def test_the_record_keeps_what_was_stated_and_measured(world: Path, tmp_path: Path) -> None:
    stated = 'responsible = "A. Reader"\nsurface = "Home page"\ndeclared = 2026-01-05\nlimits = ["One country."]\n'
    stated += 'benchmark = "The log of last year"\n'
    (tmp_path / "stated.toml").write_text(stated)
    words = ("--record", "--declared", tmp_path / "stated.toml", "--against", OLD, "--fail-if", "gini > 2")
    told = audited(world, *words, "--html", tmp_path / "page.html")
    record = told["record"]
    assert (record["responsible"], record["surface"], record["service"]) == ("A. Reader", "Home page", None)
    before = record["declared_beforehand"]
    assert (before["date"], before["benchmark"], before["rules"]) == (
        "2026-01-05",
        "The log of last year",
        ["gini > 2"],
    )
    assert record["main_parameters"]["popularity_in_scores"] is None  # lists have no scores
    assert record["limits"][-1] == "One country." and len(record["limits"]) == len(records.LIMITS) + 1
    assert record["since_last_audit"]["moved"] == []
    assert record["result"]["tail_share"]["value"] == told["tail_share"]
    assert record["result"]["tail_share"]["interval"] == told["intervals"]["tail_share"]
    page = (tmp_path / "page.html").read_text()
    assert "<title>lists: what is recommended, and to whom?</title>" in page
    assert "A. Reader" in page and "not stated" in page and "One country." in page
    for text, sentence in (("x = 1", "it has 'x'"), ("x = ", "is not TOML")):
        (tmp_path / "wrong.toml").write_text(text)
        with pytest.raises(InputError, match=sentence):
            records.read_statements(tmp_path / "wrong.toml")


def test_the_dial_is_no_option_without_profiling() -> None:
    assert "not an option without profiling" in records.NO_PROFILING


def test_the_weight_of_popularity_in_scores() -> None:
    """Scores that are popularity, that are noise, and that are half of each."""
    draw, log = np.random.default_rng(0), random_log(300, 400, 0.9 / np.arange(1, 401) ** 0.6, seed=1)
    popular = np.log1p(log.item_counts)
    popular = (popular - popular.mean()) / popular.std()
    noise = draw.normal(size=log.n_items)
    noise -= noise.mean() + popular * (noise @ popular) / (popular @ popular)
    noise /= noise.std()
    axis = np.eye(1, 2, dtype=np.float32)[0]
    items = np.stack([popular, noise], axis=1).astype(np.float32)
    for weight, expected in (((1.0, 0.0), 1.0), ((0.0, 1.0), 0.0), ((1.0, 1.0), 0.5), ((1.0, 2.0), 0.2)):
        users = np.tile(np.array(weight, np.float32), (300, 1))
        vectors = Embeddings(users, items, log.user_ids, log.item_ids)
        model = Recommender(axis, axis, 0.0, 0.0, embeddings=vectors, seen=log)
        found = weigh_popularity(model, log.item_counts)
        assert found.share == pytest.approx(expected, abs=1e-5) and found.users == 300
    gone = weigh_popularity(model.with_strengths(1.0, 0.0), log.item_counts)  # removes the popular axis
    assert gone.share == pytest.approx(0, abs=1e-5)


# ------------------------------------------------------------------------------------- history and PDF


def test_the_history_has_one_line_per_measure(world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "audits"
    first = audited(world, "--title", "Shop", "--out", folder / "b.json")
    later = {**json.loads((folder / "b.json").read_text()), "date": "2027-01-01T00:00:00+00:00", "gini": 0.9}
    (folder / "a.json").write_text(json.dumps(later))
    (folder / "old.json").write_text(OLD.read_text())
    told = json.loads(call("audit-history", folder, "--html", tmp_path / "history.html", "--json").stdout)
    assert [one["file"] for one in told["audits"]] == ["old.json", "b.json", "a.json"]
    assert told["measures"].keys() == DEFINITIONS.keys()
    old = json.loads(OLD.read_text())
    assert told["measures"]["gini"] == [old["gini"], first["gini"], 0.9]
    assert told["intervals"]["gini"][0] == old["intervals"]["gini"]
    page = (tmp_path / "history.html").read_text().replace("\u00a0", " ")
    shown = [name for name, definition in DEFINITIONS.items() if f"<span>{definition.title} <small>" in page]
    assert shown == [name for name in DEFINITIONS if first[name] is not None]
    text = call("audit-history", folder).stdout
    assert "Gini of exposure" in text and "Shop, home page (1 audits)" in text
    (folder / "wrong.json").write_text("{}")
    assert call("audit-history", folder).exit_code == 1
    (tmp_path / "empty").mkdir()
    for wrong, sentence in ((tmp_path / "empty", "holds no audits"), (world / "log.csv", "must be a folder")):
        assert sentence in call("audit-history", wrong).stderr


def test_a_pdf_is_printed_or_refused(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing.shutil, "which", lambda name: None)
    words = ("--recommendations", world / "lists.csv", "--interactions", world / "log.csv")
    refused = call("audit", *words, "--html", tmp_path / "page.pdf")
    assert refused.exit_code == 1 and "a PDF is printed by Chromium" in refused.stderr
    assert not (tmp_path / "page.pdf").exists()
    monkeypatch.undo()
    if not any(map(printing.shutil.which, printing.BROWSERS)):
        pytest.skip("Debian's package chromium is not installed (tests/debian.txt)")
    assert call("audit", *words, "--html", tmp_path / "page.pdf").exit_code == 0
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF") and len(content) > 100_000  # with its figures
