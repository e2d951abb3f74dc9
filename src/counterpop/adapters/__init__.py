"""One file for each outside system, named after it.

The adapter of a model returns its vectors and ids as `Vectors`, which are keyword arguments of `debias`. The adapter
of an index searches the existing index with transformed queries.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from counterpop.adapters.vectors import Vectors

__all__ = ["Vectors"]


def __getattr__(name: str) -> ModuleType:
    """`counterpop.adapters.faiss` without an import of its own; each needs its system only when it is used."""
    if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
