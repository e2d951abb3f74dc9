"""counterpop split"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.progress import output, working
from counterpop.readers import read_interactions
from counterpop.splits import PROTOCOLS, Carve

ONLY_FOR = {"as-given": ("carve",), "mixed": ("proportion",)}  # options of one protocol
COLUMNS = ("user", "item", "rating", "min_rating", "time", "header")


class Amount(click.ParamType[float]):
    """A share (0.1) or, for the uniform protocol, a number of pairs of each item (4)."""

    name = "F"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return int(value) if str(value).isdigit() and int(value) > 0 else float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


@click.command(epilog="Example: counterpop split log.csv --protocol uniform --test 0.1 --valid 0.1 --out SPLIT")
@click.argument("data", type=click.Path())
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), required=True, help="How the parts are drawn.")
@click.option(
    "--test", type=Amount(), help="Share of the test part; uniform also takes a number of pairs of each item."
)
@click.option("--valid", type=Amount(), help="Share of the validation part, or a number of pairs of each item.")
@click.option("--out", type=click.Path(), required=True, help="The split folder to write.")
@click.option("--user", default="user", show_default=True, help="Column of user ids.")
@click.option("--item", default="item", show_default=True, help="Column of item ids.")
@click.option("--rating", help="Column of ratings, for --min-rating.")
@click.option("--min-rating", type=float, help="Drop rows rated lower.")
@click.option("--time", help="Column of timestamps.")
@click.option("--split-column", help="Column of the log's own split, for as-given.")
@click.option("--header/--no-header", default=True, help="Whether the first line names the columns.")
@click.option(
    "--carve",
    type=click.Choice(get_args(Carve)),
    default="auto",
    show_default=True,
    help="as-given: how to draw a missing validation part from train; auto: the way the test was drawn.",
)
@click.option("--proportion", type=float, default=1.0, show_default=True, help="mixed: intervened share of test.")
@click.option("--ordinary", type=float, default=0.0, show_default=True, help="Share of train kept for `tune --floor`.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@shell
def command(data: str, protocol: str, out: str, quiet: bool, **options: Any) -> dict[str, Any]:
    """Split a log into train, validation and test, and save the parts with a manifest.

    DATA is csv, tsv, parquet, npz, RecBole .inter, or text lines "user item item ...".

    \b
    as-given    the log's own split column (0 train, 1 train intervened, 2 validation, 3 test)
    random      every pair is equally likely: as biased as the log
    temporal    the latest pairs are test
    uniform     the same number of pairs of every item (as in MACR)
    intervened  drawn as if items were exposed evenly (as in DICE)
    mixed       a share of the test part, --proportion, is intervened
    """
    settings = {name: options[name] for name in ("test", "valid") if options[name] is not None}
    if protocol == "as-given" and settings:
        raise click.UsageError("--test and --valid do not go with as-given, which uses the split column of the log")
    if options["user"] == options["item"]:
        raise click.UsageError(f"--user and --item both name {options['user']!r}")
    artifacts.check_target(out, "split")
    settings |= {name: options[name] for name in ("seed", "ordinary", *ONLY_FOR.get(protocol, ()))}
    with working(f"reading {data}"):
        columns = {name: options[name] for name in COLUMNS}
        log = read_interactions(data, split=protocol == "as-given" and options["split_column"], **columns)
    with working("splitting"):
        split = PROTOCOLS[protocol](log, **settings)
        artifacts.save_split(split, out)
    sizes = {"users": log.n_users, "items": log.n_items, "pairs": len(log), "merged": log.merged}
    if not quiet:
        parts = ", ".join(f"{count:,} {name}" for name, count in split.manifest.counts.items() if count)
        output.print(
            f"{log.n_users:,} users x {log.n_items:,} items, {len(log):,} pairs: {parts}. "
            f"Validation part: {split.manifest.drawn}. Wrote {out}."
        )
        if log.merged:
            output.print(f"{log.merged:,} rows repeated a pair and were merged into it.")
    return asdict(split.manifest) | sizes | {"validation": split.manifest.drawn, "out": out}
