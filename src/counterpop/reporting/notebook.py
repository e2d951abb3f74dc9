"""Results in a notebook: a line, a small figure and the first rows of their table, as HTML; and figures of plotly."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from counterpop.auditing import Audit
from counterpop.comparison import Comparison
from counterpop.debiasing import Debiasing
from counterpop.errors import InputError
from counterpop.evaluation import Evaluation
from counterpop.interactions import Interactions
from counterpop.presentation import Pictured
from counterpop.reporting.comparing import comparison_sentences
from counterpop.reporting.figures import (
    audited_groups,
    compared_recall,
    frequency_by_rank,
    frontier,
    recall_by_group,
    strength_grid,
    training_loss,
    validation_curve,
)
from counterpop.reporting.frames import columns_of
from counterpop.reporting.tables import gain_and_price, html_table
from counterpop.reporting.thumbnails import draw_thumbnail
from counterpop.runs import Run
from counterpop.tuning import Grid, Tuned

ROWS = 10  # of a table in a notebook
WIDEST = 12  # columns


def to_html(value: object) -> str:
    """A result as a small piece of HTML, which needs neither scripts nor a network."""
    figure = draw_thumbnail(draw(value), type(value).__name__) if isinstance(value, Pictured) else ""
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences_of(value))
    first = f"<strong>{type(value).__name__}</strong>" if sentences else f"<code>{escape(repr(value))}</code>"
    return f"<div>{first}{sentences}{figure}{_table(columns_of(value))}</div>"


def _table(columns: dict[str, Any]) -> str:
    """The first rows; what is longer than a few words is cut."""
    names = list(columns)[:WIDEST]
    number = len(next(iter(columns.values()))) if columns else 0
    rows = zip(*(list(columns[name][:ROWS]) for name in names), strict=True)
    cells = ((_cell(row[0]), [_cell(value) for value in row[1:]]) for row in rows)
    left = [f"{number - ROWS:,} more rows"] if number > ROWS else []
    left += [f"{len(columns) - WIDEST} more columns"] if len(columns) > WIDEST else []
    more = f"<p>{' and '.join(left)}: <code>.to_frame()</code></p>" if left else ""
    table = html_table([escape(name) for name in names], cells)
    return f'<div style="overflow-x:auto">{table}</div>{more}'


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    if isinstance(value, np.ndarray):
        return f"{len(value)} numbers"
    text = str(value)
    return escape(text if len(text) <= 80 else f"{text[:77]}...")


@singledispatch
def sentences_of(value: object) -> list[str]:
    """What a result says in words, if it says anything."""
    return []


@sentences_of.register
def _(value: Evaluation) -> list[str]:
    return gain_and_price(value)


@sentences_of.register
def _(value: Tuned) -> list[str]:
    return [value.sentence, *(f"Warning: {warning}." for warning in value.warnings)]


@sentences_of.register
def _(value: Debiasing) -> list[str]:
    return [f"{value.headline}.", *value.sentences]


@sentences_of.register
def _(value: Audit) -> list[str]:
    return [value.verdict.headline, value.verdict.text]


@sentences_of.register
def _(value: Comparison) -> list[str]:
    return comparison_sentences(value)


@singledispatch
def draw(value: object) -> go.Figure:
    """A result as a figure."""
    raise InputError(f"{type(value).__name__} has no picture; to_frame() has its numbers")


@draw.register
def _(value: Evaluation) -> go.Figure:
    return recall_by_group(value)


@draw.register
def _(value: Run) -> go.Figure:
    return validation_curve(value.history) or training_loss(value.history)


@draw.register
def _(value: Grid) -> go.Figure:
    best = np.unravel_index(np.argmax(value.values["recall"]), value.values["recall"].shape)
    return strength_grid(value, (value.item_strengths[best[0]], value.user_strengths[best[1]]))


@draw.register(Tuned)
@draw.register(Debiasing)
def _(value: Tuned | Debiasing) -> go.Figure:
    """Gain against price; without prices, the grid that the strengths were chosen from."""
    content = value.to_json()
    target = value.settings.target if isinstance(value, Tuned) else value.target
    if not content["frontier"]:
        return strength_grid(value.grid, (value.item_strength, value.user_strength), target)
    plain = value.grid.at(0.0, 0.0)[target]
    tested = plain if isinstance(value, Tuned) else float(getattr(value.uniform.plain, target))
    return frontier(content | {"target": target}, (plain, tested), content.get("point"))


@draw.register
def _(value: Comparison) -> go.Figure:
    return compared_recall(value)


@draw.register
def _(value: Audit) -> go.Figure:
    return audited_groups({"Recommendations": value})


@draw.register
def _(value: Interactions) -> go.Figure:
    counts = value.item_counts
    figure = frequency_by_rank({"Users who have the item": counts}, value.n_users, counts)
    return figure.update_layout(showlegend=False)
