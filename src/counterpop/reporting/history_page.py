"""The page about audits over time: one line per measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from counterpop.auditing import DEFINITIONS
from counterpop.reporting.audit_tables import html_grade
from counterpop.reporting.figures import DASHES, OTHERS, SYMBOLS, framed
from counterpop.reporting.page import Section, Tile, card, cards, compose, panel, panels, wide
from counterpop.reporting.tables import exact, html_table

INTRO = (
    "Every audit in the folder, oldest first. Bars around a point are its 95 % interval: how much it would vary with "
    "other users of the same kind. Audits with the same title form one line."
)


def render_history(documents: Sequence[Mapping[str, Any]]) -> str:
    """The whole page as HTML; documents are sorted by date."""
    last = {document["title"]: document for document in documents}
    first = cards([_card(document, documents) for document in last.values()])
    lines = panels(
        panel(definition.title, "", _line(name, documents))
        for name, definition in DEFINITIONS.items()
        if any(document.get(name) is not None for document in documents)
    )
    sections = [
        Section("Measures over time", "One line per measure; the definitions are on the page of each audit.", lines),
        Section("All values", "A dash means that the audit does not have the measure.", _table(documents)),
    ]
    return compose("Audits over time", INTRO, first, sections)


def _card(document: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> str:
    verdict = document["verdict"]
    same = [one for one in documents if one["title"] == document["title"]]
    tiles = [
        Tile("Audits", f"{len(same)}", f"from {escape(same[0]['date'][:10])} to {escape(same[-1]['date'][:10])}"),
        *(
            Tile(DEFINITIONS[name].label, exact(name, document[name]), "in the latest audit")
            for name in ("amplification", "tail_share", "coverage")
            if document.get(name) is not None
        ),
    ]
    name = escape(document["title"]) + (html_grade(verdict["grade"]) if "grade" in verdict else "")
    return card(name, escape(verdict["headline"]), "", tiles)


def _line(name: str, documents: Sequence[Mapping[str, Any]]) -> go.Figure:
    traces = []
    titles = list(dict.fromkeys(document["title"] for document in documents))
    for n, title in enumerate(titles):
        mine = [one for one in documents if one["title"] == title and one.get(name) is not None]
        around = [(one.get("intervals") or {}).get(name) for one in mine]
        values = [one[name] for one in mine]
        above, below = (
            [sign * (interval[side] - value) if interval else 0 for interval, value in zip(around, values, strict=True)]
            for side, sign in (("high", 1), ("low", -1))
        )
        traces.append(
            go.Scatter(
                name=escape(title),
                x=[one["date"] for one in mine],
                y=values,
                mode="lines+markers",
                line={"color": OTHERS[n % len(OTHERS)], "dash": DASHES[n % len(DASHES)]},
                marker={"symbol": SYMBOLS[n % len(SYMBOLS)], "size": 8},
                error_y={"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1},
            )
        )
    percent = DEFINITIONS[name].kind in ("share", "lift")
    return framed(traces, "Date", DEFINITIONS[name].label, **({"yaxis_tickformat": ".1%"} if percent else {}))


def _table(documents: Sequence[Mapping[str, Any]]) -> str:
    columns = [f"{escape(one['title'])}<small>{escape(one['date'][:10])}</small>" for one in documents]
    rows = (
        (definition.title, [exact(name, one[name]) if one.get(name) is not None else "–" for one in documents])
        for name, definition in DEFINITIONS.items()
    )
    return wide("All values", html_table(["Metric", *columns], rows))
