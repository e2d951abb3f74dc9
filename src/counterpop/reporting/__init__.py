"""Tables, figures, and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from counterpop.errors import InputError
from counterpop.reporting.findings import RunReport
from counterpop.reporting.tables import comparison_table

__all__ = ["RunReport", "comparison_table", "write_report"]


def write_report(
    reports: Sequence[RunReport], path: Path, title: str = "How much of it is popularity?"
) -> None:
    """Writes one HTML page about the runs; it opens in any browser without a network.

    The page takes the place of an older file only once it is complete.
    """
    if not reports:
        raise InputError("a report needs at least one run, got none")
    from counterpop.reporting.page import render_page  # plotly is slow to import and only needed here

    text = render_page(reports, title)
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
