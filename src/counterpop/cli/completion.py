"""counterpop completion"""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import get_completion_class

from counterpop.cli import main, shell
from counterpop.cli.options import seed_option
from counterpop.cli.progress import output

WHERE = {
    "bash": 'eval "$(counterpop completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(counterpop completion zsh)" in ~/.zshrc',
    "fish": "counterpop completion fish > ~/.config/fish/completions/counterpop.fish",
}


@click.command(epilog="Example: counterpop completion bash >> ~/.bashrc")
@click.argument("name", metavar="SHELL", type=click.Choice(list(WHERE)))
@seed_option()
@shell
def command(name: str, seed: int, quiet: bool) -> dict[str, Any]:
    """Print the script that completes commands and options in a shell.

    \b
    bash  eval "$(counterpop completion bash)" in ~/.bashrc
    zsh   eval "$(counterpop completion zsh)" in ~/.zshrc
    fish  counterpop completion fish > ~/.config/fish/completions/counterpop.fish
    """
    kind = get_completion_class(name)
    if kind is None:
        raise click.UsageError(f"there is no completion for {name}")
    script = kind(main, {}, "counterpop", "_COUNTERPOP_COMPLETE").source()
    if not quiet:
        output.print(script)
    return {"shell": name, "script": script, "use": WHERE[name]}
