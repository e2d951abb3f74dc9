"""The audit of lists in a DataFrame, through the SQL of `counterpop.sql`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from counterpop.auditing import DEFINITIONS
from counterpop.errors import InputError
from counterpop.sql.audits import STEPS
from counterpop.sql.dialects import in_dialect, quote

# what several later steps use
KEPT = (
    "shown",
    "chosen",
    "items",
    "whole",
    "places_with_counts",
    "of_lists",
    "whole_lists",
    "of_profiles",
    "repeating",
)


def audit(
    lists: DataFrame,
    log: DataFrame,
    later: DataFrame | None = None,
    *,
    user: str = "user",
    item: str = "item",
    rank: str = "rank",
    k: int | None = None,
) -> dict[str, float]:
    """Every measure of `counterpop.audit`, by name, of lists with one row for each recommended item.

    Group-bys, joins and windows in Spark; one row comes to the driver. A measure that cannot be known is NaN. `log`
    and `later` (what users liked afterwards) have the columns `user` and `item`. There are no intervals and segments.
    """
    if k is not None and k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    spark = lists.sparkSession
    # renamed here, not in the text: Spark takes braces in a text for the name of a frame
    u, i, r = (F.col(quote(name, "spark")).alias(short) for name, short in ((user, "u"), (item, "i"), (rank, "r")))
    held = log.limit(0) if later is None else later
    frames = {"pairs": log.select(u, i), "places": lists.select(u, i, r), "later": held.select(u, i)}
    kept = []
    try:
        for name, text in STEPS.items():
            used: dict[str, Any] = {one: frame for one, frame in frames.items() if f"{{{one}}}" in text}
            filled = in_dialect(text.replace("{k}", str(k or 2**31 - 1)), "spark")
            frames[name] = spark.sql(filled, **used)
            if name in KEPT:
                frames[name].persist(StorageLevel.MEMORY_AND_DISK)
                kept.append(frames[name])
        row = frames["audit"].first()
    finally:
        for frame in kept:
            frame.unpersist()
    if row is None or not row["lists"]:
        raise InputError("nothing to audit: no list holds an item")
    return {name: float("nan") if row[name] is None else float(row[name]) for name in DEFINITIONS}
