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
from counterpop.reporting.comparing import comparison_sentences, comparison_sheet, printed_table, write_comparison
from counterpop.reporting.findings import RunReport
from counterpop.reporting.printing import print_page
from counterpop.reporting.summary import summarise, summarise_run
from counterpop.reporting.tables import comparison_table, gain_and_price
from counterpop.runs import Run
from counterpop.splits import Split
from counterpop.tuning import Tuned

__all__ = ["RunReport", "audit_table", "changes_table", "comparison_table", "gain_and_price", "history_table"]
__all__ += ["comparison_sentences", "comparison_sheet", "printed_table", "write_comparison"]
__all__ += ["report", "summarise", "summarise_run"]
__all__ += ["debiasing_page", "write_audit", "write_debiasing", "write_history", "write_page", "write_report"]


Page = str | Path | Run | Debiasing | Audit
"""What a page can be about: a run folder, a run, a result of `debias`, an audit."""


def report(
    subject: Page | Sequence[str | Path] | Mapping[str, Audit],
    path: str | Path,
    *,
    split: Split | None = None,
    tuned: Tuned | None = None,
    k: int = 20,
    seed: int = 0,
) -> Path:
    """Writes one HTML page, which opens in any browser without a network, and returns its path.

    `subject` is a run folder or several, which are compared; a run in memory, together with its `split` and, if it was
    tuned, with what `tune` returned; a result of `debias`; an audit, or several of the same log by name. `k` and `seed`
    are those of `evaluate`, for runs.
    """
    target = Path(path)
    if isinstance(subject, Debiasing):
        write_debiasing(subject, target)
    elif isinstance(subject, Audit):
        write_audit({"Recommendations": subject}, target)
    elif isinstance(subject, Mapping):
        write_audit(subject, target)
    elif isinstance(subject, Run):
        if split is None:
            raise InputError(
                "a run is measured on test for its page, which takes its split: report(run, path, split=...)"
            )
        write_report([summarise_run(subject, split, tuned, k, seed)], target)
    else:
        folders = [subject] if isinstance(subject, str | Path) else subject
        write_report([summarise(folder, k, seed) for folder in folders], target)
    return target


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
