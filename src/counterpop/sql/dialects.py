"""What differs between the engines that the SQL is written for."""

from __future__ import annotations

from typing import Literal, get_args

from counterpop.errors import InputError

Dialect = Literal["duckdb", "postgresql", "spark"]


def check_dialect(dialect: Dialect) -> None:
    """Raises `InputError` unless SQL can be written for this engine."""
    if dialect not in get_args(Dialect):
        raise InputError(f"the dialect must be one of {', '.join(get_args(Dialect))}, got {dialect!r}")


def quote(name: str, dialect: Dialect) -> str:
    """A column's name in the engine's quotation marks.

    >>> quote("user", "postgresql"), quote("user", "spark")
    ('"user"', '`user`')
    """
    mark = "`" if dialect == "spark" else '"'
    return mark + name.replace(mark, 2 * mark) + mark


def in_dialect(text: str, dialect: Dialect) -> str:
    """The text with the engine's name for a number of 64 bits."""
    return text.replace("DOUBLE PRECISION", "DOUBLE") if dialect == "spark" else text
