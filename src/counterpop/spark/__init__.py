"""Spark: DataFrames in and out. The driver gets sums, and the vectors of a sample of users.

The executors run this package, so it must be installed there too: see docs/scale.md.
"""

from importlib.util import find_spec

from counterpop.errors import InputError

for name in ("pyspark", "pyarrow"):
    if not find_spec(name):
        raise InputError(f"cp.spark needs {name}: pip install 'counterpop[spark]'")

from counterpop.spark.auditing import audit  # noqa: E402
from counterpop.spark.debiasing import FrameDebiasing, debias  # noqa: E402
from counterpop.spark.directions import find_directions  # noqa: E402
from counterpop.spark.frames import Frames, match_frames  # noqa: E402
from counterpop.spark.ranking import query_frame, recommend  # noqa: E402

__all__ = ["FrameDebiasing", "Frames", "audit", "debias", "find_directions", "match_frames", "query_frame", "recommend"]
