"""One file for each outside system, named after it.

The adapter of a model returns its vectors and ids as `Vectors`, which are keyword arguments of `debias`. The adapter
of an index searches the existing index with transformed queries.
"""

from counterpop.adapters.vectors import Vectors

__all__ = ["Vectors"]
