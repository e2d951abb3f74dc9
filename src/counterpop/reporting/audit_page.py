"""The page about audits: what the lists show, beside what their users chose."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from counterpop.auditing import (
    DEFINITIONS,
    GROUP_RULE,
    SEGMENT_RULE,
    Audit,
    category_tables,
    never_recommended,
    over_exposed,
)
from counterpop.reporting import figures
from counterpop.reporting.audit_tables import (
    MOST_ROWS,
    html_audit,
    html_categories,
    html_grade,
    html_items,
    html_segments,
)
from counterpop.reporting.document_sections import closing_sections, document_sections, summary_line
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, wide
from counterpop.reporting.run_page import BIAS, FREQUENCY, GRADIENTS, gradient_panels
from counterpop.reporting.tables import format_figure

INTRO = (
    f"{BIAS} This page compares recommendations with the log they come from. It measures what is shown, not whether "
    "users like it. The log has some of this bias itself, so lists that lean the other way may well be closer to "
    "people’s tastes."
)


def render_audit(audits: Mapping[str, Audit], title: str, document: Mapping[str, Any] | None = None) -> str:
    """The whole page as HTML; all audits must be for the same log."""
    first = cards([_card(name, one) for name, one in audits.items()])
    sections = [_groups(audits), _frequency(audits), _items(audits), _segments(audits), _figures(audits)]
    if any(one.labels is not None and one.labels.categories for one in audits.values()):
        sections.insert(3, _categories(audits))
    if any(one.picture is not None for one in audits.values()):
        sections.insert(-1, _gradients(audits))
    told = document or {}
    about = [*document_sections(told), *sections, _notes(audits), *closing_sections(told)]
    intro = f"{INTRO} {summary_line(told)}" if told else INTRO
    if told:
        title = f"{told['title']}: {title[0].lower()}{title[1:]}"
    return compose(title, intro, first, about)


def _card(name: str, one: Audit) -> str:
    m = one.measures
    drawn, chosen = (format_figure("tail_share", m[name]) for name in ("expected_tail_share", "profile_tail_share"))
    tiles = [
        Tile(
            "Popularity",
            f"{1 + m['amplification']:.2f} times",
            "as popular as items drawn from the log in proportion to their interactions (1: no added bias), and "
            f"{1 + m['popularity_lift']:.2f} times as popular as what the same users chose",
        ),
        Tile(
            "Tail items",
            format_figure("tail_share", m["tail_share"]),
            f"of recommendations, against {drawn} in draws from the log and {chosen} of what users chose",
        ),
        Tile(
            "Never recommended",
            format_figure("coverage", 1 - m["coverage"]),
            f"of {one.items:,} items are in none of the {one.users:,} lists",
        ),
        Tile(
            "Share of the top 1 %",
            format_figure("coverage", m["most_recommended_share"]),
            "of all recommendations go to the 1 % of items recommended most",
        ),
    ]
    return card(escape(name) + html_grade(one.verdict.grade), one.verdict.headline, "", tiles, one.verdict.reasons)


def _groups(audits: Mapping[str, Audit]) -> Section:
    return Section(
        "Which items get recommended",
        f"{GROUP_RULE} Each group’s share of all recommendations, beside its share of the interactions in the log.",
        panels([panel("What is recommended", "", figures.audited_groups(audits))]),
    )


def _frequency(audits: Mapping[str, Audit]) -> Section:
    first = next(iter(audits.values()))
    exposures = {name: one.exposure for name, one in audits.items()}
    figure = figures.frequency_by_rank(exposures, first.users, first.item_counts)
    return Section(
        "How often an item is recommended", FREQUENCY, panels([panel("Frequency by popularity", "", figure)])
    )


def _items(audits: Mapping[str, Audit]) -> Section:
    body = ""
    for name, one in audits.items():
        never, over = int((one.exposure == 0).sum()), over_exposed(one)
        for heading, rows in (
            ("most over-exposed", over),
            (f"never recommended, {never:,} items in all", never_recommended(one)),
        ):
            title = f"{escape(name)}: {heading}"
            body += f"<h3>{title}</h3>" + (wide(title, html_items(rows)) if rows else "<p>None.</p>")
    return Section(
        "Which items are concerned",
        "“Lists as in the log” is the number of lists an item would be in if all places were shared out in proportion "
        "to interactions. Over-exposed items are in the most lists beyond that number; of the items in no list, those "
        "with the most interactions are shown. All items are in items.csv (--csv).",
        body,
    )


def _categories(audits: Mapping[str, Audit]) -> Section:
    body = ""
    for name, one in audits.items():
        for column, table in category_tables(one).items():
            title = f"{escape(column)}: {escape(name)}"
            rest = len(table["rows"]) - MOST_ROWS
            more = f"<p>{rest:,} more in categories.csv (--csv).</p>" if rest > 0 else ""
            agree = f"<p>The mix of attention agrees with the log by {100 * table['awrf']:.1f} % (AWRF).</p>"
            body += f"<h3>{title}</h3>{agree}{wide(title, html_categories(table['rows']))}{more}"
    return Section(
        "Which categories are concerned",
        "Each category’s share of the interactions in the log, of all recommendations, and of all attention (a place "
        "gets 1 / log2(1 + rank)), most interactions first.",
        body,
    )


def _segments(audits: Mapping[str, Audit]) -> Section:
    shown = [
        panel("Top items", "the first 20 % of interactions", figures.audited_segments(audits, "top")),
        panel("Middle items", "from 20 to 80 % of interactions", figures.audited_segments(audits, "middle")),
        panel("Tail items", "beyond 80 % of interactions", figures.audited_segments(audits, "tail")),
        panel("Miscalibration of users", "0: the same mix as chosen", figures.miscalibration_spread(audits)),
    ]
    groups = [("", name, one.segments) for name, one in audits.items()]
    groups += [(f"{column}: ", name, rows) for name, one in audits.items() for column, rows in one.attributes.items()]
    return Section("Which users are affected", SEGMENT_RULE, panels(shown) + wide("Segments", html_segments(groups)))


def _gradients(audits: Mapping[str, Audit]) -> Section:
    picture, counts = next((a.picture, a.item_counts) for a in audits.values() if a.picture is not None)
    return Section("Where the popularity comes from", GRADIENTS, panels(gradient_panels(picture, counts)))


def _figures(audits: Mapping[str, Audit]) -> Section:
    published = ", ".join(d.published for d in DEFINITIONS.values() if d.published)
    basis = "Computed over all lists, not a sample. " if all(one.sample is None for one in audits.values()) else ""
    return Section(
        "All metrics and their definitions",
        f"{basis}{published} follow their publications. Below each value is its 95 % interval: how much it would vary "
        "with other users of the same kind. Grades are conventions of this page; they judge too much popularity, never "
        "too little. A dash means that the metric cannot be computed.",
        html_audit(audits),
    )


def _notes(audits: Mapping[str, Audit]) -> Section:
    body = ""
    for name, one in audits.items():
        notes = one.sentences or ["Nothing to note: every list is full, and every user and item is in the log."]
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in notes)
        size = f"{one.users:,} lists of up to {one.k} items, from {one.items:,} items"
        body += f"<h3>{escape(name)}: {size}</h3><ul>{items}</ul>"
    return Section("Notes on the input", "Everything that was left out is listed here.", body)
