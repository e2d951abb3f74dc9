"""Titles and categories: one table of items for every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import counterpop as cp
from counterpop.cli import main
from counterpop.errors import CounterpopWarning, InputError
from counterpop.readers import LabelSources, read_labels
from counterpop.reporting import summarise
from serving_run import make_run


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of items i0 to i149, and films.csv, which names i0 to i139 and ten others."""
    folder = tmp_path_factory.mktemp("names")
    make_run(folder)
    ids = [*(f"i{n}" for n in range(140)), *(f"x{n}" for n in range(10))]
    genres = [("drama", "news", None)[n % 3] for n in range(150)]
    columns = {"id": ids, "title": [f"Film {i}" for i in ids], "genre": genres, "note": [f"note {i}" for i in ids]}
    pl.DataFrame(columns).write_csv(folder / "films.csv")
    pl.DataFrame(columns).write_parquet(folder / "films.parquet")
    return folder


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_recommend_writes_titles(folder: Path, tmp_path: Path, ending: str) -> None:
    names = folder / f"films.{ending}"
    done = call("recommend", folder / "run", "--users", "u3,u17", "--names", names, "--out", tmp_path / "lists.csv")
    assert done.exit_code == 0, done.stderr
    lists = pl.read_csv(tmp_path / "lists.csv")
    assert lists.columns == ["user", "rank", "item", "title", "score"]
    plain = call("recommend", folder / "run", "--users", "u3,u17", "--out", tmp_path / "plain.csv")
    assert plain.exit_code == 0
    assert lists.drop("title").equals(pl.read_csv(tmp_path / "plain.csv"))
    for item, title in zip(lists["item"], lists["title"], strict=True):
        assert title == (f"Film {item}" if int(item[1:]) < 140 else None)
    (note,) = [line for line in done.stderr.splitlines() if line.startswith("Note")]
    assert note == f"Note: {names}: 10 of its 150 ids are not in the log; 10 of the log's 150 items have no name"


def test_reports_and_audits_get_the_same_labels(folder: Path, tmp_path: Path) -> None:
    about = LabelSources(folder / "films.csv")
    with pytest.warns(CounterpopWarning, match=r"10 of its 150 ids are not in the log"):
        report = summarise(folder / "run", about=about)
    assert report.catalogue is not None
    labels = report.catalogue.labels
    assert labels is not None
    ids = report.catalogue.item_ids
    assert labels.names == [f"Film {i}" if int(i[1:]) < 140 else None for i in ids]
    assert [*labels.categories] == ["genre"]  # a note of its own for every item is no category
    genre = labels.categories["genre"]
    assert genre.values == ["drama", "news"]
    expected = [(0, 1, -1)[int(i[1:]) % 3] if int(i[1:]) < 140 else -1 for i in ids]
    assert genre.of.tolist() == expected
    page = call("report", folder / "run", "--names", folder / "films.csv", "--out", tmp_path / "page.html")
    assert page.exit_code == 0, page.stderr
    audited = call("audit", folder / "run", "--names", folder / "films.csv", "--json")
    assert audited.exit_code == 0, audited.stderr
    told = json.loads(audited.stdout)
    assert [*told["categories"]] == ["genre"]
    assert told["over_exposed"][0]["name"] == f"Film {told['over_exposed'][0]['item']}"


def test_evaluate_names_what_gains_and_loses_most(folder: Path) -> None:
    words = ("evaluate", folder / "run", "--names", folder / "films.csv")
    shown, done = call(*words), call(*words, "--json")
    assert (shown.exit_code, done.exit_code) == (0, 0), shown.stderr + done.stderr
    told, model, split = json.loads(done.stdout), cp.load(folder / "run"), cp.load_split(folder / "run")
    users = np.flatnonzero(split.test.user_counts).astype(np.int32)
    lists = [model.recommend(users, 20, *strengths)[0] for strengths in ((0.0, 0.0), ())]
    before, after = (np.bincount(one.ravel(), minlength=150) for one in lists)
    for way, sign in (("gained", 1), ("lost", -1)):
        rows = told[way]
        assert [sign * (row["after"] - row["before"]) for row in rows] == sorted(sign * (after - before))[:-6:-1]
        for row in rows:
            (at,) = model.seen.item_positions([row["item"]])
            assert (row["before"], row["after"]) == (before[at], after[at])
            assert row["title"] == (f"Film {row['item']}" if int(row["item"][1:]) < 140 else None)
            assert f"{row['title'] or row['item']} ({row['before']} → {row['after']} lists)" in shown.stdout
    assert "gained" not in json.loads(call("evaluate", folder / "run", "--json").stdout)


def test_the_page_of_debias_gets_labels(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = cp.load(folder / "run")
    for side in ("user", "item"):
        ids = [str(i) for i in getattr(model.embeddings, f"{side}_ids")]
        np.savez(tmp_path / f"{side}.npz", vectors=getattr(model.embeddings, f"{side}_vectors"), ids=ids)
    log = model.seen
    pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}).write_csv(tmp_path / "log.csv")
    seen = []
    monkeypatch.setattr(
        "counterpop.jobs.debiasing.debiasing_page", lambda found, name, labels: seen.append(labels) or "page"
    )
    words = ("debias", "--user-vectors", tmp_path / "user.npz", "--item-vectors", tmp_path / "item.npz")
    words += ("--interactions", tmp_path / "log.csv", "--names", folder / "films.csv", "--out", tmp_path / "FIX")
    done = call(*words)
    assert done.exit_code == 0, done.stderr
    assert seen[0].names == [f"Film {i}" if int(i[1:]) < 140 else None for i in log.item_ids]
    refused = call(*words[:-2], "--check", tmp_path / "FIX")
    assert refused.exit_code == 2


def test_options_about_names_need_names(folder: Path) -> None:
    for words in (("recommend", folder / "run"), ("report", folder / "run", "--out", folder / "x.html")):
        for option in ("--names-item", "--name", "--category"):
            refused = call(*words, option, "genre")
            assert refused.exit_code == 2
            assert f"{option} works only together with --names" in refused.stderr


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_names_are_found_by_the_column_of_items(folder: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    seen = []

    def stop(*_: object, about: LabelSources, **__: object) -> None:
        seen.append(about.item)
        raise InputError("enough")

    monkeypatch.setattr(f"counterpop.cli.{command}.summarise", stop)
    words = ("--holdout", folder / "later.csv", "--item", "film", "--names", folder / "films.csv")
    out = ("--out", folder / "x.html") if command == "report" else ()
    assert "enough" in call(command, folder / "run", *words, *out).stderr
    assert seen[0][0] == "film"


def test_ids_that_cannot_be_in_the_log_are_counted() -> None:
    table = pl.DataFrame({"id": ["7", "B00X", "5", "05"], "name": ["Heat", "Alien", "Up", "Up"]})
    found = read_labels(table, np.array([5, 6, 7]))
    assert found.names == ["Up", None, "Heat"]
    assert found.sentence == "the polars table: 1 of its 3 ids are not in the log; 1 of the log's 3 items have no name"
    assert read_labels(pl.DataFrame({"item": [5, 6], "name": ["a", "b"]}), np.array([5, 6])).sentence == ""


def test_one_item_with_two_names_or_categories() -> None:
    ids = np.array([5, 6])
    with pytest.raises(InputError, match=r"each item needs one name, but .* gives item 5 both 'a' and 'b'"):
        read_labels(pl.DataFrame({"item": [5, 5], "name": ["a", "b"]}), ids)
    table = pl.DataFrame({"item": [5, 5, 6], "name": ["a", "a", "b"], "genre": ["x", "y", "y"]})
    with pytest.raises(InputError, match=r"each item needs one genre, but .* gives item 5 both 'x' and 'y'"):
        read_labels(table, ids, categories=["genre"])
    found = read_labels(table, ids)  # nobody asked for the column
    assert (found.names, [*found.categories]) == (["a", "b"], [])
    assert "columns with two values for an item were not read as categories ('genre')" in found.sentence
    strangers = pl.DataFrame({"item": [8, 8, 5], "name": ["a", "b", "c"]})  # two names of an item that nobody has
    assert read_labels(strangers, ids).names == ["c", None]
