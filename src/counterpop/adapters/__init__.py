"""One file for each outside system, named after it.

A model's adapter gives its vectors and ids as `Vectors`, the keyword arguments of `debias`; an index's
adapter searches the index as it stands with transformed queries.
"""

from counterpop.adapters.vectors import Vectors

__all__ = ["Vectors"]
