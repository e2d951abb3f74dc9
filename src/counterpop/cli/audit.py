"""counterpop audit"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from counterpop.adapters.audits import audit_lists, audit_vectors
from counterpop.adapters.sources import Sources
from counterpop.artifacts import audit_run
from counterpop.auditing import Audit, write_tables
from counterpop.cli import shell
from counterpop.cli.options import LOG_OPTIONS, log_options, pop_columns, seed_option
from counterpop.cli.progress import output, working
from counterpop.errors import InputError
from counterpop.readers import LabelSources, read_interactions
from counterpop.reporting import audit_table, write_audit

K = 20  # default length of a model's lists
SOURCES = tuple(field.name for field in fields(Sources))
NEEDS = {  # options that would be ignored without another one
    "recommendations": ("list_user", "list_item", "rank", "score", "keep_unknown"),
    "interactions": (*LOG_OPTIONS, "holdout"),
    "names": ("names_item", "name", "category"),
    "attributes": ("attributes_user", "attribute"),
}


@click.command(
    epilog="""\b
Example: counterpop audit RUN --html audit.html
Any other system:
         counterpop audit --recommendations lists.csv --interactions log.parquet --html audit.html
With names, categories and groups of users, and every table as CSV:
         counterpop audit RUN --names films.csv --category genre --attributes users.csv --attribute age --csv TABLES
"""
)
@click.argument("run", type=click.Path(), required=False)
@click.option(
    "--recommendations", type=click.Path(), help="Lists of any system: user, item, and optionally rank or score."
)
@click.option("--user-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--item-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--model", type=click.Path(), help="Instead of vectors: implicit's npz, Spark's ALSModel, RecBole's pth.")
@click.option("--user-ids", type=click.Path(), help="Ids of the user vectors: npy, or text with one per line.")
@click.option("--item-ids", type=click.Path(), help="Ids of the item vectors: npy, or text with one per line.")
@click.option("--interactions", type=click.Path(), help="The log that the lists or vectors were made from.")
@click.option("--holdout", type=click.Path(), help="A later log with what users liked, for equal opportunity.")
@log_options
@click.option("--list-user", help="Column of user ids in the lists. [default: same as in the logs]")
@click.option("--list-item", help="Column of item ids in the lists. [default: same as in the logs]")
@click.option("--rank", help="Column to sort the lists by, 1 is best. [default: rank, if there is one]")
@click.option("--score", help="Column to sort the lists by, highest is best. [default: score, if there is one]")
@click.option("--k", type=click.IntRange(min=1), help="Length of the lists. [default: 20; of given lists, the longest]")
@click.option("--keep-unknown", is_flag=True, help="Count ids that the log lacks as having no interactions.")
@click.option("--drop-unknown", is_flag=True, help="Leave out ids of the log that have no vector.")
@click.option("--names", type=click.Path(), help="Table with the names of the items, and categories.")
@click.option("--names-item", help="Column of item ids in that table. [default: same as in the logs]")
@click.option("--name", default="name", show_default=True, help="Column of names in that table.")
@click.option("--category", multiple=True, help="Column of categories in that table (genre, provider); repeatable.")
@click.option("--attributes", type=click.Path(), help="Table with attributes of the users.")
@click.option("--attributes-user", help="Column of user ids in that table. [default: same as in the logs]")
@click.option("--attribute", multiple=True, help="Column to group users by in that table (age group); repeatable.")
@click.option("--html", type=click.Path(), help="Write a self-contained page to this file.")
@click.option("--csv", type=click.Path(), help="Write every table as CSV into this folder.")
@seed_option(help="Seed of the pairs on which the order of vectors is checked.")
@shell
def command(run: str | None, html: str | None, csv: str | None, quiet: bool, **options: Any) -> dict[str, Any]:
    """Audit what recommendations expose.

    Audits a run, or vectors and a log, or any system's lists and a log. Reports popularity lift, tail share,
    coverage, Gini, exposure by item group and user segment, miscalibration, ARP, APLT, ACLT, PopRSP, PopREO, expected
    exposure and AWRF, each with its definition, its interval, a grade and what it means for these lists; which items,
    categories and users are concerned; and a verdict. A run is audited as trained and as adjusted, for all users of
    its train part.
    """
    _check_usage(run, options)
    about = _about(options)
    with working("reading and measuring"):
        if run is not None:
            audits, model, _ = audit_run(run, options["k"] or K, about)
            strengths = {"item_strength": model.item_strength, "user_strength": model.user_strength}
            result: dict[str, Any] = {"run": run, **strengths}
        else:
            audits, result = _audit_files(options, about)
    if html:
        Path(html).parent.mkdir(parents=True, exist_ok=True)
        write_audit(audits, Path(html))
        result["html"] = html
    if csv:
        result["csv"] = [str(path) for path in write_tables(audits, Path(csv))]
    if not quiet:
        for name, one in audits.items():
            output.print(f"{name}: {one.verdict.text}", *one.sentences, "", sep="\n", soft_wrap=False)
        output.print(audit_table(audits), soft_wrap=False)
        if html:
            output.print(f"Wrote {html} ({Path(html).stat().st_size / 1e6:.1f} MB).")
        if csv:
            output.print(f"Wrote {len(result['csv'])} tables into {csv}.")
    plain, *_ = dicts = [one.as_dict() for one in audits.values()]
    return result | dicts[-1] | ({"plain": plain} if run is not None else {})


def _about(options: dict[str, Any]) -> LabelSources:
    """Where names, categories and attributes are read from."""
    return LabelSources(
        names=options.pop("names"),
        item=options.pop("names_item") or options["item"],
        name=options.pop("name"),
        categories=options.pop("category"),
        attributes=options.pop("attributes"),
        user=options.pop("attributes_user") or options["user"],
        columns=options.pop("attribute"),
    )


def _audit_files(options: dict[str, Any], about: LabelSources) -> tuple[dict[str, Audit], dict[str, Any]]:
    """The audit of another system under the name of its file, and what --json adds to it."""
    columns = pop_columns(options)
    log = read_interactions(options["interactions"], **columns)
    later = read_interactions(options["holdout"], **columns) if options["holdout"] else None
    if lists := options["recommendations"]:
        columns = {side: options[f"list_{side}"] or columns[side] for side in ("user", "item")}
        how = {name: options[name] for name in ("rank", "score", "k", "keep_unknown")}
        one, order = audit_lists(lists, log, later, about, **columns, **how)
        return {Path(lists).stem: one}, {"recommendations": lists, "order": order}
    paths = {name: options[name] for name in SOURCES if options[name]}
    how = {name: options[name] for name in ("drop_unknown", "seed")}
    one = audit_vectors(Sources(**paths), log, later, about, k=options["k"] or K, **how)
    return {Path(paths.get("model") or paths["item_vectors"]).stem: one}, paths


def _check_usage(run: str | None, options: dict[str, Any]) -> None:
    """Raises `click.UsageError` unless there is one thing to audit and nothing would be ignored."""
    vectors = any(options[name] for name in SOURCES)
    if sum((run is not None, bool(options["recommendations"]), vectors)) != 1:
        raise click.UsageError("give a RUN, --recommendations, --user-vectors with --item-vectors, or --model")
    if vectors:
        try:
            Sources(**{name: options[name] for name in SOURCES})
        except InputError as error:
            raise click.UsageError(str(error)) from None
    if (run is None) != bool(options["interactions"]):
        raise click.UsageError("--interactions is needed for lists and vectors, and not allowed for a run")
    source = click.get_current_context().get_parameter_source
    for needed, names in NEEDS.items():
        for name in names:
            if not options[needed] and source(name) != ParameterSource.DEFAULT:
                raise click.UsageError(f"{_option(name)} works only together with {_option(needed)}")
    if options["drop_unknown"] and not vectors:
        raise click.UsageError("--drop-unknown works only together with vectors")
    if options["attributes"] and not options["attribute"]:
        raise click.UsageError("--attributes needs at least one column to group users by (--attribute)")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
