"""The figures of a report: values in, plotly figures out.

The page sets the colour of text and grid lines, light or dark. Traces differ in shape or pattern as well as in
colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from counterpop.auditing import Audit
from counterpop.comparison import Comparison
from counterpop.evaluation import Evaluation
from counterpop.ledger import GradientPicture
from counterpop.metrics.popularity import HEAD_GROUPS, mean_by_rank, popularity_groups
from counterpop.reporting.catalogue import CategoryShare
from counterpop.reporting.findings import ACCURACY, RunReport, sides
from counterpop.reporting.tables import GROUP_NAMES
from counterpop.tuning import Grid

# Contrast of at least 3:1 against both the light and the dark page. Plain and adjusted have colours of their own, on
# every page; nothing else is drawn in them.
PLAIN, ADJUSTED, REFERENCE = "#c8691c", "#3a7fc4", "#868c94"
OTHERS = ("#2f8f57", "#a25bc0", "#c0487a", "#8a7a1f", "#1f8f96", "#7a6fd0")
SIDES = {"plain": PLAIN, "as trained": PLAIN, "adjusted": ADJUSTED}
DASHES = ("dot", "solid", "dash", "dashdot", "longdash", "longdashdot", "solid", "dot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "pentagon", "hexagon", "hourglass")
_GROUP = "% of items, most popular first"
RANK_BINS = 60
HEIGHT = 330
_RANK = "Popularity rank (1 = most popular)"
_RANK_AXIS = {"xaxis_type": "log", "xaxis_dtick": 1, "xaxis_tickformat": ",d"}
_NOT_METRICS = ("epoch", "loss", "seconds")


def exposure_by_group(evaluation: Evaluation, item_counts: NDArray[np.int64]) -> go.Figure:
    """Bars: each popularity group's share of training interactions and of plain and adjusted recommendations."""
    group_of = popularity_groups(item_counts)
    held = np.bincount(group_of, weights=item_counts, minlength=HEAD_GROUPS + 1)
    reference = _bars("Interactions in training", GROUP_NAMES, held / max(1.0, held.sum()), REFERENCE, "/")
    return framed([reference, *_group_bars(evaluation, "frequency")], _GROUP, "Share", yaxis_tickformat=".0%")


def audited_groups(audits: Mapping[str, Audit]) -> go.Figure:
    """Bars: each popularity group's share of the log's interactions and of the recommendations."""
    reference = [group["interactions"] for group in next(iter(audits.values())).groups]
    bars = [_bars("Interactions in the log", GROUP_NAMES, reference, REFERENCE, "/")]
    for name, one in audits.items():
        shares = [group["frequency"] for group in one.groups]
        bars.append(_bars(name, GROUP_NAMES, shares, color_of(name, audits), ""))
    return framed(bars, _GROUP, "Share", yaxis_tickformat=".0%", showlegend=True)


def color_of(name: str, names: Iterable[str]) -> str:
    """Plain and adjusted lists have their own colours; those of other systems take the others in turn."""
    rest = [one for one in names if one.lower() not in SIDES]
    return SIDES[name.lower()] if name.lower() in SIDES else OTHERS[rest.index(name) % len(OTHERS)]


def by_category(rows: Sequence[CategoryShare]) -> go.Figure:
    """Bars: each category's share of the interactions, and of the places in plain and adjusted lists."""
    names = [escape(row.name) for row in rows]
    bars = [_bars("Interactions", names, [row.interactions for row in rows], REFERENCE, "/")]
    for n, name in enumerate(("Plain", "Adjusted")):
        bars.append(_bars(name, names, [row.shares[n] for row in rows], SIDES[name.lower()], ""))
    return framed(bars, "", "Share", yaxis_tickformat=".0%")


def same_scale(charts: Sequence[go.Figure]) -> list[go.Figure]:
    """The figures with one y axis for all, linear from 0 or logarithmic, so that they can be compared."""
    low, high = [], []
    for trace in (trace for chart in charts for trace in chart.data):
        y = np.array([np.nan if value is None else float(value) for value in trace.y])
        more = trace.error_y.array
        low.append(y)
        high.append(y if more is None else y + np.array(more, dtype=float))
    bottom, top = float(np.nanmin(np.concatenate(low))), float(np.nanmax(np.concatenate(high)))
    ends = [min(0.0, 1.05 * bottom), 1.05 * top or 1.0]
    if charts[0].layout.yaxis.type == "log":
        ends = [np.log10(bottom) - 0.2, np.log10(top) + 0.2]
    return [chart.update_yaxes(range=ends) for chart in charts]


def audited_segments(audits: Mapping[str, Audit], which: str) -> go.Figure:
    """Bars: the share of top, middle or tail items (`which`) in profiles and in lists, by user segment."""
    first = next(iter(audits.values())).segments
    names = [segment["name"] for segment in first]
    bars = [_bars("What they chose", names, [segment["profile"][which] for segment in first], REFERENCE, "/")]
    for name, one in audits.items():
        shares = [segment["lists"][which] for segment in one.segments]
        bars.append(_bars(f"What they are shown, {name}", names, shares, color_of(name, audits), ""))
    return framed(bars, "Users", f"Share of {which} items", yaxis_tickformat=".0%")


def miscalibration_spread(audits: Mapping[str, Audit]) -> go.Figure:
    """Lines: the distribution over users of the divergence between list and profile."""
    edges = np.linspace(0, 1, 21)
    lines = []
    for (name, one), dash in zip(audits.items(), DASHES, strict=False):
        color = color_of(name, audits)
        values = one.per_user["miscalibration"]
        known = np.histogram(values[np.isfinite(values)], edges)[0]
        share = known / max(1, known.sum())
        lines.append(_line(name, np.round(edges[:-1] + 0.025, 3), np.round(share, 5), color, dash))
    return framed(lines, "Jensen-Shannon divergence", "Share of users", yaxis_tickformat=".0%")


def trade_off(reports: Sequence[RunReport]) -> go.Figure:
    """Points: popularity (relative to an average item) and recall of every run, plain and then adjusted."""
    traces = []
    for n, r in enumerate(reports):
        found, mean = r.evaluation, max(1e-9, float(r.item_counts.mean()))
        shown = sides(found).values()
        x = [m.average_popularity / mean for m in shown]
        y = [m.recall for m in shown]
        popularity = [m.intervals.get("average_popularity") for m in shown]
        x_around = [i and (i[0] / mean, i[1] / mean) for i in popularity]
        color, symbol = OTHERS[n % len(OTHERS)], SYMBOLS[n % len(SYMBOLS)]
        traces.append(
            go.Scatter(
                name=escape(r.name),
                x=np.round(x, 4),
                y=y,
                mode="lines+markers",
                line={"color": color, "width": 1.5, "dash": "dot"},
                marker={"color": color, "size": 12, "symbol": [f"{symbol}-open", symbol][: len(shown)]},
                error_x=_error(x, x_around, color),
                error_y=_error(y, [m.intervals.get("recall") for m in shown], color),
                customdata=list(sides(found)),
                hovertemplate="%{customdata}<br>popularity %{x:.2f}<br>recall %{y:.4f}",
            )
        )
    k = reports[0].evaluation.k
    return framed(traces, "Popularity (average item = 1)", f"Recall@{k}", xaxis_rangemode="tozero", showlegend=True)


def frontier(told: Mapping[str, Any], bases: tuple[float, float], used: str | None = None) -> go.Figure:
    """The efficient pairs of strengths as a line of gain against price, and the named points with their intervals.

    `told` is the JSON of `tune` or `debias`. A gain in accuracy is shown relative to the plain model's, in percent:
    `bases` are the plain values for the line and for the points. `used` is the name of the point that is in use.
    """
    target, points = told.get("target", "recall"), told["points"]
    relative = target in ACCURACY and min(bases) > 0
    line_base, point_base = bases if relative else (1.0, 1.0)
    form = ".1%" if relative else ".4f"
    hover = f"item %{{customdata[0]}}, user %{{customdata[1]}}<br>gain %{{y:{form}}}, price %{{x:.1%}}<extra></extra>"

    def scatter(name: str, rows: Sequence[Mapping[str, Any]], base: float, **style: Any) -> go.Scatter:
        pairs = [(row["item_strength"], row["user_strength"]) for row in rows]
        x, y = [row["price"] for row in rows], [row["gain"] / base for row in rows]
        return go.Scatter(name=name, x=x, y=y, customdata=pairs, hovertemplate=hover, **style)

    line, beside = {"color": REFERENCE, "width": 2}, {"mode": "markers+text", "cliponaxis": False}
    traces = [scatter("Best trade-offs", told["frontier"], line_base, mode="lines", line=line)]
    mark = {**beside, "marker": _dot(PLAIN, "x"), "text": ["<b>plain</b>"], "textposition": "bottom right"}
    traces.append(go.Scatter(name="Plain", x=[0.0], y=[0.0], hoverinfo="name", **mark))
    furthest = max([row["price"] for row in (*told["frontier"], *points.values())])
    for (name, point), symbol in zip(points.items(), SYMBOLS[1:], strict=False):
        text = f"<b>{name}</b>{', used here' if name == used else ''}{'' if point['proven'] else ', not proven'}"
        prices, gains = (
            (point["price_low"], point["price_high"]),
            (point["low"] / point_base, point["high"] / point_base),
        )
        style = beside | {
            "text": [text],
            "textposition": "top left" if point["price"] > 0.6 * furthest else "bottom right",
            "marker": _dot(ADJUSTED, symbol if point["proven"] else f"{symbol}-open"),
            "error_x": _error([point["price"]], [prices], ADJUSTED),
            "error_y": _error([point["gain"] / point_base], [gains], ADJUSTED),
        }
        traces.append(
            scatter(name.capitalize() + ("" if point["proven"] else ", not proven"), [point], point_base, **style)
        )
    label = f"Gain in {target.replace('_', ' ')}"
    axes: dict[str, Any] = {"xaxis_tickformat": ".0%", "showlegend": False, "margin_t": 12, "height": HEIGHT - 30}
    axes |= {"yaxis_tickformat": "+.0%"} if relative else {}
    return framed(traces, "Price: share of ordinary recall lost", label, **axes)


def compared_recall(found: Comparison) -> go.Figure:
    """Bars: the recall of every model with its interval over users and seeds."""
    rows = {escape(name): figures["recall"] for name, figures in found.figures.items()}
    values = [row["mean"] for row in rows.values()]
    error = _error(values, [(row["low"], row["high"]) for row in rows.values()], REFERENCE)
    bars = _bars("Recall", list(rows), values, ADJUSTED, "", error_y=error)
    return framed([bars], "Model", f"Recall@{found.k}", showlegend=False)


def recall_by_group(evaluation: Evaluation) -> go.Figure:
    """Bars: the share of each popularity group's held-out pairs found by the plain and adjusted lists."""
    return framed(_group_bars(evaluation, "recall"), _GROUP, f"Recall@{evaluation.k}")


def _group_bars(evaluation: Evaluation, what: str) -> list[go.Bar]:
    bars = []
    for name, measures in sides(evaluation).items():
        values = [group[what] for group in measures.groups]
        around = [measures.intervals.get(f"group_{g + 1}_{what}") for g in range(len(values))]
        error = _error(values, around, REFERENCE)
        bars.append(_bars(name.capitalize(), GROUP_NAMES, values, SIDES[name], "", error_y=error))
    return bars


def _error(values: Sequence[Any], intervals: Sequence[Any], color: str) -> dict[str, Any]:
    """Error bars from each value to its interval (low, high); none where either is None."""
    known = [(v, *i) if i and v is not None else (0.0, 0.0, 0.0) for v, i in zip(values, intervals, strict=True)]
    above, below = [high - v for v, _, high in known], [v - low for v, low, _ in known]
    return {"array": above, "arrayminus": below, "color": color, "thickness": 1.2, "width": 3}


def frequency_by_rank(
    exposures: Mapping[str, NDArray[np.int64]], n_users: int, item_counts: NDArray[np.int64]
) -> go.Figure:
    """Lines: the share of users who are recommended an item, by popularity rank, both logarithmic.

    Points are means over bins of ranks, so a large catalogue costs no more; a gap means never recommended.
    """
    lines = [
        _by_rank(name, exposed / max(1, n_users), item_counts, color_of(name, exposures), dash, positive=True)
        for (name, exposed), dash in zip(exposures.items(), DASHES, strict=False)
    ]
    y_axis = {"yaxis_type": "log", "yaxis_dtick": 1, "yaxis_tickformat": "~%"}
    return framed(lines, _RANK, "Share of users", showlegend=True, **_RANK_AXIS, **y_axis)


def gradient_cosines(picture: GradientPicture, item_counts: NDArray[np.int64]) -> go.Figure:
    """Lines: cosine of an item's pull, and of its push, with their sum, by popularity rank."""
    lines = _pull_and_push(picture.cosine_pull, picture.cosine_push, item_counts, positive=False)
    return framed(lines, _RANK, "Cosine with the total", **_RANK_AXIS)


def gradient_norms(picture: GradientPicture, item_counts: NDArray[np.int64]) -> go.Figure:
    """Lines: length of an item's pull and of its push, by popularity rank, both logarithmic."""
    lines = _pull_and_push(picture.norm_pull, picture.norm_push, item_counts, positive=True)
    y_axis = {"yaxis_type": "log", "yaxis_dtick": "D2", "yaxis_tickformat": "~s"}
    return framed(lines, _RANK, "Length", **_RANK_AXIS, **y_axis)


def _pull_and_push(
    pull: NDArray[np.float64], push: NDArray[np.float64], counts: NDArray[np.int64], positive: bool
) -> list[go.Scatter]:
    return [
        _by_rank("Pull (as a positive)", pull, counts, OTHERS[0], "solid", positive),
        _by_rank("Push (as a negative)", push, counts, OTHERS[1], "dot", positive),
    ]


def _by_rank(
    name: str, values: NDArray[np.float64], counts: NDArray[np.int64], color: str, dash: str, positive: bool
) -> go.Scatter:
    """Means of `values` over bins of ranks, ignoring NaN; `positive` drops values a logarithmic axis cannot show."""
    middle, mean = mean_by_rank(values, counts, RANK_BINS)
    y = [float(f"{m:.4g}") if np.isfinite(m) and (m > 0 or not positive) else None for m in mean]
    return _line(name, np.round(middle, 1), y, color, dash)


def _line(name: str, x: Any, y: Any, color: str, dash: str = "solid", mode: str = "lines+markers") -> go.Scatter:
    line = {"color": color, "dash": dash, "width": 2}
    return go.Scatter(name=escape(name), x=x, y=y, mode=mode, line=line, marker_size=5)


def strength_grid(grid: Grid, chosen: tuple[float, float], first: str = "recall") -> go.Figure:
    """Heat maps of the metrics over the strengths, with `first` shown and the chosen point marked."""
    strengths = grid.user_strengths, grid.item_strengths
    maps = [heat_map(name, *strengths, values, visible=name == first) for name, values in grid.values.items()]
    item, user = chosen
    marks = [
        go.Scatter(name=name, x=[x], y=[y], mode="markers", marker=_dot(color, symbol), cliponaxis=False)
        for name, x, y, color, symbol in (("Plain", 0.0, 0.0, PLAIN, "x"), ("Chosen", user, item, ADJUSTED, "circle"))
    ]
    axes = {f"{axis}axis_dtick": 0.4 for axis in "xy"}
    return framed([*maps, *marks], "User strength", "Item strength", height=HEIGHT + 60, **axes)


def heat_map(name: str, x: Any, y: Any, z: Any, **more: Any) -> go.Heatmap:
    """A metric over user strengths x and item strengths y."""
    hover, bar = "item %{y}, user %{x}<br>%{z:.4f}<extra></extra>", {"thickness": 14, "outlinewidth": 0}
    return go.Heatmap(name=escape(name), x=x, y=y, z=z, colorscale="Viridis", colorbar=bar, hovertemplate=hover, **more)


def _dot(color: str, symbol: str) -> dict[str, Any]:
    return {"size": 13, "symbol": symbol, "color": color, "line": {"color": "#ffffff", "width": 2}}


def training_loss(history: Sequence[Mapping[str, float]]) -> go.Figure:
    """A line: the loss per epoch."""
    return framed([_curve("loss", history, OTHERS[0])], "Epoch", "Loss", height=HEIGHT - 90, showlegend=False)


def validation_curve(history: Sequence[Mapping[str, float]]) -> go.Figure | None:
    """Lines: the validation metrics during training; None if there are none."""
    names = list(dict.fromkeys(name for entry in history for name in entry if name not in _NOT_METRICS))
    lines = [_curve(name, history, OTHERS[n % len(OTHERS)]) for n, name in enumerate(names)]
    return framed(lines, "Epoch", "On validation", height=HEIGHT - 90, showlegend=True) if lines else None


def _curve(name: str, history: Sequence[Mapping[str, float]], color: str) -> go.Scatter:
    points = [(e.get("epoch", n), e[name]) for n, e in enumerate(history, 1) if name in e]
    x, y = zip(*points, strict=True) if points else ((), ())
    return _line(name, x, y, color, mode="lines" if len(points) > 40 else "lines+markers")


def _bars(name: str, x: Sequence[str], y: Any, color: str, pattern: str, **more: Any) -> go.Bar:
    shape = {"shape": pattern, "size": 5, "solidity": 0.4}
    marker = {"color": color, "pattern": shape, "line": {"width": 0}}
    return go.Bar(name=escape(name), x=x, y=y, marker=marker, **more)


def framed(traces: Sequence[Any], x: str, y: str, **layout: Any) -> go.Figure:
    """The traces in the frame all figures share. Dragging is off, so that a finger scrolls the page."""
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
