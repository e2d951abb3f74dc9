"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import click

from counterpop.tuning import Target

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

k_option = click.option(
    "--k", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the recommendation lists."
)


def seed_option(help: str = "Ignored: this command is deterministic.") -> Decorator:
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=help)


def target_option(on: str = "validation") -> Decorator:
    return click.option(
        "--target",
        type=click.Choice(get_args(Target)),
        default="recall",
        show_default=True,
        help=f"Metric to optimise on {on}.",
    )


def floor_option(on: str) -> Decorator:
    return click.option(
        "--floor",
        multiple=True,
        callback=_read_floors,
        metavar="METRIC=SHARE",
        help=f"Keep at least this share of the plain model's metric on {on}.",
    )


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
