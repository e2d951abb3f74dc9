"""counterpop compare"""

from __future__ import annotations

from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.options import k_option, seed_option
from counterpop.cli.progress import output, working
from counterpop.comparison import compare
from counterpop.evaluation import On
from counterpop.outputs import check_writable
from counterpop.reporting import comparison_sentences, comparison_sheet, printed_table, write_comparison


@click.command(
    epilog="""\b
Example: counterpop compare RUN BASELINE OTHER --tex table.tex
Several seeds of each:
         counterpop train SPLIT --seeds 5 --out RUN && counterpop tune RUN
         counterpop train SPLIT --seeds 5 --method plain --out BASELINE
         counterpop compare RUN BASELINE
"""
)
@click.argument("runs", type=click.Path(), nargs=-1, required=True)
@click.option(
    "--on", type=click.Choice(["valid", "test"]), default="test", show_default=True, help="Part to measure on."
)
@k_option()
@click.option("--plain", is_flag=True, help="Also show the lists of each model at strengths 0.")
@click.option("--csv", type=click.Path(), help="Write the table as CSV.")
@click.option("--tex", type=click.Path(), help="Write the table as LaTeX (booktabs).")
@click.option("--markdown", type=click.Path(), help="Write the table as Markdown.")
@seed_option()
@shell
def command(
    runs: tuple[str, ...], on: On, k: int, plain: bool, seed: int, quiet: bool, **files: str | None
) -> dict[str, Any]:
    """Compare models of the same split: the first against each other one, on the same users.

    RUNS are folders that train or debias wrote, or folders of several seeds (train --seeds). All are measured on the
    split of the first. Differences are paired over users and include the scatter of seeds; p-values are corrected by
    Holm for the number of differences. With one seed each, they say nothing about other seeds.
    """
    wanted = {kind: path for kind, path in files.items() if path is not None}
    for path in wanted.values():
        check_writable(path)
    with working("measuring"):
        found = compare(runs, on=on, k=k, plain=plain)
    for kind, path in wanted.items():
        write_comparison(found, path, kind)
    if not quiet:
        table = comparison_sheet(found)
        output.print(f"{table.title}.", printed_table(table), *table.notes, *comparison_sentences(found), sep="\n")
        for path in wanted.values():
            output.print(f"Wrote {path}.")
    return {"runs": list(runs), **found.to_json(), **({"files": wanted} if wanted else {})}
