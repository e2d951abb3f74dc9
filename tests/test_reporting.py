"""Reports say what the numbers say and no more, and fetch nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from counterpop.auditing import DEFINITIONS, GROUP_RULE, SEGMENT_RULE
from counterpop.errors import InputError
from counterpop.evaluation import contrast
from counterpop.ledger import GradientPicture
from counterpop.metrics.resampling import PER_USER
from counterpop.reporting import (
    RunReport,
    audit_page,
    audit_table,
    comparison_table,
    figures,
    run_page,
    write_audit,
    write_report,
)
from counterpop.reporting.findings import contrasts, direction, explanation, headline, own_contrasts, verdict
from counterpop.reporting.run_page import render_runs
from counterpop.reporting.tables import LABELS, format_figure, gain_and_price
from run_reports import make_report, some_audits

EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """The tags with their attributes, the visible text, and the cells of every table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._script = "", [], False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._script = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts.append(data)
        else:
            self.text += data

    def count(self, tag: str, css: str | None = None) -> int:
        return sum(t == tag and (css is None or a.get("class") == css) for t, a in self.tags)

    def values(self) -> list[float]:
        return [float(a["value"] or "nan") for t, a in self.tags if t == "data"]


@pytest.fixture(scope="module")
def report() -> RunReport:
    return make_report("first", 0)


@pytest.fixture(scope="module")
def other() -> RunReport:
    return make_report("second", 1)


def render(*reports: RunReport) -> Page:
    return Page(run_page.render_runs(reports, "A title"))


def with_differences(report: RunReport, **rows: tuple[float, float]) -> RunReport:
    """The report with different differences and p-values of adjusted against plain."""
    comparison = dict(report.evaluation.comparison)
    for metric, (difference, p_value) in rows.items():
        comparison[metric] = {"difference": difference, "low": 0.0, "high": 0.0, "p_value": p_value}
    return replace(report, evaluation=replace(report.evaluation, comparison=comparison))


def test_page_is_self_contained_and_small(report: RunReport, other: RunReport, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report([report, other], path)
    assert path.stat().st_size < 6_000_000
    text = path.read_text(encoding="utf-8")
    parsed = Page(text)
    for tag, attributes in parsed.tags:
        assert tag not in ("link", "img", "iframe", "base", "object"), tag
        assert not {"src", "srcset", "action", "data"} & attributes.keys(), (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
        assert "style" not in attributes or "url(" not in (attributes["style"] or "")
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    style = text.split("<style>", 1)[1].split("</style>", 1)[0]
    assert "@import" not in style and "url(" not in style
    assert "default-src 'none'" in text  # the browser blocks anything we missed
    assert list(tmp_path.iterdir()) == [path]


def test_names_and_settings_are_never_markup(report: RunReport) -> None:
    evil = replace(
        report,
        name=EVIL,
        settings={EVIL: EVIL, "nested": {"x": [EVIL, '"onload="']}},
        history=[{"epoch": 1, "loss": 1.0, EVIL: 0.5}],
    )
    expected, got = render(report), render(evil)
    assert got.count("script") == expected.count("script")
    assert EVIL in got.text
    numbers = [script for script in got.scripts if script.startswith('{"data"')]
    assert len(numbers) == 11 and not any("<" in script for script in numbers)
    title = Page(run_page.render_runs([report], EVIL))
    assert title.count("script") == expected.count("script")


def test_figures_escape_names_because_plotly_parses_tags() -> None:
    figure = figures.validation_curve([{"epoch": 1, "loss": 1.0, "<a href='x'>": 0.5}])
    assert figure is not None and "<a" not in figure.data[0].name


def test_table_contains_the_numbers_of_the_evaluation(report: RunReport, other: RunReport) -> None:
    expected = [
        getattr(side, metric)
        for r in (report, other)
        for one in (r.evaluation, r.evaluation.ordinary)
        for side in (one.plain, one.adjusted)
        for metric in LABELS
    ]
    first_minus_second = contrast(report.evaluation.adjusted, other.evaluation.adjusted)
    for rows in (report.evaluation.comparison, other.evaluation.comparison, first_minus_second):
        expected += [rows[metric]["difference"] for metric in PER_USER]
    assert render(*(replace(one, catalogue=None) for one in (report, other))).values() == expected


def test_terminal_table_contains_the_same_numbers_in_80_columns(report: RunReport) -> None:
    out = StringIO()
    Console(file=out, width=80).print(comparison_table([replace(report, name="[red]x")]))
    text = out.getvalue()
    assert "[red]x" in text
    for metric, label in LABELS.items():
        line = next(line for line in text.splitlines() if line.startswith(label))
        for side in (report.evaluation.plain, report.evaluation.adjusted):
            assert format_figure(metric, getattr(side, metric)) in line
    assert "\u2026" not in text  # nothing is cut off


def test_terminal_table_compares_with_the_first_run(report: RunReport, other: RunReport) -> None:
    out = StringIO()
    Console(file=out, width=200).print(comparison_table([report, other]))
    assert "first, adjusted minus second, adjusted" in out.getvalue()


@pytest.mark.parametrize(
    ("difference", "p_value", "word"),
    [
        (0.01, 0.001, "improved"),
        (0.01, 0.05, "no clear difference"),
        (-0.01, 0.3, "no clear difference"),
        (-0.01, 0.049, "worse"),
        (0.0, 0.001, "no clear difference"),
        (0.01, float("nan"), "no clear difference"),
    ],
)
def test_words_follow_numbers(report: RunReport, difference: float, p_value: float, word: str) -> None:
    changed = with_differences(
        replace(report, evaluation=replace(report.evaluation, item_strength=0.4)),
        **dict.fromkeys(PER_USER, (difference, p_value)),
    )
    row = changed.evaluation.comparison["recall"]
    assert verdict("recall", row) == word
    changed = alone(changed)
    text = render(changed).text
    for claim in {"improved", "worse"} - {word}:  # the explanation quotes both
        assert claim not in text.replace("“Improved”, “worse”", "")
    claims = {"improved": "% more of what", "worse": "% less of what", "no clear difference": "(no clear difference)"}
    assert [claim in headline(changed.evaluation) for claim in claims.values()] == [one == word for one in claims]
    ways = {"improved": "higher", "worse": "lower"}
    assert direction(row) == ways.get(word, word)
    assert verdict("tail_share", row) == ways.get(word, word)


def test_headline_claims_nothing_if_nothing_was_removed(report: RunReport) -> None:
    found = replace(report.evaluation, item_strength=0.0, user_strength=0.0, ordinary=None)
    left = replace(report, evaluation=found)
    assert headline(found).startswith("Nothing was removed")
    assert "instead of" not in explanation(left) and "instead of" in explanation(report)
    assert own_contrasts([left]) == []
    assert "first, adjusted" not in render(left).text
    assert len(render(left).values()) == len(LABELS)  # one row of metrics, and no difference


def test_gain_and_price_in_two_sentences(report: RunReport) -> None:
    found = report.evaluation
    gain, price = gain_and_price(found)
    for sentence, one in ((gain, found), (price, found.ordinary)):
        for figure in (one.plain.recall, one.adjusted.recall, *one.plain.intervals["recall"]):
            assert f"{figure:.4f}" in sentence
    assert f"a gain of {100 * found.gain['change']:+.1f}" in gain and f"{100 * found.gain['low']:+.1f} to" in gain
    lost, change = found.price, found.ordinary.gain
    assert (lost["lost"], lost["low"], lost["high"]) == (-change["change"], -change["high"], -change["low"])
    assert f"a price of {100 * lost['lost']:.1f}\u00a0% ({100 * lost['low']:.1f} to" in price
    assert gain.startswith("If every item were shown equally often (test pairs)")
    assert price.startswith("As traffic is today (ordinary pairs") and "refit" not in price
    assert "before the refit" in gain_and_price(replace(found, ordinary=replace(found.ordinary, before_refit=True)))[1]
    assert "not known" in gain_and_price(replace(found, ordinary=None))[1]
    assert len(gain_and_price(replace(found, ordinary=None, even=False))) == 1
    page = render(report)
    for one, figure in ((found.gain["change"], "+.1f"), (lost["lost"], ".1f")):
        assert f"{100 * one:{figure}}\u00a0%".replace("-", "−") in page.text
    for heading in ("Gain if every item were shown equally often", "Price as traffic is today"):
        assert heading in page.text
    assert headline(found).endswith("of what they choose as traffic is today.")
    assert "not known" in headline(replace(found, ordinary=None)) and "not known" in render(alone(report)).text


def alone(report: RunReport) -> RunReport:
    """The report without ordinary pairs."""
    return replace(report, evaluation=replace(report.evaluation, ordinary=None))


def test_validation_numbers_come_with_a_warning(report: RunReport) -> None:
    assert "flatter" in explanation(replace(report, evaluation=replace(report.evaluation, on="valid")))
    assert "flatter" not in explanation(report)


def test_what_a_search_tried_is_shown_best_first(report: RunReport) -> None:
    rows = [{"loss": "bpr", "dim": 8 * n, "round": 1 + n // 3, "epochs": 5, "valid": 0.1 * n} for n in (1, 2, 3)]
    found = {"sentence": "Chosen: <b>.", "leaderboard": rows, "importance": {"dim": 0.75, "loss": 0.25}}
    page = render_runs([replace(report, settings={"search": found})], "t")
    section = page[page.index("<h2>Settings tried") :]
    places = [section.index(f'data-label="dim">{dim}</td>') for dim in (24, 16, 8)]
    assert places == sorted(places)
    assert "Chosen: &lt;b&gt;." in section
    assert '"x":[0.75,0.25]' in section
    assert "Settings tried" not in render_runs([report], "t")


@pytest.mark.parametrize("why", ["too_costly", "too_little_gained"])
def test_what_was_tried_and_not_taken_is_behind_the_others_of_its_round(report: RunReport, why: str) -> None:
    rows = [{"dim": 8 * n, "round": 1, "epochs": 5, "valid": 0.1 * n} for n in (1, 2, 3)]
    found = {"sentence": "Chosen.", "tried": [*rows[:2], rows[2] | {why: True}]}
    page = render_runs([replace(report, settings={"race": found})], "t")
    places = [page.index(f'data-label="dim">{dim}</td>') for dim in (16, 8, 24)]
    assert places == sorted(places)


def test_truth_is_shown_if_known(report: RunReport) -> None:
    assert "True favourites" not in render(report).text
    text = render(replace(report, truth={"plain": 0.123, "adjusted": 0.321})).text
    assert re.search(r"True favourites found: 12\.3\s% → 32\.1\s%", text)


def test_a_sentence_replaces_what_a_run_lacks(report: RunReport) -> None:
    whole = render(report)
    assert (whole.count("div", "plot"), whole.count("p", "missing"), whole.count("select")) == (11, 0, 1)
    bare = render(replace(report, grid=None, ledger=None, history=(), settings={}))
    assert (bare.count("div", "plot"), bare.count("p", "missing"), bare.count("select")) == (6, 3, 0)
    for sentence in ("kept no ledger", "has no grid of strengths", "has no training history"):
        assert f"first {sentence}" in bare.text
    assert "has no frontier of gain against price" in render(replace(report, tuning=None)).text


def test_the_frontier_shows_gain_against_price_and_names_three_points(report: RunReport) -> None:
    told = report.tuning
    base = report.grid.at(0.0, 0.0)["recall"]
    line, plain, *points = figures.frontier(told, (base, base), "gain").data
    assert list(zip(line.x, line.y, strict=True)) == [(p["price"], p["gain"] / base) for p in told["frontier"]]
    assert (plain.name, plain.x, plain.y, plain.marker.color) == ("Plain", (0.0,), (0.0,), figures.PLAIN)
    assert [trace.name.split(",")[0] for trace in points] == ["Gain", "Balanced", "Free"]
    for trace, point in zip(points, told["points"].values(), strict=True):
        assert (trace.x[0], trace.y[0], trace.marker.color) == (point["price"], point["gain"] / base, figures.ADJUSTED)
        assert trace.y[0] + trace.error_y.array[0] == pytest.approx(point["high"] / base)
        assert ("used here" in trace.text[0]) == (trace is points[0])
        assert trace.x[0] - trace.error_x.arrayminus[0] == pytest.approx(point["price_low"])
        assert ("not proven" in trace.name) == (not point["proven"])
    text = render(report).text
    assert told["sentence"].replace(" %", "\u00a0%") in text and "gain against price" in text


def test_intervals_may_be_missing(report: RunReport) -> None:
    sides = {side: replace(getattr(report.evaluation, side), intervals={}) for side in ("plain", "adjusted")}
    bare = replace(report, evaluation=replace(report.evaluation, **sides))
    assert render(bare).values() == render(report).values()
    comparison_table([bare])


def test_only_runs_on_the_same_split_are_compared(report: RunReport, other: RunReport) -> None:
    assert len(contrasts([report, other])) == 1
    assert "not compared" not in render(report, other).text
    elsewhere = replace(other.evaluation, plain=replace(other.evaluation.plain, held="another part"))
    foreign = replace(other, evaluation=elsewhere)
    assert contrasts([report, foreign]) == []
    assert "second: not compared with first, because users, held-out pairs or k differ." in render(report, foreign).text


def test_binned_ranks_keep_their_means(report: RunReport) -> None:
    counts = np.arange(100_000, 0, -1)
    picture = GradientPicture(*(np.where(counts % 2 == 0, np.nan, counts.astype(float)) for _ in range(4)))
    line = figures.gradient_cosines(picture, counts).data[0]
    assert len(line.x) <= figures.RANK_BINS
    assert line.x[0] == 1 and line.y[0] is None  # rank 1 has count 100,000, which is even: NaN
    # The mean of the odd counts in a bin around rank r is about 100,001 - r.
    assert line.y[-1] == pytest.approx(100_001 - line.x[-1], abs=15)
    small = figures.frequency_by_rank(
        {"Plain": report.evaluation.plain.exposure}, len(report.evaluation.plain.users), report.item_counts
    ).data[0]
    top = np.argsort(-report.item_counts, kind="stable")[0]
    first = report.evaluation.plain.exposure[top] / len(report.evaluation.plain.users)
    assert small.y[0] == pytest.approx(first, rel=1e-3)


def test_group_bars_match_the_evaluation(report: RunReport) -> None:
    reference, plain, adjusted = figures.exposure_by_group(report.evaluation, report.item_counts).data
    assert sum(reference.y) == pytest.approx(1)
    assert reference.y[0] == pytest.approx(np.sort(report.item_counts)[-6:].sum() / report.item_counts.sum())
    for bars, side in ((plain, report.evaluation.plain), (adjusted, report.evaluation.adjusted)):
        assert list(bars.y) == [group["frequency"] for group in side.groups]


def test_grid_is_drawn_as_item_by_user_strength(report: RunReport) -> None:
    assert report.grid is not None
    figure = figures.strength_grid(report.grid, (0.4, 1.2))
    shown = [trace for trace in figure.data if trace.type == "heatmap" and trace.visible]
    assert [trace.name for trace in shown] == ["recall"]
    row, column = report.grid.item_strengths.index(0.4), report.grid.user_strengths.index(1.2)
    assert shown[0].z[row][column] == report.grid.at(0.4, 1.2)["recall"]
    assert shown[0].y[row] == 0.4 and shown[0].x[column] == 1.2
    chosen = figure.data[-1]
    assert (chosen.name, chosen.x[0], chosen.y[0]) == ("Chosen", 1.2, 0.4)


def test_the_trade_off_shows_every_run_plain_and_adjusted(report: RunReport, other: RunReport) -> None:
    left = replace(other, evaluation=replace(other.evaluation, item_strength=0.0, user_strength=0.0))
    first, second = figures.trade_off([report, left]).data
    mean = report.item_counts.mean()
    for n, side in enumerate((report.evaluation.plain, report.evaluation.adjusted)):
        assert first.x[n] == pytest.approx(side.average_popularity / mean, abs=1e-4)
        assert first.y[n] == side.recall
        low, high = side.intervals["recall"]
        assert first.y[n] - first.error_y.arrayminus[n] == pytest.approx(low)
        assert first.y[n] + first.error_y.array[n] == pytest.approx(high)
    assert len(second.x) == 1


def test_the_audit_page_contains_its_metrics_and_their_definitions(report: RunReport) -> None:
    audits = some_audits(report)
    page = Page(audit_page.render_audit(audits, "A title"))
    expected = [one.measures[name] for name in DEFINITIONS for one in audits.values()]
    assert page.values()[-len(expected) :] == pytest.approx(expected, nan_ok=True)
    text = page.text.replace("\u00a0", " ")
    for definition in DEFINITIONS.values():
        assert definition.title in text and definition.text in text and definition.source in text
    for one in audits.values():
        assert one.verdict.headline[1:] in text and one.verdict.reasons in text
        assert all(sentence in text for sentence in one.sentences)
    assert SEGMENT_RULE in text and GROUP_RULE in text
    assert page.count("div", "plot") == 8
    bare = Page(audit_page.render_audit({"lists": audits["as trained"]}, "A title"))
    assert bare.count("div", "plot") == 6  # without a ledger, no gradients
    assert "Where the popularity comes from" not in bare.text


def test_names_on_the_audit_page_are_never_markup(report: RunReport, tmp_path: Path) -> None:
    expected = Page(audit_page.render_audit(some_audits(report), "x"))
    write_audit(some_audits(report, EVIL), tmp_path / "audit.html", EVIL)
    got = Page((tmp_path / "audit.html").read_text(encoding="utf-8"))
    assert got.count("script") == expected.count("script") and EVIL in got.text
    assert not any("<" in script for script in got.scripts if script.startswith('{"data"'))
    with pytest.raises(InputError, match="at least one"):
        write_audit({}, tmp_path / "audit.html")


def test_audit_table_fits_80_columns(report: RunReport) -> None:
    audits = some_audits(report)
    out = StringIO()
    Console(file=out, width=80).print(audit_table(audits))
    text = out.getvalue()
    assert "\u2026" not in text
    for name, definition in DEFINITIONS.items():
        line = next(line for line in text.splitlines() if line.split("  ")[0] == definition.title)
        for one in audits.values():
            assert format_figure(name, one.measures[name]) in line
    words = " ".join(text.split())
    assert "Share of a list that lies in the tail, mean over the users who have a list and a profile" in words
    assert "mainstream" in words and "20–100 %" in words


def test_audit_figures_match_the_audit(report: RunReport) -> None:
    audits = some_audits(report)
    one = audits["adjusted"]
    reference, _, shown = figures.audited_groups(audits).data
    assert list(reference.y) == [g["interactions"] for g in one.groups]
    assert list(shown.y) == [g["frequency"] for g in one.groups]
    chosen, _, shown = figures.audited_segments(audits, "tail").data
    assert list(chosen.y) == [s["profile"]["tail"] for s in one.segments]
    assert list(shown.y) == [s["lists"]["tail"] for s in one.segments]
    spread = figures.miscalibration_spread(audits).data[1]
    known = one.per_user["miscalibration"]
    assert sum(spread.y) == pytest.approx(1, abs=1e-3)
    assert spread.y[0] == pytest.approx(np.mean(known[np.isfinite(known)] < 0.05), abs=1e-3)


def test_a_failed_report_leaves_the_old_one(report: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(InputError, match="at least one run"):
        write_report([], path)

    def fail(*_: object) -> str:
        raise RuntimeError("half way")

    with monkeypatch.context() as patch:
        patch.setattr(run_page, "render_runs", fail)
        with pytest.raises(RuntimeError, match="half way"):
            write_report([report], path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(RuntimeError, match="half way"):
            write_report([report], path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="is a folder; pass the path"):
        write_report([report], tmp_path)


def test_tables_do_not_import_plotly() -> None:
    code = "import sys, counterpop.reporting.tables; assert 'plotly' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
