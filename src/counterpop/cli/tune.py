"""counterpop tune"""

from __future__ import annotations

from typing import Any, get_args

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import floor_option, k_option, seed_option, target_option
from counterpop.cli.progress import output, working
from counterpop.directions import ItemDirection, UserDirection
from counterpop.tuning import Target, tune


@click.command(epilog="Example: counterpop tune RUN --target recall --floor ndcg=0.98")
@click.argument("run", type=click.Path())
@target_option()
@floor_option()
@k_option()
@click.option("--item-direction", type=click.Choice(get_args(ItemDirection)), help="[default: the ledger's]")
@click.option("--user-direction", type=click.Choice(get_args(UserDirection)), help="[default: the ledger's]")
@seed_option()
@shell
def command(
    run: str,
    target: Target,
    floor: dict[str, float],
    k: int,
    item_direction: ItemDirection | None,
    user_direction: UserDirection | None,
    seed: int,
    quiet: bool,
) -> dict[str, Any]:
    """Choose item and user strength on the validation part and write them into the run folder.

    All 121 pairs of strengths from 0 to 2 are measured in one pass. The test part is not opened. MACR has a
    user strength alone, its c; IPS, CausE and DICE have none, so theirs stay 0, unless a direction is named:
    that asks for the gradient method's adjustment on top of them.
    """
    saved = artifacts.load_run(run)
    with working("measuring every pair of strengths"):
        adjustment = tune(
            saved.run,
            artifacts.load_development(run),
            target=target,
            floor=floor,
            k=k,
            item_direction=item_direction,
            user_direction=user_direction,
        )
    how = {"target": target, "floor": floor, "k": k, "item_direction": item_direction, "user_direction": user_direction}
    artifacts.save_tuning(run, adjustment, adjustment.grid, how)
    plain, chosen = (
        adjustment.grid.at(0.0, 0.0),
        adjustment.grid.at(adjustment.item_strength, adjustment.user_strength),
    )
    if not quiet and len(adjustment.grid.item_strengths) == len(adjustment.grid.user_strengths) == 1:
        output.print(
            f"{saved.run.settings['method']} has no strengths of its own, so they are 0: validation "
            f"{target} {plain[target]:.4f}. Wrote that into {run}."
        )
    elif not quiet:
        output.print(
            f"item strength {adjustment.item_strength}, user strength {adjustment.user_strength}: validation "
            f"{target} {plain[target]:.4f} plain, {chosen[target]:.4f} adjusted. Wrote them into {run}."
        )
    return {
        "run": run,
        "item_strength": adjustment.item_strength,
        "user_strength": adjustment.user_strength,
        "users": adjustment.grid.users,
        "plain": plain,
        "adjusted": chosen,
        **how,
    }
