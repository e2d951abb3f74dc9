"""Tables, figures, and self-contained HTML pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterpop.auditing import Audit
from counterpop.debiasing import Debiasing
from counterpop.errors import InputError
from counterpop.outputs import replacing
from counterpop.readers import Labels
from counterpop.reporting.audit_tables import audit_table, changes_table, history_table
from counterpop.reporting.findings import RunReport
from counterpop.reporting.printing import print_page
from counterpop.reporting.summary import summarise
from counterpop.reporting.tables import comparison_table, gain_and_price

__all__ = ["RunReport", "audit_table", "changes_table", "comparison_table", "gain_and_price", "history_table"]
__all__ += ["summarise"]
__all__ += ["debiasing_page", "write_audit", "write_debiasing", "write_history", "write_page", "write_report"]


def write_report(
    reports: Sequence[RunReport], path: Path, title: str = "What the adjustment gives and what it costs"
) -> None:
    """Writes one HTML page about the runs, which opens in any browser without a network."""
    if not reports:
        raise InputError("a report needs at least one run, got none")
    from counterpop.reporting.run_page import render_runs  # imports plotly, which is slow

    write_page(render_runs(reports, title), path)


def write_audit(
    audits: Mapping[str, Audit],
    path: Path,
    title: str = "What is recommended, and to whom?",
    document: Mapping[str, Any] | None = None,
) -> None:
    """Writes one HTML page about audits for the same log, which opens in any browser without a network.

    `document` (see `artifacts.make_document`) adds when and of what it is, what moved, rules and the record. A path
    that ends in .pdf makes a PDF, if there is a Chromium to print it.
    """
    if not audits:
        raise InputError("an audit page needs at least one audit, got none")
    from counterpop.reporting.audit_page import render_audit

    text = render_audit(audits, title, document)
    if path.suffix.lower() == ".pdf":
        print_page(text, path)
    else:
        write_page(text, path)


def write_history(documents: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Writes one HTML page about audits over time, oldest first, which opens in any browser without a network."""
    from counterpop.reporting.history_page import render_history

    write_page(render_history(documents), path)


def write_debiasing(found: Debiasing, path: Path, name: str = "The model", labels: Labels | None = None) -> None:
    """Writes one HTML page about a result of `debias`, which opens in any browser without a network.

    `labels` say what items are called (`read_labels`). A page that `counterpop debias` wrote is made again by
    `write_debiasing(counterpop.load("FIX"), path, name)`.
    """
    write_page(debiasing_page(found, name, labels), path)


def debiasing_page(found: Debiasing, name: str = "The model", labels: Labels | None = None) -> str:
    """The text of that page."""
    from counterpop.reporting.debias_page import render_debiasing

    return render_debiasing(found, name, labels)


def write_page(text: str, path: Path) -> None:
    """Writes a page; an older file is replaced only once the new one is complete."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
