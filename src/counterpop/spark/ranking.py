"""Queries and exact top lists, computed by the executors."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from counterpop.adjustment import Adjustment
from counterpop.errors import InputError
from counterpop.interactions import Interactions, places
from counterpop.ranking import hash_ids, rank, tie_order
from counterpop.spark.frames import Batches, Frames, ids_of, matrix_of

USERS_PER_BLOCK, ITEMS_PER_BLOCK = 1 << 12, 1 << 15


def query_frame(
    fix: Adjustment,
    frame: DataFrame,
    vector: str = "features",
    item_strength: float | None = None,
    user_strength: float | None = None,
) -> DataFrame:
    """The frame with each user vector replaced by its query, as `Adjustment.query` computes it, through Arrow."""
    frame = frame.withColumn(vector, F.col(vector).cast("array<float>"))
    fix = Adjustment(fix.item_direction, fix.user_direction, fix.item_strength, fix.user_strength)

    def transform(batches: Batches) -> Batches:
        for batch in batches:
            at = batch.schema.get_field_index(vector)
            queries = fix.query(matrix_of(batch.column(at)), item_strength, user_strength) if len(batch) else None
            yield batch if queries is None else batch.set_column(at, batch.schema.field(at), _lists(queries, batch, at))

    return frame.mapInArrow(transform, frame.schema)


def _lists(queries: np.ndarray, batch: pa.RecordBatch, at: int) -> pa.Array:
    offsets = np.arange(len(queries) + 1, dtype=np.int32) * queries.shape[1]
    lists = pa.ListArray.from_arrays(offsets, pa.array(queries.ravel()))
    return lists.cast(batch.schema.field(at).type)


def recommend(frames: Frames, k: int = 20, fix: Adjustment | None = None) -> DataFrame:
    """The best k items for each user of the frames, with columns user, rank (from 1), item, score.

    Items of the user's rows in the log are left out. Exact, ties as in `ranking.rank`; a user gets fewer than k rows if
    fewer items are left. Users and items are dealt into blocks, each pair of blocks is ranked by one task, and the best
    of all blocks are merged for each user. Users of the frames may be some of those in the log.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    users = frames.users if fix is None else query_frame(fix, frames.users)
    user_blocks, item_blocks = (
        max(1, math.ceil(side.count() / size))
        for side, size in ((users, USERS_PER_BLOCK), (frames.items, ITEMS_PER_BLOCK))
    )
    seen = frames.log.groupBy(F.col("user").alias("id")).agg(F.collect_list("item").alias("seen"))
    left = (
        users.select("id", "features")
        .join(seen, "id", "left")
        .select("id", "features", "seen", _block(user_blocks).alias("ub"), _every(item_blocks).alias("ib"))
    )
    right = frames.items.select("id", "features", _block(item_blocks).alias("ib"), _every(user_blocks).alias("ub"))
    kinds = [frame.schema["id"].dataType.simpleString() for frame in (left, right)]
    best = f"array<struct<minus: float, tie: bigint, item: {kinds[1]}>>"

    def rank_block(users: pa.Table, items: pa.Table) -> pa.Table:
        return _rank_block(users, items, k)

    keys = "ub", "ib"
    ranked = left.groupBy(*keys).cogroup(right.groupBy(*keys)).applyInArrow(rank_block, f"id {kinds[0]}, best {best}")
    merged = ranked.groupBy("id").agg(F.slice(F.array_sort(F.flatten(F.collect_list("best"))), 1, k).alias("best"))
    rows = merged.select(F.col("id").alias("user"), F.posexplode("best").alias("place", "one"))
    score = (-F.col("one.minus")).alias("score")
    return rows.select("user", (F.col("place") + 1).alias("rank"), F.col("one.item").alias("item"), score)


def _block(blocks: int) -> Column:
    return F.pmod(F.xxhash64("id"), F.lit(blocks)).cast("int")


def _every(blocks: int) -> Column:
    return F.explode(F.sequence(F.lit(0), F.lit(blocks - 1)))


def _rank_block(users: pa.Table, items: pa.Table, k: int) -> pa.Table:
    """The best items of one block for the users of one block, and what they are sorted by."""
    user_ids, item_ids = ids_of(users["id"]), ids_of(items["id"])
    kind = pa.struct([("minus", pa.float32()), ("tie", pa.int64()), ("item", items.schema.field("id").type)])
    if not len(user_ids) or not len(item_ids):
        return pa.table({"id": users["id"], "best": pa.array([[]] * len(user_ids), pa.list_(kind))})
    order = np.argsort(item_ids, kind="stable")
    item_ids, vectors = item_ids[order], matrix_of(items["features"])[order]
    rows = np.arange(len(user_ids), dtype=np.int32)
    seen = _seen(users["seen"].combine_chunks(), rows, item_ids)
    lists, scores = rank(
        matrix_of(users["features"]), vectors, k, users=rows, seen=[seen], ties=tie_order(item_ids), threads=1
    )
    filled = lists >= 0
    ties = (hash_ids(item_ids) ^ np.uint64(1 << 63)).view(np.int64)  # signed, in the same order
    fields = {"minus": -scores[filled], "tie": ties[lists[filled]], "item": item_ids[lists[filled]]}
    arrays = [pa.array(fields[field.name], field.type) for field in kind]
    offsets = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int32)
    best = pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(arrays, fields=list(kind)))
    return pa.table({"id": users["id"], "best": best})


def _seen(lists: pa.ListArray, rows: np.ndarray, item_ids: np.ndarray) -> Interactions:
    """The seen items of each user as positions in the block; items of other blocks are left out."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    row = np.repeat(rows, lengths)
    at, here = places(ids_of(lists.flatten()), item_ids, "item")
    keys = np.unique(row[here].astype(np.int64) * len(item_ids) + at[here])
    users, items = np.divmod(keys, len(item_ids))
    return Interactions(users.astype(np.int32), items.astype(np.int32), rows, item_ids)
