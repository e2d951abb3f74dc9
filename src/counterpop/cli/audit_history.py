"""counterpop audit-history"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from counterpop.artifacts import read_history
from counterpop.auditing import DEFINITIONS
from counterpop.cli import shell
from counterpop.cli.options import seed_option
from counterpop.cli.progress import output
from counterpop.reporting import history_table, write_history


@click.command(epilog="Example: counterpop audit-history audits --html history.html")
@click.argument("folder", type=click.Path(), metavar="DIR")
@click.option("--html", type=click.Path(), help="Write a self-contained page to this file.")
@seed_option()
@shell
def command(folder: str, html: str | None, seed: int, quiet: bool) -> dict[str, Any]:
    """Show how audits changed over time.

    Reads every audit in a folder (the JSON files that `audit --out` wrote, also by older versions) and shows one line
    per measure: in the terminal the first, the last and the difference, on the page every audit with its interval.
    Audits with the same --title form one line.
    """
    documents = read_history(folder)
    if html:
        Path(html).parent.mkdir(parents=True, exist_ok=True)
        write_history(documents, Path(html))
    if not quiet:
        for title in dict.fromkeys(document["title"] for document in documents):
            output.print(history_table([one for one in documents if one["title"] == title]), soft_wrap=False)
        if html:
            output.print(f"Wrote {html}.")
    told = ("file", "title", "date", "counterpop", "k", "users", "verdict")
    return {
        "audits": [{name: document.get(name) for name in told} for document in documents],
        "measures": {name: [document.get(name) for document in documents] for name in DEFINITIONS},
        "intervals": {
            name: [(document.get("intervals") or {}).get(name) for document in documents] for name in DEFINITIONS
        },
        **({"html": html} if html else {}),
    }
