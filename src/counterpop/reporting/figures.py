"""The figures of a report: values in, plotly figures out.

Text and grid lines carry no colour of their own: the page sets it, light or dark. Traces differ by shape or
pattern as well as by colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from counterpop.evaluation import Evaluation
from counterpop.ledger import GradientPicture
from counterpop.metrics.popularity import HEAD_GROUPS, mean_by_rank, popularity_groups
from counterpop.tuning import Grid

# Each at least 3 : 1 against the light and against the dark page.
PLAIN, ADJUSTED, REFERENCE = "#c8691c", "#3a7fc4", "#868c94"
GROUPS = ("0–5", "5–10", "10–15", "15–20", "20–100")
_GROUP = "% of items, most popular first"
RANK_BINS = 60
HEIGHT = 330
_RANK = "Popularity rank (1 = most popular)"
_RANK_AXIS = {"xaxis_type": "log", "xaxis_dtick": 1, "xaxis_tickformat": ",d"}
_NOT_METRICS = ("epoch", "loss", "seconds")


def exposure_by_group(evaluation: Evaluation, item_counts: NDArray[np.int64]) -> go.Figure:
    """Bars: each popularity group's share of train interactions, of plain and of adjusted recommendations."""
    group_of = popularity_groups(item_counts)
    held = np.bincount(group_of, weights=item_counts, minlength=HEAD_GROUPS + 1)
    reference = held / max(1.0, held.sum())
    bars = [go.Bar(name="Interactions in train", x=GROUPS, y=reference, marker=_bar(REFERENCE, "/"))]
    bars += _group_bars(evaluation, "frequency")
    return _figure(bars, _GROUP, "Share", yaxis_tickformat=".0%")


def recall_by_group(evaluation: Evaluation) -> go.Figure:
    """Bars: share of each popularity group's held-out pairs that the plain and the adjusted lists find."""
    return _figure(_group_bars(evaluation, "recall"), _GROUP, f"Recall@{evaluation.k}")


def _group_bars(evaluation: Evaluation, what: str) -> list[go.Bar]:
    bars = []
    for name, measures, marker in (
        ("Plain", evaluation.plain, _bar(PLAIN, "")),
        ("Adjusted", evaluation.adjusted, _bar(ADJUSTED, "")),
    ):
        values = [group[what] for group in measures.groups]
        around = [measures.intervals.get(f"group_{g + 1}_{what}") for g in range(len(values))]
        above = [i[1] - v if i and v is not None else 0.0 for i, v in zip(around, values, strict=True)]
        below = [v - i[0] if i and v is not None else 0.0 for i, v in zip(around, values, strict=True)]
        error = {"array": above, "arrayminus": below, "color": REFERENCE, "thickness": 1.2, "width": 3}
        bars.append(go.Bar(name=name, x=GROUPS, y=values, marker=marker, error_y=error))
    return bars


def frequency_by_rank(evaluation: Evaluation, item_counts: NDArray[np.int64]) -> go.Figure:
    """Lines: share of users to whom an item is recommended, by popularity rank, both logarithmic.

    Means over bins of ranks, so that a large catalogue costs no more; a gap where nothing is recommended.
    """
    n_users = len(evaluation.plain.users)
    lines = [
        _by_rank(name, measures.exposure / n_users, item_counts, color, dash, positive=True)
        for name, measures, color, dash in (
            ("Plain", evaluation.plain, PLAIN, "dot"),
            ("Adjusted", evaluation.adjusted, ADJUSTED, "solid"),
        )
    ]
    y_axis = {"yaxis_type": "log", "yaxis_dtick": 1, "yaxis_tickformat": "~%"}
    return _figure(lines, _RANK, "Share of users", **_RANK_AXIS, **y_axis)


def gradient_cosines(picture: GradientPicture, item_counts: NDArray[np.int64]) -> go.Figure:
    """Lines: cosine of an item's pull, and of its push, with their sum, by popularity rank."""
    lines = _pull_and_push(picture.cosine_pull, picture.cosine_push, item_counts, positive=False)
    return _figure(lines, _RANK, "Cosine with the whole", **_RANK_AXIS)


def gradient_norms(picture: GradientPicture, item_counts: NDArray[np.int64]) -> go.Figure:
    """Lines: length of an item's pull and of its push, by popularity rank, both logarithmic."""
    lines = _pull_and_push(picture.norm_pull, picture.norm_push, item_counts, positive=True)
    y_axis = {"yaxis_type": "log", "yaxis_dtick": "D2", "yaxis_tickformat": "~s"}
    return _figure(lines, _RANK, "Length", **_RANK_AXIS, **y_axis)


def _pull_and_push(
    pull: NDArray[np.float64], push: NDArray[np.float64], counts: NDArray[np.int64], positive: bool
) -> list[go.Scatter]:
    return [
        _by_rank("Pull (as a seen item)", pull, counts, ADJUSTED, "solid", positive),
        _by_rank("Push (as a negative)", push, counts, PLAIN, "dot", positive),
    ]


def _by_rank(
    name: str, values: NDArray[np.float64], counts: NDArray[np.int64], color: str, dash: str, positive: bool
) -> go.Scatter:
    """A line of the means of `values` over bins of ranks, NaN left out; `positive` for a logarithmic axis."""
    middle, mean = mean_by_rank(values, counts, RANK_BINS)
    y = [float(f"{m:.4g}") if np.isfinite(m) and (m > 0 or not positive) else None for m in mean]
    line = {"color": color, "dash": dash, "width": 2}
    return go.Scatter(name=name, x=np.round(middle, 1), y=y, mode="lines+markers", line=line, marker_size=5)


def strength_grid(grid: Grid, chosen: tuple[float, float], first: str = "recall") -> go.Figure:
    """Heat maps of the metrics over the strengths, `first` the one that is shown; the chosen point marked."""
    maps = [
        go.Heatmap(
            name=escape(metric), x=grid.user_strengths, y=grid.item_strengths, z=values,
            visible=metric == first, colorscale="Viridis", colorbar={"thickness": 14, "outlinewidth": 0},
            hovertemplate="item %{y}, user %{x}<br>%{z:.4f}<extra></extra>",
        )
        for metric, values in grid.values.items()
    ]  # fmt: skip
    item, user = chosen
    marks = [
        _mark(name, user_strength, item_strength, symbol)
        for name, user_strength, item_strength, symbol in (
            ("Plain", 0.0, 0.0, "x"),
            ("Chosen", user, item, "circle"),
        )
    ]
    axes = {f"{axis}axis_dtick": 0.4 for axis in "xy"}
    return _figure([*maps, *marks], "User strength", "Item strength", height=HEIGHT + 60, **axes)


def _mark(name: str, x: float, y: float, symbol: str) -> go.Scatter:
    marker = {"size": 13, "symbol": symbol, "color": "#e8590c", "line": {"color": "#ffffff", "width": 2}}
    return go.Scatter(name=name, x=[x], y=[y], mode="markers", marker=marker, cliponaxis=False)


def training_loss(history: Sequence[Mapping[str, float]]) -> go.Figure:
    """A line: the loss of every epoch."""
    return _figure([_curve("loss", history, ADJUSTED)], "Epoch", "Loss", height=HEIGHT - 90, showlegend=False)


def validation_curve(history: Sequence[Mapping[str, float]]) -> go.Figure | None:
    """Lines: what was measured on validation while training; None where nothing was."""
    names = list(dict.fromkeys(name for entry in history for name in entry if name not in _NOT_METRICS))
    colors = (ADJUSTED, PLAIN, REFERENCE)
    lines = [_curve(name, history, colors[n % len(colors)]) for n, name in enumerate(names)]
    return _figure(lines, "Epoch", "On validation", height=HEIGHT - 90, showlegend=True) if lines else None


def _curve(name: str, history: Sequence[Mapping[str, float]], color: str) -> go.Scatter:
    points = [(e.get("epoch", n), e[name]) for n, e in enumerate(history, 1) if name in e]
    x, y = zip(*points, strict=True) if points else ((), ())
    mode = "lines" if len(points) > 40 else "lines+markers"
    return go.Scatter(name=escape(name), x=x, y=y, mode=mode, line={"color": color, "width": 2})


def _bar(color: str, pattern: str) -> dict[str, Any]:
    return {"color": color, "pattern": {"shape": pattern, "size": 5, "solidity": 0.4}, "line": {"width": 0}}


def _figure(traces: Sequence[Any], x: str, y: str, **layout: Any) -> go.Figure:
    """The traces in the report's plain frame; nothing drags, so a finger scrolls the page."""
    axis: dict[str, Any] = {"fixedrange": True, "zeroline": False}
    frame: dict[str, Any] = {
        "height": HEIGHT,
        "margin": {"l": 64, "r": 12, "t": 36, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"bgcolor": "#20242b", "bordercolor": "#20242b", "font": {"color": "#ffffff"}},
        "template": {},
        "dragmode": False,
        "bargap": 0.25,
        "xaxis": axis | {"title": {"text": x}, "tickangle": 0},
        "yaxis": axis | {"title": {"text": y, "standoff": 8}, "automargin": True},
    }
    return go.Figure(list(traces), frame).update_layout(**layout)
