"""The comparison of runs as tables: for the terminal, and as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite

from rich.console import Group
from rich.table import Table
from rich.text import Text

from counterpop.auditing import DEFINITIONS, GROUP_RULE, SEGMENT_RULE, SEGMENTS, Audit
from counterpop.evaluation import PER_USER, Measures
from counterpop.reporting.findings import Contrast, RunReport, contrasts, sides, verdict

LABELS = {
    "recall": "Recall",
    "hit_rate": "Hit rate",
    "ndcg": "NDCG",
    "average_popularity": "Average popularity",
    "tail_share": "Tail share",
    "coverage": "Coverage",
    "gini": "Gini",
}


GROUP_NAMES = ("0–5", "5–10", "10–15", "15–20", "20–100")
"""Popularity groups, in per cent of the items, most popular first."""
SEGMENT_FIGURES = {
    "profile_popularity": "Popularity chosen",
    "average_popularity": "Popularity shown",
    "popularity_lift": "Popularity lift",
    "amplification": "Amplification",
    "profile_tail_share": "Tail chosen",
    "tail_share": "Tail shown",
    "miscalibration": "Miscalibration",
}


def format_figure(metric: str, value: float, signed: bool = False) -> str:
    r"""A figure as it is shown; a dash where there is none.

    >>> format_figure("recall", 0.12345), format_figure("tail_share", 0.5), format_figure("recall", 0.1, True)
    ('0.1235', '50.0\xa0%', '+0.1000')
    """
    if not isfinite(value):
        return "–"
    kind = DEFINITIONS[metric].kind if metric in DEFINITIONS else "number"
    sign = "+" if signed or kind == "lift" else ""
    if kind in ("share", "lift"):
        return f"{100 * value:{sign}.1f}\u00a0%"
    return f"{value:{sign},.1f}" if kind == "count" else f"{value:{sign}.4f}"


def format_p(p_value: float) -> str:
    """A p-value in words.

    >>> format_p(0.0005), format_p(0.25)
    ('p < 0.001', 'p = 0.250')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def format_interval(metric: str, low: float, high: float, signed: bool = False) -> str:
    """An interval as it is shown: "low to high"."""
    shown = format_figure(metric, low, signed).removesuffix("\u00a0%")
    return f"{shown} to {format_figure(metric, high, signed)}"


def comparison_table(reports: Sequence[RunReport]) -> Table:
    """Every run's metrics, plain and adjusted, with 95 % intervals and what the difference amounts to.

    One block for each run, one line for each metric: it fits a terminal of 80 columns. Blocks at the end
    compare each run with the first where they hold the same users.
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
        table.add_section()
    for contrast in contrasts(reports):
        table.add_row(Text(f"{contrast.first} against {contrast.second}", style="bold"))
        for metric, row in contrast.rows.items():
            interval = format_interval(metric, row["low"], row["high"], signed=True)
            difference = format_figure(metric, row["difference"], signed=True)
            table.add_row(Text(LABELS[metric]), Text(difference), Text(interval, style="dim"), _finding(metric, row))
        table.add_section()
    return table


def _cell(measures: Measures, metric: str) -> Text:
    text = Text(format_figure(metric, getattr(measures, metric)))
    if metric in measures.intervals:
        text.append(f"\n{format_interval(metric, *measures.intervals[metric])}", style="dim")
    return text


def _finding(metric: str, row: Mapping[str, float]) -> Text:
    return Text(verdict(metric, row)).append(f"\n{format_p(row['p_value'])}", style="dim")


def html_measures(reports: Sequence[RunReport]) -> str:
    """The comparison as an HTML table: plain and, where it differs, adjusted; one column for each metric."""
    columns = "".join(f'<th scope="col">{label}</th>' for label in LABELS.values())
    body = ""
    for report in reports:
        found = report.evaluation
        strengths = f"{found.item_strength:g} item, {found.user_strength:g} user"
        for kind, measures in sides(found).items():
            note = "as trained" if kind == "plain" else f"strengths {strengths}"
            cells = "".join(_html_cell(measures, metric) for metric in LABELS)
            name = f"{escape(report.name)}, {kind}<small>{note}, k = {found.k}, {found.on}</small>"
            body += f'<tr class="{kind}"><th scope="row">{name}</th>{cells}</tr>\n'
    return f'<table><thead><tr><th scope="col">Lists</th>{columns}</tr></thead><tbody>{body}</tbody></table>'


def _html_cell(measures: Measures, metric: str) -> str:
    value = getattr(measures, metric)
    interval = ""
    if metric in measures.intervals:
        interval = f"<small>{format_interval(metric, *measures.intervals[metric])}</small>"
    return f'<td><data value="{value!r}">{format_figure(metric, value)}</data>{interval}</td>'


def html_contrasts(found: Sequence[Contrast]) -> str:
    """The differences, their intervals and p-values as an HTML table: one row for each comparison."""
    columns = "".join(f'<th scope="col">{LABELS[metric]}</th>' for metric in PER_USER)
    body = "".join(map(_html_contrast, found))
    return f'<table><thead><tr><th scope="col">Lists</th>{columns}</tr></thead><tbody>{body}</tbody></table>'


def _html_contrast(contrast: Contrast) -> str:
    cells = ""
    for metric in PER_USER:
        row = contrast.rows[metric]
        word = verdict(metric, row)
        interval = format_interval(metric, row["low"], row["high"], signed=True)
        cells += (
            f'<td><data value="{row["difference"]!r}">{format_figure(metric, row["difference"], True)}</data>'
            f"<small>{interval}</small><small>{format_p(row['p_value'])}</small>"
            f'<small class="{word.split()[0]}">{word}</small></td>'
        )
    name = f"{escape(contrast.first)}<small>against {escape(contrast.second)}</small>"
    return f'<tr><th scope="row">{name}</th>{cells}</tr>\n'


def audit_table(audits: Mapping[str, Audit]) -> Group:
    """Every figure of the audits with its definition, then groups of items and segments of users."""
    figures = _plain_table("", *audits)
    figures.columns[0].ratio = 1
    for metric, definition in DEFINITIONS.items():
        name = Text(definition.title).append(f"\n{definition.text}", style="dim")
        if definition.source:
            name.append(f" {definition.source}.", style="dim italic")
        figures.add_row(name, *(format_figure(metric, one.measures[metric]) for one in audits.values()))
    groups = _plain_table("Items", "Number", "Interactions", *audits, rule=GROUP_RULE)
    for n, group in enumerate(next(iter(audits.values())).groups):
        shares = [group["interactions"], *(one.groups[n]["frequency"] for one in audits.values())]
        shown = [format_figure("coverage", share) for share in shares]
        groups.add_row(f"{GROUP_NAMES[n]} %", f"{group['items']:,}", *shown)
    segments = _plain_table("Users", *SEGMENTS, rule=SEGMENT_RULE)
    for kind, one in audits.items():
        segments.add_row(Text(kind, style="bold"), *(f"{segment['users']:,}" for segment in one.segments))
        for metric, label in SEGMENT_FIGURES.items():
            segments.add_row(label, *(format_figure(metric, segment[metric]) for segment in one.segments))
        segments.add_section()
    return Group(figures, Text(""), groups, Text(""), segments)


def _plain_table(*columns: str, rule: str | None = None) -> Table:
    """A table without lines, its first column on the left, and below it how its rows were made."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=rule, caption_justify="left")
    for n, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if n else "left", no_wrap=bool(n))
    return table


def html_audit(audits: Mapping[str, Audit]) -> str:
    """Every figure of the audits, its definition below its name."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in audits)
    body = ""
    for metric, definition in DEFINITIONS.items():
        values = [one.measures[metric] for one in audits.values()]
        cells = "".join(f'<td><data value="{value!r}">{format_figure(metric, value)}</data></td>' for value in values)
        source = f" <cite>{definition.source}.</cite>" if definition.source else ""
        name = f"{definition.title}<small>{definition.text}{source}</small>"
        body += f'<tr><th scope="row">{name}</th>{cells}</tr>\n'
    return (
        f'<table class="audit"><thead><tr><th scope="col">Figure</th>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def html_segments(audits: Mapping[str, Audit]) -> str:
    """The segments of users: how many, and what they chose beside what they are shown."""
    columns = "".join(f'<th scope="col">{label}</th>' for label in SEGMENT_FIGURES.values())
    body = ""
    for name, one in audits.items():
        for segment in one.segments:
            cells = "".join(f"<td>{format_figure(m, segment[m])}</td>" for m in SEGMENT_FIGURES)
            label = f"{segment['name'].capitalize()}<small>{escape(name)}</small>"
            body += f'<tr><th scope="row">{label}</th><td>{segment["users"]:,}</td>{cells}</tr>\n'
    return (
        f'<table><thead><tr><th scope="col">Users</th><th scope="col">Number</th>{columns}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
