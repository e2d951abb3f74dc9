"""counterpop tune"""

from __future__ import annotations

from typing import Any, get_args

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import floor_option, k_option, seed_option, target_option
from counterpop.cli.progress import output, working
from counterpop.directions import ItemDirection, UserDirection
from counterpop.tuning import tune

WHICH = "Direction to remove from {} vectors. [default: ledger; {} if the run has none]"


@click.command(epilog="Example: counterpop tune RUN --target recall --floor ndcg=0.98")
@click.argument("run", type=click.Path())
@target_option()
@floor_option()
@k_option()
@click.option("--item-direction", type=click.Choice(get_args(ItemDirection)), help=WHICH.format("item", "head-mean"))
@click.option("--user-direction", type=click.Choice(get_args(UserDirection)), help=WHICH.format("user", "mean"))
@seed_option()
@shell
def command(run: str, seed: int, quiet: bool, **options: Any) -> dict[str, Any]:
    """Choose item and user strength on the validation part and write them into the run folder.

    All 121 pairs of strengths from 0 to 2 are measured in one pass. The test part is not opened. MACR has only a
    user strength, its c. IPS, CausE and DICE have no strengths, so theirs stay 0; naming a direction applies the
    gradient method's adjustment to them.
    """
    saved, target = artifacts.load_run(run), options["target"]
    with working("measuring every pair of strengths"):
        tuned = tune(saved.run, artifacts.load_development(run), **options)
    grid, strengths = tuned.grid, {"item_strength": tuned.item_strength, "user_strength": tuned.user_strength}
    artifacts.save_tuning(run, tuned, grid, options)
    plain, adjusted = grid.at(0.0, 0.0), grid.at(**strengths)
    if not quiet and len(grid.item_strengths) == len(grid.user_strengths) == 1:
        output.print(
            f"{saved.run.settings['method']} has no strengths to tune, so they are 0: validation {target} "
            f"{plain[target]:.4f}. Wrote them into {run}."
        )
    elif not quiet:
        output.print(
            f"item strength {tuned.item_strength}, user strength {tuned.user_strength}: validation {target} "
            f"{plain[target]:.4f} plain, {adjusted[target]:.4f} adjusted. Wrote them into {run}."
        )
    return {"run": run, **strengths, "users": grid.users, "plain": plain, "adjusted": adjusted, **options}
