"""counterpop report"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.progress import output, working
from counterpop.evaluation import On, evaluate
from counterpop.reporting import RunReport, write_report


def summarise(path: str | Path, k: int = 20, seed: int = 0, on: On = "test") -> RunReport:
    """What there is to say of one run folder, measured on a held-out part."""
    saved, split = artifacts.load_run(path), artifacts.load_split(path)
    return RunReport(
        Path(path).resolve().name,
        saved.run.settings | {"versions": saved.manifest["versions"]},
        saved.run.history,
        evaluate(artifacts.recommender_of(saved, split.development, on), split, on, k, seed=seed),
        artifacts.trained_on(saved, split.development, on).item_counts,
        saved.grid,
        saved.run.ledger,
    )


@click.command(epilog="Example: counterpop report RUN OTHER_RUN --out report.html")
@click.argument("runs", type=click.Path(), nargs=-1, required=True)
@click.option("--out", type=click.Path(), required=True, help="The page to write.")
@click.option("--k", type=click.IntRange(min=1), default=20, show_default=True, help="Length of the lists.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap.")
@shell
def command(runs: tuple[str, ...], out: str, k: int, seed: int, quiet: bool) -> dict[str, Any]:
    """Compare runs on one self-contained page that opens without a network."""
    if len(set(runs)) < len(runs):
        raise click.UsageError("each run is compared once, but one is named twice")
    names = [Path(path).resolve().name for path in runs]
    reports = []
    for path, name in zip(runs, names, strict=True):
        with working(f"measuring {path}"):
            # runs of one name are told apart by their whole path
            reports.append(replace(summarise(path, k, seed), name=name if names.count(name) == 1 else path))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    write_report(reports, Path(out))
    if not quiet:
        output.print(f"Wrote {out} ({Path(out).stat().st_size / 1e6:.1f} MB).")
    return {"out": out, "runs": {path: r.evaluation.to_json() for path, r in zip(runs, reports, strict=True)}}
