"""How words on the command line are taken: commands are imported when used, and slips are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

import click
from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """Imports a command only to run it or to print its help.

    A mistyped command gets a suggestion. An option that takes one value is refused if it is given twice.
    """

    known: Mapping[str, str]
    """Each command and what it does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.known:
            return None
        command: click.Command = import_module(f"counterpop.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.known and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.known)}"
            raise click.UsageError(f"no such command {args[0]!r}; {remedy}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:  # which is set while a shell completes
            _check_given_once(command, rest, str(name), ctx)
        return name, command, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands by their names, without importing any, and options."""
        commands = [CompletionItem(name, help=text) for name, text in self.known.items() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.known.items()))


def _check_given_once(command: click.Command, args: list[str], name: str, parent: click.Context) -> None:
    """Raises `click.UsageError` if an option that takes one value is given twice; click would take the last."""
    context = click.Context(command, info_name=name, parent=parent)
    _, _, order = command.make_parser(context).parse_args(list(args))
    for param, times in Counter(order).items():
        if not isinstance(param, click.Option) or param.multiple or param.count:
            continue
        if times > 1 and (param.secondary_opts or not param.is_flag):
            options = " or ".join([*param.opts[-1:], *param.secondary_opts])
            raise click.UsageError(f"{options} was given {times} times, but takes one value", context)
