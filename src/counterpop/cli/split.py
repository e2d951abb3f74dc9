"""counterpop split"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from counterpop import artifacts, splits
from counterpop.cli import shell
from counterpop.cli.progress import output, working
from counterpop.readers import read_interactions

PROTOCOLS = ("as-given", "random", "temporal", "uniform", "intervened", "mixed")


class Amount(click.ParamType[float]):
    """A share (0.1) or, for the uniform protocol, a whole number for each item (4)."""

    name = "F"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return int(value) if str(value).isdigit() and int(value) > 0 else float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


@click.command(epilog="Example: counterpop split log.csv --protocol uniform --test 0.1 --valid 0.1 --out SPLIT")
@click.argument("data", type=click.Path())
@click.option("--protocol", type=click.Choice(PROTOCOLS), required=True, help="How the parts are drawn.")
@click.option("--test", type=Amount(), help="Share of the test part; uniform also takes a number for each item.")
@click.option("--valid", type=Amount(), help="Share of the validation part, or a number for each item.")
@click.option("--out", type=click.Path(), required=True, help="The split folder to write.")
@click.option("--user", default="user", show_default=True, help="Column of user ids.")
@click.option("--item", default="item", show_default=True, help="Column of item ids.")
@click.option("--rating", help="Column of ratings, for --min-rating.")
@click.option("--min-rating", type=float, help="Leave out rows rated lower.")
@click.option("--time", help="Column of timestamps.")
@click.option("--split-column", help="Column of the log's own split, for as-given.")
@click.option("--header/--no-header", default=True, help="Whether the first line names the columns.")
@click.option(
    "--carve",
    type=click.Choice(["auto", "uniform", "intervened", "random", "temporal"]),
    default="auto",
    show_default=True,
    help="as-given without a validation part: how one is drawn out of train; auto: as the test was.",
)
@click.option(
    "--proportion",
    type=float,
    default=1.0,
    show_default=True,
    help="mixed: share of intervened pairs in the test part.",
)
@click.option(
    "--ordinary",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of train held out as it is, for `tune --floor`.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@shell
def command(
    data: str,
    protocol: str,
    test: float | None,
    valid: float | None,
    out: str,
    user: str,
    item: str,
    rating: str | None,
    min_rating: float | None,
    time: str | None,
    split_column: str | None,
    header: bool,
    carve: splits.Carve,
    proportion: float,
    ordinary: float,
    seed: int,
    quiet: bool,
) -> dict[str, Any]:
    """Cut a log into train, validation and test, and save the parts with a manifest.

    DATA is csv, tsv, parquet, npz, RecBole .inter, or text lines "user item item ...".

    \b
    as-given    the log's own split column (0 train, 1 train intervened, 2 validation, 3 test)
    random      every pair alike: as biased as the log
    temporal    the latest pairs are test
    uniform     the same number of pairs of every item (MACR's way)
    intervened  drawn as if items were exposed evenly (DICE's way)
    mixed       a test part of which --proportion is intervened
    """
    amounts = {name: value for name, value in (("test", test), ("valid", valid)) if value is not None}
    if protocol == "as-given" and amounts:
        raise click.UsageError("--test and --valid do not go with as-given: the log says what is what")
    if user == item:
        raise click.UsageError(f"--user and --item both name {user!r}")
    artifacts.check_target(out, "split")
    with working(f"reading {data}"):
        log = read_interactions(
            data,
            user=user,
            item=item,
            rating=rating,
            min_rating=min_rating,
            time=time,
            header=header,
            split=split_column if protocol == "as-given" else False,
        )
    with working("splitting"):
        if protocol == "as-given":
            made = splits.split_as_given(log, carve=carve, seed=seed, ordinary=ordinary)
        elif protocol == "mixed":
            made = splits.split_mixed(log, proportion, **amounts, seed=seed, ordinary=ordinary)
        else:
            function = getattr(splits, f"split_{protocol}")
            made = function(log, **amounts, seed=seed, ordinary=ordinary)
        artifacts.save_split(made, out)
    result = asdict(made.manifest) | {
        "users": log.n_users,
        "items": log.n_items,
        "pairs": len(log),
        "merged": log.merged,
        "out": out,
    }
    if not quiet:
        parts = ", ".join(f"{count:,} {name}" for name, count in made.manifest.counts.items() if count)
        output.print(f"{log.n_users:,} users x {log.n_items:,} items, {len(log):,} pairs: {parts}. Wrote {out}.")
        if log.merged:
            output.print(f"{log.merged:,} rows repeated a pair and were merged into it.")
    return result
