"""counterpop recommend"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from counterpop import artifacts
from counterpop.adapters.approximate import build_search
from counterpop.cli import shell
from counterpop.cli.options import check_needed, force_option, k_option, names_options, pop_labels, seed_option
from counterpop.cli.progress import console, counting, working
from counterpop.errors import InputError
from counterpop.outputs import check_writable, replacing

WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}


@click.command(
    epilog="""\b
Example: counterpop recommend RUN --users 17,42 --names films.csv --out lists.csv
For everybody, in parts; the same command goes on if it was stopped:
         counterpop recommend RUN --users all --out LISTS
"""
)
@click.argument("run", type=click.Path())
@click.option("--users", help="File with one user id per line, id,id,... or all. [default: all]")
@k_option()
@click.option("--item-strength", type=float, help="Strength of the item adjustment. [default: the tuned one]")
@click.option("--user-strength", type=float, help="Strength of the user adjustment. [default: the tuned one]")
@names_options
@click.option(
    "--approximate",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="RECALL",
    help="Search a FAISS index that finds at least this share of the exact lists; its recall is measured.",
)
@click.option(
    "--out",
    type=click.Path(),
    help="File to write: .csv, .parquet or .jsonl; any other name is a folder of parquet parts. "
    "[default: csv to stdout]",
)
@force_option(help="Replace a folder with other lists.")
@seed_option(help="Seed of an approximate search; the exact one is deterministic.")
@shell
def command(
    run: str, users: str | None, k: int, out: str | None, force: bool, quiet: bool, **options: Any
) -> dict[str, Any]:
    """Write the best k items for each user: user, rank, item, score, and with --names their titles.

    RUN is a folder that train or debias wrote. Items that users are known to have touched are left out: of a run those
    of train and validation, not of test; of what debias wrote those of its log, not of its holdout.
    In a folder, each part of 65,536 users appears complete or not at all, and parts that are there are kept.
    """
    check_needed(seed="approximate")
    in_parts = out is not None and Path(out).suffix not in WRITERS
    if in_parts and Path(str(out)).suffix:
        raise InputError(f"--out must end in {', '.join(WRITERS)}, or be a folder without an extension, got {out}")
    if force and not in_parts:
        raise click.UsageError("--force works only together with a folder as --out; a file is always replaced")
    if out and not in_parts:
        check_writable(out)
    about, model = pop_labels(options), artifacts.load(run)
    titles = labels.names if (labels := about.read(model.seen).get("labels")) else None
    names = ("item_strength", "user_strength")
    strengths = {name: getattr(model, name) if options[name] is None else options[name] for name in names}
    if any(options[name] is not None for name in names):
        model = model.with_strengths(**strengths)  # the same for all users
    known = model.seen
    everybody = users in (None, "all")
    at = np.arange(known.n_users, dtype=np.int32) if everybody else known.user_positions(read_users(str(users)))
    result = {"run": run, "users": len(at), "k": k, "out": out, **strengths}
    find: artifacts.Find = model.recommend
    how = "exact"
    if options["approximate"] is not None:
        with working("building an index"):
            search = build_search(model, options["approximate"], k, options["seed"])
        find, result["recall"] = search.recommend, search.recall
        how = f"approximate {options['approximate']:g}, seed {options['seed']}"
        console.print(f"The index finds {search.recall:.1%} of the exact lists.")
    if in_parts:
        with counting("ranking", len(at)) as show:
            parts: dict[str, Any] = {"find": find, "how": how, "titles": titles, "force": force, "report": show}
            written = artifacts.write_lists(model, str(out), at, k, **parts)
        console.print(f"Wrote {written.parts:,} parts for {len(at):,} users to {out}; {written.kept:,} were there.")
        return result | written._asdict()
    with working(f"ranking for {len(at):,} users"):
        table = artifacts.lists_table(model, at, *find(at, k), titles)
    if out:
        with replacing(out) as part:
            getattr(table, WRITERS[Path(out).suffix])(part)
        console.print(f"Wrote {len(table):,} recommendations for {len(at):,} users to {out}.")
    elif not quiet:
        click.echo(table.write_csv(), nl=False)
    return result if out else result | {"recommendations": table.to_dicts()}


def read_users(users: str) -> list[str]:
    """The ids in a file with one per line, or in the argument itself, separated by commas."""
    path = Path(users)
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else users.replace(",", "\n")
    except UnicodeDecodeError:
        raise InputError(f"{users} must be a text file with one user id per line, but it is not text") from None
    ids = [line.strip() for line in text.splitlines() if line.strip()]
    if not ids:
        raise InputError("--users holds no ids; give a file with one per line, or ids separated by commas")
    return ids
