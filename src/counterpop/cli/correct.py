"""counterpop correct"""

from __future__ import annotations

from typing import Any, get_args

import click

from counterpop import artifacts
from counterpop.cli import shell
from counterpop.cli.options import force_option, k_option, seed_option, target_option
from counterpop.cli.progress import output, working
from counterpop.corrections import Correction, correct
from counterpop.tuning import Target


@click.command(epilog="Example: counterpop correct RUN --by tten --out CORRECTED")
@click.argument("run", type=click.Path())
@click.option("--by", type=click.Choice(get_args(Correction)), required=True, help="Correction to apply to the scores.")
@target_option()
@k_option()
@seed_option()
@click.option("--out", type=click.Path(), required=True, help="Run folder to write.")
@force_option()
@shell
def command(
    run: str, by: Correction, target: Target, k: int, seed: int, out: str, force: bool, quiet: bool
) -> dict[str, Any]:
    """Apply a common popularity correction to the vectors of a run, for comparison.

    pc raises the scores of rare items; tten divides a score by a power of the item vector's length; head-minus-tail
    removes the difference between popular and other items. Strengths are chosen on the validation part; the test
    part is not opened. The new run does not need `tune`.
    """
    with artifacts.begin_run(out, run, force) as (known, fill):
        saved = artifacts.load_run(run)
        with working(f"measuring the strengths of {by}"):
            corrected = correct(saved.run, known, by, target=target, k=k)
        fill(corrected)
    chosen = corrected.settings["correction"]
    if not quiet:
        strengths = ", ".join(f"{strength:g}" for strength in chosen["strengths"])
        output.print(
            f"{by} at strength {strengths}: validation {target} {chosen['plain']:.4f} before, "
            f"{chosen['valid']:.4f} after. Wrote {out}."
        )
    return {"run": run, "out": out, **chosen}
