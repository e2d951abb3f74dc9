"""counterpop.spark on two workers: everything equals one machine, and no whole table comes to the driver."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from builders import train_als
from counterpop.auditing import DEFINITIONS
from counterpop.directions import find_directions
from counterpop.embeddings import Embeddings
from counterpop.errors import InputError
from counterpop.interactions import head
from counterpop.runs import Model

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [
    pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java (Debian: default-jre-headless)"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]
LOG = replace(cp.make_world(1200, 150, exponent=1.0, mean_activity=15, seed=3).log, time=None)  # frames have no times
SAMPLE = 300
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # halves Java's start-up time


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # so that there are several partitions, small as the tables are
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executorEnv.PYTHONPATH": str(Path(cp.__file__).parents[1]),
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("JAVA_TOOL_OPTIONS", QUICK)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    work = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent)) / "work"
    folder = work / session.sparkContext.applicationId
    yield session
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)  # where the two workers ran
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


@pytest.fixture(scope="module")
def vectors() -> Embeddings:
    users, items = train_als(LOG, dim=8)
    return Embeddings(users, items, LOG.user_ids, LOG.item_ids)


@pytest.fixture(scope="module")
def model(spark: Any, vectors: Embeddings) -> tuple[Any, Any]:
    """The vectors as two frames, in several partitions and not in order."""
    sides = (vectors.user_ids, vectors.user_vectors), (vectors.item_ids, vectors.item_vectors)
    users, items = (frame_of(spark, pl.DataFrame({"id": ids, "features": v.tolist()})) for ids, v in sides)
    return users, items


@pytest.fixture(scope="module")
def log(spark: Any) -> Any:
    return frame_of(spark, pairs_of(LOG))


def pairs_of(log: cp.Interactions) -> pl.DataFrame:
    return pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]})


def frame_of(spark: Any, table: pl.DataFrame) -> Any:
    return spark.createDataFrame(table.sample(fraction=1, shuffle=True, seed=0).to_arrow()).repartition(3)


class Collected(NamedTuple):
    """Of everything that comes to the driver, the number of rows and the bytes of the largest array."""

    rows: list[int]
    sizes: list[int]


def size_of(column: Any) -> int:
    """The bytes of a column's numbers; of lists, those of all numbers in them."""
    column = column.combine_chunks()
    return int((column.flatten() if hasattr(column, "flatten") else column).nbytes)


@pytest.fixture
def collected(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Collected:
    came = Collected([], [])
    kind = type(spark.range(1))

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **named: Any) -> Any:
            found = method(self, *args, **named)
            came.rows.append(len(found))
            came.sizes.extend(size_of(column) for column in getattr(found, "columns", []))
            return found

        return call

    for name in ("collect", "toPandas", "toArrow"):  # first, head and take call collect
        monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    for name in ("toLocalIterator", "foreach"):
        monkeypatch.delattr(kind, name)
    return came


def test_directions_are_those_of_one_machine(model: Any, log: Any, vectors: Embeddings, collected: Collected) -> None:
    from counterpop.spark.directions import directions_of

    frames = cp.spark.match_frames(model, log).counted()
    frames.users.persist()
    frames.items.persist()
    for item, user in (("head-mean", "active-mean"), ("popularity-mean", "svd"), ("ridge", "ridge")):
        one = find_directions(Model(vectors), LOG, item, user)
        got = directions_of(frames, item, user)
        assert got.item == pytest.approx(one.item, abs=1e-6), item
        assert got.user == pytest.approx(one.user, abs=1e-6), user
    assert max(collected.rows) <= max(len(np.unique(counts)) for counts in (LOG.user_counts, LOG.item_counts))
    with pytest.raises(InputError, match="vectors in Spark have no ledger"):
        directions_of(frames, "ledger")


@pytest.mark.parametrize("counts", [[5, 5, 5, 5, 5], [9, 1, 1, 1], [0, 0], [3, 3, 2, 2, 2, 1, 0], [7], [2, 1, 1]])
def test_the_head_is_the_head(spark: Any, counts: list[int]) -> None:
    from counterpop.spark.frames import mark_head

    frame = spark.createDataFrame([(n, count) for n, count in enumerate(counts)], "id long, n long")
    marked = {row.id: row.popular for row in mark_head(frame).collect()}
    assert [marked[n] for n in range(len(counts))] == head(np.array(counts)).tolist()


def test_queries_and_lists_are_those_of_one_machine(
    spark: Any, model: Any, log: Any, vectors: Embeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from counterpop.spark import ranking

    monkeypatch.setattr(ranking, "USERS_PER_BLOCK", 500)  # three blocks of users, three of items
    monkeypatch.setattr(ranking, "ITEMS_PER_BLOCK", 60)
    directions = find_directions(Model(vectors), LOG)
    fix = cp.Recommender(directions.item, directions.user, 0.6, 0.4, embeddings=vectors, seen=LOG)
    users = pl.DataFrame(cp.spark.query_frame(fix, model[0]).toArrow()).sort("id")
    assert np.array(users["features"].to_list()) == pytest.approx(fix.query(vectors.user_vectors), abs=1e-6)
    lists, scores = fix.recommend(np.arange(LOG.n_users, dtype=np.int32), 7)
    frames = cp.spark.match_frames(model, log)
    got = pl.DataFrame(cp.spark.recommend(frames, 7, fix).toArrow()).sort("user", "rank")
    assert got.columns == ["user", "rank", "item", "score"]
    assert got["rank"].to_list() == list(range(1, 8)) * LOG.n_users
    assert got["score"].to_numpy().reshape(-1, 7) == pytest.approx(scores, abs=1e-6)
    assert (got["item"].to_numpy().reshape(-1, 7) == LOG.item_ids[lists]).all()
    # and as Spark SQL
    model[0].withColumnsRenamed({"id": "{id}", "features": "the.vector"}).createOrReplaceTempView("users")
    text = cp.sql.write_query(fix, "spark", "users", user="{id}", vector="the.vector")
    users = pl.DataFrame(spark.sql(text).toArrow()).sort("{id}")
    assert np.array(users["the.vector"].to_list()) == pytest.approx(fix.query(vectors.user_vectors), abs=1e-6)


def test_ties_and_short_lists_are_those_of_one_machine(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All scores are equal, ids are text, and some users have seen nearly everything."""
    from counterpop.spark import ranking

    monkeypatch.setattr(ranking, "ITEMS_PER_BLOCK", 4)
    ids = np.array(sorted(f"item {n}" for n in range(9)), dtype=object)
    seen = {"a": list(range(8)), "b": [0, 3], "c": list(range(9))}
    rows = [(u, i) for u, user in enumerate(seen) for i in seen[user]]
    user_ix, item_ix = np.array(rows, dtype=np.int32).T
    log = cp.Interactions(user_ix, item_ix, np.array(list(seen), dtype=object), ids)
    ones = Embeddings(np.ones((3, 2), np.float32), np.ones((9, 2), np.float32), log.user_ids, ids)
    one = cp.Recommender(*np.eye(2, dtype=np.float32), 0.0, 0.0, embeddings=ones, seen=log)
    lists, _ = one.recommend(np.arange(3, dtype=np.int32), 5)
    sides = [
        pl.DataFrame({"id": side, "features": [[1.0, 1.0]] * len(side)})
        for side in (log.user_ids.tolist(), ids.tolist())
    ]
    frames = cp.spark.match_frames(tuple(frame_of(spark, side) for side in sides), frame_of(spark, pairs_of_text(log)))
    got = cp.spark.recommend(frames, 5).orderBy("user", "rank").collect()
    expected = [(log.user_ids[u], ids[i]) for u in range(3) for i in lists[u] if i >= 0]
    assert [(row.user, row.item) for row in got] == expected


def pairs_of_text(log: cp.Interactions) -> pl.DataFrame:
    return pl.DataFrame({"user": log.user_ids[log.user_ix].tolist(), "item": log.item_ids[log.item_ix].tolist()})


def test_debias_of_all_users_is_that_of_one_machine(
    spark: Any, model: Any, log: Any, vectors: Embeddings, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cp.debias(vectors.user_vectors, vectors.item_vectors, LOG, price=0.2)
    fix = cp.spark.debias(model, log, sample=LOG.n_users, price=0.2)
    assert (fix.item_strength, fix.user_strength) == (one.item_strength, one.user_strength) != (0.0, 0.0)
    assert fix.found.agreement == pytest.approx(one.agreement, abs=1e-3)
    assert fix.found.uniform.adjusted.recall == pytest.approx(one.uniform.adjusted.recall, abs=1e-3)
    assert fix.found.ordinary.plain.ndcg == pytest.approx(one.ordinary.plain.ndcg, abs=1e-3)
    # and so is the audit of all their lists
    del collected.rows[:], collected.sizes[:]
    later = cp.make_world(1200, 150, exponent=1.0, mean_activity=4, seed=8).log
    monkeypatch.setattr("counterpop.spark.debiasing.audit", audit_under_other_names)
    got = fix.audit(6, frame_of(spark, pairs_of(later)))
    expected = cp.audit_model(one, LOG, 6, held=later).measures
    assert got == {name: pytest.approx(expected[name], rel=1e-9, abs=1e-9) for name in DEFINITIONS}
    assert max(collected.rows) == 1


def audit_under_other_names(*frames: Any) -> dict[str, float]:
    names = {"user": "{log}", "item": "an.item{k}", "rank": "`place`"}
    return cp.spark.audit(*(frame.withColumnsRenamed(names) for frame in frames), **names)


def test_debias_of_an_als_model_brings_only_a_sample_to_the_driver(
    spark: Any, log: Any, collected: Collected, tmp_path: Path
) -> None:
    from pyspark.ml.recommendation import ALS

    rated = log.selectExpr("user AS who", "item AS what", "1.0 AS rating")
    als = ALS(
        rank=16, maxIter=2, numUserBlocks=1, numItemBlocks=1, implicitPrefs=True, seed=0, userCol="who", itemCol="what"
    ).fit(rated)
    del collected.rows[:], collected.sizes[:]
    fix = cp.spark.debias(als, rated, sample=SAMPLE, seed=1)
    pairs = len(fix.found.seen)
    assert (fix.found.embeddings.user_vectors.shape, len(fix.found.embeddings.item_vectors)) == ((SAMPLE, 16), 150)
    assert max(collected.rows) == pairs < 0.4 * len(LOG)
    assert sorted(collected.rows)[-2] <= SAMPLE  # all else is no larger than the sample
    assert max(collected.sizes) == fix.found.embeddings.user_vectors.nbytes  # no array is larger than its vectors
    # a sample in proportion: its mean activity is that of all users
    assert fix.found.seen.user_counts.mean() == pytest.approx(LOG.user_counts.mean(), rel=0.02)
    cp.save_adjustment(fix, tmp_path / "fix")
    assert cp.load_adjustment(tmp_path / "fix").item_strength == fix.item_strength
    asked = fix.recommend(3, spark.createDataFrame([(int(LOG.user_ids[5]),)], "id long"))
    assert [row.rank for row in asked.collect()] == [1, 2, 3]
    als.userFactors.toArrow()
    assert collected.rows[-1] == LOG.n_users  # the count does see a whole table


def test_what_comes_to_the_driver_does_not_grow_with_the_log(spark: Any, collected: Collected) -> None:
    """Every user three times: the sample's users have as many rows as before, and each table that comes is as long."""
    small = replace(cp.make_world(300, 50, exponent=1.0, mean_activity=8, seed=4).log, time=None)
    users, items = train_als(small, dim=4)

    def collect_all(copies: int) -> list[int]:
        ids = small.user_ids + small.n_users * np.arange(copies)[:, None]
        tables = (
            {"id": ids.ravel(), "features": np.tile(users, (copies, 1)).tolist()},
            {"id": small.item_ids, "features": items.tolist()},
            {"user": ids[:, small.user_ix].ravel(), "item": np.tile(small.item_ids[small.item_ix], copies)},
        )
        *model, log = (frame_of(spark, pl.DataFrame(table)) for table in tables)
        del collected.rows[:]
        fix = cp.spark.debias(tuple(model), log, sample=100)
        assert len(fix.found.seen.user_ids) == 100
        return collected.rows.copy()

    once, thrice = collect_all(1), collect_all(3)
    # fewer items are without any user once held-out pairs are left out; nothing else changes
    assert all(after <= max(before, small.n_items) for before, after in zip(once, thrice, strict=True))


def test_a_later_log_is_the_holdout(spark: Any, model: Any, vectors: Embeddings) -> None:
    rows = np.random.default_rng(0).random(len(LOG)) < 0.7
    rows[LOG.user_starts[:-1]] = True  # so that every user is in the sample
    first, second = LOG.rows(rows), LOG.rows(~rows)
    one = cp.debias(vectors.user_vectors, vectors.item_vectors, first, holdout=second)
    fix = cp.spark.debias(model, frame_of(spark, pairs_of(first)), frame_of(spark, pairs_of(second)), sample=10**6)
    assert fix.found.agreement is None
    assert (fix.item_strength, fix.user_strength) == (one.item_strength, one.user_strength)
    assert fix.found.uniform.plain.recall == pytest.approx(one.uniform.plain.recall, abs=1e-3)


def test_wrong_input_is_one_sentence(spark: Any, model: Any, log: Any) -> None:
    from pyspark.sql import functions as F

    cases = [
        (({}, log), "the model must be an ALSModel or two DataFrames, got dict"),
        ((model, log.withColumnRenamed("user", "who")), "the log must have the column user, but has who, item"),
        (
            (model, log.withColumn("item", F.col("item").cast("string"))),
            "must have one type, but are bigint and string",
        ),
        (
            (model, log.withColumn("item", F.col("item") / 2)),
            "ids must be integers or text, but those of item are double",
        ),
        ((model, log.withColumn("item", F.lit(None).cast("long"))), "every row of the log needs a user and an item"),
        ((model, log.withColumn("item", F.col("item") + 1000)), "every item needs a vector, but 150 items of the log"),
        (((model[0].drop("features"), model[1]), log), "must have the columns id and features, got id"),
        (((model[0].withColumn("features", F.lit(1)), model[1]), log), "must be arrays of numbers, got int"),
    ]
    for arguments, message in cases:
        with pytest.raises(InputError, match=message):
            cp.spark.match_frames(*arguments)
    one_more = log.union(spark.createDataFrame([(10**9, int(LOG.item_ids[0]))], "user long, item long"))
    with pytest.warns(cp.CounterpopWarning, match="left out the pairs of 1 users, which have no vector"):
        assert cp.spark.match_frames(model, one_more, drop_unknown=True).log.count() == len(LOG)
