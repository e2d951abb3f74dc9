"""Comparisons as tables: for the terminal, and as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from math import isfinite
from typing import Any

from rich.table import Table
from rich.text import Text

from counterpop.auditing import DEFINITIONS
from counterpop.evaluation import Evaluation, Measures
from counterpop.metrics.resampling import PER_USER
from counterpop.reporting.findings import ACCURACY, Contrast, RunReport, contrasts, is_adjusted, sides, verdict
from counterpop.tuning import Proof, Which

LABELS = {
    "recall": "Recall",
    "hit_rate": "Hit rate",
    "ndcg": "NDCG",
    "average_popularity": "Average popularity",
    "tail_share": "Tail share",
    "coverage": "Coverage",
    "gini": "Gini",
}
PERCENT = "\u00a0%"
GROUP_NAMES = ("0–5", "5–10", "10–15", "15–20", "20–100")
"""Popularity groups, in percent of the items, most popular first."""


def format_figure(metric: str, value: float, signed: bool = False) -> str:
    r"""A value as text; a dash if it is NaN or infinite. Signed is for differences; those of shares are in points.

    >>> format_figure("recall", 0.12345), format_figure("tail_share", 0.5), format_figure("tail_share", 0.1, True)
    ('0.1235', '50.0\xa0%', '+10.0\xa0points')
    """
    if not isfinite(value):
        return "–"
    kind = DEFINITIONS[metric].kind if metric in DEFINITIONS else "number"
    sign = "+" if signed or kind == "lift" else ""
    if kind in ("share", "lift"):
        return f"{100 * value:{sign}.1f}\u00a0{'points' if signed else '%'}"
    if metric in DEFINITIONS and kind == "number" and 0 < abs(value) < 0.001:
        return f"{value:{sign}.2g}"  # shares of attention in a large catalogue
    return f"{value:{sign},.1f}" if kind == "count" else f"{value:{sign}.4f}"


def format_p(p_value: float) -> str:
    """A p-value as text.

    >>> format_p(0.0005), format_p(0.25)
    ('p < 0.001', 'p = 0.250')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def format_interval(metric: str, low: float, high: float, signed: bool = False) -> str:
    """An interval as text: "low to high"."""
    number, _, _ = format_figure(metric, low, signed).partition("\u00a0")
    return f"{number} to {format_figure(metric, high, signed)}"


def comparison_table(reports: Sequence[RunReport], seed: int = 0) -> Table:
    """Every run's metrics, plain and adjusted, with 95 % intervals and a verdict on each difference.

    One block per run and one row per metric, which fits a terminal of 80 columns. Blocks at the end show the first run
    minus each other run, if both were measured on the same users. `seed` is that of their bootstrap.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "Plain", "Adjusted", "Difference"):
        table.add_column(column, justify="left" if column in ("", "Difference") else "right")
    for report in reports:
        found = report.evaluation
        strengths = f"strengths\nitem {found.item_strength:g}, user {found.user_strength:g}"
        on = f"k = {found.k}, {found.on}"
        table.add_row(Text(f"{report.name}\n{on}", style="bold"), Text("as trained"), Text(strengths))
        for metric, label in LABELS.items():
            row = found.comparison.get(metric)
            table.add_row(
                Text(label),
                _cell(found.plain, metric),
                _cell(found.adjusted, metric),
                _finding(metric, row) if row else Text(""),
            )
        if found.ordinary:
            table.add_row(Text(f"{report.name}\nordinary pairs", style="bold"))
            for metric in ACCURACY:
                cells = (_cell(m, metric) for m in (found.ordinary.plain, found.ordinary.adjusted))
                table.add_row(Text(LABELS[metric]), *cells, _finding(metric, found.ordinary.comparison[metric]))
        table.add_section()
    for contrast in contrasts(reports, seed):
        table.add_row(Text(f"{contrast.first} minus {contrast.second}", style="bold"))
        for metric, row in contrast.rows.items():
            interval = format_interval(metric, row["low"], row["high"], signed=True)
            difference = format_figure(metric, row["difference"], signed=True)
            table.add_row(Text(LABELS[metric]), Text(difference), Text(interval, style="dim"), _finding(metric, row))
        table.add_section()
    return table


def points_table(points: Mapping[Which, Proof]) -> Table:
    """The points of the frontier with gain and price, without p-values, in at most 80 columns."""
    table = Table("Point", "Item", "User", "Gain (95 %)", "Price (95 %)", "Proven", box=None, padding=(0, 1, 0, 0))
    for name, (item, user, gain, _, price, proven) in _point_cells({n: vars(p) for n, p in points.items()}).items():
        table.add_row(name, item, user, gain, price, proven)
    return table


def html_points(points: Mapping[str, Mapping[str, Any]], base: float | None) -> str:
    """The same as HTML; with `base`, the plain value of the target, gains are relative to it."""
    columns = ("Point", "Item strength", "User strength", "Gain (95 %)", "p", "Price (95 %)", "Proven")
    return html_table(columns, _point_cells(points, base).items())


def _point_cells(points: Mapping[str, Mapping[str, Any]], base: float | None = None) -> dict[str, list[str]]:
    """Each point's strengths, gain, p-value and price with their intervals, and whether it is proven, as text."""
    cells = {}
    for name, point in points.items():
        gains = [point[side] for side in ("gain", "low", "high")]
        gain, low, high = (f"{100 * one / base:+.1f}" for one in gains) if base else (f"{one:+.4f}" for one in gains)
        cells[name] = [
            f"{point['item_strength']:g}",
            f"{point['user_strength']:g}",
            f"{gain}{PERCENT if base else ''} ({low} to {high})",
            "" if point["p_value"] is None else f"{point['p_value']:.4f}",
            format_price(*(point[side] for side in ("price", "price_low", "price_high"))),
            "yes" if point["proven"] else "no",
        ]
    return cells


def format_price(lost: float | None, low: float | None, high: float | None) -> str:
    r"""A price, the share of ordinary recall that is lost, with its interval.

    >>> format_price(0.031, -0.002, 0.064), format_price(None, None, None)
    ('3.1\xa0% (-0.2 to 6.4)', 'unknown')
    """
    if lost is None or low is None or high is None:
        return "unknown"
    return f"{100 * lost:.1f}\u00a0% ({100 * low:.1f} to {100 * high:.1f})"


def gain_and_price(found: Evaluation) -> list[str]:
    """What the adjustment does to recall, in two sentences: on the part that was measured, and on ordinary pairs."""
    sentences = [_recall_of(found)]
    if found.ordinary:
        price = found.price if is_adjusted(found) else None
        lost = f", a price of {format_price(**price)}" if price else ""
        sentences.append(_recall_of(found.ordinary, lost))
    elif found.even:
        sentences.append(
            "As traffic is today: not known, because the split has no ordinary pairs (split --ordinary 0.05)."
        )
    return [*sentences, *([found.sample.sentence] if found.sample else [])]


def _recall_of(found: Evaluation, worth: str = "") -> str:
    """Recall before and after; `worth` is what the change is called if it is a price."""
    pairs = {"test": "test pairs", "valid": "validation pairs", "ordinary": "ordinary pairs, held out of train"}[
        found.on
    ]
    where = f"On {pairs}"
    if found.even or found.on == "ordinary":
        where = f"{'If every item were shown equally often' if found.even else 'As traffic is today'} ({pairs})"
    shown = [
        f"{format_figure('recall', m.recall)} {kind}"
        + (f" ({format_interval('recall', *m.intervals['recall'])})" if m.intervals else "")
        for kind, m in sides(found).items()
    ]
    text = f"{where}: recall@{found.k} {', '.join(shown)}"
    if is_adjusted(found) and found.gain and not worth:
        change, low, high = (100 * found.gain[name] for name in ("change", "low", "high"))
        worth = f", a gain of {change:+.1f}\u00a0% ({low:+.1f} to {high:+.1f})"
    text += worth
    if found.before_refit:
        text += ", measured before the refit, which was trained on these pairs, at the same strengths"
    return f"{text}."


def _cell(measures: Measures, metric: str) -> Text:
    text = Text(format_figure(metric, getattr(measures, metric)))
    if metric in measures.intervals:
        text.append(f"\n{format_interval(metric, *measures.intervals[metric])}", style="dim")
    return text


def _finding(metric: str, row: Mapping[str, float]) -> Text:
    return Text(verdict(metric, row)).append(f"\n{format_p(row['p_value'])}", style="dim")


def html_table(columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], css: str = "") -> str:
    """An HTML table; a row is its name and its cells, all of them HTML. Without columns it has no header.

    With a header it can be sorted, and on a phone its rows are shown one below the other; roles keep it a table there.
    """
    names = list(columns)
    labels = [f' data-label="{escape(re.sub("<[^>]*>", " ", name)).strip()}"' for name in names[1:]]
    body = ""
    for name, cells in rows:
        pairs = zip_longest(cells, labels, fillvalue="")
        shown = "".join(f'<td role="cell"{label}>{cell}</td>' for cell, label in pairs)
        body += f'<tr role="row"><th scope="row" role="rowheader">{name}</th>{shown}</tr>\n'
    head = "".join(f'<th scope="col" role="columnheader">{name}</th>' for name in names)
    header = head and f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
    css = f"rows {css}".strip() if names else css
    return f'<table role="table" class="{css}">{header}<tbody role="rowgroup">{body}</tbody></table>'


def exact(metric: str, value: float, signed: bool = False) -> str:
    """A value as text that also carries its exact number."""
    return f'<data value="{value!r}">{format_figure(metric, value, signed)}</data>'


def html_measures(reports: Sequence[RunReport]) -> str:
    """The metrics of every run, plain and, if they differ, adjusted; one column per metric."""
    rows = []
    for report in reports:
        for found in filter(None, (report.evaluation, report.evaluation.ordinary)):
            strengths = f"strengths {found.item_strength:g} item, {found.user_strength:g} user"
            pairs = f"{found.on}{' pairs, before the refit' if found.before_refit else ''}"
            for kind, measures in sides(found).items():
                note = "as trained" if kind == "plain" else strengths
                name = f"{escape(report.name)}, {kind}<small>{note}, k = {found.k}, {pairs}</small>"
                rows.append((name, [_html_cell(measures, metric) for metric in LABELS]))
    return html_table(["Lists", *LABELS.values()], rows)


def _html_cell(measures: Measures, metric: str) -> str:
    around = measures.intervals.get(metric)
    interval = f"<small>{format_interval(metric, *around)}</small>" if around else ""
    return exact(metric, getattr(measures, metric)) + interval


def html_contrasts(found: Sequence[Contrast]) -> str:
    """The differences with their intervals and p-values; one row per comparison."""
    rows = (
        (
            f"{escape(contrast.first)}<small>minus {escape(contrast.second)}</small>",
            [_html_difference(metric, contrast.rows[metric]) for metric in PER_USER],
        )
        for contrast in found
    )
    return html_table(["Lists", *(LABELS[metric] for metric in PER_USER)], rows)


def _html_difference(metric: str, row: Mapping[str, float]) -> str:
    word = verdict(metric, row)
    return (
        f"{exact(metric, row['difference'], True)}"
        f"<small>{format_interval(metric, row['low'], row['high'], signed=True)}</small>"
        f'<small>{format_p(row["p_value"])}</small><small class="{word.split()[0]}">{word}</small>'
    )
