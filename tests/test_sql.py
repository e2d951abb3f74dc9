"""counterpop.sql: DuckDB and PostgreSQL give what Python gives. Spark SQL: see test_spark.py."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterpop as cp
from counterpop.auditing import DEFINITIONS
from counterpop.errors import InputError
from counterpop.sql import write_audit, write_query

Tables = Mapping[str, pl.DataFrame]
Run = Callable[[str, Tables], dict[str, list[Any]]]
TYPES = {pl.Int64: "BIGINT", pl.String: 'TEXT COLLATE "C"', pl.List: "REAL[]"}


def run_duckdb(text: str, tables: Tables) -> dict[str, list[Any]]:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table.to_arrow())
        found = connection.execute(text)
        names, rows = [column[0] for column in found.description], found.fetchall()
    return {name: [row[n] for row in rows] for n, name in enumerate(names)}


@pytest.fixture(scope="module")
def run_postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    pgserver = pytest.importorskip("pgserver", reason="pgserver (PostgreSQL in a wheel) is not installed")
    server = pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="delete")

    def literal(value: Any) -> str:
        if isinstance(value, list):
            return "ARRAY[" + ", ".join(map(str, value)) + "]::REAL[]"
        return f"'{value}'" if isinstance(value, str) else str(value)

    def run(text: str, tables: Tables) -> dict[str, list[Any]]:
        for name, table in tables.items():
            columns = ", ".join(f'"{c}" {TYPES[t.base_type()]}' for c, t in table.schema.items())
            rows = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in table.rows())
            server.psql(
                f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns}); INSERT INTO {name} VALUES {rows};"
            )
        printed = server.psql(f"COPY ({text}) TO STDOUT WITH (FORMAT csv, HEADER)")
        header, *rows = csv.reader(io.StringIO(printed))
        return {name: [row[n] for row in rows] for n, name in enumerate(header)}

    yield run
    server.cleanup()


@pytest.fixture(params=["duckdb", "postgresql"])
def engine(request: pytest.FixtureRequest) -> tuple[Any, Run]:
    if request.param == "duckdb":
        return "duckdb", run_duckdb
    return "postgresql", request.getfixturevalue("run_postgresql")


def as_table(log: cp.Interactions, text: bool = False) -> pl.DataFrame:
    table = pl.DataFrame({"user": log.user_ids[log.user_ix], "item": log.item_ids[log.item_ix]})
    return table.select(pl.format("{}{}", pl.lit("ä"), pl.all().cast(pl.String)).name.keep()) if text else table


def draw_lists(log: cp.Interactions, k: int, seed: int, fresh: bool) -> pl.DataFrame:
    """Lists of popular items for most users, with or without items of the profile; some are short."""
    draw, weight = np.random.default_rng(seed), log.item_counts + 1.0
    rows = []
    for user in range(0, log.n_users, 2):
        order = draw.choice(log.n_items, 3 * k, replace=False, p=weight / weight.sum())
        seen = log.item_ix[log.user_starts[user] : log.user_starts[user + 1]]
        kept = [i for i in order if not fresh or i not in seen][: k if user % 7 else 3]
        rows += [(log.user_ids[user], log.item_ids[i], 10 * n + 5) for n, i in enumerate(kept)]
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


def check_audit(got: Mapping[str, list[Any]], want: cp.Audit) -> None:
    numbers = {name: None if value in (None, "") else float(value) for name, (value,) in got.items()}
    for name in DEFINITIONS:
        expected = want.measures[name]
        assert numbers[name] == (None if math.isnan(expected) else pytest.approx(expected, rel=1e-9, abs=1e-9)), name
    assert [numbers[name] for name in ("lists", "k", "items", "head_items")] == [
        want.users,
        want.k,
        want.items,
        want.head_items,
    ]


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("text", [False, True])
def test_an_audit_in_sql_is_the_audit(engine: tuple[Any, Run], fresh: bool, text: bool) -> None:
    dialect, run = engine
    world = cp.make_world(150, 120, mean_activity=8, seed=3).log
    later, log = as_table(cp.make_world(150, 120, mean_activity=6, seed=4).log, text), as_table(world, text)
    lists = draw_lists(world, 6, 1, fresh)
    if text:
        lists = lists.with_columns(pl.format("ä{}", pl.col("user", "item").cast(pl.String)).name.keep())
    own = cp.read_interactions(log)
    found = cp.read_recommendations(lists, own)
    held = cp.interactions.restrict(cp.read_interactions(later), own.user_ids, own.item_ids)
    got = run(write_audit(dialect, later="later"), {"log": log, "lists": lists, "later": later})
    check_audit(got, cp.audit(found.lists, found.users, own, held=held))
    without = run(write_audit(dialect, k=4), {"log": log, "lists": lists})
    cut = cp.read_recommendations(lists, own, k=4)
    check_audit(without, cp.audit(cut.lists, cut.users, own))


def test_repeated_rows_unknown_ids_and_other_names(engine: tuple[Any, Run]) -> None:
    dialect, run = engine
    log = as_table(cp.make_world(60, 40, mean_activity=5, seed=0).log)
    lists = draw_lists(cp.read_interactions(log), 5, 2, True)
    more = pl.DataFrame({"user": [0, 0, 9001], "item": [9002, 9002, 3], "rank": [2, 90, 1]})
    lists = pl.concat([lists, more, lists.head(4).with_columns(rank=pl.col("rank") + 500)])
    found = cp.read_recommendations(lists, cp.read_interactions(log), keep_unknown=True)
    names = {"user": "select", "item": 'the "item"', "rank": "where"}
    tables = {
        "cp_a": pl.concat([log, log.head(9)]).rename({n: names[n] for n in log.columns}),
        "cp_b": lists.rename(names),
    }
    if dialect == "postgresql":  # the test writes columns without escaping
        names["item"] = "the item"
        tables = {name: table.rename({'the "item"': "the item"}) for name, table in tables.items()}
    check_audit(
        run(write_audit(dialect, "cp_a", "cp_b", **names), tables), cp.audit(found.lists, found.users, found.log)
    )


def test_an_audit_where_nobody_has_a_profile(engine: tuple[Any, Run]) -> None:
    dialect, run = engine
    log = as_table(cp.make_world(60, 40, mean_activity=5, seed=0).log)
    lists = pl.DataFrame({"user": [9001, 9001, 9002, 9002, 0], "item": [1, 2, 3, 4, 5], "rank": [1, 2, 1, 2, 1]})
    others = log.filter(pl.col("user") != 0)
    found = cp.read_recommendations(lists, cp.read_interactions(log), keep_unknown=True)
    strangers = cp.Interactions(
        *(ix[found.log.user_ids[found.log.user_ix] != 0] for ix in (found.log.user_ix, found.log.item_ix)),
        found.log.user_ids,
        found.log.item_ids,
    )
    items = {i for table in (others, lists) for i in table["item"]}
    assert items == set(found.log.item_ids.tolist())  # so that both audits have the same catalogue
    check_audit(
        run(write_audit(dialect), {"log": others, "lists": lists}), cp.audit(found.lists, found.users, strangers)
    )


def test_the_query_in_sql_is_the_query(engine: tuple[Any, Run]) -> None:
    dialect, run = engine
    draw = np.random.default_rng(0)
    q, p = (v / np.linalg.norm(v) for v in draw.normal(size=(2, 24)))
    users = draw.normal(size=(9, 24)).astype(np.float32)
    table = pl.DataFrame(
        {"id": np.arange(9), "features": users.tolist()}, schema_overrides={"features": pl.List(pl.Float32)}
    )
    for a, b in [(0.0, 0.0), (0.6, 0.4), (2.0, 1.4), (0.0, 1.0), (1.0, 0.0)]:
        fix = cp.Adjustment(q.astype(np.float32), p.astype(np.float32), a, b)
        got = run(write_query(fix, dialect), {"users": table})
        vectors = [
            json.loads(v.replace("{", "[").replace("}", "]")) if isinstance(v, str) else v for v in got["features"]
        ]
        order = np.argsort([int(i) for i in got["id"]])
        assert np.array(vectors)[order] == pytest.approx(fix.query(users), abs=1e-5)


@pytest.mark.parametrize("vector", ["p", "c", "x", "cp_taste"])
def test_columns_of_the_table_may_have_any_name(engine: tuple[Any, Run], vector: str) -> None:
    dialect, run = engine
    names = ["p", "q", "a", "b", "c", "d", "x", "y", "along_q", "p_dot_q"]
    vectors = pl.Series([[1.0, 2.0], [3.0, 5.0]], dtype=pl.List(pl.Float32))
    table = pl.DataFrame({name: [7, 8] for name in names if name != vector} | {"d": [0, 1], vector: vectors})
    east, north = np.eye(2, dtype=np.float32)
    got = run(
        write_query(cp.Adjustment(east, north, 1.0, 0.5), dialect, "fix", user="d", vector=vector), {"fix": table}
    )
    assert list(map(int, got["d"])) == [0, 1]
    assert [str(v).replace(" ", "").strip("{[]}") for v in got[vector]] in (["0,1", "0,2.5"], ["0.0,1.0", "0.0,2.5"])


def test_names_with_braces_are_written_as_they_are() -> None:
    log = as_table(cp.make_world(60, 40, mean_activity=5, seed=0).log)
    lists = draw_lists(cp.read_interactions(log), 5, 2, True)
    found = cp.read_recommendations(lists, cp.read_interactions(log))
    names = {"user": "{user}", "item": "{}", "rank": "{k}"}
    tables = {"{log}": log.rename({n: names[n] for n in log.columns}), "lists": lists.rename(names)}
    got = run_duckdb(write_audit("duckdb", '"{log}"', "lists", **names), tables)
    check_audit(got, cp.audit(found.lists, found.users, found.log))


def test_wrong_input_is_one_sentence() -> None:
    with pytest.raises(InputError, match="the dialect must be one of duckdb, postgresql, spark, got 'oracle'"):
        write_audit("oracle")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="k must be at least 1, got 0"):
        write_audit("duckdb", k=0)
