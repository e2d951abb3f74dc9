"""The page of an audit: what lists expose, beside what their users chose."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from counterpop.auditing import DEFINITIONS, GROUP_RULE, SEGMENT_RULE, Audit
from counterpop.reporting import figures
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, wide
from counterpop.reporting.run_page import GRADIENTS
from counterpop.reporting.tables import format_figure, html_audit, html_segments

INTRO = (
    "A recommender learns from what people chose, and people choose among what they are shown. Popular "
    "items are shown more, so they come to be recommended beyond anybody’s taste. This page holds what is "
    "recommended against the log it comes from. It says what is shown, not whether it is liked; and as the "
    "log is not free of such bias itself, lists that lean the other way may well be nearer to taste."
)


def render_audit(audits: Mapping[str, Audit], title: str) -> str:
    """The whole page as text; the audits are of lists for one log."""
    first = cards([_card(name, one) for name, one in audits.items()])
    sections = [_groups(audits), _frequency(audits), _segments(audits), _figures(audits)]
    if any(one.picture is not None for one in audits.values()):
        sections.insert(3, _gradients(audits))
    return compose(title, INTRO, first, [*sections, _notes(audits)])


def _card(name: str, one: Audit) -> str:
    m = one.measures
    tiles = [
        Tile(
            "Popularity",
            f"{1 + m['amplification']:.2f} times",
            "as popular as items drawn from the log in proportion to interactions; 1 adds no bias to it",
        ),
        Tile(
            "From the tail",
            format_figure("tail_share", m["tail_share"]),
            f"of recommendations, and {format_figure('tail_share', m['profile_tail_share'])} of what users chose",
        ),
        Tile(
            "Never recommended",
            format_figure("coverage", 1 - m["coverage"]),
            f"of {one.items:,} items stand in none of the {one.users:,} lists",
        ),
        Tile(
            "Places of the top 1 %",
            format_figure("coverage", m["most_recommended_share"]),
            "of all places go to the most recommended 1 % of items",
        ),
    ]
    return card(escape(name), one.verdict.headline, "", tiles, one.verdict.reasons)


def _groups(audits: Mapping[str, Audit]) -> Section:
    return Section(
        "Who gets the recommendations",
        f"{GROUP_RULE} How much of all recommendations goes to each group, beside its share of the "
        "interactions in the log.",
        panels([panel("What is recommended", "", figures.audited_groups(audits))]),
    )


def _frequency(audits: Mapping[str, Audit]) -> Section:
    first = next(iter(audits.values()))
    figure = figures.frequency_by_rank(
        {name: one.exposure for name, one in audits.items()}, first.users, first.item_counts
    )
    return Section(
        "How often an item is recommended",
        "Share of users to whom an item is recommended, from the most popular item on the left to the least "
        "popular on the right. The steeper the fall, the more popularity decides. Both axes are logarithmic; "
        "points are means over neighbouring ranks, and a gap means never.",
        panels([panel("Frequency by popularity", "", figure)]),
    )


def _segments(audits: Mapping[str, Audit]) -> Section:
    shown = [
        panel("Top items", "the first 20 % of interactions", figures.audited_segments(audits, "top")),
        panel("Middle items", "between 20 and 80 % of interactions", figures.audited_segments(audits, "middle")),
        panel("Tail items", "beyond 80 % of interactions", figures.audited_segments(audits, "tail")),
        panel("Miscalibration of users", "0: the same mix as chosen", figures.miscalibration_spread(audits)),
    ]
    return Section("Which users it concerns", SEGMENT_RULE, panels(shown) + wide("Segments", html_segments(audits)))


def _gradients(audits: Mapping[str, Audit]) -> Section:
    picture, counts = next((a.picture, a.item_counts) for a in audits.values() if a.picture is not None)
    shown = [
        panel("Direction", "", figures.gradient_cosines(picture, counts)),
        panel("Size", "", figures.gradient_norms(picture, counts)),
    ]
    return Section("Where the popularity comes from", GRADIENTS, panels(shown))


def _figures(audits: Mapping[str, Audit]) -> Section:
    published = ", ".join(d.published for d in DEFINITIONS.values() if d.published)
    return Section(
        "All figures and their definitions",
        f"Figures are of all the lists, not of a sample. {published} are as published; a dash is a figure "
        "that cannot be known.",
        html_audit(audits),
    )


def _notes(audits: Mapping[str, Audit]) -> Section:
    body = ""
    for name, one in audits.items():
        told = one.sentences or ["Nothing: every list is full, and every user and item is in the log."]
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in told)
        size = f"{one.users:,} lists of up to {one.k} items, of {one.items:,} items"
        body += f"<h3>{escape(name)}: {size}</h3><ul>{items}</ul>"
    return Section("What to know of the input", "Nothing was left out without being named here.", body)
