"""`debias` of a model in Spark: directions from all rows, strengths from a sample of users."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from counterpop.adjustment import Adjustment
from counterpop.debiasing import Debiasing, DebiasSettings, as_embeddings, check_fit
from counterpop.debiasing.rebuilding import Kind
from counterpop.debiasing.search import search_along
from counterpop.debiasing.trials import DebiasOptions, warn_of_settings
from counterpop.embeddings import FloatArray
from counterpop.errors import CounterpopWarning, InputError
from counterpop.folding import fold_in, transposed
from counterpop.interactions import Ids, IntArray, Interactions, pair_keys, positions
from counterpop.spark.auditing import audit
from counterpop.spark.directions import FrameSide, directions_of
from counterpop.spark.frames import Frames, ids_of, match_frames, matrix_of
from counterpop.spark.ranking import query_frame, recommend

SAMPLE_USERS = 20_000
SAMPLE_STREAM = 504


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameDebiasing(Adjustment):
    """An adjustment of vectors in Spark, with the frames it is for. `save_adjustment` saves it like any other."""

    frames: Frames
    found: Debiasing
    """The search for the strengths on the sample: its proof, its points and its page. Its vectors and counts are those
    of the sampled users."""

    def query_frame(
        self,
        frame: DataFrame,
        vector: str = "features",
        item_strength: float | None = None,
        user_strength: float | None = None,
    ) -> DataFrame:
        """The frame with each user vector replaced by its query: see `spark.query_frame`."""
        return query_frame(self, frame, vector, item_strength, user_strength)

    def recommend(self, k: int = 20, users: DataFrame | None = None) -> DataFrame:
        """The best k items for all users, or for those in the column `id` of `users`: see `spark.recommend`."""
        frames = self.frames
        if users is not None:
            frames = replace(frames, users=frames.users.join(users.select("id"), "id", "left_semi"))
        return recommend(frames, k, self)

    def audit(self, k: int = 20, later: DataFrame | None = None) -> dict[str, float]:
        """The measures of the lists of all users who have a row in the log: see `spark.audit`.

        `later`, with the columns user and item, holds what they liked afterwards.
        """
        able = self.frames.log.select(F.col("user").alias("id")).distinct()
        return audit(self.recommend(k, able), self.frames.log, later)


def debias(
    model: Any,
    log: DataFrame,
    holdout: DataFrame | None = None,
    *,
    user: str | None = None,
    item: str | None = None,
    sample: int = SAMPLE_USERS,
    **settings: Unpack[DebiasOptions],
) -> FrameDebiasing:
    """The adjustment of `counterpop.debias` for an ALSModel, or for vectors in two DataFrames: see `match_frames`.

    Directions come from all vectors and the whole log, as sums. Strengths come from the ordinary search on `sample`
    users, stratified by activity and drawn by `seed`; their vectors and rows, and all item vectors, come to the driver.
    Without a holdout, item vectors are rebuilt by the executors, from all of an item's users. With a sample of all
    users the result is that of `counterpop.debias`, to float tolerance.
    """
    chosen = DebiasSettings.of(settings, debias)
    if sample < 2:
        raise InputError(f"the sample must hold at least 2 users, got {sample}")
    warn_of_settings(chosen, in_sample=holdout is None)
    frames = match_frames(model, log, user=user, item=item, drop_unknown=chosen.drop_unknown)
    with persisted(frames.log), persisted(frames.counted().users) as users:
        counted = replace(frames.counted(), users=users)
        chosen.report("summing vectors")
        directions = directions_of(counted, chosen.item_direction, chosen.user_direction)
        chosen.report("drawing a sample of users")
        drawn = draw_users(users, sample, chosen.seed).select("id", "features")
        held = _later(model, holdout, frames, user, item, chosen.drop_unknown)
        (user_ids, P), (item_ids, Q) = collect_vectors(drawn), collect_vectors(frames.items)
        pairs = _pairs_of(frames.log, user_ids, item_ids)
        later = None if held is None else _pairs_of(held, user_ids, item_ids)
        vectors = as_embeddings(P, Q, pairs, user_ids, item_ids)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CounterpopWarning)  # what the sample lacks, the log may have
            check_fit(vectors, pairs, chosen.seed)
        by_item = FrameHistories(frames, vectors.user_vectors, transposed(pairs)) if later is None else None
        found = search_along(directions, vectors, pairs, later, chosen, by_item)
    strengths = {name: getattr(found, name) for name in ("item_strength", "user_strength", "segments", "lean")}
    return FrameDebiasing(directions.item, directions.user, **strengths, frames=frames, found=found)


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, kept by the executors in the meantime."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


def draw_users(counted: DataFrame, number: int, seed: int) -> DataFrame:
    """A sample of the users with a count, in which every activity is there in its proportion.

    With users sorted by activity, one is drawn from each of `number` stretches of equal length. Which users of equal
    activity are drawn depends on their id and the seed, and on nothing else. Only the number of users of each activity
    comes to the driver.
    """
    able = counted.filter("n > 0")
    table = able.groupBy("n").agg(F.count("*").alias("users")).orderBy("n").toArrow()
    counts, users = (table[name].to_numpy().astype(np.int64) for name in ("n", "users"))
    if number >= users.sum():
        return able
    start = np.random.default_rng([seed, SAMPLE_STREAM]).random()
    drawn = ((np.arange(number) + start) * (users.sum() / number)).astype(np.int64)
    quota = np.bincount(np.searchsorted(np.cumsum(users), drawn, side="right"), minlength=len(counts))
    rows = pa.table({"n": counts, "quota": quota})
    place = F.row_number().over(Window.partitionBy("n").orderBy(F.xxhash64("id", F.lit(seed)), "id"))
    ranked = able.join(F.broadcast(counted.sparkSession.createDataFrame(rows)), "n").withColumn("place", place)
    return ranked.filter("place <= quota").drop("place", "quota")


def collect_vectors(frame: DataFrame) -> tuple[Ids, FloatArray]:
    """Ids and vectors of a frame that fits in memory."""
    table = frame.select("id", "features").toArrow()
    return ids_of(table["id"]), matrix_of(table["features"])


def _later(
    model: Any, holdout: DataFrame | None, frames: Frames, user: str | None, item: str | None, drop_unknown: bool
) -> DataFrame | None:
    """The pairs of the holdout that the log does not have."""
    if holdout is None:
        return None
    pairs = match_frames(model, holdout, user=user, item=item, drop_unknown=drop_unknown).log
    return pairs.join(frames.log, ["user", "item"], "left_anti")


def _pairs_of(pairs: DataFrame, user_ids: Ids, item_ids: Ids) -> Interactions:
    """The rows of these users, which come as positions; raises `InputError` if there are none."""
    sides = {"user": np.unique(user_ids), "item": np.unique(item_ids)}
    for side, ids in sides.items():
        known = pa.table({side: pa.array(ids), f"{side}_ix": np.arange(len(ids), dtype=np.int32)})
        pairs = pairs.join(pairs.sparkSession.createDataFrame(known), side)
    table = pairs.select("user_ix", "item_ix").toArrow()
    if not table.num_rows:
        raise InputError(
            "the sampled users must have held-out pairs that the log lacks, but have none; pass a later log"
        )
    user_ix, item_ix = (column.to_numpy() for column in table.columns)
    order = np.lexsort((item_ix, user_ix))
    return Interactions(user_ix[order], item_ix[order], sides["user"], sides["item"])


@dataclass(frozen=True, eq=False)
class FrameHistories:
    """`debiasing.rebuilding.Histories` of items, from all of their users: each is folded in by an executor."""

    frames: Frames
    vectors: FloatArray
    """Of the sampled users."""
    log: Interactions
    """Their pairs, with items and users exchanged."""
    without: Interactions | None = None
    """Pairs of `log` that are left out."""

    @property
    def ids(self) -> Ids:
        return self.log.item_ids

    @property
    def able(self) -> IntArray:
        items = self.frames.log.select("item").distinct().toArrow()["item"]
        return np.sort(positions(self.log.user_ids, ids_of(items), "item"))

    def only(self, log: Interactions) -> FrameHistories:
        own, kept = pair_keys(self.log), pair_keys(log)  # both in rising order
        left_out = np.ones(len(own), dtype=bool)
        left_out[np.searchsorted(own, kept)] = False
        return replace(self, without=self.log.rows(left_out))

    def fold(self, rows: IntArray, kinds: Sequence[Kind]) -> list[FloatArray]:
        spark, dim = self.frames.log.sparkSession, self.vectors.shape[1]
        gram = FrameSide(self.frames.users).second_moment() if any(kind.others for kind in kinds) else None
        asked = spark.createDataFrame(pa.table({"item": pa.array(self.log.user_ids[rows])}))
        pairs = self.frames.log.join(F.broadcast(asked), "item", "left_semi")
        if self.without is not None:
            columns = self.without.user_ids[self.without.user_ix], self.without.item_ids[self.without.item_ix]
            held = pa.table({name: pa.array(ids) for name, ids in zip(("item", "user"), columns, strict=True)})
            pairs = pairs.join(F.broadcast(spark.createDataFrame(held)), ["item", "user"], "left_anti")
        histories = pairs.join(self.frames.users.withColumnRenamed("id", "user"), "user").select("item", "features")

        names = [f"folded_{n}" for n in range(len(kinds))]  # each an array of its own, no larger than the item vectors

        def fold_one(table: pa.Table) -> pa.Table:
            held = matrix_of(table["features"])
            folded = (fold_in(held, [np.arange(len(held))], kind.reg, kind.others, gram) for kind in kinds)
            return pa.table([table["item"][:1], *(pa.array([*one]) for one in folded)], ["item", *names])

        item = f"item {self.frames.log.schema['item'].dataType.simpleString()}"
        schema = ", ".join([item, *(f"{name} array<float>" for name in names)])
        table = histories.groupBy("item").applyInArrow(fold_one, schema).toArrow()
        place = np.zeros(self.log.n_users, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        at = place[positions(self.log.user_ids, ids_of(table["item"]), "item")]
        made = [np.zeros((len(rows), dim), dtype=np.float32) for _ in kinds]  # zeros for an empty history
        for name, folded in zip(names, made, strict=True):
            folded[at] = matrix_of(table[name])
        return made
