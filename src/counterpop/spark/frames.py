"""A model and its log as DataFrames, matched by their ids."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, IntegralType, StringType

from counterpop.embeddings import FloatArray
from counterpop.errors import CounterpopWarning, InputError
from counterpop.interactions import HEAD_SHARE, Ids
from counterpop.sql.dialects import quote

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class Frames:
    """Vectors of users and items, and the log behind them."""

    users: DataFrame
    """Columns `id` and `features`, an array of floats."""
    items: DataFrame
    log: DataFrame
    """Columns `user` and `item`: each pair once, and only ids that have vectors."""

    def counted(self) -> Frames:
        """The same; users and items also have `n`, their rows in the log, and `fame`, which ridge directions explain.

        The fame of an item is log(1 + n), that of a user the mean of their items' fame, and 0 without items.
        """
        items = _with(self.items, self.log.groupBy(F.col("item").alias("id")).agg(F.count("*").alias("n")), n=0)
        items = items.withColumn("fame", F.log1p("n"))
        of_users = self.log.join(items.select(F.col("id").alias("item"), "fame"), "item")
        figures = of_users.groupBy(F.col("user").alias("id")).agg(F.count("*").alias("n"), F.avg("fame").alias("fame"))
        return replace(self, users=_with(self.users, figures, n=0, fame=0.0), items=items)


def _with(frame: DataFrame, figures: DataFrame, **missing: Any) -> DataFrame:
    return frame.join(figures, "id", "left").fillna(missing)


def match_frames(
    model: Any, log: DataFrame, *, user: str | None = None, item: str | None = None, drop_unknown: bool = False
) -> Frames:
    """The vectors of a model and a log, with ids of one type.

    `model` is an ALSModel or a pair of DataFrames, users and items, with columns id and features. `user` and `item` are
    columns of the log; by default those of the ALSModel, else "user" and "item". Ids of the log without a vector raise
    `InputError`, or are left out with a warning if `drop_unknown`.
    """
    sides = (model.userFactors, model.itemFactors) if hasattr(model, "userFactors") else model
    if not (isinstance(sides, tuple | list) and len(sides) == 2 and all(hasattr(side, "schema") for side in sides)):
        raise InputError(f"the model must be an ALSModel or two DataFrames, got {type(model).__name__}")
    names = {
        "user": user or (model.getUserCol() if hasattr(model, "getUserCol") else "user"),
        "item": item or (model.getItemCol() if hasattr(model, "getItemCol") else "item"),
    }
    missing = [name for name in names.values() if name not in log.columns]
    if missing:
        raise InputError(
            f"the log must have the column {missing[0]}, but has {', '.join(log.columns)}; pass user, item"
        )
    vectors = [_vectors(side, what) for side, what in zip(sides, names, strict=True)]
    pairs = log.select(*(_ids(log, name).alias(side) for side, name in names.items()))
    empty = pairs.filter("user IS NULL OR item IS NULL").count()
    if empty:
        raise InputError(f"every row of the log needs a user and an item, but {empty} rows lack one; drop them")
    pairs = pairs.distinct()
    for (side, name), own in zip(names.items(), vectors, strict=True):
        kinds = own.schema["id"].dataType, pairs.schema[side].dataType
        if kinds[0] != kinds[1]:
            raise InputError(
                f"{side} ids of the vectors and of the log must have one type, but are {kinds[0].simpleString()} and "
                f"{kinds[1].simpleString()} ({name}); cast one of them"
            )
        pairs = _keep_known(pairs, own, side, drop_unknown)
    if pairs.isEmpty():
        raise InputError("the log and the vectors must share ids, but no pair is left; pass the ids that the log uses")
    return Frames(vectors[0], vectors[1], pairs)


def _keep_known(pairs: DataFrame, vectors: DataFrame, side: str, drop_unknown: bool) -> DataFrame:
    known = vectors.select(F.col("id").alias(side))
    unknown = pairs.select(side).distinct().join(known, side, "left_anti")
    row = unknown.agg(F.count("*").alias("n"), F.min(side).alias("first")).first()
    assert row is not None
    if not row.n:
        return pairs
    if not drop_unknown:
        raise InputError(
            f"every {side} needs a vector, but {row.n} {side}s of the log have none (first: {row.first!r}); pass "
            "drop_unknown=True to leave them out"
        )
    warnings.warn(CounterpopWarning(f"left out the pairs of {row.n} {side}s, which have no vector"), stacklevel=4)
    return pairs.join(known, side, "left_semi")


def _vectors(frame: DataFrame, what: str) -> DataFrame:
    if not {"id", "features"} <= set(frame.columns):
        raise InputError(f"{what} vectors must have the columns id and features, got {', '.join(frame.columns)}")
    if not isinstance(frame.schema["features"].dataType, ArrayType):
        kind = frame.schema["features"].dataType.simpleString()
        raise InputError(f"features of {what} vectors must be arrays of numbers, got {kind}; see vector_to_array")
    return frame.select(_ids(frame, "id").alias("id"), F.col("features").cast("array<float>").alias("features"))


def _ids(frame: DataFrame, name: str) -> Any:
    """The ids of a column: integers of any width as 64 bits, or text."""
    kind: DataType = frame.schema[name].dataType
    if not isinstance(kind, IntegralType | StringType):
        raise InputError(f"ids must be integers or text, but those of {name} are {kind.simpleString()}; cast them")
    column = F.col(quote(name, "spark"))  # a name may hold a dot
    return column.cast("long") if isinstance(kind, IntegralType) else column


def mark_head(frame: DataFrame, share: float = HEAD_SHARE) -> DataFrame:
    """The frame with a column `popular`: whether its count `n` belongs to the `interactions.head` of the counts.

    Only the number of rows of each count comes to the driver. In the last count that is in the head, ties are broken
    by id, as there.
    """
    table = frame.groupBy("n").agg(F.count("*").alias("rows")).orderBy(F.desc("n")).toArrow()
    counts, rows = (table[name].to_numpy().astype(np.int64) for name in ("n", "rows"))
    running = np.cumsum(counts * rows)
    if not len(counts) or not running[-1]:
        return frame.withColumn("popular", F.lit(False))
    limit = share * running[-1]
    at = int(np.searchsorted(running, limit, side="right"))  # the first count not all of whose rows are in the head
    if at == len(counts):
        return frame.withColumn("popular", F.lit(True))
    count, before = int(counts[at]), int(running[at] - counts[at] * rows[at])
    fit = int((limit - before) // count) if count else 0
    if not at:
        fit = max(1, fit)
    tied = frame.filter(F.col("n") == count).select("id").orderBy("id").limit(fit).agg(F.max("id")).first()
    assert tied is not None
    among = (F.col("n") == count) & (F.col("id") <= tied[0]) if fit else F.lit(False)
    return frame.withColumn("popular", (F.col("n") > count) | among)


def matrix_of(column: pa.Array | pa.ChunkedArray) -> FloatArray:
    """(N, D) the lists of a column as the rows of a matrix; raises `InputError` if their lengths differ."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    flat = column.flatten()
    if column.null_count or flat.null_count or len(pc.list_value_length(column).unique()) > 1:
        raise InputError("vectors must be lists of equal length without nulls; drop or complete the others")
    matrix: FloatArray = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return matrix.reshape(len(column), -1)


def ids_of(column: pa.Array | pa.ChunkedArray) -> Ids:
    """(N,) ids as this package has them: int64, or str objects."""
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(), dtype=np.int64)
    return np.array(column.to_pylist(), dtype=object)


def add_up(frame: DataFrame, measure: Callable[[pa.RecordBatch], NDArray[np.float64]]) -> NDArray[np.float64]:
    """The sum of `measure`, an array, over all batches of the frame: added up by the executors.

    The partitions are added in their order, so the result depends on how the rows are spread, and on nothing else.
    """

    def of_partition(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        total: Any = sum(measure(batch) for batch in batches if batch.num_rows)
        if isinstance(total, np.ndarray) and context is not None:
            yield pa.record_batch({"part": pa.array([context.partitionId()], pa.int32()), "sums": pa.array([total])})

    def of_parts(batches: Batches) -> Batches:
        parts = sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
        if parts:
            yield pa.record_batch({"sums": pa.array([np.sum([sums for _, sums in parts], axis=0)])})

    parts = frame.mapInArrow(of_partition, "part int, sums array<double>")
    table = parts.repartition(1).mapInArrow(of_parts, "sums array<double>").toArrow()
    if not table.num_rows:
        raise InputError("there must be rows to add up, but the frame has none")
    return np.asarray(table["sums"].combine_chunks().flatten().to_numpy(), dtype=np.float64)
