"""At the end, one block with all counts, for docs/reliability.md."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from victims import ROWS

import counterpop as cp


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(words, capture_output=True, text=True).stdout.strip() or "no commit"
    when, failed = datetime.now(UTC).date(), len(terminalreporter.stats.get("failed", []))
    about = f"{when}, commit {commit}, counterpop {cp.__version__}, Python {platform.python_version()}"
    lines = [
        f"{about}, {platform.system()}; {failed} tests failed.",
        "",
        "| what | how often | result |",
        "|---|---|---|",
    ]
    lines += [f"| {what} | {how_often} | {result} |" for what, how_often, result in ROWS]
    terminalreporter.write_line("\n" + "\n".join(lines) + "\n")
