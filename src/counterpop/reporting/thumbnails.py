"""Small pictures of figures, as SVG inside HTML: no script, so a notebook shows them also when it is not trusted."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import isfinite, log10
from typing import Any

import plotly.graph_objects as go

WIDTH, HEIGHT, EDGE = 320, 120, 6
HEAT = "#3a7fc4"


def draw_thumbnail(figure: go.Figure, label: str) -> str:
    """The bars, lines, points and heat maps of a figure, with its axes' names but without their ticks."""
    traces = [trace for trace in figure.data if trace.visible is not False]
    shapes = [_heat(trace) for trace in traces if trace.type == "heatmap"]
    bars = [trace for trace in traces if trace.type == "bar"]
    shapes += _bars(bars) if bars else []
    if not shapes:
        logarithmic = tuple(axis.type == "log" for axis in (figure.layout.xaxis, figure.layout.yaxis))
        shapes += _lines([trace for trace in traces if trace.type == "scatter"], logarithmic)
    axes = " by ".join(filter(None, (axis.title.text for axis in (figure.layout.yaxis, figure.layout.xaxis))))
    names = ", ".join(
        f'<span style="color:{_color(trace)}">■</span> {trace.name}' for trace in traces if trace.type != "heatmap"
    )
    return (
        f'<figure style="margin:0"><svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}: {escape(axes)}">{"".join(shapes)}</svg>'
        f"<figcaption><small>{escape(axes)}. {names}</small></figcaption></figure>"
    )


def _color(trace: Any) -> str:
    line = trace.line.color if trace.type == "scatter" else None
    return escape(str(line or trace.marker.color))


def _bars(traces: list[Any]) -> list[str]:
    largest = max((float(y) for trace in traces for y in trace.y if y is not None), default=0.0) or 1.0
    groups = max(len(trace.y) for trace in traces)
    wide = (WIDTH - 2 * EDGE) / groups
    each = 0.8 * wide / len(traces)
    shapes = []
    for n, trace in enumerate(traces):
        for g, y in enumerate(trace.y):
            tall = (HEIGHT - 2 * EDGE) * float(y or 0.0) / largest
            left, top = EDGE + g * wide + n * each, HEIGHT - EDGE - tall
            shapes.append(_box(left, top, 0.9 * each, tall, f'fill="{_color(trace)}"'))
    return shapes


def _lines(traces: list[Any], logarithmic: tuple[bool, ...]) -> list[str]:
    rows = [
        (trace, [(_place(x, logarithmic[0]), _place(y, logarithmic[1])) for x, y in zip(trace.x, trace.y, strict=True)])
        for trace in traces
    ]
    known = [(trace, [(x, y) for x, y in row if x is not None and y is not None]) for trace, row in rows]
    across, up = (_scale([point[n] for _, row in known for point in row]) for n in (0, 1))
    shapes = []
    for trace, row in known:
        at = [(EDGE + (WIDTH - 2 * EDGE) * across(x), HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * up(y)) for x, y in row]
        if "lines" in (trace.mode or "") and len(at) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
            shapes.append(f'<polyline points="{path}" fill="none" stroke="{_color(trace)}" stroke-width="2"/>')
        else:
            shapes += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_color(trace)}"/>' for x, y in at]
    return shapes


def _place(value: Any, logarithmic: bool) -> float | None:
    if value is None or not isfinite(value) or (logarithmic and value <= 0):
        return None
    return log10(value) if logarithmic else float(value)


def _scale(values: list[Any]) -> Any:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return lambda value: (value - low) / ((high - low) or 1.0)


def _heat(trace: Any) -> str:
    rows = [[float(value) for value in row] for row in trace.z]
    scale = _scale([value for row in rows for value in row if isfinite(value)])
    wide, tall = (WIDTH - 2 * EDGE) / len(rows[0]), (HEIGHT - 2 * EDGE) / len(rows)
    cells = (_heat_row(row, HEIGHT - EDGE - (n + 1) * tall, wide, tall, scale) for n, row in enumerate(rows))
    return f'<g fill="{HEAT}">{"".join(cells)}</g>'


def _heat_row(row: Iterable[float], top: float, wide: float, tall: float, scale: Any) -> str:
    return "".join(
        _box(EDGE + n * wide, top, wide, tall, f'fill-opacity="{0.1 + 0.9 * scale(value):.2f}"')
        for n, value in enumerate(row)
        if isfinite(value)
    )


def _box(left: float, top: float, wide: float, tall: float, style: str) -> str:
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" {style}/>'
