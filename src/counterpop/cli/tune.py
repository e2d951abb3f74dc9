"""counterpop tune"""

from __future__ import annotations

from typing import Any

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import (
    check_price,
    direction_or_auto_options,
    explain_option,
    floor_option,
    k_option,
    point_option,
    price_option,
    seed_option,
    target_option,
    users_option,
)
from counterpop.cli.progress import output, working
from counterpop.panels import Users
from counterpop.reporting.tables import points_table
from counterpop.reporting.terminal import OF_POINTS, meanings
from counterpop.tuning import tune


@click.command(epilog="Example: counterpop tune RUN --point balanced --price 0.05")
@click.argument("run", type=click.Path())
@target_option()
@point_option()
@price_option()
@floor_option()
@k_option()
@direction_or_auto_options
@click.option(
    "--by-user",
    is_flag=True,
    help="Also try item strengths that depend on how far a user's history leans to popular items.",
)
@click.option("--one-dial", is_flag=True, help="Search the item strength alone, in steps of .05.")
@users_option()
@explain_option()
@seed_option(help="Deals the users into folds, and draws a sample of them.")
@shell
def command(run: str, explain: bool, quiet: bool, **options: Any) -> dict[str, Any]:
    """Choose item and user strength on the validation part and write them into the run folder.

    All 169 pairs of strengths from 0 to 2, finer near 0, are measured in one pass. Strengths other than 0 are taken
    only if a paired test on validation users proves a gain: strengths are chosen on nine tenths of the users and
    measured on the rest, ten times. The smallest of those that cannot be told from the best are taken. The test part
    is not opened.
    MACR has only a user strength, its c. Models without strengths (plain, IPS, CausE, DICE) stay at 0; naming a
    direction applies the gradient method's adjustment to them. --item-direction auto takes the default or the
    ridge directions, whichever does better; that choice is part of what is proven. Strengths --by-user are taken
    only if they are significantly better than one strength for all. Where both directions are nearly parallel, one
    strength can do what two do: --one-dial searches it more finely.

    \b
    gain      the grid's maximum, proven or not, as in the paper
    balanced  the most gain at a price of at most --price of recall on the ordinary part
    free      the most gain without a significant loss of recall on the ordinary part

    RUN may also be a folder of several seeds (train --seeds): each run is tuned on its own.
    """
    check_price(options)
    if artifacts.has_seeds(run):
        folders = artifacts.seed_folders(run)
        each = {folder.name: _tune(str(folder), quiet, explain, **options) for folder in folders}
        return {"run": run, "seeds": each}
    return _tune(run, quiet, explain, **options)


def _tune(run: str, quiet: bool, explain: bool, users: Users, **options: Any) -> dict[str, Any]:
    """Tunes one run."""
    saved, target = artifacts.load_run(run), options["target"]
    with artifacts.claimed(run, "run"):
        with working("measuring every pair of strengths"):
            tuned = tune(saved.run, saved.known, users=users, **options)
        grid, chosen = tuned.grid, options | tuned.to_json()
        artifacts.save_tuning(saved, tuned, grid, chosen)
    plain, adjusted = grid.at(0.0, 0.0), tuned.measured
    if not quiet:
        if not tuned.points:
            output.print(f"{saved.run.settings['method']} has no strengths to tune, so they are 0.")
        else:
            output.print(tuned.sentence, "", points_table(tuned.points), "", sep="\n")
        if tuned.sample:
            output.print(tuned.sample.sentence)
        for warning in tuned.warnings:
            output.print(f"Warning: {warning}.")
        output.print(
            f"Validation {target} {plain[target]:.4f} plain, {adjusted[target]:.4f} at the chosen strengths; "
            f"validation part: {tuned.drawn}. Wrote {run}."
        )
        if explain:
            output.print("", meanings(OF_POINTS), sep="\n")
    return {"run": run, "users": grid.users, "plain": plain, "adjusted": adjusted, **chosen}
