"""counterpop debias"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from counterpop.adapters.sources import Sources
from counterpop.cli import shell
from counterpop.cli.options import (
    check_price,
    direction_options,
    explain_option,
    floor_option,
    force_option,
    k_option,
    log_options,
    names_options,
    point_option,
    pop_columns,
    pop_labels,
    price_option,
    seed_option,
    target_option,
    users_option,
)
from counterpop.cli.progress import output, working
from counterpop.debiasing import Debiasing, Effect
from counterpop.drift import Drift
from counterpop.errors import InputError
from counterpop.jobs import check_files, debias_files
from counterpop.reporting.tables import format_figure, format_interval, format_p, points_table
from counterpop.reporting.terminal import OF_POINTS, meanings


@click.command(
    epilog="""\b
Example: counterpop debias --user-vectors users.npy --item-vectors items.npy \\
             --interactions log.parquet --holdout later.parquet --out FIX
A saved model, with a floor:
         counterpop debias --model als.npz --interactions log.csv --floor ndcg=0.95 --out FIX
Does it still fit?
         counterpop debias --check FIX --interactions new.parquet
"""
)
@click.option("--user-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--item-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--model", type=click.Path(), help="Instead of vectors: implicit's npz, Spark's ALSModel, RecBole's pth.")
@click.option("--user-ids", type=click.Path(), help="Ids of the user vectors: npy, or text with one per line.")
@click.option("--item-ids", type=click.Path(), help="Ids of the item vectors: npy, or text with one per line.")
@click.option("--interactions", type=click.Path(), required=True, help="The log the vectors were trained on.")
@click.option("--holdout", type=click.Path(), help="A later log, to tune and test the strengths on.")
@log_options
@names_options
@target_option(help="Metric to optimise on held-out pairs that hold every item about equally often.")
@point_option()
@price_option()
@floor_option(help="Keep at least this share of the plain model's metric on ordinary held-out pairs.")
@k_option()
@direction_options
@click.option("--drop-unknown", is_flag=True, help="Leave out ids of the logs that have no vector.")
@click.option("--write-vectors", is_flag=True, help="Also write the adjusted vectors, with their ids.")
@click.option(
    "--copy-vectors", is_flag=True, help="Keep a copy of the given vectors in the folder, instead of where they are."
)
@click.option(
    "--check",
    type=click.Path(),
    metavar="FIX",
    help="Check whether an adjustment still fits --interactions and the vectors it was made from.",
)
@users_option(help="How many users to tune on, and to test on: all, or a number. [default: all, up to a limit]")
@explain_option()
@seed_option(help="Seed of all random draws.")
@click.option("--out", type=click.Path(), help="Folder for the adjustment and its report.")
@force_option()
@shell
def command(check: str | None, out: str | None, explain: bool, quiet: bool, **options: Any) -> dict[str, Any]:
    """Debias vectors trained by any other model.

    Writes two directions and two strengths, the whole trade-off and a report. Send `query(u)` to the index you
    already have. If there is no significant gain, the output says so and the strengths are 0. Vector files hold a
    matrix `vectors` and, optionally, `ids`; a matrix without ids must be in the order of the log's sorted ids.

    \b
    gain      the most gain, at any price
    balanced  the most gain at a price of at most --price of recall on ordinary held-out pairs
    free      the most gain without a significant loss of recall on ordinary held-out pairs
    """
    if (check is None) == (out is None):
        raise click.UsageError("give --out to write a new adjustment, or --check to check an existing one")
    if check is not None and explain:
        raise click.UsageError("--explain does not go with --check, which prints everything")
    check_price(options)
    paths = {field.name: options.pop(field.name) for field in fields(Sources)}
    try:
        sources = Sources(**paths) if out is not None or any(paths.values()) else None
    except InputError as error:
        raise click.UsageError(str(error)) from None
    if out is not None and sources is not None:
        about, columns = pop_labels(options), pop_columns(options)
        with working("reading") as report:
            found = debias_files(sources, out=out, report=report, columns=columns, about=about, **options)
        if not quiet:
            _print_debiasing(found, out, explain)
        return {"out": out, **found.to_json()}
    if any(options[name] for name in ("holdout", "names", "write_vectors", "copy_vectors", "force")):
        raise click.UsageError("--check takes the new log as --interactions, and writes nothing")
    source = click.get_current_context().get_parameter_source
    pop_labels(options)
    given = {name: value for name, value in options.items() if source(name) != ParameterSource.DEFAULT}
    columns = pop_columns(given)
    with working("reading") as report:
        drift = check_files(str(check), sources=sources, report=report, columns=columns, **given)
    if not quiet:
        _print_drift(drift)
    return {"check": check, **drift.to_json()}


def _line(effect: Effect, metric: str) -> str:
    """A metric before and after, with its intervals and its p-value."""
    before, after = (
        f"{format_figure(metric, getattr(m, metric))} ({format_interval(metric, *m.intervals[metric])})"
        for m in (effect.plain, effect.adjusted)
    )
    p = f", {format_p(effect.comparison[metric]['p_value'])}" if metric in effect.comparison else ""
    return f"{metric} {before} -> {after}{p}"


def _print_debiasing(found: Debiasing, out: str, explain: bool) -> None:
    """The verdict, its reason and the points; with `explain` how it was judged, all figures and what words mean."""
    reason, *more = found.sentences
    more = more if explain else [text for text in more if text.startswith("Warning")]
    output.print(f"{found.headline}.", reason, *more, "", points_table(found.points), "", sep="\n")
    if explain:
        for name, effect in (("Even", found.uniform), ("Ordinary", found.ordinary)):
            output.print(f"{name} held-out pairs, {len(effect.plain.users):,} users: {_line(effect, found.target)}")
    if found.segments is not None and found.by_segment is not None:
        output.print(f"Strengths by {found.segments.by} do better still: {_line(found.by_segment, found.target)}")
    if explain:
        output.print("", meanings(OF_POINTS), "", sep="\n")
    output.print(f"Wrote {out} and {out}/report.html.")


def _print_drift(drift: Drift) -> None:
    output.print(
        f"Cosine of stored and new directions: {drift.item_cosine:.3f} for items, {drift.user_cosine:.3f} for users. "
        f"Strengths {drift.stored[0]} / {drift.stored[1]}; the best on the new data: {drift.best[0]} / {drift.best[1]}."
    )
    for name, effect in (("plain -> stored", drift.against_plain), ("stored -> new", drift.renewed)):
        output.print(f"{name}, {len(effect.plain.users):,} users: {_line(effect, drift.target)}")
    if drift.in_sample:
        output.print("The pairs are from the new log itself: if the model was trained on it, figures are too high.")
    output.print(drift.sentence)
