"""Options that several commands share; what differs between commands, mostly the help, is passed as a keyword."""

from __future__ import annotations

import math
from functools import partial
from typing import get_args

import click

from counterpop.tuning import Target


def _read_floors(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """{"ndcg": 0.98} from ("ndcg=0.98",)."""
    floors = {}
    for value in values:
        name, _, share = value.partition("=")
        try:
            floors[name] = float(share)
        except ValueError:
            floors[name] = math.nan
        if not 0 < floors[name] <= 1:
            raise click.BadParameter(f"{value!r} is not a metric and a share up to 1, as in ndcg=0.98")
    return floors


_option = partial(click.option, show_default=True)
k_option = partial(_option, "--k", type=click.IntRange(min=1), default=20, help="Length of the recommendation lists.")
seed_option = partial(
    _option, "--seed", type=click.IntRange(min=0), default=0, help="Ignored: this command is deterministic."
)
target_option = partial(
    _option,
    "--target",
    type=click.Choice(get_args(Target)),
    default="recall",
    help="Metric to optimise on the validation part.",
)
floor_option = partial(
    click.option,
    "--floor",
    multiple=True,
    callback=_read_floors,
    metavar="METRIC=SHARE",
    help="Keep at least this share of the plain model's metric on the ordinary validation part.",
)
