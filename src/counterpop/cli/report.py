"""counterpop report"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.options import (
    holdout_options,
    k_option,
    names_options,
    pop_given_columns,
    pop_labels,
    seed_option,
    users_option,
)
from counterpop.cli.progress import output, working
from counterpop.outputs import check_writable, place_of
from counterpop.reporting import summarise, write_report


@click.command(epilog="Example: counterpop report RUN OTHER_RUN --names films.csv --out report.html")
@click.argument("runs", type=click.Path(), nargs=-1, required=True)
@click.option("--out", type=click.Path(), required=True, help="HTML file to write.")
@k_option()
@holdout_options
@names_options
@users_option()
@seed_option(help="Seed of the bootstrap, of a sample of users and of the even draw from --holdout.")
@shell
def command(runs: tuple[str, ...], out: str, k: int, seed: int, quiet: bool, **options: Any) -> dict[str, Any]:
    """Compare models on one self-contained page that opens without a network.

    RUNS are folders that train or debias wrote. Those of debias without a later log need one here (--holdout). With
    --names, items have titles and categories.
    """
    if len(set(runs)) < len(runs):
        raise click.UsageError("each run can be compared only once, but one is named twice")
    about = pop_labels(options)
    how: dict[str, Any] = {"columns": pop_given_columns(options), "about": about}
    how |= {name: options[name] for name in ("holdout", "users")}
    check_writable(out)
    names = [place_of(path).name for path in runs]
    reports = []
    for path, name in zip(runs, names, strict=True):
        with working(f"measuring {path}"):
            # runs with the same folder name are shown with their whole path
            reports.append(replace(summarise(path, k, seed, **how), name=name if names.count(name) == 1 else path))
    write_report(reports, Path(out))
    if not quiet:
        output.print(f"Wrote {out} ({Path(out).stat().st_size / 1e6:.1f} MB).")
    return {"out": out, "runs": {path: r.evaluation.to_json() for path, r in zip(runs, reports, strict=True)}}
