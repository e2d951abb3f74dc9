"""counterpop doctor"""

from __future__ import annotations

from typing import Any

import click

from counterpop.cli import shell
from counterpop.cli.options import seed_option
from counterpop.cli.progress import output, working
from counterpop.doctor import diagnose


@click.command(epilog="Example: counterpop doctor --folder runs")
@click.option(
    "--folder", type=click.Path(), default=".", show_default=True, help="Where runs will be written; checked for space."
)
@seed_option()
@shell
def command(folder: str, seed: int, quiet: bool) -> dict[str, Any]:
    """Say what this installation has and lacks, and check its numbers against known truth.

    Shows versions, cores, GPUs, the extras with the command that installs what is missing, whether a folder can be
    written, and a self-test of a few seconds. Exits with 1 if something is wrong; a missing extra is not.
    """
    with working("checking"):
        found = diagnose(folder)
    if not quiet:
        _print(found)
    return found | ({"exit_code": 1} if found["problems"] else {})


def _print(found: dict[str, Any]) -> None:
    machine, here = found["machine"], found["folder"]
    output.print(", ".join(f"{name} {number}" for name, number in found["versions"].items()) + ".")
    gpus = "; ".join(machine["gpus"]) or "no GPU found"
    output.print(f"{machine['system']}, {machine['processors']} cores, {machine['threads']} threads used, {gpus}.")
    for extra, state in found["extras"].items():
        lacks = ", ".join(state["missing"])
        output.print(f"{extra}: lacks {lacks}; {state['install']}" if lacks else f"{extra}: there")
    state = "can be written" if here["writable"] else "cannot be written"
    output.print(f"{here['path']} {state}, {here['free_bytes'] / 1e9:,.1f} GB free.")
    for check in found["checks"]:
        word = "right" if check["passed"] else "WRONG"
        output.print(f"{word}: {check['name']}, {check['got']:.4g} ({check['seconds']:.1f} s)")
    for problem in found["problems"]:
        output.print(f"Problem: {problem}.")
    if not found["problems"]:
        output.print("Everything works.")
