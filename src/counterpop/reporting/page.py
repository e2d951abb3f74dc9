"""The frame that every page shares, and the pieces its sections are made of; nothing is fetched.

Texts that come from outside (names, settings) must be escaped before they are handed to a piece.
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
    """A heading, what its contents mean, and the contents."""

    heading: str
    lead: str
    body: str


class Tile(NamedTuple):
    """A number of the first screen with its label, and what to know of it."""

    label: str
    figure: str
    note: str


def compose(title: str, intro: str, first: str, sections: Sequence[Section]) -> str:
    """The whole page as text: title, introduction, first screen, a table of contents, the sections."""
    template = files("counterpop.reporting").joinpath("page.html").read_text(encoding="utf-8")
    sections = [Section(*(part.replace(" %", "\u00a0%") for part in section)) for section in sections]
    anchors = [f"part-{n}" for n in range(1, len(sections) + 1)]
    return Template(template).substitute(
        title=escape(title),
        intro=intro,
        first=first.replace(" %", "\u00a0%"),  # a number and its sign stay on one line
        contents="".join(
            f'<li><a href="#{anchor}">{section.heading}</a></li>'
            for anchor, section in zip(anchors, sections, strict=True)
        ),
        sections="\n".join(
            f'<section id="{anchor}"><h2>{s.heading}</h2><p class="lead">{s.lead}</p>{s.body}</section>'
            for anchor, s in zip(anchors, sections, strict=True)
        ),
        plotly=get_plotlyjs(),
    )


def card(name: str, heading: str, lead: str, tiles: Iterable[Tile], more: str = "") -> str:
    """One finding of the first screen: in a few words, in a paragraph before or after, in a few numbers."""
    shown = "".join(
        f'<div class="tile"><h3>{t.label}</h3><p class="figure">{t.figure}</p><p>{t.note}</p></div>' for t in tiles
    )
    return (
        f'<section class="card"><p class="name">{name}</p><h2>{heading}</h2>{lead and f"<p>{lead}</p>"}'
        f'<div class="tiles">{shown}</div>{more and f"<p>{more}</p>"}</section>'
    )


def cards(those: Sequence[str]) -> str:
    """The findings of the first screen, beside each other where there are several."""
    return f'<div class="cards{"" if len(those) > 1 else " alone"}">{"".join(those)}</div>'


def panels(those: Iterable[str]) -> str:
    return f'<div class="panels">{"".join(those)}</div>'


def panel(caption: str, name: str, figure: go.Figure, choices: Sequence[str] = (), chosen: int = 0) -> str:
    """A figure with its caption and its numbers. `choices` name its first traces, of which one is shown.

    Plotly writes "<" as an escape, so no text ends the script.
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
    """A sentence in the place of a figure that cannot be drawn."""
    return f'<p class="missing">{name} {why}</p>'


def wide(label: str, table: str) -> str:
    """A table that scrolls by itself where the screen is narrower, with the keyboard too."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{table}</div>'


def definitions(those: Iterable[tuple[str, str]]) -> str:
    """A list of words and what they mean."""
    return f"<dl>{''.join(f'<dt>{word}</dt><dd>{text}</dd>' for word, text in those)}</dl>"


def folded(summary: str, body: str) -> str:
    """Something to open; in print it is open."""
    return f"<details><summary>{summary}</summary>{body}</details>"
