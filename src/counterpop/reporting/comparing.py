"""A comparison of models as a table, in sentences and as a figure."""

from __future__ import annotations

from pathlib import Path

import rich.table

from counterpop.comparison import ORDINARY, Comparison
from counterpop.errors import InputError
from counterpop.outputs import replacing
from counterpop.reporting.findings import verdict
from counterpop.reporting.tables import LABELS, format_figure, format_interval, format_p
from counterpop.tabular import Table, format_cell, latex_table, markdown_table, write_csv
from counterpop.uncertainty import LEVELS, stars

TITLES = {
    "recall": LABELS["recall"],
    "hit_rate": LABELS["hit_rate"],
    "ndcg": LABELS["ndcg"],
    ORDINARY: "Recall, ordinary pairs",
    **{name: label for name, label in LABELS.items() if name not in ("recall", "hit_rate", "ndcg")},
}


def comparison_sheet(found: Comparison) -> Table:
    """One row for each model: mean and standard deviation over seeds, or with one seed the 95 % interval over users."""
    metrics = [metric for metric in TITLES if any(metric in row for row in found.figures.values())]
    rows = []
    for name, figures in found.figures.items():
        moved = found.differences.get(name, {})
        cells = []
        for metric in metrics:
            figure = figures.get(metric)
            mark = stars(moved[metric]["corrected"]) if metric in moved else ""
            cells.append(None if figure is None else {**figure, "mark": mark})
        rows.append([name, next(iter(figures.values()))["seeds"], *cells])
    part = {"test": "test", "valid": "validation", "ordinary": "ordinary"}[found.on]
    levels = ", ".join(f"{'*' * n} p < {level:g}" for n, level in enumerate(LEVELS, 1))
    notes = [
        "Mean ± standard deviation over seeds; with one seed, the 95 % interval over users.",
        f"Stars: {found.first} minus this model is not 0, paired over users, corrected by Holm for all "
        f"{sum(map(len, found.differences.values()))} differences ({levels}).",
    ]
    title = f"{part.capitalize()} part, lists of {found.k}, {found.users:,} users"
    columns = ("Model", "Seeds", *(TITLES[metric] for metric in metrics))
    return Table(title, columns, rows, tuple(notes[: 2 if found.differences else 1]))


def comparison_sentences(found: Comparison) -> list[str]:
    """The first model against each other one, by recall and, if it is known, by recall on ordinary pairs."""
    sentences = []
    for other, rows in found.differences.items():
        parts = []
        for metric in ("recall", ORDINARY):
            if metric in rows:
                row = rows[metric]
                way = verdict("recall", {"difference": row["difference"], "p_value": row["corrected"]})
                interval = format_interval("recall", row["low"], row["high"], signed=True)
                amount = format_figure("recall", row["difference"], signed=True)
                word = {"improved": "higher", "worse": "lower"}.get(way, way)
                parts.append(f"{TITLES[metric].lower()} {amount} ({interval}, {format_p(row['corrected'])}): {word}")
        sentences.append(f"{found.first} minus {other}: {'; '.join(parts)}.")
    return sentences


def printed_table(table: Table) -> rich.table.Table:
    """A table for the terminal: a column for each model, because those fit where eight measures side by side do not."""
    names, *measures = (
        [title, *map(format_cell, cells)] for title, *cells in zip(table.columns, *table.rows, strict=True)
    )
    shown = rich.table.Table(*(rich.table.Column(name, overflow="fold") for name in names), box=None, pad_edge=False)
    for cells in measures:
        shown.add_row(*cells)
    return shown


def write_comparison(found: Comparison, path: str | Path, kind: str | None = None) -> None:
    """Writes the table as "csv", "tex" (LaTeX) or "markdown", by default by the ending of the file's name."""
    target, table = Path(path), comparison_sheet(found)
    kind = kind or {".csv": "csv", ".tex": "tex", ".md": "markdown"}.get(target.suffix)
    if kind == "csv":
        write_csv(table, target)
        return
    if kind not in ("tex", "markdown"):
        raise InputError(f"a comparison is written as .csv, .tex or .md, got {target.name}")
    with replacing(target) as part:
        part.write_text(latex_table(table, "comparison") if kind == "tex" else markdown_table(table) + "\n", "utf-8")
