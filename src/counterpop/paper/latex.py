"""Tables as LaTeX with booktabs, to be pasted into a paper."""

from __future__ import annotations

from typing import Any

from counterpop.paper.results import Table

_SPECIAL = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"\textdagger{}",
    "–": "--",
    "’": "'",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def latex_table(table: Table, label: str, show: Any) -> str:
    """The table as a float; `show` turns a cell into text. Needs \\usepackage{booktabs}.

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
        lines.append(f"{' & '.join(_cell(value, show) for value in row)} \\\\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"\\par\\smallskip\\footnotesize {escape(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape(text: str) -> str:
    """Text that LaTeX prints as it is.

    >>> escape("5 % of a_b & c")
    '5 \\\\% of a\\\\_b \\\\& c'
    """
    return "".join(_SPECIAL.get(char, char) for char in text)


def _cell(value: Any, show: Any) -> str:
    if isinstance(value, dict):  # the mark as a superscript, the interval in small print
        mark = f"$^{{{escape(value['mark'])}}}$" if value.get("mark") else ""
        mark = mark.replace("*", r"{*}").replace(r"\textdagger{}", r"\dagger")
        mean, _, interval = show(value | {"mark": ""}).partition(" ")
        return f"{mean}{mark}" + (f" {{\\scriptsize {escape(interval)}}}" if interval else "")
    return escape(show(value))


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return value.replace(".", "", 1).isdigit() or not value
    return value is None or isinstance(value, int | float | dict)


def _is_grouped(table: Table) -> bool:
    firsts = [row[0] for row in table.rows]
    return len(set(map(str, firsts))) < len(firsts)
