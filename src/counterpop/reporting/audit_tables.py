"""Audits as tables: for the terminal, and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from counterpop.auditing import DEFINITIONS, GROUP_RULE, SEGMENT_RULE, SEGMENTS, THRESHOLDS, Audit
from counterpop.reporting.tables import GROUP_NAMES, exact, format_figure, format_interval, format_p, html_table

SEGMENT_FIGURES = {
    "profile_popularity": "Popularity chosen",
    "average_popularity": "Popularity shown",
    "popularity_lift": "Popularity lift",
    "amplification": "Amplification",
    "profile_tail_share": "Tail chosen",
    "tail_share": "Tail shown",
    "miscalibration": "Miscalibration",
}
ITEM_FIGURES = {"interactions": "Interactions", "lists": "Lists", "expected_lists": "Lists as in the log"}
GRADE_STYLES = {"good": "green", "watch": "yellow", "bad": "bold red", "unknown": "dim"}
MOST_ROWS = 30  # of a table on the page; the CSV has them all


def audit_table(audits: Mapping[str, Audit]) -> Group:
    """Every metric of the audits with its definition, then groups of items and segments of users."""
    figures = _plain_table("", *audits)
    figures.columns[0].ratio = 1
    meanings = {name: one.meanings for name, one in audits.items()}
    for metric, definition in DEFINITIONS.items():
        name = Text(definition.title)
        for lists, sentences in meanings.items():
            name.append(f"\n{_prefix(lists, audits)}{sentences[metric]}")
        name.append(f"\n{definition.text}", style="dim")
        if definition.source:
            name.append(f" {definition.source}.", style="dim italic")
        figures.add_row(name, *(_graded(metric, one) for one in audits.values()))
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


def _prefix(name: str, audits: Mapping[str, Audit]) -> str:
    """The name of the lists that a sentence is about, if there are several."""
    return f"{name}: " if len(audits) > 1 else ""


def _graded(metric: str, one: Audit) -> Text:
    text = Text(format_figure(metric, one.measures[metric]))
    grade = one.grades.get(metric)
    return text.append(f"\n{grade}", style=GRADE_STYLES[grade]) if grade else text


def _plain_table(*columns: str, rule: str | None = None) -> Table:
    """A table without lines, its first column left-aligned, and below it the rule that defines its rows."""
    table = Table(box=None, pad_edge=False, header_style="bold", caption=rule, caption_justify="left")
    for n, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if n else "left", no_wrap=bool(n))
    return table


def html_audit(audits: Mapping[str, Audit]) -> str:
    """Every metric of the audits: value, interval and grade; below, what it means here, its definition and threshold.

    The words have a row of their own, so that they are as wide as the table, also on a phone.
    """
    rows = ""
    meanings = {name: one.meanings for name, one in audits.items()}
    for metric, definition in DEFINITIONS.items():
        cells = "".join(f"<td>{_html_graded(metric, one)}</td>" for one in audits.values())
        words = "".join(
            f'<small class="meaning">{escape(_prefix(lists, audits) + sentences[metric])}</small>'
            for lists, sentences in meanings.items()
        )
        source = f" <cite>{definition.source}.</cite>" if definition.source else ""
        rule = f" Grades: {THRESHOLDS[metric].text}." if metric in THRESHOLDS else ""
        words += f"<small>{definition.text}{rule}{source}</small>"
        rows += f'<tr class="figures"><th scope="row">{definition.title}</th>{cells}</tr>\n'
        rows += f'<tr class="words"><td colspan="{len(audits) + 1}">{words}</td></tr>\n'
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Metric", *map(escape, audits)))
    return f'<table class="audit"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _html_graded(metric: str, one: Audit) -> str:
    interval, grade = one.intervals.get(metric), one.grades.get(metric)
    around = f"<small>{format_interval(metric, interval.low, interval.high)}</small>" if interval else ""
    return exact(metric, one.measures[metric]) + around + (html_grade(grade) if grade else "")


def html_grade(grade: str) -> str:
    return f'<small class="grade {grade}">{grade}</small>'


def html_segments(groups: Iterable[tuple[str, str, Sequence[Mapping[str, Any]]]]) -> str:
    """Groups of users, each with a heading and a note: their size, what they chose and what they are shown."""
    rows = (
        (
            f"{escape(heading)}{escape(segment['name'].capitalize() if not heading else segment['name'])}"
            f"<small>{escape(note)}</small>",
            [f"{segment['users']:,}", *(exact(metric, segment[metric]) for metric in SEGMENT_FIGURES)],
        )
        for heading, note, segments in groups
        for segment in segments
    )
    return html_table(["Users", "Number", *SEGMENT_FIGURES.values()], rows)


def html_title(row: Mapping[str, Any]) -> str:
    """The title of an item with its id in the tooltip, or the id."""
    own = f"item {row['item']}"
    return f'<span title="{escape(own)}">{escape(str(row["name"] or own))}</span>'


def html_items(rows: Sequence[Mapping[str, Any]]) -> str:
    """Items by name, with their categories, interactions, and the lists they are in and would be in."""
    numbers = ("item", "name", *ITEM_FIGURES)
    categories = [name for name in (rows[0] if rows else {}) if name not in numbers]
    shown = (
        (
            html_title(row) + (f"<small>{escape(str(row['item']))}</small>" * bool(row["name"])),
            [
                *(escape(str(row[name] or "–")) for name in categories),
                *(f"{row[name]:,.{0 if name != 'expected_lists' else 1}f}" for name in ITEM_FIGURES),
            ],
        )
        for row in rows
    )
    return html_table(["Item", *map(escape, categories), *ITEM_FIGURES.values()], shown)


def html_categories(rows: Sequence[Mapping[str, Any]]) -> str:
    """Categories: their items, and their shares of interactions, places and attention."""
    columns = (
        "Category",
        "Items",
        "Never recommended",
        "Interactions",
        "Recommendations",
        "Attention",
        "Times the log",
    )
    shown = []
    for row in rows[:MOST_ROWS]:
        times = row["frequency"] / row["interactions"] if row["interactions"] else float("nan")
        cells = [f"{row['items']:,}", f"{row['never_recommended']:,}"]
        cells += [exact("coverage", row[name]) for name in ("interactions", "frequency", "attention")]
        shown.append((escape(row["name"]), [*cells, f"{times:.2f}" if times == times else "–"]))
    return html_table(columns, shown)


def changes_table(changes: Sequence[Mapping[str, Any]], heading: str) -> Table:
    """What moved between two audits, for the terminal."""
    table = _plain_table(heading, "Before", "Now", "Difference", "")
    for row in changes:
        name = row["name"]
        shown = [format_figure(name, row[key], key == "difference") for key in ("before", "after", "difference")]
        table.add_row(DEFINITIONS[name].label, *shown, moved_or_noise(row))
    return table


def history_table(documents: Sequence[Mapping[str, Any]]) -> Table:
    """The first and the last of several audits, oldest first, for the terminal: one line per measure."""
    first, last = documents[0], documents[-1]
    table = _plain_table(f"{last['title']} ({len(documents)} audits)", first["date"][:10], last["date"][:10], "Change")
    for name, definition in DEFINITIONS.items():
        values = [one[name] for one in documents if one.get(name) is not None]
        if values:
            shown = [format_figure(name, values[0]), format_figure(name, values[-1])]
            table.add_row(definition.label, *shown, format_figure(name, values[-1] - values[0], True))
    return table


def moved_or_noise(row: Mapping[str, Any]) -> str:
    """Whether a change is more than noise, in a word or two; what the log itself changed by has no test."""
    if row["difference"] == 0:
        return "same"
    return "moved" if row["moved"] else "no test" if row["p_value"] is None else "noise"


def html_changes(changes: Sequence[Mapping[str, Any]]) -> str:
    """What moved between two audits: before, after, the difference with its interval, and whether it is noise."""
    rows = []
    for row in changes:
        name, interval = row["name"], "no interval"
        if row["low"] is not None:
            interval = format_interval(name, row["low"], row["high"], signed=True)
        p = "" if row["p_value"] is None else f"<small>{format_p(row['p_value'])}</small>"
        cells = [exact(name, row["before"]), exact(name, row["after"]), exact(name, row["difference"], True)]
        cells[2] += f"<small>{interval}</small>"
        rows.append((DEFINITIONS[name].title, [*cells, f"{moved_or_noise(row)}{p}"]))
    return html_table(["Metric", "Before", "Now", "Difference", "Moved or noise"], rows)
