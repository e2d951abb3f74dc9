"""counterpop audit"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from counterpop.adapters.sources import Sources
from counterpop.artifacts import (
    Subject,
    audit_saved,
    audit_schema,
    make_document,
    make_record,
    read_statements,
    together,
)
from counterpop.auditing import DEFINITIONS, Outcome, Rule, read_rule, to_junit, weigh_popularity, write_tables
from counterpop.cli import shell
from counterpop.cli.options import (
    LOG_OPTIONS,
    explain_option,
    log_options,
    names_options,
    pop_columns,
    pop_labels,
    seed_option,
    users_option,
)
from counterpop.cli.progress import console, output, working
from counterpop.encoding import to_json
from counterpop.errors import InputError
from counterpop.jobs import audit_lists, audit_vectors
from counterpop.outputs import check_writable
from counterpop.readers import LabelSources, read_interactions
from counterpop.reporting import audit_table, changes_table, write_audit, write_page
from counterpop.reporting.terminal import short_audit_table

K = 20  # default length of a model's lists
BROKEN = 3  # exit code if a rule is broken
SOURCES = tuple(field.name for field in fields(Sources))
NEEDS = {  # options that would be ignored without another one
    "recommendations": ("list_user", "list_item", "rank", "score", "keep_unknown"),
    "interactions": (*LOG_OPTIONS, "time", "holdout"),
    "attributes": ("attributes_user", "attribute"),
    "fail_if": ("junit",),
    "record": ("declared",),
}


def _print_schema(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(to_json(audit_schema(), indent=2))
        ctx.exit()


def _read_rules(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> list[Rule]:
    try:
        return [read_rule(text) for text in texts]
    except InputError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    epilog="""\b
Example: counterpop audit RUN --html audit.html
Any other system:
         counterpop audit --recommendations lists.csv --interactions log.parquet --html audit.html
Every month, against the last one:
         counterpop audit --recommendations lists.csv --interactions log.parquet \\
             --title "Shop, home page" --out audits/2026-11.json \\
             --against audits/2026-10.json --fail-if "change tail_share < -0.02"
Two systems side by side:
         counterpop audit --recommendations old.csv --recommendations new.csv --interactions log.parquet
docs/audit.md explains every part.
"""
)
@click.argument("runs", type=click.Path(), nargs=-1, metavar="[RUN]...")
@click.option(
    "--recommendations",
    type=click.Path(),
    multiple=True,
    help="Lists of any system: user, item, and optionally rank or score. Repeat it to compare several.",
)
@click.option("--user-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--item-vectors", type=click.Path(), help="npy, npz, safetensors or parquet.")
@click.option("--model", type=click.Path(), help="Instead of vectors: implicit's npz, Spark's ALSModel, RecBole's pth.")
@click.option("--user-ids", type=click.Path(), help="Ids of the user vectors: npy, or text with one per line.")
@click.option("--item-ids", type=click.Path(), help="Ids of the item vectors: npy, or text with one per line.")
@click.option("--interactions", type=click.Path(), help="The log that the lists or vectors were made from.")
@click.option("--holdout", type=click.Path(), help="A later log with what users liked, for equal opportunity.")
@log_options
@click.option("--time", help="Column of times in the logs, for the period that the audit states.")
@click.option("--list-user", help="Column of user ids in the lists. [default: same as in the logs]")
@click.option("--list-item", help="Column of item ids in the lists. [default: same as in the logs]")
@click.option("--rank", help="Column to sort the lists by, 1 is best. [default: rank, if there is one]")
@click.option("--score", help="Column to sort the lists by, highest is best. [default: score, if there is one]")
@click.option("--k", type=click.IntRange(min=1), help="Length of the lists. [default: 20; of given lists, the longest]")
@click.option("--keep-unknown", is_flag=True, help="Count ids that the log lacks as having no interactions.")
@click.option("--drop-unknown", is_flag=True, help="Leave out ids of the log that have no vector.")
@names_options
@click.option("--attributes", type=click.Path(), help="Table with attributes of the users.")
@click.option("--attributes-user", help="Column of user ids in that table. [default: same as in the logs]")
@click.option("--attribute", multiple=True, help="Column to group users by in that table (age group); repeatable.")
@click.option("--title", default="", help="Service and surface, as they should appear on the page.")
@click.option("--note", default="", help="Anything else a reader should know.")
@click.option("--against", type=click.Path(), help="An older audit (--out): show what moved since, and what is noise.")
@click.option(
    "--fail-if",
    multiple=True,
    callback=_read_rules,
    metavar="RULE",
    help='Exit with code 3 if this holds: "popularity_lift > 1.5", "tail_share < 10 %", or with --against '
    '"change gini > 0.05", which ignores changes that may be noise. Repeatable.',
)
@click.option("--junit", type=click.Path(), help="Write the outcome of the rules as JUnit XML, for CI.")
@click.option("--record", is_flag=True, help="Add what European rules on transparent recommenders ask to be kept.")
@click.option("--declared", type=click.Path(), help="TOML file with what only the team can state in the record.")
@click.option("--html", type=click.Path(), help="Write a self-contained page; a name that ends in .pdf makes a PDF.")
@click.option("--csv", type=click.Path(), help="Write every table as CSV into this folder.")
@click.option("--out", type=click.Path(), help="Write the audit as JSON, for --against and audit-history.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON schema of an audit and exit.",
)
@users_option()
@explain_option()
@seed_option(help="Seed of a sample of users, and of the pairs on which the order of vectors is checked.")
@shell
def command(runs: tuple[str, ...], quiet: bool, **options: Any) -> dict[str, Any]:
    """Audit what recommendations expose, and to whom.

    Give one of three things: a RUN that counterpop trained; the lists of any system (--recommendations) and the log
    behind them; or vectors (--user-vectors and --item-vectors, or --model) and the log they were trained on.

    The audit compares what is shown with what users chose: a verdict, about 25 measures (each with its definition,
    interval, grade and what it means here), the items, categories and users concerned. A run is audited as trained
    and as adjusted, for the users of its train part: for all of them, or for a sample if there are very many.
    """
    _check_usage(runs, options)
    for name in ("html", "out", "junit"):
        if options[name]:
            check_writable(options[name])
    if options["csv"]:
        check_writable(Path(options["csv"]) / "measures.csv")
    rules, stated = options["fail_if"], read_statements(options["declared"]) if options["declared"] else {}
    with working("reading and measuring"):
        subject = _audit(runs, options)
        how = {name: options[name] for name in ("title", "note", "against")}
        document = make_document(subject, **how, rules=rules)
        if options["record"]:
            counts = {name: subject.audits[name].item_counts for name in subject.models}
            weights = {name: weigh_popularity(subject.models[name], counts[name], options["seed"]) for name in counts}
            texts = [rule.text for rule in rules]
            document["record"] = make_record(document, subject.main, weights, stated, texts)
    outcomes = [Outcome(**outcome) for outcome in document.get("rules", [])]
    written = _write(subject, document, outcomes, options)
    if not quiet:
        _print(subject, document, written, options["explain"])
    for outcome in outcomes:
        if outcome.broken:
            console.print(f"Broken: fail if {outcome.rule} ({outcome.lists}): {outcome.sentence}.")
    broken = any(outcome.broken for outcome in outcomes)
    return document | written | ({"exit_code": BROKEN} if broken else {})


def _audit(runs: Sequence[str], options: dict[str, Any]) -> Subject:
    """Everything that was asked for, audited, with all files that were read."""
    about = pop_labels(
        dict(options),
        attributes=options["attributes"],
        user=options["attributes_user"] or options["user"],
        columns=options["attribute"],
    )
    subjects = [
        audit_saved(run, options["k"] or K, about, users=options["users"], seed=options["seed"]) for run in runs
    ] or _audit_files(options, about)
    sources = [*runs, *options["recommendations"]] or ["vectors"]
    subject = together(dict(zip(_short(sources), subjects, strict=True)))
    roles = ("interactions", "holdout", "names", "attributes", "against", "declared")
    return replace(subject, inputs={**subject.inputs, **{role: [options[role]] for role in roles if options[role]}})


def _short(paths: Sequence[str]) -> list[str]:
    """The name of each file without folder and extension; the whole path if two would be the same."""
    names = [Path(path).stem for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


def _audit_files(options: dict[str, Any], about: LabelSources) -> list[Subject]:
    """The audits of other systems from their files."""
    columns = pop_columns(dict(options)) | {"time": options["time"]}
    log = read_interactions(options["interactions"], **columns)
    later = read_interactions(options["holdout"], **columns) if options["holdout"] else None
    if options["recommendations"]:
        sides = {side: options[f"list_{side}"] or columns[side] for side in ("user", "item")}
        how = {name: options[name] for name in ("rank", "score", "k", "keep_unknown")}
        return [audit_lists(lists, log, later, about, **sides, **how) for lists in options["recommendations"]]
    sources = Sources(**{name: options[name] for name in SOURCES if options[name]})
    how = {name: options[name] for name in ("drop_unknown", "users", "seed")}
    return [audit_vectors(sources, log, later, about, k=options["k"] or K, **how)]


def _write(
    subject: Subject, document: dict[str, Any], outcomes: Sequence[Outcome], options: dict[str, Any]
) -> dict[str, Any]:
    """Writes the page, the tables, the document and the XML that were asked for; returns their paths."""
    paths = {name: options[name] for name in ("html", "csv", "out", "junit") if options[name]}
    if "html" in paths:
        write_audit(subject.audits, Path(paths["html"]), document=document)
    if "junit" in paths:
        write_page(to_junit(outcomes, document["title"], document["date"]), Path(paths["junit"]))
    if "out" in paths:
        write_page(to_json(document, indent=1) + "\n", Path(paths["out"]))
    if "csv" in paths:
        return paths | {"csv": [str(path) for path in write_tables(subject.audits, Path(paths["csv"]))]}
    return paths


def _print(subject: Subject, document: dict[str, Any], written: dict[str, Any], explain: bool) -> None:
    for name, one in subject.audits.items():
        told = one.verdict.text if explain else f"{one.verdict.headline}. Grade: {one.verdict.grade}."
        output.print(f"{name}: {told}", *one.sentences, "", sep="\n", soft_wrap=False)
    table = audit_table if explain else short_audit_table
    output.print(table(subject.audits), soft_wrap=False)
    if not explain:
        output.print(f"All {len(DEFINITIONS)} measures, with what they mean: --explain, or --html FILE.")
    if "changes" in document:
        output.print(changes_table(document["changes"], f"Since {document['against']['date']}"), soft_wrap=False)
    for name, rows in document.get("between", {}).items():
        output.print(changes_table(rows, f"{name}, compared with {subject.mains[0]}"), soft_wrap=False)
    for name, path in written.items():
        output.print(f"Wrote {path}." if name != "csv" else f"Wrote {len(path)} tables.")


def _check_usage(runs: Sequence[str], options: dict[str, Any]) -> None:
    """Raises `click.UsageError` unless there is one kind of thing to audit and nothing would be ignored."""
    vectors = any(options[name] for name in SOURCES)
    if sum((bool(runs), bool(options["recommendations"]), vectors)) != 1:
        raise click.UsageError("give a RUN, --recommendations, --user-vectors with --item-vectors, or --model")
    if vectors:
        try:
            Sources(**{name: options[name] for name in SOURCES})
        except InputError as error:
            raise click.UsageError(str(error)) from None
    if bool(runs) == bool(options["interactions"]):
        raise click.UsageError("--interactions is needed for lists and vectors, and not allowed for a run")
    source = click.get_current_context().get_parameter_source
    for needed, names in NEEDS.items():
        for name in names:
            if not options[needed] and source(name) != ParameterSource.DEFAULT:
                raise click.UsageError(f"{_option(name)} works only together with {_option(needed)}")
    if options["users"] and options["recommendations"]:
        raise click.UsageError("--users works only together with a run or vectors; given lists are all audited")
    if options["rank"] and options["score"]:
        raise click.UsageError("--rank does not go with --score; lists are sorted by one column")
    if options["drop_unknown"] and not vectors:
        raise click.UsageError("--drop-unknown works only together with vectors")
    if options["attributes"] and not options["attribute"]:
        raise click.UsageError("--attributes needs at least one column to group users by (--attribute)")
    audited = [*runs, *options["recommendations"]]
    if len(set(audited)) < len(audited):
        raise click.UsageError("the same run or file was given twice")
    several = len(runs) > 1 or len(options["recommendations"]) > 1
    if any(rule.change for rule in options["fail_if"]) and not (options["against"] or several):
        raise click.UsageError("a rule about a change needs an older audit to compare with (--against)")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
