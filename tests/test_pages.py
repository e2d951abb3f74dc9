"""The pages in a real browser: they open fast, fetch nothing, and are accessible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import counterpop as cp
from audit_world import write_world
from browsing import axe, launched
from counterpop.artifacts import read_document
from counterpop.cli import main
from counterpop.paper.cache import Cache
from counterpop.paper.plan import Plan
from counterpop.paper.writing import write_item, write_overview
from counterpop.reporting import figures, write_audit, write_debiasing, write_history, write_report
from counterpop.reporting.tables import format_figure
from paper_worlds import some_item
from run_reports import make_report, some_audits

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
MANY = 8
READY = "() => plots.every((plot) => plot.querySelector('.main-svg'))"
WIDTH = "(plot) => plot.querySelector('.main-svg').getBoundingClientRect().width"
DRAWN = "() => plots.filter((plot) => plot.querySelector('.main-svg')).length"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def reports() -> list:
    one, other = make_report("first", 0), make_report("second", 1)
    left = replace(other.evaluation, item_strength=0.0, user_strength=0.0)
    return [one, other, replace(other, name="not adjusted", evaluation=left, ledger=None)]


def some_debiasing() -> cp.Debiasing:
    world = cp.make_world(600, 120, seed=2)
    users = np.hstack([world.user_taste, np.ones((600, 1))])
    popularity = np.log1p(world.log.item_counts)[:, None]
    found = cp.debias(users, np.hstack([world.item_taste, popularity]), world.log)
    segments = cp.Segments("activity", (5.0, 9.0), ((0.0, 0.2), (0.4, 0.6), (1.0, 1.2)))
    return replace(found, segments=segments, by_segment=found.uniform)


@pytest.fixture(scope="module")
def pages(reports: list, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    write_report(reports, folder / "report.html")
    write_report([replace(reports[0], name=f"run {n}") for n in range(MANY)], folder / "many.html")
    write_audit(some_audits(reports[0]), folder / "audit.html")
    write_debiasing(some_debiasing(), folder / "debias.html")
    write_world(folder)
    files = ["--recommendations", folder / "lists.csv", "--interactions", folder / "log.csv", "--time", "time"]
    more = ["--against", Path(__file__).parent / "audit-1.json", "--fail-if", "gini > 0.1", "--record"]
    words = ["audit", *files, *more, "--html", folder / "document.html"]
    assert CliRunner().invoke(main, list(map(str, words))).exit_code == 3
    write_history([read_document(Path(__file__).parent / "audit-1.json")], folder / "history.html")
    write_item(some_item(), folder, Plan(), Cache(folder))
    write_overview(folder, ["table3"])
    (folder / "index.html").rename(folder / "paper.html")
    return {
        name: folder / f"{name}.html" for name in ("report", "many", "audit", "debias", "paper", "document", "history")
    }


@pytest.fixture
def visit(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """Opens a page, which must request nothing but its file and log no errors."""
    contexts, wrong = [], []

    def opened(name: str, size: dict[str, int] = DESKTOP, scheme: str = "light", **more: Any) -> Any:
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **more))
        page = contexts[-1].new_page()
        page.add_init_script(f"addEventListener('load', () => {{ window.drawnAtLoad = ({DRAWN})() }})")
        page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url == address or wrong.append(request.url))
        address = pages[name].as_uri()
        page.goto(address)
        if more.get("java_script_enabled", True):
            page.wait_for_function(READY)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("name", ["many", "audit"])
def test_a_page_is_small_and_opens_in_less_than_two_seconds(browser: Any, pages: dict[str, Path], name: str) -> None:
    assert pages[name].stat().st_size < 6_000_000
    page = browser.new_page(viewport=DESKTOP)
    meter = page.context.new_cdp_session(page)
    # CPU time of the page, independent of other load; the benchmarks measure wall time
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(pages[name].as_uri())
    taken = {entry["name"]: entry["value"] for entry in meter.send("Performance.getMetrics")["metrics"]}
    page.close()
    assert 0.05 < taken["TaskDuration"] < 2


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")], ids=["phone-dark", "desktop-light"])
@pytest.mark.parametrize("name", ["report", "audit", "debias", "paper", "document", "history"])
def test_pages_are_accessible(visit: Any, name: str, size: dict[str, int], scheme: str, tmp_path: Path) -> None:
    page = visit(name, size, scheme)
    page.evaluate("document.querySelectorAll('details:not(.numbers)').forEach((part) => { part.open = true })")
    page.locator(".numbers summary").first.click()
    page.locator(".numbers table").first.wait_for()
    page.screenshot(path=tmp_path / "page.png")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]  # only tables scroll sideways
    light = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light == (scheme == "light")
    # figures use the colours of the page
    soft = page.evaluate("getComputedStyle(document.querySelector('.intro')).color")
    inks = page.evaluate(
        "[...new Set([...document.querySelectorAll('.xtick text')].map((e) => getComputedStyle(e).fill))]"
    )
    assert inks == [soft]


def test_figures_on_the_screen_are_drawn_before_the_page_has_loaded(visit: Any) -> None:
    page = visit("report", {"width": 1280, "height": 1600})
    on_screen = page.evaluate("plots.filter((plot) => plot.getBoundingClientRect().top < innerHeight).length")
    assert 0 < on_screen <= page.evaluate("drawnAtLoad") < page.evaluate("plots.length")


def test_every_figure_fits_its_column_in_print(visit: Any) -> None:
    page = visit("report", PHONE, "dark")
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = plots.map({WIDTH}) }})")
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert set(page.evaluate("printed")) == {340}
    assert page.evaluate("[...document.querySelectorAll('details:not(.numbers)')].every((part) => part.open)")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_figures_return_to_the_screen_width_after_printing(visit: Any) -> None:
    page = visit("audit", PHONE)
    page.pdf(format="A4")
    page.wait_for_function(
        f"() => plots.every((plot) => Math.abs(({WIDTH})(plot) - plot.getBoundingClientRect().width) < 1)"
    )


def test_the_keyboard_reaches_contents_menus_and_numbers(visit: Any, reports: list) -> None:
    page = visit("report")
    page.keyboard.press("Tab")  # the numbers of the chart on the first screen
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Users"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("() => Math.abs(document.querySelector('#part-2').getBoundingClientRect().top) < 100")
    menu = page.locator("select").first
    menu.scroll_into_view_if_needed()
    figure = page.locator("figure", has=page.locator("select")).first
    figure.locator(".main-svg").first.wait_for()
    menu.focus()
    page.keyboard.press("ArrowDown")
    summary = figure.locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    table = figure.locator("table")
    table.wait_for()
    grid = reports[0].grid
    chosen = list(grid.values)[menu.evaluate("(menu) => menu.selectedIndex")]
    assert chosen == list(grid.values)[1] != "recall"
    rows = [row.split("\t") for row in table.inner_text().splitlines()]
    assert [float(cell) for cell in rows[0][1:]] == pytest.approx(list(grid.user_strengths))
    shown = [[float(cell) for cell in row[1:]] for row in rows[1:]]
    assert shown == [pytest.approx(list(row), rel=1e-3) for row in grid.values[chosen]]
    visible = figure.evaluate("(f) => f.querySelector('.plot').data.map((trace) => trace.visible ?? true)")
    assert visible == [n in (1, 7, 8) for n in range(9)]  # seven metrics, then the two marks


def test_tables_are_sorted_by_click_and_by_keyboard(visit: Any) -> None:
    page = visit("report")
    table = page.get_by_role("region", name="Gained most, first").locator("table")
    heads = table.locator("th[scope=col]")
    assert table.locator("[aria-sort]").count() == 0
    cells = table.locator("td:nth-child(2)")
    as_drawn = [int(text.replace(",", "")) for text in cells.all_inner_texts()]
    heads.nth(1).locator("button").click()
    assert [int(text.replace(",", "")) for text in cells.all_inner_texts()] == sorted(as_drawn, reverse=True)
    assert heads.nth(1).get_attribute("aria-sort") == "descending"
    heads.nth(1).locator("button").focus()
    page.keyboard.press("Enter")
    assert [int(text.replace(",", "")) for text in cells.all_inner_texts()] == sorted(as_drawn)
    heads.nth(0).locator("button").click()
    assert [heads.nth(n).get_attribute("aria-sort") for n in (0, 1)] == ["ascending", None]
    names = [text.lower() for text in table.locator("tbody th > span").all_inner_texts()]
    assert names == sorted(names)


def test_no_table_is_cut_on_a_phone(visit: Any) -> None:
    page = visit("report", PHONE)
    cut = "(those) => those.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.getAttribute('aria-label'))"
    assert page.locator(".wide:has(table.rows)").evaluate_all(cut) == []
    # as a list of rows, every cell still says what it is
    label = "(cell) => getComputedStyle(cell, '::before').content"
    assert page.locator("table.rows td").first.evaluate(label) == '"Popularity"'


def test_the_contents_stay_in_view_and_mark_the_section(visit: Any) -> None:
    page = visit("report")
    page.locator("#part-4").scroll_into_view_if_needed()
    page.evaluate("document.querySelector('#part-4').scrollIntoView()")
    page.wait_for_function("() => document.querySelector('nav.contents a[aria-current]')?.hash === '#part-4'")
    assert page.locator("nav.contents").bounding_box()["y"] == 0


def test_numbers_below_a_figure_match_it(visit: Any, reports: list) -> None:
    page = visit("report")
    figure = page.locator("figure", has_text="What is recommended").first
    figure.locator("summary").click()
    rows = [row.split("\t") for row in figure.locator("table").inner_text().splitlines()]
    bars = figures.exposure_by_group(reports[0].evaluation, reports[0].item_counts).data
    assert rows[0][1:] == [bar.name for bar in bars]
    assert [row[0] for row in rows[1:]] == list(bars[0].x)
    for column, bar in enumerate(bars, 1):
        assert [float(row[column]) for row in rows[1:]] == pytest.approx([float(y) for y in bar.y], rel=1e-3)


def test_the_first_screen_shows_the_finding(visit: Any, reports: list) -> None:
    page = visit("audit")
    audits = some_audits(reports[0])
    cards = page.locator(".card").all()
    assert len(cards) == len(audits)
    for card, one in zip(cards, audits.values(), strict=True):
        text = card.inner_text().replace("\u00a0", " ")
        assert one.verdict.headline[1:] in page.inner_text("h1").replace("\u00a0", " ")
        assert f"{1 + one.measures['amplification']:.2f} times" in text
        assert format_figure("tail_share", one.measures["tail_share"]).replace("\u00a0", " ") in text
        assert one.verdict.reasons in page.inner_text("#part-1").replace("\u00a0", " ")
    assert all(card.bounding_box()["y"] < DESKTOP["height"] for card in cards)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("name", ["report", "debias"])
def test_verdict_gain_and_price_come_first(visit: Any, reports: list, name: str, size: dict[str, int]) -> None:
    page = visit(name, size)
    assert " find " in page.inner_text("h1") and "as traffic is today" in page.inner_text("h1")
    gain, price = page.locator(".pair .side").all()
    assert gain.inner_text().startswith("Gain") and price.inner_text().startswith("Price")
    bottom = price.bounding_box()["y"] + price.bounding_box()["height"]
    assert bottom < size["height"] * (1 if size is DESKTOP else 1.6)
    # plain and adjusted have the same colours in bars and charts, light and dark
    bars = "(those) => those.map((bar) => getComputedStyle(bar).backgroundColor)"
    colors = {"rgb(200, 105, 28)", "rgb(58, 127, 196)"}
    assert set(page.locator(".pair .bars i").evaluate_all(bars)) == colors
    page.emulate_media(color_scheme="dark")
    assert set(page.locator(".pair .bars i").evaluate_all(bars)) == colors
    drawn = {f"rgb{tuple(int(c[n : n + 2], 16) for n in (1, 3, 5))}" for c in (figures.PLAIN, figures.ADJUSTED)}
    assert drawn == colors
    if name == "report":
        titles = page.locator(".movers li span").all_inner_texts()
        assert 0 < len(titles) <= 10 and all(text.startswith(("Title", "item")) for text in titles)


def test_text_and_tables_remain_without_scripts(visit: Any) -> None:
    page = visit("report", java_script_enabled=False)
    assert page.locator("noscript").inner_text().startswith("The charts on this page are drawn by a script")
    numbers = page.locator("table", has_text="first, plain").first.inner_text()
    assert numbers.count("first, plain") == 2  # on test, and on ordinary pairs
