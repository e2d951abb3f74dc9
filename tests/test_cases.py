"""The items and users that pages show: chosen by their definitions, under their titles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterpop.demo import name_items
from counterpop.interactions import Interactions
from counterpop.reporting import RunReport, glossary, run_page
from counterpop.reporting.cases import history_of
from counterpop.reporting.catalogue import category_shares, moved_items
from counterpop.reporting.findings import labelled
from counterpop.splits import split_uniform
from counterpop.worlds import make_world
from run_reports import make_report

KINDS = ["A niche user", "A mainstream user", "A user who gains", "A user who loses"]


@pytest.fixture(scope="module")
def report() -> RunReport:
    return make_report("first", 0)


@pytest.fixture(scope="module")
def log() -> Interactions:
    """What the report's model was trained on and leaves out."""
    known = split_uniform(make_world(150, 120, mean_activity=15).log, seed=0).development
    return known.refit_train()


def test_users_are_chosen_by_their_definitions(report: RunReport, log: Interactions) -> None:
    cases = {case.kind: case for case in report.cases}
    assert list(cases) == KINDS[: len(cases)] and len({case.user for case in report.cases}) == len(cases)
    found, counts = report.evaluation, report.item_counts
    users = found.plain.users.tolist()
    long = [u for u in users if log.user_counts[u] >= np.median(log.user_counts[users])]
    taste = {u: counts[log.item_ix[log.user_ix == u]].mean() for u in long}
    below = sum(other < taste[cases[KINDS[0]].user] for other in taste.values())
    above = sum(other > taste[cases[KINDS[1]].user] for other in taste.values())
    assert below == above == int(0.1 * len(long))
    change = {u: found.adjusted.per_user["recall"][n] - found.plain.per_user["recall"][n] for n, u in enumerate(users)}
    others = {u: change[u] for u in long if u not in (cases[KINDS[0]].user, cases[KINDS[1]].user)}
    assert change[cases[KINDS[2]].user] == max(others.values()) > 0
    if KINDS[3] in cases:
        assert change[cases[KINDS[3]].user] == min(others.values()) < 0
    else:
        assert min(others.values()) >= 0


def test_a_case_holds_the_lists_that_were_measured(report: RunReport, log: Interactions) -> None:
    for case in report.cases:
        at = report.evaluation.plain.users.tolist().index(case.user)
        for rows, side in ((case.plain, report.evaluation.plain), (case.adjusted, report.evaluation.adjusted)):
            assert len(rows) == report.evaluation.k
            hits = len({row.item for row in rows} & case.later)
            assert hits / len(case.later) == pytest.approx(side.per_user["recall"][at])
            for row in rows:
                whole = row.adjusted_score + row.popular_part + row.conformity_part
                assert row.plain_score == pytest.approx(whole, abs=1e-9)
        own = np.flatnonzero(log.user_ix == case.user)
        assert case.dated and log.time is not None
        assert list(case.history) == log.item_ix[own[np.argsort(-log.time[own])]][:12].tolist()
        assert case.length == len(own)


def test_a_history_without_times_starts_with_the_most_popular() -> None:
    log = Interactions(np.array([0, 0, 0], np.int32), np.array([0, 1, 2], np.int32), np.arange(1), np.arange(3))
    assert history_of(log, 0, np.array([4, 9, 6])).tolist() == [1, 2, 0]


def test_the_page_shows_titles_ids_and_reasons(report: RunReport) -> None:
    text = run_page.render_runs([report], "t")
    first = report.cases[0]
    for row in first.adjusted[:3]:
        name = report.catalogue.labels.names[row.item]
        shown = name.replace("<", "&lt;").replace("&<", "&amp;") if name else f"item {row.item}"
        assert f'<span title="item {row.item}">' in text and (shown.split(" &lt;")[0] in text)
        assert f"score {row.plain_score:.2f} → {row.adjusted_score:.2f}".replace("-", "−") in text
        parts = f"{row.popular_part:+.2f} through items, {row.conformity_part:+.2f} through users"
        assert parts.replace("-", "−") in text
    assert "<b>&" not in text and first.why.replace(" %", "\u00a0%") in text
    gained, lost = moved_items(report.evaluation.plain.exposure, report.evaluation.adjusted.exposure)
    screen = text[text.index("Gained most") : text.index('<nav class="contents"')]
    for move in (*gained, *lost):
        assert f"{move.before} → {move.after} lists · popularity {report.item_counts[move.item]:,}" in screen


def test_category_shares_add_up_and_match_the_lists(report: RunReport) -> None:
    kind = report.catalogue.labels.categories["genre"]
    sides = [report.evaluation.plain.exposure, report.evaluation.adjusted.exposure]
    rows = category_shares(kind, report.item_counts, sides)
    assert {row.name: row.items for row in rows} == {"drama": 60, "news": 59, "(none)": 1}
    for n, exposure in enumerate(sides):
        assert sum(row.shares[n] for row in rows) == pytest.approx(1)
        drama = next(row for row in rows if row.name == "drama")
        assert drama.shares[n] == exposure[::2].sum() / exposure.sum()
    assert [row.interactions for row in rows] == sorted((row.interactions for row in rows), reverse=True)


def test_runs_are_called_by_their_method(report: RunReport) -> None:
    def named(name: str, method: str | None) -> RunReport:
        return replace(report, name=name, settings={"method": method})

    runs = [named("run", "gradient"), named("baseline", "plain"), named("other", "gradient"), named("mine", None)]
    shown = [r.name for r in labelled(runs)]
    assert shown == ["gradient training (run)", "plain training", "gradient training (other)", "mine"]


def test_the_demo_names_every_item_once() -> None:
    world = make_world(60, 1100)
    table, again = name_items(world, 3), name_items(world, 3)
    assert table.equals(again) and not table.equals(name_items(world, 4))
    assert table["title"].n_unique() == 1100 and table["item"].to_list() == world.log.item_ids.tolist()
    assert table["genre"].n_unique() == world.item_taste.shape[1]


def test_the_glossary_in_docs_is_that_of_the_pages() -> None:
    path = Path(__file__).parent.parent / "docs" / "glossary.md"
    assert path.read_text(encoding="utf-8") == glossary.as_markdown(), "write docs/glossary.md again: see CONTRIBUTING"
