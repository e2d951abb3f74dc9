"""Messages of the library in the words of the command line: arguments become options."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

_VALUE = r"(True|False|None|'[^']*'|[\w.]+)?"
_HINTED = re.compile(rf"\b[a-z]\w*={_VALUE} \((?:[a-z]+: )?(--[^)]*)\)")  # min_rating= (--min-rating)
_WORD = re.compile(r"\b([a-z]\w*) \((--([a-z-]+)[^)]*)\)")  # holdout (--holdout FILE)
# point='gain', drop_unknown=True, item=, but not the path runs/seed=3/x
_GIVEN = re.compile(rf"(?<![\w./-])([a-z]\w*)={_VALUE}(?![\w/-]|\.\w)")
_FIRST = re.compile(r"^([a-z]\w*)(?= (?:must|goes|is a share)\b)")  # k must be at least 1
_SNAKE = re.compile(r"(?<![\w'\"`./-])([a-z]+(?:_[a-z]+)+)(?![\w'\"`./(=])")


def in_options(text: str, options: Mapping[str, str]) -> str:
    """The text with arguments as options, given by the names of the arguments; what is no option stays.

    >>> options = {"min_rating": "--min-rating", "point": "--point", "drop_unknown": "--drop-unknown", "k": "--k"}
    >>> in_options("pass min_rating= (--min-rating) to drop low ones", options)
    'pass --min-rating to drop low ones'
    >>> in_options("k must be at least 1; leave out drop_unknown=True, or pass point='gain'", options)
    '--k must be at least 1; leave out --drop-unknown, or pass --point gain'
    >>> in_options("pass one as holdout (--holdout FILE)", options)
    'pass one as --holdout FILE'
    """

    def hinted(found: re.Match[str]) -> str:
        return found[2]

    def word(found: re.Match[str]) -> str:
        return found[2] if found[1].replace("_", "-") == found[3] else found[0]

    def given(found: re.Match[str]) -> str:
        if found[1] not in options:
            return found[0]
        value = (found[2] or "").strip("'")
        return options[found[1]] + (f" {value}" if value not in ("", "True", "False", "None") else "")

    def named(found: re.Match[str]) -> str:
        return options.get(found[1], found[0])

    for pattern, write in ((_HINTED, hinted), (_WORD, word), (_GIVEN, given), (_FIRST, named), (_SNAKE, named)):
        text = pattern.sub(write, text)
    return text


def current_options() -> dict[str, str]:
    """The options of the command that is running, by the names of their arguments."""
    context = click.get_current_context(silent=True)
    params = context.command.params if context else []
    return {str(one.name): one.opts[-1] for one in params if isinstance(one, click.Option)}
