"""Debiases an ALSModel on a local Spark cluster of two workers, and measures what comes to the driver.

    python benchmarks/bench_spark.py [--users 100000] [--items 20000] [--rank 64] [--sample 20000] [--json]

Prints the seconds of each step, the largest array that came to the driver beside the vectors of the sample, and the
peak memory of the driver's Python. Needs Java 17; each worker takes one core and --memory.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.ml.recommendation import ALS
from pyspark.sql import SparkSession

import counterpop as cp


def start(memory: int) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local-cluster[2,1,{memory}]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": f"{memory}m",
        "spark.executor.memory": f"{memory}m",
        "spark.sql.shuffle.partitions": "8",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(Path(cp.__file__).parents[1]),
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def watch(spark: SparkSession) -> list[tuple[int, int]]:
    """Rows and bytes of the largest array of every table that comes to the driver from now on."""
    came: list[tuple[int, int]] = []
    kind: Any = type(spark.range(1))

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **named: Any) -> Any:
            found = method(self, *args, **named)
            columns = [column.combine_chunks() for column in getattr(found, "columns", [])]
            arrays = (column.flatten() if hasattr(column, "flatten") else column for column in columns)
            came.append((len(found), max((array.nbytes for array in arrays), default=0)))
            return found

        return call

    for name in ("collect", "toArrow"):
        setattr(kind, name, watched(getattr(kind, name)))
    return came


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("users", 100_000), ("items", 20_000), ("rank", 64), ("sample", 20_000), ("memory", 3000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--activity", type=float, default=20.0, help="mean interactions of a user")
    parser.add_argument("--iterations", type=int, default=5, help="of ALS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = work()
        seconds[name] = round(time.perf_counter() - begun, 1)
        print(f"{name}: {seconds[name]} s", file=sys.stderr)
        return found

    with tempfile.TemporaryDirectory() as folder:
        world = cp.make_world(asked.users, asked.items, mean_activity=asked.activity, seed=asked.seed)
        ids = {"user": world.log.user_ids[world.log.user_ix], "item": world.log.item_ids[world.log.item_ix]}
        pl.DataFrame(ids).write_parquet(f"{folder}/log.parquet")
        pairs = len(world.log)
        del world, ids
        spark = timed("start", lambda: start(asked.memory))
        log = spark.read.parquet(f"{folder}/log.parquet").selectExpr("user", "item", "1.0 AS rating").repartition(8)
        als = ALS(rank=asked.rank, maxIter=asked.iterations, implicitPrefs=True, seed=asked.seed)
        model = timed("fit ALS", lambda: als.fit(log))
        came = watch(spark)
        fix = timed("debias", lambda: cp.spark.debias(model, log, sample=asked.sample, seed=asked.seed))
        lists = f"{folder}/lists"
        timed("recommend to all", lambda: fix.recommend(20).write.parquet(lists))
        measures = timed("audit", lambda: cp.spark.audit(spark.read.parquet(lists), log))
        spark.stop()
    result = {
        "users": asked.users,
        "items": asked.items,
        "pairs": pairs,
        "rank": asked.rank,
        "seconds": seconds,
        "strengths": [fix.item_strength, fix.user_strength],
        "tried": list(fix.found.tried),
        "agreement": fix.found.agreement,
        "largest_rows": max(rows for rows, _ in came),
        "largest_array_bytes": max(size for _, size in came),
        "sample_vectors_bytes": fix.found.embeddings.user_vectors.nbytes,
        "all_user_vectors_bytes": 4 * asked.users * asked.rank,
        "driver_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "coverage": measures["coverage"],
    }
    print(json.dumps(result) if asked.json else "\n".join(f"{name:24}{value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
