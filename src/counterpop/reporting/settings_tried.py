"""The section of a report on how settings were chosen: what a race or a search tried, and what mattered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from counterpop.reporting.figures import OTHERS, framed
from counterpop.reporting.findings import RunReport
from counterpop.reporting.page import Section, panel, panels, wide
from counterpop.reporting.tables import html_table

CHOOSERS = ("race", "search")  # of a run's settings
MOST = 20  # rows
LOST = ("too_costly", "too_little_gained")  # what puts a row behind the others of its round


def settings_tried(reports: Sequence[RunReport]) -> list[Section]:
    """The section, or nothing if no run chose settings by trying them."""
    body = "".join(_tried(r.name, r.settings[by]) for r in reports for by in CHOOSERS if by in r.settings)
    lead = (
        "Short trainings on the same data, compared by validation recall; later rounds train for longer, so compare "
        "only within a round. The test part was not used."
    )
    return [Section("Settings tried", lead, body)] if body else []


def _tried(name: str, found: Mapping[str, Any]) -> str:
    rows = found.get("leaderboard", found.get("tried", []))
    rows = sorted(rows, key=lambda row: (-row["round"], any(row.get(why) for why in LOST), -row["valid"]))
    columns = list(dict.fromkeys(column for row in rows for column in row))
    shown = [(str(place), [_cell(row.get(column)) for column in columns]) for place, row in enumerate(rows[:MOST], 1)]
    titles = ["", *(escape(column.replace("_", " ")) for column in columns)]
    left = f"<p>The best {MOST} of {len(rows)}.</p>" if len(rows) > MOST else ""
    table = wide(f"Settings tried, {escape(name)}", html_table(titles, shown))
    picture = ""
    if importance := found.get("importance"):
        shares = {"x": list(importance.values()), "y": list(importance)}
        bar = go.Bar(**shares, name="Importance", orientation="h", marker={"color": OTHERS[0]})
        figure = framed([bar], "Share of what separates the best settings from the rest", "", xaxis_tickformat=".0%")
        picture = panels([panel("What mattered", escape(name), figure.update_yaxes(autorange="reversed"))])
    return f"<h3>{escape(name)}</h3><p>{escape(found['sentence'])}</p>{picture}{table}{left}"


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else escape(str(value))
