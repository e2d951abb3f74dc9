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
    html_title,
)
from counterpop.reporting.catalogue import Catalogue
from counterpop.reporting.document_sections import closing_sections, document_sections, summary_line
from counterpop.reporting.first_screen import TITLES, glance, movers
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, tiles, wide
from counterpop.reporting.run_page import BIAS, FREQUENCY, GRADIENTS, gradient_panels
from counterpop.reporting.tables import GROUP_NAMES, exact, format_figure, format_interval, html_table

INTRO = "This page compares recommendations with their log. It measures what is shown, not whether users like it."
MOST_ITEMS = 10  # in a table on the page
MOST_VERDICTS = 2  # of more systems, the title of the page is no verdict
LIMITS = (
    f"{BIAS} Popularity is the number of interactions of an item in the log. The log has some of this bias itself, so "
    "lists that lean the other way may well be closer to people’s tastes."
)


def render_audit(audits: Mapping[str, Audit], title: str, document: Mapping[str, Any] | None = None) -> str:
    """The whole page as HTML; all audits must be for the same log."""
    audits = {"plain" if name == "as trained" else name: one for name, one in audits.items()}
    sections = [_reasons(audits), _items(audits), _groups(audits), _frequency(audits), _segments(audits)]
    if any(one.labels is not None and one.labels.categories for one in audits.values()):
        sections.insert(2, _categories(audits))
    sections.append(_figures(audits))
    if any(one.picture is not None for one in audits.values()):
        sections.append(_gradients(audits))
    told = document or {}
    about = [*document_sections(told), *sections, _notes(audits), *closing_sections(told)]
    intro = f"{INTRO} {summary_line(told)}" if told else INTRO
    if told:
        title = f"{told['title']}: {title[0].lower()}{title[1:]}"
    names, found = list(audits), list(audits.values())
    if len(audits) > MOST_VERDICTS:
        return compose(title, intro, _first_screen(audits), about)
    kicker = ", ".join(f"{escape(name.capitalize())}{html_grade(one.verdict.grade)}" for name, one in audits.items())
    verdicts = [f"{name}: {one.verdict.headline[0].lower()}{one.verdict.headline[1:]}" for name, one in audits.items()]
    verdict = "; ".join(verdicts) if len(names) > 1 else found[0].verdict.headline
    return compose(
        f"{verdict[0].upper()}{verdict[1:]}.", intro, _first_screen(audits), about, f"{escape(title)} {kicker}", title
    )


def _first_screen(audits: Mapping[str, Audit]) -> str:
    """The verdict on each system with a few numbers, then one chart and a few titles."""
    if len(audits) > 1:
        first = cards([_card(name, one, len(audits) > MOST_VERDICTS) for name, one in audits.items()])
    else:
        first = tiles(_tiles(next(iter(audits.values()))), 2)
    chart = panel("Which items get recommended", "", figures.audited_groups(audits))
    return first + glance(chart, _titles(audits))


def _titles(audits: Mapping[str, Audit]) -> str:
    """The titles that gain and lose most, of plain and adjusted lists; else those shown too often and never."""
    first, last = next(iter(audits.values())), list(audits.values())[-1]
    catalogue = Catalogue(last.item_ids, last.item_counts, last.labels)
    if set(audits) == {"plain", "adjusted"}:
        return movers(catalogue, first.exposure, last.exposure, last.users)
    lists = {
        "Shown beyond their share": [
            (row, f"in {row['lists']:,} lists, {row['expected_lists']:,.0f} as in the log")
            for row in over_exposed(last, TITLES)
        ],
        "Never shown": [(row, f"popularity {row['interactions']:,}") for row in never_recommended(last, TITLES)],
    }
    body = ""
    for heading, rows in lists.items():
        shown = "".join(f"<li>{html_title(row)}<small>{note}</small></li>" for row, note in rows)
        body += f"<section><h2>{heading}</h2><ol>{shown or '<li>None.</li>'}</ol></section>"
    which = f" ({escape(list(audits)[-1])})" if len(audits) > 1 else ""
    return f'<div class="movers">{body}<p>Of {last.users:,} lists{which}.</p></div>'


def _card(name: str, one: Audit, judged: bool) -> str:
    css = f' class="{name}"' if name in figures.SIDES else ""
    title = f"<span{css}>{escape(name.capitalize())}</span>{html_grade(one.verdict.grade)}"
    return card(title, one.verdict.headline, "", _tiles(one)) if judged else card("", title, "", _tiles(one))


def _tiles(one: Audit) -> list[Tile]:
    m = one.measures
    drawn, chosen = (format_figure("tail_share", m[name]) for name in ("expected_tail_share", "profile_tail_share"))

    def around(metric: str, times: bool = False) -> str:
        interval = one.intervals.get(metric)
        if interval is None:
            return ""
        ends = interval.low, interval.high
        text = f"{1 + ends[0]:.2f} to {1 + ends[1]:.2f}" if times else format_interval(metric, *ends)
        return f"<small>95 % interval {text}</small>"

    return [
        Tile(
            "Popularity against the log",
            f"{1 + m['amplification']:.2f} times{around('amplification', True)}",
            f"1: no added bias. {1 + m['popularity_lift']:.2f} times as popular as what the same users chose",
        ),
        Tile(
            "Tail items",
            format_figure("tail_share", m["tail_share"]) + around("tail_share"),
            f"of recommendations; {drawn} in draws from the log, {chosen} of what users chose",
        ),
        Tile(
            "Never recommended",
            format_figure("coverage", 1 - m["coverage"]),
            f"of {one.items:,} items are in none of the {one.users:,} lists",
        ),
        Tile(
            "Share of the top 1 %",
            format_figure("coverage", m["most_recommended_share"]) + around("most_recommended_share"),
            "of all recommendations go to the 1 % of items recommended most",
        ),
    ]


def _reasons(audits: Mapping[str, Audit]) -> Section:
    body = "".join(
        f"<h3>{escape(name.capitalize())}</h3><p>{escape(one.verdict.reasons)}</p>" for name, one in audits.items()
    )
    return Section("What the verdict rests on", LIMITS, body, "Verdict")


def _groups(audits: Mapping[str, Audit]) -> Section:
    rows = []
    for n, group in enumerate(next(iter(audits.values())).groups):
        shares = [group["interactions"], *(one.groups[n]["frequency"] for one in audits.values())]
        rows.append((f"{GROUP_NAMES[n]} %", [f"{group['items']:,}", *(exact("coverage", share) for share in shares)]))
    columns = ["Items", "Number", "Interactions", *(escape(name.capitalize()) for name in audits)]
    return Section(
        "Which items get recommended",
        f"{GROUP_RULE} Each group’s share of all recommendations, beside its share of the interactions in the log; the "
        "chart is at the top of this page.",
        wide("Which items get recommended", html_table(columns, rows)),
        "By popularity",
    )


def _frequency(audits: Mapping[str, Audit]) -> Section:
    first = next(iter(audits.values()))
    exposures = {name: one.exposure for name, one in audits.items()}
    figure = figures.frequency_by_rank(exposures, first.users, first.item_counts)
    body = panels([panel("Frequency by popularity", "", figure)])
    return Section("How often an item is recommended", FREQUENCY, body, "How often")


def _items(audits: Mapping[str, Audit]) -> Section:
    body = ""
    for name, one in audits.items():
        never, tables = int((one.exposure == 0).sum()), []
        for heading, rows in (
            ("most over-exposed", over_exposed(one, MOST_ITEMS)),
            (f"never recommended, {never:,} items in all", never_recommended(one, MOST_ITEMS)),
        ):
            title = f"{escape(name.capitalize())}: {heading}"
            table = wide(title, html_items(rows)) if rows else "<p>None.</p>"
            tables.append(f"<div><h3>{title}</h3>{table}</div>")
        body += panels(tables)
    return Section(
        "Which items are concerned",
        "“Lists as in the log” is the number of lists an item would be in if all places were shared out in proportion "
        "to interactions. Over-exposed items are in the most lists beyond that number; of the items in no list, those "
        "with the most interactions are shown. All items are in items.csv (--csv).",
        body,
        "Items",
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
        "Categories",
    )


def _segments(audits: Mapping[str, Audit]) -> Section:
    parts = {
        "top": "the first 20 % of interactions",
        "middle": "from 20 to 80 % of interactions",
        "tail": "beyond 80 % of interactions",
    }
    drawn = figures.same_scale([figures.audited_segments(audits, which) for which in parts])
    shown = [
        *(
            panel(f"{which.capitalize()} items", note, figure)
            for (which, note), figure in zip(parts.items(), drawn, strict=True)
        ),
        panel("Miscalibration of users", "0: the same mix as chosen", figures.miscalibration_spread(audits)),
    ]
    groups = [("", name, one.segments) for name, one in audits.items()]
    groups += [(f"{column}: ", name, rows) for name, one in audits.items() for column, rows in one.attributes.items()]
    body = panels(shown) + wide("Segments", html_segments(groups))
    return Section("Which users are affected", SEGMENT_RULE, body, "Users")


def _gradients(audits: Mapping[str, Audit]) -> Section:
    picture, counts = next((a.picture, a.item_counts) for a in audits.values() if a.picture is not None)
    return Section("Where the popularity comes from", GRADIENTS, panels(gradient_panels(picture, counts)), "Ledger")


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
    return Section("Notes on the input", "Everything that was left out is listed here.", body, "Notes")
