"""The frame shared by all pages, and the building blocks of their sections. Pages fetch nothing.

All arguments are HTML: text from outside (names, settings) must be escaped first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs


class Section(NamedTuple):
    """A heading, an explanation of its contents, the contents, and what the table of contents calls it."""

    heading: str
    lead: str
    body: str
    short: str = ""


class Tile(NamedTuple):
    """A number at the top of the page with its label and a note."""

    label: str
    figure: str
    note: str


def compose(title: str, intro: str, first: str, sections: Sequence[Section], kicker: str = "", name: str = "") -> str:
    """The whole page: its title or verdict (plain text), introduction, first screen, table of contents, sections.

    `kicker` is a line above the title; `name` is what the browser calls the page, if not its title (plain text).
    """
    own = files("counterpop.reporting")
    sections = [Section(*(part.replace(" %", "\u00a0%") for part in section)) for section in sections]
    anchors = [f"part-{n}" for n in range(1, len(sections) + 1)]
    return Template(own.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        name=escape(name or title),
        style=own.joinpath("page.css").read_text(encoding="utf-8"),
        script=own.joinpath("page.js").read_text(encoding="utf-8"),
        kicker=kicker and f'<p class="kicker">{kicker}</p>',
        title=escape(title).replace(" %", "\u00a0%"),
        intro=intro.replace(" %", "\u00a0%"),  # a number and its sign stay on one line
        first=first.replace(" %", "\u00a0%"),
        contents="".join(
            f'<li><a href="#{anchor}">{section.short or section.heading}</a></li>'
            for anchor, section in zip(anchors, sections, strict=True)
        ),
        sections="\n".join(
            f'<section id="{anchor}"><h2>{s.heading}</h2><p class="lead">{s.lead}</p>{s.body}</section>'
            for anchor, s in zip(anchors, sections, strict=True)
        ),
        plotly=get_plotlyjs(),
    )


def card(name: str, heading: str, lead: str, those: Iterable[Tile], more: str = "") -> str:
    """One finding: a heading, a paragraph before or after, and a few numbers."""
    above = f'<p class="name">{name}</p>' if name else ""
    text, after = (f"<p>{part}</p>" if part else "" for part in (lead, more))
    return f'<section class="card">{above}<h2>{heading}</h2>{text}{tiles(those)}{after}</section>'


def tiles(those: Iterable[Tile], level: int = 3) -> str:
    """A few numbers side by side."""
    shown = "".join(
        f'<div class="tile"><h{level}>{t.label}</h{level}><p class="figure">{t.figure}</p><p>{t.note}</p></div>'
        for t in those
    )
    return f'<div class="tiles">{shown}</div>'


def cards(those: Sequence[str]) -> str:
    """The findings at the top of the page, side by side if there are several."""
    return f'<div class="cards{"" if len(those) > 1 else " single"}">{"".join(those)}</div>'


def panels(those: Iterable[str]) -> str:
    return f'<div class="panels">{"".join(those)}</div>'


def panel(caption: str, name: str, figure: go.Figure, choices: Sequence[str] = (), chosen: int = 0) -> str:
    """A figure with its caption and its numbers. `choices` name its first traces, one of which is shown at a time.

    Plotly escapes "<" in its JSON, so no text can end the script.
    """
    menu = ""
    if choices:
        options = "".join(
            f"<option{' selected' if n == chosen else ''}>{choice}</option>" for n, choice in enumerate(choices)
        )
        menu = f"<label>Show <select>{options}</select></label>"
    label = f"{caption}, {name}" if name else caption
    summary = f'<summary>Numbers<span class="unseen"> of {label}</span></summary>'
    return (
        f"<figure><figcaption><span>{caption} <small>{name}</small></span>{menu}</figcaption>"
        f'<div class="plot" role="img" aria-label="{label}. The numbers are in the table below."'
        f' style="height:{figure.layout.height}px"></div>'
        f'<script type="application/json">{figure.to_json()}</script>'
        f'<details class="numbers">{summary}</details></figure>'
    )


def missing(name: str, why: str) -> str:
    """A sentence in place of a figure that cannot be drawn."""
    return f'<p class="missing">{name} {why}</p>'


def wide(label: str, table: str) -> str:
    """A table that scrolls on its own where it does not fit, also by keyboard."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{table}</div>'


def definitions(those: Iterable[tuple[str, str]]) -> str:
    """A list of terms and their meanings."""
    return f'<dl class="words">{"".join(f"<dt>{word}</dt><dd>{text}</dd>" for word, text in those)}</dl>'
