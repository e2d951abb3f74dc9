"""Spark: an ALSModel in memory, and the same model saved and read back without Spark."""

import tempfile

import polars as pl
from pyspark.ml.recommendation import ALS
from pyspark.sql import SparkSession

import counterpop as cp
from counterpop.adapters.spark import vectors_of

log = cp.make_world(600, 120, seed=2).log  # its ids are integers, as Spark's ALS requires
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
with tempfile.TemporaryDirectory() as folder:
    pairs = {"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]}
    pl.DataFrame(pairs).with_columns(rating=1.0).write_parquet(f"{folder}/log.parquet")
    als = ALS(rank=8, maxIter=1, numUserBlocks=1, numItemBlocks=1, implicitPrefs=True, seed=0)
    model = als.fit(spark.read.parquet(f"{folder}/log.parquet"))
    vectors = vectors_of(model)
    model.write().overwrite().save(f"{folder}/als")
    saved = vectors_of(f"{folder}/als")  # plain parquet: no Spark, no Java. Or: counterpop debias --model
spark.stop()

fix = cp.debias(**vectors, interactions=log)
print(
    f"strengths {fix.item_strength} / {fix.user_strength}: recall on uniform held-out pairs "
    f"{fix.uniform.plain.recall:.3f} -> {fix.uniform.adjusted.recall:.3f}"
)
