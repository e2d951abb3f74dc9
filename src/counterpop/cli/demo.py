"""counterpop demo"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.options import force_option, seed_option
from counterpop.cli.progress import output, training_progress
from counterpop.demo import make_demo
from counterpop.reporting.findings import headline
from counterpop.reporting.terminal import short_table


@click.command(epilog="Example: counterpop demo --out demo")
@click.option("--out", type=click.Path(), required=True, help="Folder for the log, the runs and the pages.")
@click.option("--users", type=click.IntRange(min=100), default=3000, show_default=True, help="Users in the world.")
@click.option("--items", type=click.IntRange(min=100), default=1000, show_default=True, help="Items in the world.")
@click.option("--epochs", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of epochs.")
@seed_option(help="Seed of the world, the split and training.")
@force_option(help="Replace the demo in the folder, if there is one.")
@shell
def command(out: str, users: int, items: int, epochs: int, seed: int, force: bool, quiet: bool) -> dict[str, Any]:
    """Run everything on a synthetic world whose users' true taste is known.

    Draws a log in which popular items are over-exposed. Trains a plain model and one with the gradient method, tunes
    the second on validation, and compares both on a test part that is uniform over items, and with the true taste.
    Writes DIR/report.html, DIR/audit.html, DIR/run and DIR/baseline.
    """
    with training_progress(quiet) as show:
        reports = make_demo(out, users, items, epochs, seed, force=force, on_progress=show)
    if not quiet:
        truth = reports["run"].truth or {}
        output.print(
            headline(reports["run"].evaluation),
            "",
            short_table(list(reports.values())),
            "",
            f"Of the items that users truly like most, the lists find {truth['plain']:.1%} before the adjustment "
            f"and {truth['adjusted']:.1%} after. Open {Path(out) / 'report.html'}.",
            sep="\n",
        )
    runs = {name: one.evaluation.to_json() | {"true_taste_recall": one.truth} for name, one in reports.items()}
    return {"out": out, **runs}
