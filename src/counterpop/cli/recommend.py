"""counterpop recommend"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.progress import console, working
from counterpop.errors import InputError

WRITERS = {".csv": "write_csv", ".parquet": "write_parquet", ".jsonl": "write_ndjson", ".ndjson": "write_ndjson"}


def read_users(users: str) -> list[str]:
    """The ids in a file, one a line, or in the argument itself, between commas."""
    path = Path(users)
    try:
        text = path.read_text() if path.is_file() else users.replace(",", "\n")
    except UnicodeDecodeError:
        raise InputError(f"{users} must be a text file with one user id a line, but it is not text") from None
    ids = [line.strip() for line in text.splitlines() if line.strip()]
    if not ids:
        raise InputError("--users names nobody; give a file with one id a line, or ids between commas")
    return ids


@click.command(epilog="Example: counterpop recommend RUN --users 17,42 --k 20 --item-strength 0.6 --out lists.csv")
@click.argument("run", type=click.Path())
@click.option("--users", help="A file with one id a line, or id,id,... [default: everybody]")
@click.option("--k", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option("--item-strength", type=float, help="[default: the tuned one]")
@click.option("--user-strength", type=float, help="[default: the tuned one]")
@click.option("--out", type=click.Path(), help="csv, parquet or jsonl by its ending. [default: csv on stdout]")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Takes no part: ranking is exact.")
@shell
def command(
    run: str,
    users: str | None,
    k: int,
    item_strength: float | None,
    user_strength: float | None,
    out: str | None,
    seed: int,
    quiet: bool,
) -> dict[str, Any]:
    """Write the best k items for users: user, rank, item, score.

    Items of a user's train and validation pairs are left out; those of the test part are not.
    """
    if out and Path(out).suffix not in WRITERS:
        raise InputError(f"--out must end in {', '.join(WRITERS)}, got {out}")
    model = artifacts.load(run)
    seen, vectors = model.seen, model.embeddings
    at = np.arange(seen.n_users, dtype=np.int32) if users is None else seen.user_positions(read_users(users))
    model = model.with_strengths(
        model.item_strength if item_strength is None else item_strength,
        model.user_strength if user_strength is None else user_strength,
    )
    with working(f"ranking for {len(at):,} users"):
        items, scores = model.recommend(at, k)
    row, place = np.nonzero(items >= 0)
    table = pl.DataFrame(
        {
            "user": vectors.user_ids[at[row]].tolist(),
            "rank": place + 1,
            "item": vectors.item_ids[items[row, place]].tolist(),
            "score": scores[row, place],
        }
    )
    if out:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        getattr(table, WRITERS[Path(out).suffix])(out)
        console.print(f"Wrote {len(table):,} recommendations for {len(at):,} users to {out}.")
    elif not quiet:
        click.echo(table.write_csv(), nl=False)
    strengths = {"item_strength": model.item_strength, "user_strength": model.user_strength}
    result = {"run": run, "users": len(at), "k": k, "out": out, **strengths}
    return result if out else result | {"recommendations": table.to_dicts()}
