"""Options that several commands share; what differs between commands, mostly the help, is passed as a keyword."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

import click
from click.core import ParameterSource

from counterpop.directions import ItemDirection, UserDirection
from counterpop.readers import IDS, LabelSources
from counterpop.tuning import WHICH, Target


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


class Number(click.ParamType[int | str]):
    """A number of users, or all."""

    name = "all|N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value != "all" and not (str(value).isdigit() and int(value) > 0):
            self.fail(f"{value!r} is neither all nor a number of at least 1", param, ctx)
        return "all" if value == "all" else int(value)


_option = partial(click.option, show_default=True)
k_option = partial(_option, "--k", type=click.IntRange(min=1), default=20, help="Length of the recommendation lists.")
users_option = partial(
    click.option,
    "--users",
    type=Number(),
    help="How many users to measure: all, or a number, drawn by activity. [default: all, up to a limit of users x "
    "items; docs/scale.md]",
)
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
force_option = partial(click.option, "--force", is_flag=True, help="Replace the folder if it exists.")
explain_option = partial(
    click.option, "--explain", is_flag=True, help="Also print every figure with its interval, and what the words mean."
)
point_option = partial(
    _option,
    "--point",
    type=click.Choice(WHICH),
    default="balanced",
    help="Point of the frontier of gain against price.",
)
price_option = partial(
    click.option,
    "--price",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of ordinary recall that may be lost. [default: 0.05; any with --floor]",
)


def _direction_options(*more: str) -> tuple[Callable[..., Any], ...]:
    """The options of both directions; those of items have these choices as well."""
    sides = ("item", (*get_args(ItemDirection), *more), "head-mean"), ("user", get_args(UserDirection), "mean")
    return tuple(
        click.option(
            f"--{side}-direction",
            type=click.Choice(kinds),
            help=f"Direction to remove from {side} vectors. [default: ledger; {without} if there is none]",
        )
        for side, kinds, without in sides
    )


_LOG_OPTIONS = (
    _option("--user", default="user", help="Column of user ids in the logs."),
    _option("--item", default="item", help="Column of item ids in the logs."),
    click.option("--rating", help="Column of ratings, for --min-rating. [default: rating]"),
    click.option("--min-rating", type=float, help="Drop rows rated lower."),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first line names the columns; if not: user, item, rating, time.",
    ),
    click.option("--lists", is_flag=True, help='Each line of a .txt file is "user item item ...".'),
)
LOG_OPTIONS = ("user", "item", "rating", "min_rating", "header", "lists")


def _several(options: tuple[Callable[..., Any], ...], function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function


log_options = partial(_several, _LOG_OPTIONS)  # how logs are read
holdout_options = partial(
    _several,
    (
        click.option(
            "--holdout",
            type=click.Path(),
            help="A later log to measure on, for what debias wrote; by default it is read as the log of debias was.",
        ),
        *_LOG_OPTIONS,
    ),
)
_NAMES_OPTIONS = (
    click.option("--names", type=click.Path(), help="Table of items: ids, titles and, if it has some, categories."),
    click.option("--names-item", help="Column of item ids in that table. [default: item, item_id or id]"),
    click.option("--name", help="Column of titles in that table. [default: name or title]"),
    click.option(
        "--category",
        multiple=True,
        help="Column of categories in that table (genre, provider); repeatable. [default: all with 2 to 100 values]",
    ),
)
names_options = partial(_several, _NAMES_OPTIONS)  # what items are called
NAMES_OPTIONS = ("names_item", "name", "category")
direction_options = partial(_several, _direction_options())
direction_or_auto_options = partial(_several, _direction_options("auto"))


def check_needed(**needed: str) -> None:
    """Raises `click.UsageError` if an option was given that has no effect without another: `minutes="auto"`."""
    context = click.get_current_context()
    for name, other in needed.items():
        if context.get_parameter_source(name) != ParameterSource.DEFAULT and not context.params[other]:
            mine, theirs = (f"--{one.replace('_', '-')}" for one in (name, other))
            raise click.UsageError(f"{mine} works only together with {theirs}")


def check_only(*allowed: str, beside: str) -> None:
    """Raises `click.UsageError` if an option was given that has no effect beside something."""
    context = click.get_current_context()
    for one in context.command.params:
        name = str(one.name)
        if name not in allowed and context.get_parameter_source(name) != ParameterSource.DEFAULT:
            raise click.UsageError(f"{one.opts[-1]} does not go with {beside}")


def check_price(options: Mapping[str, Any]) -> None:
    """Raises `click.UsageError` if a price was given for the point that has no limit on it."""
    if options["point"] == "gain" and options["price"] is not None:
        raise click.UsageError("--price does not go with --point gain, which takes the most gain at any price")


def pop_labels(options: dict[str, Any], **users: Any) -> LabelSources:
    """Removes the options about names and returns what they name; `users` are the attributes of users."""
    check_needed(**dict.fromkeys(NAMES_OPTIONS, "names"))
    names = options.pop("names")
    own = {name: options.pop(name) for name in NAMES_OPTIONS}
    item = own["names_item"] or (options.get("item") or IDS[0], *IDS)
    return LabelSources(names, item, own["name"] or "name", own["category"] or None, **users)


def pop_given_columns(options: dict[str, Any]) -> dict[str, Any]:
    """The same, but only those that were given; all of them need a --holdout."""
    check_needed(**dict.fromkeys(LOG_OPTIONS, "holdout"))
    source = click.get_current_context().get_parameter_source
    given = {name: options.pop(name) for name in LOG_OPTIONS}
    given = {name: value for name, value in given.items() if source(name) != ParameterSource.DEFAULT}
    return pop_columns(given)


def pop_columns(options: dict[str, Any]) -> dict[str, Any]:
    """Removes the log options and returns them as keywords of `read_interactions`."""
    columns = {name: options.pop(name) for name in LOG_OPTIONS if name in options}
    if columns.pop("lists", False):
        if columns.get("header") is not None:
            raise click.UsageError("--lists does not go with --header or --no-header")
        columns["header"] = "lists"
    if "user" in columns and columns["user"] == columns.get("item"):
        raise click.UsageError(f"--user and --item both name {columns['user']!r}")
    return columns
