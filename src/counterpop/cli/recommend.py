"""counterpop recommend"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import k_option, seed_option
from counterpop.cli.progress import console, working
from counterpop.errors import InputError
from counterpop.outputs import check_writable, replacing

WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}


@click.command(epilog="Example: counterpop recommend RUN --users 17,42 --k 20 --item-strength 0.6 --out lists.csv")
@click.argument("run", type=click.Path())
@click.option("--users", help="File with one user id per line, or id,id,... [default: all users]")
@k_option()
@click.option("--item-strength", type=float, help="Strength of the item adjustment. [default: the tuned one]")
@click.option("--user-strength", type=float, help="Strength of the user adjustment. [default: the tuned one]")
@click.option("--out", type=click.Path(), help="File to write: .csv, .parquet or .jsonl. [default: csv to stdout]")
@seed_option()
@shell
def command(run: str, users: str | None, k: int, out: str | None, quiet: bool, **options: Any) -> dict[str, Any]:
    """Write the best k items for each user: user, rank, item, score.

    RUN is a folder that train or debias wrote. Items that users are known to have touched are left out: of a run those
    of train and validation, not of test; of what debias wrote those of its log, not of its holdout.
    """
    if out and Path(out).suffix not in WRITERS:
        raise InputError(f"--out must end in {', '.join(WRITERS)}, got {out}")
    if out:
        check_writable(out)
    model = artifacts.load(run)
    names = ("item_strength", "user_strength")
    strengths = {name: getattr(model, name) if options[name] is None else options[name] for name in names}
    if any(options[name] is not None for name in names):
        model = model.with_strengths(**strengths)  # the same for all users
    seen = model.seen
    at = np.arange(seen.n_users, dtype=np.int32) if users is None else seen.user_positions(read_users(users))
    with working(f"ranking for {len(at):,} users"):
        items, scores = model.recommend(at, k)
    row, place = np.nonzero(items >= 0)
    columns = {
        "user": seen.user_ids[at[row]].tolist(),
        "rank": place + 1,
        "item": seen.item_ids[items[row, place]].tolist(),
        "score": scores[row, place],
    }
    table = pl.DataFrame(columns)
    if out:
        with replacing(out) as part:
            getattr(table, WRITERS[Path(out).suffix])(part)
        console.print(f"Wrote {len(table):,} recommendations for {len(at):,} users to {out}.")
    elif not quiet:
        click.echo(table.write_csv(), nl=False)
    result = {"run": run, "users": len(at), "k": k, "out": out, **strengths}
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
