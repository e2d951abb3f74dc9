"""The dashboard in a real browser: its numbers match the library's, and it is accessible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from browsing import axe, launched, playwright
from counterpop.serving.model import ServedModel, find
from serving_run import ITEMS, USERS, Server, make_run, serving

TILES = ("recall", "ndcg", "hit_rate", "average_popularity", "tail_share", "coverage", "gini")
MOVES = """async () => {
  const slider = document.getElementById('item'), first = () => document.querySelector('#now-list li');
  const taken = [];
  for (let stop = 0; stop <= 20; stop++) {
    const before = first(), start = performance.now();
    slider.value = stop;
    slider.dispatchEvent(new Event('input'));
    const figures = performance.now() - start;
    while (first() === before) await new Promise((done) => setTimeout(done, 1));
    taken.push([figures, performance.now() - start]);
  }
  return taken;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dashboard")
    make_run(folder)
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[Server, ServedModel]]:
    with serving(folder / "run", folder / "names.csv") as both:
        yield both


@contextmanager
def opened(browser: Any, url: str, width: int = 1280, scheme: str = "light", quiet: bool = True) -> Iterator[Any]:
    """The page with a user's lists on it; if `quiet`, nothing may be logged to the console."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(15_000)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    own = url.partition("#")[0]

    def watch(asked: Any) -> None:
        if not asked.url.startswith((own, "data:")):
            said.append(f"asked {asked.url}")

    page.on("request", watch)
    page.goto(url)
    if quiet:
        page.wait_for_selector("#now-list li")
    yield page
    context.close()
    assert not (quiet and said), said


def move(page: Any, side: str, stop: int) -> None:
    page.locator(f"#{side}").evaluate(
        "(slider, stop) => { slider.value = stop; slider.dispatchEvent(new Event('input')) }", stop
    )


def settled(page: Any, item: str) -> None:
    """Waits until the adjusted list starts with the item."""
    page.wait_for_selector(f'#now-list li:first-child[data-item="{item}"]')


def shown(metric: str, value: float) -> str:
    if metric == "average_popularity":
        return f"{round(value):,}"
    return f"{100 * value:.1f} %" if metric in ("tail_share", "coverage") else f"{value:.3f}"


def test_slider_metrics_match_evaluate(browser: Any, served: tuple[Server, ServedModel], folder: Path) -> None:
    server, model = served
    split = cp.load_split(folder / "run")
    with opened(browser, server.url) as page:
        for a, b in ((0, 0), (7, 3), (20, 12)):
            move(page, "item", a)
            move(page, "user", b)
            found = cp.evaluate(model.recommender.with_strengths(a / 10, b / 10), split, "valid", resamples=0).adjusted
            for metric in TILES:
                figure = page.locator(f'.tile[data-metric="{metric}"] .figure').inner_text()
                assert figure == shown(metric, getattr(found, metric)), metric
            shares = page.locator("#groups td:nth-child(4)").all_inner_texts()
            assert shares == [f"{100 * group['frequency']:.1f} %" for group in found.groups]
            assert page.locator("#item").get_attribute("aria-valuetext") == f"{a / 10:g}"
            assert page.locator("#user-shown").inner_text() == f"{b / 10:g}"
        assert f"all {np.count_nonzero(split.development.valid.user_counts)} users" in page.inner_text("#sample")


def test_a_user_is_found_and_the_lists_explain_themselves(browser: Any, served: tuple[Server, ServedModel]) -> None:
    server, model = served
    with opened(browser, server.url) as page:
        move(page, "item", 8)
        move(page, "user", 5)
        page.fill("#person", "u17")
        page.wait_for_selector('#found option[value="u170"]', state="attached")
        page.press("#person", "Enter")
        page.locator("#person-note", has_text="User u17:").wait_for()
        at = find(model.vectors.user_ids, "u17")
        assert at is not None
        plain, adjusted = model.recommender.explain(at, 20, 0.8, 0.5)
        settled(page, model.vectors.item_ids[adjusted[0].item])
        for name, rows in (("plain", plain), ("now", adjusted)):
            lines = page.locator(f"#{name}-list li")
            got = lines.evaluate_all("lines => lines.map((line) => line.dataset.item)")
            assert got == [model.vectors.item_ids[row.item] for row in rows]
            for row, why in zip(rows, lines.locator(".why").all_inner_texts(), strict=True):
                parts = (
                    f"score {row.plain_score:.2f} → {row.adjusted_score:.2f}, removed: {row.popular_part:+.2f} through "
                )
                parts += f"items, {row.conformity_part:+.2f} through users"
                assert why == f"popularity {model.train.item_counts[row.item]:,} · {parts.replace('-', '−')}"
            for row, moved in zip(rows, lines.locator(".moved").all_inner_texts(), strict=True):
                arrow = "▲" if row.adjusted_rank < row.plain_rank else "▼"
                words = f"to {row.adjusted_rank}" if name == "plain" else f"from {row.plain_rank}"
                assert moved == ("" if row.plain_rank == row.adjusted_rank else f"{arrow} {words}")
        seen = np.count_nonzero(model.seen.user_ix == at)
        assert page.locator("#history li").count() == seen
        # names are shown as text, never as markup
        assert model.item_names is not None
        titles = page.locator("#now-list li > span:nth-child(2)").all_inner_texts()
        names = [model.item_names[row.item] or f"item {model.vectors.item_ids[row.item]}" for row in adjusted]
        assert titles == names
        assert page.locator(".lists b").count() == 0


def test_an_unknown_user_gets_a_sentence(browser: Any, served: tuple[Server, ServedModel]) -> None:
    with opened(browser, served[0].url, quiet=False) as page:  # browsers log every 404
        page.wait_for_selector("#now-list li")
        page.fill("#person", "nobody")
        page.press("#person", "Enter")
        page.locator("#person-note", has_text="user 'nobody' is not among the 300 users").wait_for()
        # nobody else's lists stay behind, not even after a slider has moved
        move(page, "item", 3)
        assert page.locator("#plain-list li, #now-list li, #history li").count() == 0
        assert not page.is_visible("#lists") and page.is_disabled("#save-lists") and "person" not in page.url
        page.fill("#person", "u17")
        page.press("#person", "Enter")
        page.wait_for_selector("#now-list li")
        assert page.is_visible("#lists")


def test_the_url_keeps_sliders_and_user(browser: Any, served: tuple[Server, ServedModel]) -> None:
    server, model = served
    with opened(browser, f"{server.url}/#item=1.3&user=0.2&person=u42") as page:
        assert page.locator("#item-shown").inner_text() == "1.3"
        assert page.input_value("#person") == "u42"
        page.click("#plain")
        playwright.expect(page.locator("#now-list .moved")).to_have_text([""] * 20)  # waits for it
        assert "item=0&user=0&person=u42" in page.url
        page.click("#tuned")
        strengths = model.recommender.item_strength, model.recommender.user_strength
        got = page.inner_text("#item-shown"), page.inner_text("#user-shown")
        assert got == tuple(f"{strength:g}" for strength in strengths)


def test_gain_and_price_come_with_intervals_and_named_points(
    browser: Any, served: tuple[Server, ServedModel], folder: Path
) -> None:
    server, model = served
    split, measured = cp.load_split(folder / "run"), server.measures()
    assert list(measured["points"]) == ["gain", "balanced", "free"]
    with opened(browser, server.url) as page:
        assert page.inner_text("#chosen") == measured["sentence"] == model.tuning["sentence"]
        page.click("text=Gain >> nth=0")
        item, user = measured["points"]["gain"]
        assert (page.inner_text("#item-shown"), page.inner_text("#user-shown")) == (f"{item:g}", f"{user:g}")
        found = cp.evaluate(model.recommender.with_strengths(item, user), split, "valid")
        lost = found.price["lost"]
        gain = page.locator('.side[data-metric="gain"]').inner_text()
        assert f"{100 * (found.adjusted.recall / found.plain.recall - 1):+.1f} %" in gain
        assert all(f"{100 * side.recall:.1f} %" in gain for side in (found.plain, found.adjusted))
        tile = page.locator('.side[data-metric="price"]').inner_text().replace("−", "-")
        assert f"{100 * lost:.1f} %" in tile
        low, high = (float(end) for end in re.search(r"\((\S+) to (\S+)\)", tile).groups())
        assert low < 100 * lost < high
        assert high - low == pytest.approx(100 * (found.price["high"] - found.price["low"]), rel=0.6)  # ten groups only
        labels = page.locator("#curve text").all_text_contents()
        assert {"gain", "balanced", "free"} <= {name for label in labels for name in label.split(", ")}


def test_everything_works_by_keyboard(browser: Any, served: tuple[Server, ServedModel]) -> None:
    with opened(browser, served[0].url) as page:
        page.focus("#item")
        page.keyboard.press("Home")
        assert page.inner_text("#item-shown") == "0"
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert page.inner_text("#item-shown") == "0.3"
        reached = set()
        page.evaluate("document.activeElement.blur()")
        for _ in range(24):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert {
            "item",
            "user",
            "plain",
            "tuned",
            "x",
            "y",
            "person",
            "history",
            "save-lists",
            "audit",
            "save-page",
            "SUMMARY",
        } <= reached
        assert "Gain" in page.locator("#curve svg").get_attribute("aria-label")


def test_a_click_on_the_curve_moves_the_sliders(browser: Any, served: tuple[Server, ServedModel]) -> None:
    server, _ = served
    measured = server.measures()
    with opened(browser, server.url) as page:
        page.select_option("#x", "gini")
        page.select_option("#y", "ndcg")
        page.locator("#curve .start").scroll_into_view_if_needed()
        place = page.locator("#curve .start").bounding_box()
        page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        move_to = float(page.inner_text("#item-shown")), float(page.inner_text("#user-shown"))
        a, b = (measured[f"{side}_strengths"].index(x) for side, x in zip(("item", "user"), move_to, strict=True))
        values = measured["values"]
        assert values["gini"][a][b] == pytest.approx(values["gini"][0][0], abs=1e-3)
        assert values["ndcg"][a][b] == pytest.approx(values["ndcg"][0][0], abs=1e-3)


def test_a_move_takes_less_than_a_tenth_of_a_second(browser: Any, served: tuple[Server, ServedModel]) -> None:
    with opened(browser, served[0].url) as page:
        seconds = page.evaluate(MOVES)
        figures, lists = np.median(np.array(seconds), axis=0)  # a single move may be slow on a busy machine
        assert figures < 100
        assert lists < 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_readable_on_every_screen(
    browser: Any, served: tuple[Server, ServedModel], tmp_path: Path, width: int, scheme: str
) -> None:
    with opened(browser, served[0].url, width, scheme) as page:
        page.click("summary")
        page.screenshot(path=tmp_path / f"{scheme}-{width}.png", full_page=True)
        assert (tmp_path / f"{scheme}-{width}.png").stat().st_size > 30_000
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
        found = axe.Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        tops = page.locator(".lists > section").evaluate_all("s => s.map((e) => e.getBoundingClientRect().top)")
        assert (tops[0] == tops[1]) == (width == 1280)  # side by side if there is room


def test_lists_and_page_can_be_saved(browser: Any, served: tuple[Server, ServedModel], tmp_path: Path) -> None:
    server, model = served
    with opened(browser, f"{server.url}/#item=0.8&user=0.5&person=u17") as page:
        with page.expect_download() as waiting:
            page.click("#save-lists")
        waiting.value.save_as(tmp_path / "lists.csv")
        table = pl.read_csv(tmp_path / "lists.csv")
        at = find(model.vectors.user_ids, "u17")
        assert at is not None
        for name, rows in zip(("plain", "adjusted"), model.recommender.explain(at, 20, 0.8, 0.5), strict=True):
            mine = table.filter(pl.col("list") == name)
            assert mine["item"].to_list() == [model.vectors.item_ids[row.item] for row in rows]
            assert mine["adjusted_score"].to_list() == pytest.approx([row.adjusted_score for row in rows])
        with page.expect_download() as waiting:
            page.click("#save-page")
        waiting.value.save_as(tmp_path / "page.html")
        verdict = page.inner_text("#verdict")
    context = browser.new_context(offline=True)
    saved = context.new_page()
    saved.goto((tmp_path / "page.html").as_uri())
    assert saved.inner_text("#verdict") == verdict and saved.locator("#now-list li").count() == 20
    assert saved.locator("script, link, button").count() == 0
    context.close()


def test_it_links_to_the_audit_at_these_strengths(browser: Any, served: tuple[Server, ServedModel]) -> None:
    server, model = served
    with opened(browser, f"{server.url}/#item=0.8&user=0.5") as page:
        address = page.locator("#audit").get_attribute("href")
        assert address == "audit.html?item_strength=0.8&user_strength=0.5"
    status, text, headers = server.ask(f"/{address}")
    found = cp.audit_model(model.recommender.with_strengths(0.8, 0.5), model.train, 20)
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert found.verdict.headline[1:].encode() in text and b"<script>" in text
    assert server.ask("/audit.html?k=1000")[0] == 422


def test_the_history_is_dated(browser: Any, tmp_path: Path) -> None:
    """A log with dates: the latest item first, with its day."""
    log = cp.make_world(USERS, ITEMS, seed=5).log
    start = 1_700_000_000
    dated = replace(log, time=np.floor(start + 1e7 * log.time))
    split = cp.split_uniform(dated, test=2, valid=2, seed=0)
    cp.save_run(cp.train(split, method="plain", dim=4, epochs=1, seed=0), tmp_path / "run", split)
    with serving(tmp_path / "run") as (server, model):
        told = server.get("/history?user=17")
        mine = model.seen.user_ix == 17
        times = np.sort(model.seen.time[mine])[::-1]
        assert told["order"] == "latest" and len(told["items"]) == mine.sum()
        days = [datetime.fromtimestamp(time, UTC).isoformat() for time in times]
        assert [row["time"] for row in told["items"]] == days
        with opened(browser, f"{server.url}/#person=17") as page:
            assert page.locator("#history li span:last-child").all_inner_texts() == [day[:10] for day in days]


def test_it_prints_without_controls(browser: Any, served: tuple[Server, ServedModel]) -> None:
    with opened(browser, served[0].url) as page:
        page.emulate_media(media="print")
        assert page.locator(".dial").evaluate("(dial) => getComputedStyle(dial).position") == "static"
        assert not page.is_visible("#item") and not page.is_visible("#save-page") and page.is_visible("#now-list")
        exact = page.locator(".bar").first.evaluate("(bar) => getComputedStyle(bar).printColorAdjust")
        assert exact == "exact"
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_the_page_asks_for_the_token(browser: Any, folder: Path) -> None:
    token = "a-token-of-enough-length"
    with serving(folder / "run", tokens=[token]) as (server, _), opened(browser, server.url, quiet=False) as page:
        page.fill("#token input", token)
        page.click("#token button")
        page.wait_for_selector("#now-list li")
        assert not page.is_visible("#token")
        assert not page.is_visible("#notice")
