"""counterpop split"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click
from click.core import ParameterSource

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import force_option, log_options, pop_columns
from counterpop.cli.progress import fraction, output, working
from counterpop.outputs import place_of, temporary
from counterpop.readers import read_interactions
from counterpop.splits import PROTOCOLS, Carve, Split, split_from_logs

ONLY_FOR = {"as-given": ("carve",), "mixed": ("proportion",)}  # options of one protocol
PROTOCOL_OF = {"carve": "as-given", "split_column": "as-given", "proportion": "mixed"}


class Amount(click.ParamType[float]):
    """A share (0.1) or, for the uniform protocol, a number of pairs of each item (4)."""

    name = "F"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return int(value) if str(value).isdigit() and 0 < int(value) < 1 << 31 else float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)


@click.command(
    epilog="""\b
Example: counterpop split log.csv --protocol uniform --test 0.1 --valid 0.1 --out SPLIT
Separate files:
         counterpop split --train train.txt --valid valid.txt --test test.txt --out SPLIT
"""
)
@click.argument("data", type=click.Path(), required=False)
@click.option("--protocol", type=click.Choice(list(PROTOCOLS)), help="How the parts of DATA are drawn.")
@click.option("--train", type=click.Path(), help="Instead of DATA: the file of the train part.")
@click.option(
    "--test",
    metavar="F|FILE",
    help="Share of the test part; uniform also takes a number of pairs of each item. With --train: its file.",
)
@click.option(
    "--valid",
    metavar="F|FILE",
    help="Share of the validation part, or a number of pairs of each item. With --train: its file, if there is one.",
)
@click.option("--out", type=click.Path(), required=True, help="The split folder to write.")
@force_option()
@log_options
@click.option("--time", help="Column of timestamps. [default: timestamp, in .inter files]")
@click.option("--split-column", help="Column of the log's own split, for as-given.")
@click.option("--drop-repeated", is_flag=True, help="With --train: keep a pair of two files only in the earlier part.")
@click.option(
    "--carve",
    type=click.Choice(get_args(Carve)),
    default="auto",
    show_default=True,
    help="as-given, --train: how to draw a missing validation part from train; auto: the way the test was drawn; "
    "matched: like a uniform test, with its users and with weights.",
)
@click.option("--proportion", type=float, default=1.0, show_default=True, help="mixed: intervened share of test.")
@click.option(
    "--ordinary",
    type=float,
    help="Share of train held out as observed, which shows what an adjustment costs. "
    "[default: 0.05; random and temporal: 0]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@shell
def command(data: str | None, train: str | None, out: str, force: bool, quiet: bool, **options: Any) -> dict[str, Any]:
    """Split a log into train, validation and test, and save the parts with a manifest.

    DATA is csv, tsv, parquet, npz, RecBole .inter, or .txt with lines "user item item ..." or "user item rating". With
    --train and --test, each part is a file of its own; without --valid, a validation part is carved out of train.

    \b
    as-given    the log's own split column (0 train, 1 train intervened, 2 validation, 3 test)
    random      every pair is equally likely: as biased as the log
    temporal    the latest pairs are test
    uniform     the same number of pairs of every item (as in MACR)
    intervened  drawn as if items were exposed evenly (as in DICE)
    mixed       a share of the test part, --proportion, is intervened
    """
    columns = pop_columns(options) | {"time": options["time"]}
    if (data is None) == (train is None) or (data is None) == (options["protocol"] is not None):
        raise click.UsageError("give DATA and --protocol, or one file each as --train and --test")
    _check_usage(data, options)
    with artifacts.claimed(out, "split", force), temporary(place_of(out), folder=True) as scratch:
        split, n_rows = _split_log(data, columns, options, scratch) if data else _split_files(train, columns, options)
        source = click.get_current_context().get_parameter_source
        if source("carve") != ParameterSource.DEFAULT and split.manifest.drawn == "given":
            raise click.UsageError("--carve has no effect, because the log has a validation part of its own")
        with working("writing"):
            artifacts.save_split(split, out)
    counts = split.manifest.counts
    pairs = sum(counts.values()) - counts["intervened"]  # which train includes
    sizes = {"users": split.train.n_users, "items": split.train.n_items, "pairs": pairs, "merged": n_rows - pairs}
    if not quiet:
        parts = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        output.print(
            f"{sizes['users']:,} users x {sizes['items']:,} items, {pairs:,} pairs: {parts}. "
            f"Validation part: {split.manifest.drawn}. Wrote {out}."
        )
        if sizes["merged"]:
            output.print(f"{sizes['merged']:,} rows repeated a pair and were merged into it.")
    return asdict(split.manifest) | sizes | {"validation": split.manifest.drawn, "out": out}


def _check_usage(data: str | None, options: dict[str, Any]) -> None:
    """Raises `click.UsageError` if an option would be ignored."""
    source = click.get_current_context().get_parameter_source
    for name, protocol in PROTOCOL_OF.items():
        carves = name == "carve" and data is None and options["valid"] is None
        if source(name) != ParameterSource.DEFAULT and options["protocol"] != protocol and not carves:
            also = ", or --train without --valid" if name == "carve" else ""
            raise click.UsageError(f"--{name.replace('_', '-')} works only together with --protocol {protocol}{also}")
    if options["drop_repeated"] and data is not None:
        raise click.UsageError("--drop-repeated works only together with --train")


def _split_log(data: str, columns: dict[str, Any], options: dict[str, Any], scratch: Path) -> tuple[Split, int]:
    """The split of one file, and the number of rows read; the rows of a very large one are in the folder `scratch`."""
    protocol = options["protocol"]
    settings = {name: Amount()(options[name]) for name in ("test", "valid") if options[name] is not None}
    if protocol == "as-given" and settings:
        raise click.UsageError("--test and --valid do not go with as-given, which uses the split column of the log")
    names = ("seed", "ordinary", *ONLY_FOR.get(protocol, ()))
    settings |= {name: options[name] for name in names if options[name] is not None}
    with fraction(f"reading {data}") as show:
        own = protocol == "as-given" and options["split_column"]
        log = read_interactions(data, split=own, scratch=scratch, report=show, **columns)
    with working("splitting"):
        return PROTOCOLS[protocol](log, **settings), len(log) + log.merged


def _split_files(train: str | None, columns: dict[str, Any], options: dict[str, Any]) -> tuple[Split, int]:
    """The split that separate files make, and the number of rows read."""
    paths = {"train": train} | {name: options[name] for name in ("test", "valid") if options[name] is not None}
    if "test" not in paths:
        raise click.UsageError("--train needs a file as --test")
    with working("reading"):
        logs = {name: read_interactions(path, split=False, **columns) for name, path in paths.items()}
    names = ("drop_repeated", "carve", "ordinary", "seed")
    settings: dict[str, Any] = {name: options[name] for name in names if options[name] is not None}
    with working("splitting"):
        return split_from_logs(**(logs | settings)), sum(len(log) + log.merged for log in logs.values())
