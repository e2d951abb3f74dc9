"""counterpop evaluate"""

from __future__ import annotations

from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.options import k_option, seed_option
from counterpop.cli.progress import output, working
from counterpop.evaluation import On, compare
from counterpop.reporting import comparison_table, summarise


@click.command(epilog="Example: counterpop evaluate RUN --on test --k 20 --json")
@click.argument("run", type=click.Path())
@click.option(
    "--on", type=click.Choice(["valid", "test"]), default="test", show_default=True, help="Part to measure on."
)
@k_option()
@click.option("--against", type=click.Path(), help="Another run of the same split, to compare with in a paired test.")
@seed_option(help="Seed of the bootstrap.")
@shell
def command(run: str, on: On, k: int, against: str | None, seed: int, quiet: bool) -> dict[str, Any]:
    """Measure a run on held-out data, plain and adjusted, with 95 % intervals.

    Recall, hit rate and NDCG are means over the users who have a held-out item. Average popularity, tail share,
    coverage, Gini and the five popularity groups describe what the lists expose. Train items are never ranked; on
    test, validation items are left out only if the model was refit on them.
    """
    reports = []
    for path in [run, *([against] if against else [])]:
        with working(f"measuring {path}"):
            reports.append(summarise(path, k, seed, on))
    evaluations = [report.evaluation for report in reports]
    validation = reports[0].settings["validation"]
    result = {"run": run, "validation": validation, **evaluations[0].to_json()}
    if against:
        difference = compare(evaluations[0].adjusted, evaluations[1].adjusted, seed=seed)
        result["against"] = {"run": against, **evaluations[1].to_json(), "difference": difference}
    if not quiet:
        output.print(comparison_table(reports))
        output.print(f"Validation part of {run}: {validation}.")
    return result
