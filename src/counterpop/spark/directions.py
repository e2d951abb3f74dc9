"""The popular and the conformity direction of vectors in DataFrames, from sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from counterpop.directions import (
    Directions,
    ItemDirection,
    Rows,
    UserDirection,
    Wide,
    check_kinds,
    direction_of_items,
    direction_of_users,
    unit,
)
from counterpop.errors import InputError
from counterpop.spark.frames import Frames, add_up, mark_head, match_frames, matrix_of


@dataclass(frozen=True, eq=False)
class FrameSide:
    """A `directions.Side` in a DataFrame with the columns of `Frames.counted`."""

    frame: DataFrame

    def mean(self, rows: Rows = "all") -> Wide:
        frame = self.frame
        if rows != "all":
            frame = mark_head(frame).filter(F.col("popular") == (rows == "head"))
        n, *total = add_up(frame.select("features"), _sum)
        return np.asarray(np.array(total) / n)

    def weighted_sum(self) -> Wide:
        return add_up(self.frame.select("features", "n"), _weighted_sum)

    def second_moment(self) -> Wide:
        moment = add_up(self.frame.select("features"), _second_moment)
        return moment.reshape(2 * [int(np.sqrt(len(moment)))])

    def regression(self, centred: bool) -> tuple[Wide, Wide, int]:
        frame = self.frame if centred else self.frame.filter("n > 0")
        frame = frame.select("features", "fame")
        means: Any = 0.0
        if centred:
            n, *totals = add_up(frame, _sums_with_fame)
            means = np.array(totals) / n
        sums = add_up(frame, lambda batch: _products(batch, means))
        products = sums[1:].reshape(2 * [int(np.sqrt(len(sums) - 1))])  # of the vectors and the fame
        return products[:-1, :-1], products[-1, :-1], int(sums[0])


def _wide(batch: pa.RecordBatch) -> Wide:
    return matrix_of(batch["features"]).astype(np.float64)


def _with_fame(batch: pa.RecordBatch) -> Wide:
    return np.column_stack([_wide(batch), batch["fame"].to_numpy()])


def _sum(batch: pa.RecordBatch) -> Wide:
    return np.append(batch.num_rows, _wide(batch).sum(axis=0))


def _weighted_sum(batch: pa.RecordBatch) -> Wide:
    return np.asarray(batch["n"].to_numpy().astype(np.float64) @ _wide(batch))


def _second_moment(batch: pa.RecordBatch) -> Wide:
    wide = _wide(batch)
    return np.asarray(wide.T @ wide).ravel()


def _sums_with_fame(batch: pa.RecordBatch) -> Wide:
    return np.append(batch.num_rows, _with_fame(batch).sum(axis=0))


def _products(batch: pa.RecordBatch, means: Wide | float) -> Wide:
    wide = _with_fame(batch) - means
    return np.append(batch.num_rows, wide.T @ wide)


def find_directions(
    model: Any, log: DataFrame, item: ItemDirection | None = None, user: UserDirection | None = None, **match: Any
) -> Directions:
    """The directions of `counterpop.find_directions` without a ledger, for a model and a log in Spark.

    `match` goes to `match_frames`. By default "head-mean" for items and "mean" for users.
    """
    return directions_of(match_frames(model, log, **match).counted(), item, user)


def directions_of(counted: Frames, item: ItemDirection | None = None, user: UserDirection | None = None) -> Directions:
    """The directions of frames with counts."""
    item, user = item or "head-mean", user or "mean"
    check_kinds(item, user)
    if item.startswith("ledger") or user == "ledger":
        raise InputError("vectors in Spark have no ledger; take a direction from mean vectors")
    along_items = direction_of_items(item, FrameSide(counted.items))
    along_users = direction_of_users(user, FrameSide(counted.users))
    return Directions(unit(along_items, "popular"), unit(along_users, "conformity"))
