"""counterpop evaluate"""

from __future__ import annotations

from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.progress import output, working
from counterpop.cli.report import summarise
from counterpop.evaluation import On, compare
from counterpop.reporting import comparison_table


@click.command(epilog="Example: counterpop evaluate RUN --on test --k 20 --json")
@click.argument("run", type=click.Path())
@click.option("--on", type=click.Choice(["valid", "test"]), default="test", show_default=True, help="Which part.")
@click.option("--k", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option("--against", type=click.Path(), help="Another run of the same split: a paired test between the two.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap.")
@shell
def command(run: str, on: On, k: int, against: str | None, seed: int, quiet: bool) -> dict[str, Any]:
    """Measure a run on a held-out part, plain and adjusted, with 95 % intervals.

    Recall, hit rate and NDCG go over the users who have a held-out item; average popularity, tail share,
    coverage, Gini and the five popularity groups say what the lists expose. Train items are never ranked; on
    test, validation items are left out only if the model was refit on them.
    """
    reports = []
    for path in [run, *([against] if against else [])]:
        with working(f"measuring {path}"):
            reports.append(summarise(path, k, seed, on))
    evaluations = [report.evaluation for report in reports]
    result = {"run": run, **evaluations[0].to_json()}
    if against:
        result["against"] = {
            "run": against,
            **evaluations[1].to_json(),
            "difference": compare(evaluations[0].adjusted, evaluations[1].adjusted, seed=seed),
        }
    if not quiet:
        output.print(comparison_table(reports))
    return result
