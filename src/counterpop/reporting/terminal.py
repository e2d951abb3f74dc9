"""What commands print: a short table, and with --explain the meaning of its words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from counterpop.auditing import DEFINITIONS, Audit
from counterpop.evaluation import Evaluation
from counterpop.reporting.audit_tables import GRADE_STYLES
from counterpop.reporting.findings import RunReport, contrasts, is_adjusted, sides, verdict
from counterpop.reporting.glossary import words
from counterpop.reporting.tables import LABELS, PERCENT, format_figure, format_interval, format_p, format_price

EXPOSURE = ("average_popularity", "tail_share", "coverage")
MEASURES = ("average_popularity", "amplification", "popularity_lift", "tail_share", "coverage", "gini")
OF_POINTS = ("Even pairs", "Ordinary pairs", "Gain", "Price", "Strengths", "Named points", "Proven", "p")
OF_LISTS = (
    "Plain",
    "Adjusted",
    "Popularity",
    "Popular items and tail",
    "Even pairs",
    "Ordinary pairs",
    "Gain",
    "Price",
)
OF_RUNS = (
    *OF_LISTS,
    "Recall@k",
    "Hit rate@k",
    "NDCG@k",
    "Average popularity",
    "Tail share",
    "Coverage",
    "Interval",
    "p",
)


def short_table(reports: Sequence[RunReport], seed: int = 0) -> Table:
    """Recall on both kinds of pairs with gain and price, and what the lists expose; then the differences of recall.

    At most 80 columns wide. `comparison_table` has every metric with its interval.
    """
    table = _table("", "Plain", "Adjusted", "Change")
    for report in reports:
        found = report.evaluation
        strengths = f"strengths: item {found.item_strength:g}, user {found.user_strength:g}"
        table.add_row(Text(report.name, style="bold"), "", "", Text(strengths, style="dim"))
        for part in (found, found.ordinary):
            if part is not None:
                shown = [format_figure("recall", m.recall) for m in sides(part).values()]
                pairs = "even" if found.even and part is found else part.on
                table.add_row(f"Recall@{part.k}, {pairs} pairs", *_filled(shown), _worth(found, part))
        for metric in EXPOSURE:
            shown = [format_figure(metric, getattr(m, metric)) for m in sides(found).values()]
            row = found.comparison.get(metric) if is_adjusted(found) else None
            table.add_row(LABELS[metric], *_filled(shown), verdict(metric, row) if row else "")
    for contrast in contrasts(reports, seed):
        row = contrast.rows["recall"]
        change = f"{format_figure('recall', row['difference'], True)} ({format_interval('recall', *_ends(row), True)})"
        table.add_row(Text(f"{contrast.first}\nminus {contrast.second}", style="bold"))
        table.add_row("Recall", "", "", f"{change}\n{format_p(row['p_value'])}, {verdict('recall', row)}")
    return table


def _ends(row: Mapping[str, float]) -> tuple[float, float]:
    return row["low"], row["high"]


def _filled(shown: list[str]) -> list[str]:
    """Plain and adjusted; nothing for adjusted lists that are the plain ones."""
    return [*shown, ""][:2]


def _worth(found: Evaluation, part: Evaluation) -> str:
    """The change of recall: a gain on the measured pairs, a price on ordinary ones."""
    if not is_adjusted(found):
        return ""
    if part is not found:
        return f"price {format_price(**found.price)}" if found.price else ""
    if found.gain is None:
        return ""
    change, low, high = (f"{100 * found.gain[name]:+.1f}" for name in ("change", "low", "high"))
    return f"gain {change}{PERCENT} ({low} to {high})"


def short_audit_table(audits: Mapping[str, Audit]) -> Table:
    """The main measures, and those that a verdict's grade comes from; `audit_table` has every measure."""
    table = _table("", *audits, left=0)
    worst = {
        metric
        for one in audits.values()
        for metric, grade in one.grades.items()
        if grade == one.verdict.grade in ("watch", "bad")
    }
    for metric in (name for name in DEFINITIONS if name in {*MEASURES, *worst}):
        cells = []
        for one in audits.values():
            grade = one.grades.get(metric)
            text = Text(format_figure(metric, one.measures[metric]))
            cells.append(text.append(f" {grade}", style=GRADE_STYLES[grade]) if grade else text)
        table.add_row(DEFINITIONS[metric].title, *cells)
    return table


def meanings(names: Iterable[str]) -> Table:
    """What words mean, one below the other."""
    table = _table("", "")
    table.show_header = False
    table.columns[1].justify = "left"
    for word, meaning in words(names):
        table.add_row(Text(word, style="bold"), meaning)
    return table


def _table(*columns: str, left: int = 3) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for n, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if n in (0, left) else "right")
    return table
