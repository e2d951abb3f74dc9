"""Tables of figures with their intervals, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpop.outputs import replacing

_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"\textdagger{}",
    "–": "--",
    "±": r"$\pm$",
    "’": "'",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


@dataclass(frozen=True)
class Table:
    """Rows of cells: text, numbers, a figure with its interval (see `Spread.to_json`), or None if missing.

    A figure may have a "mark", which follows its mean.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[list[Any]]
    notes: tuple[str, ...] = ()


def format_cell(value: Any) -> str:
    """A cell as text; None is shown as "missing", never as a number.

    >>> format_cell(None), format_cell(1234), format_cell(0.12345), format_cell(1234.56), format_cell("x")
    ('missing', '1,234', '0.1235', '1,234.6', 'x')
    >>> format_cell({"mean": 0.2, "low": 0.1, "high": 0.3, "seeds": 3})
    '0.2000 (0.1000 to 0.3000)'
    >>> format_cell({"mean": 0.2, "low": None, "high": None, "seeds": 1, "mark": "**"})
    '0.2000**'
    >>> format_cell({"mean": 0.2, "std": 0.01, "low": 0.1, "high": 0.3, "seeds": 5, "mark": "*"})
    '0.2000* ± 0.0100'
    """
    if value is None:
        return "missing"
    if isinstance(value, dict):
        digits = ",.1f" if abs(value["mean"]) >= 100 else ".4f"
        interval = f" ({value['low']:{digits}} to {value['high']:{digits}})" if value["low"] is not None else ""
        if value.get("std") is not None:  # several seeds say more than the users of one
            interval = f" ± {value['std']:{digits}}"
        return f"{value['mean']:{digits}}{value.get('mark', '')}{interval}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown_table(table: Table) -> str:
    """The table with its title and notes."""
    lines = [table.columns, ["---"] * len(table.columns), *([format_cell(v) for v in row] for row in table.rows)]
    body = "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)
    return "\n\n".join([f"**{table.title}**", body, *table.notes])


def write_csv(table: Table, path: Path) -> None:
    """A column of figures becomes several: mean, low, high, seeds, and mark if one of them has a mark."""
    columns: list[list[Any]] = []
    for n, title in enumerate(table.columns):
        values = [row[n] for row in table.rows]
        names = distinct(name for value in values if isinstance(value, dict) for name in value)
        for name in names:
            own = [
                value.get(name) if isinstance(value, dict) else (value if name == "mean" else None) for value in values
            ]
            columns.append([title if name == "mean" else f"{title} {name}", *own])
        if not names:
            columns.append([title, *values])
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(zip(*columns, strict=True))


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of their first place."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def latex_table(table: Table, label: str) -> str:
    """The table as a float, to be pasted into a paper. Needs \\usepackage{booktabs}.

    Columns of numbers are aligned to the right. Rows that begin with the same word as the one before belong together;
    a rule sets groups apart.
    """
    numeric = [all(_is_number(row[n]) for row in table.rows) for n in range(len(table.columns))]
    lines = [
        r"\begin{table}[tbp]",
        r"\centering",
        f"\\caption{{{escape(table.title)}}}",
        f"\\label{{tab:{label}}}",
        f"\\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
        r"\toprule",
        f"{' & '.join(map(escape, table.columns))} \\\\",
        r"\midrule",
    ]
    for n, row in enumerate(table.rows):
        if n and row[0] != table.rows[n - 1][0] and _is_grouped(table):
            lines.append(r"\midrule")
        lines.append(f"{' & '.join(_cell(value) for value in row)} \\\\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"\\par\\smallskip\\footnotesize {escape(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape(text: str) -> str:
    """Text that LaTeX prints as it is.

    >>> escape("5 % of a_b & c")
    '5 \\\\% of a\\\\_b \\\\& c'
    """
    return "".join(_SPECIAL.get(char, char) for char in text)


def _cell(value: Any) -> str:
    if isinstance(value, dict):  # the mark as a superscript, the interval in small print
        mark = f"$^{{{escape(value['mark'])}}}$" if value.get("mark") else ""
        mark = mark.replace("*", r"{*}").replace(r"\textdagger{}", r"\dagger")
        mean, _, interval = format_cell(value | {"mark": ""}).partition(" ")
        return f"{mean}{mark}" + (f" {{\\scriptsize {escape(interval)}}}" if interval else "")
    return escape(format_cell(value))


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value.replace(".", "", 1).isdigit() or not value
    return value is None or isinstance(value, int | float | dict)


def _is_grouped(table: Table) -> bool:
    firsts = [row[0] for row in table.rows]
    return len(set(map(str, firsts))) < len(firsts)
