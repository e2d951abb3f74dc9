"""Drawing the figures: with plotly for the page, with matplotlib as PNG and SVG.

Plotly starts a browser to make a still picture; matplotlib does not. Nothing else needs it, so it comes with the extra
`paper`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from counterpop.outputs import replacing
from counterpop.paper.results import Figure
from counterpop.reporting.figures import DASHES, OTHERS, SYMBOLS, framed, heat_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STROKES = {"dot": ":", "solid": "-", "dash": "--", "dashdot": "-.", "longdash": "--", "longdashdot": "-."}
_MARKERS = ("o", "s", "D", "^", "P", "*", "p", "h")


def interactive(figure: Figure) -> go.Figure:
    """The figure for the page."""
    traces: list[Any] = []
    for n, series in enumerate(figure.series):
        color = OTHERS[n % len(OTHERS)]
        if figure.kind == "map":
            traces.append(heat_map(series["name"], series["x"], series["y"], series["z"]))
            x, y = series["chosen"]
            ring = {"size": 14, "symbol": "circle-open", "color": "#e8590c", "line": {"width": 3}}
            traces.append(go.Scatter(name="chosen", x=[x], y=[y], mode="markers", marker=ring, cliponaxis=False))
        elif figure.kind == "bars":
            traces.append(go.Bar(name=series["name"], x=series["x"], y=series["y"], marker_color=color))
        else:
            marker = {"size": 6, "symbol": SYMBOLS[n % len(SYMBOLS)]}
            line = {"color": color, "dash": DASHES[n % len(DASHES)], "width": 2}
            drawn = {"mode": "lines+markers", "line": line, "marker": marker}
            traces.append(go.Scatter(name=series["name"], x=series["x"], y=series["y"], **drawn))
    layout: dict[str, Any] = {"showlegend": True}
    layout |= {f"{axis}axis_type": "log" for axis in "xy" if getattr(figure, f"log_{axis}")}
    if figure.log_x:
        layout |= {"xaxis_dtick": 1, "xaxis_tickformat": ",d"}
    if figure.log_y:
        layout |= {"yaxis_dtick": "D2", "yaxis_tickformat": "~s"}
    return framed(traces, figure.x, figure.y, **layout)


def draw_still(figure: Figure, path: Path) -> list[Path]:
    """Writes the figure as `path`.png and `path`.svg; raises ModuleNotFoundError without matplotlib."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with rc_context({"svg.hashsalt": "counterpop", "font.size": 9}):  # the same bytes every time
        canvas = Canvas(figsize=(6.4, 4.0), layout="constrained")
        FigureCanvasAgg(canvas)
        axes = canvas.add_subplot()
        _DRAW[figure.kind](axes, figure)
        axes.set(title=figure.caption, xlabel=figure.x, ylabel=figure.y)
        written = []
        for ending, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            written.append(path.with_name(path.name + ending))
            with replacing(written[-1]) as part:
                canvas.savefig(part, dpi=150, metadata=metadata)
    return written


def _draw_lines(axes: Axes, figure: Figure) -> None:
    for n, series in enumerate(figure.series):
        y = [float("nan") if value is None else value for value in series["y"]]
        axes.plot(
            series["x"],
            y,
            label=series["name"],
            color=OTHERS[n % len(OTHERS)],
            markersize=4,
            linestyle=_STROKES[DASHES[n % len(DASHES)]],
            marker=_MARKERS[n % len(_MARKERS)],
        )
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _draw_bars(axes: Axes, figure: Figure) -> None:
    width = 0.8 / len(figure.series)
    for n, series in enumerate(figure.series):
        places = [place + (n + 0.5) * width - 0.4 for place in range(len(series["x"]))]
        y = [float("nan") if value is None else value for value in series["y"]]  # no bar: missing is not zero
        axes.bar(places, y, width, label=series["name"], color=OTHERS[n % len(OTHERS)])
    axes.set_xticks(range(len(figure.series[0]["x"])), figure.series[0]["x"])
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, fontsize=8)


def _draw_map(axes: Axes, figure: Figure) -> None:
    series = figure.series[0]
    shown = axes.pcolormesh(series["x"], series["y"], series["z"], shading="nearest")
    axes.plot(*series["chosen"], "o", markersize=13, markerfacecolor="none", color="#e8590c", markeredgewidth=2.5)
    axes.figure.colorbar(shown, ax=axes)


_DRAW = {"lines": _draw_lines, "bars": _draw_bars, "map": _draw_map}
