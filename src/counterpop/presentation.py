"""How results show themselves: a short line, a table, a small page in a notebook, a picture.

Values come early in the flow, their tables and figures at its end, in `reporting`. This file is the one place that
looks ahead: it imports `reporting` by name, and only once something is shown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

LONGEST_TEXT = 60  # characters of a text in a line


class Shown:
    """A result that prints as one short line, is a table in a notebook, and can be turned into a data frame."""

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        text: str = import_module("counterpop.reporting.notebook").to_html(self)
        return text

    @overload
    def to_frame(self, library: Literal["polars"] = "polars") -> pl.DataFrame: ...
    @overload
    def to_frame(self, library: Literal["pandas"]) -> Any: ...
    def to_frame(self, library: Literal["polars", "pandas"] = "polars") -> Any:
        """The numbers as a data frame of polars, or of pandas if that is asked for."""
        return import_module("counterpop.reporting.frames").make_frame(self, library)


class Pictured(Shown):
    """A result that can also be drawn."""

    def plot(self) -> go.Figure:
        """The result as a plotly figure."""
        return import_module("counterpop.reporting.notebook").draw(self)


def describe(value: object, whole: bool = True) -> str:
    """A value in one line: numbers and texts as they are, arrays by their shape, results inside it by their numbers.

    What is None, False or empty is left out.
    """
    parts = []
    for field in fields(value) if is_dataclass(value) else ():
        held = getattr(value, field.name) if field.repr else None
        if text := _scalar(held) or (_other(held) if whole else ""):
            parts.append(f"{field.name}={text}")
    return f"{type(value).__name__}({', '.join(parts) or '...'})"


def _scalar(value: object) -> str:
    if isinstance(value, bool | int):
        return "" if value is False else repr(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str | Path) and str(value):
        return repr(str(value)) if len(str(value)) <= LONGEST_TEXT else f"{str(value)[:LONGEST_TEXT]!r}..."
    return ""


def _other(value: object) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"<{value.dtype} {' x '.join(map(str, value.shape))}>"
    if isinstance(value, Shown):
        return describe(value, whole=False) if type(value).__repr__ is Shown.__repr__ else repr(value)
    if isinstance(value, tuple) and 0 < len(value) < 3 and all(map(_scalar, value)):
        return f"({', '.join(map(_scalar, value))})"
    if isinstance(value, Collection) and len(value):
        return f"<{len(value)} entries>"
    return describe(value, whole=False) if is_dataclass(value) else ""
