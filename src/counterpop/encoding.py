"""Values as JSON can hold them; the one place that turns NumPy's numbers and our own values into plain ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def to_plain(value: Any) -> Any:
    """The value in dicts, lists, strings and plain numbers; NaN and infinity become None.

    NumPy numbers and arrays, tuples, paths and frozen dataclasses are converted. Anything else raises TypeError.

    >>> import numpy as np
    >>> to_plain({"a": np.float32(0.5), "b": (np.arange(2), float("nan"))})
    {'a': 0.5, 'b': [[0, 1], None]}
    """
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [to_plain(inner) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def to_json(value: Any, indent: int | None = None, sort_keys: bool = False) -> str:
    """The value as JSON text, which every reader accepts: no NaN, no infinity."""
    return json.dumps(to_plain(value), allow_nan=False, indent=indent, sort_keys=sort_keys)
