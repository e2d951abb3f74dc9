"""docs/query.md and docs/vector_databases.md: JavaScript, SQL and every recipe that runs here rank as Python does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import counterpop as cp

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "query.md").read_text(encoding="utf-8")
DATABASES = (DOCS / "vector_databases.md").read_text(encoding="utf-8")
CASES = [(0.0, 0.0), (0.6, 0.4), (2.0, 1.4), (0.0, 1.0), (1.0, 0.0)]


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    """The part of docs/vector_databases.md below a heading."""
    return DATABASES.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def fix() -> cp.Adjustment:
    draw = np.random.default_rng(0)
    q, p = (v / np.linalg.norm(v) for v in draw.normal(size=(2, 24)))
    return cp.Adjustment(q.astype(np.float32), p.astype(np.float32), 0.6, 0.4)


@pytest.fixture(scope="module")
def users() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(7, 24)).astype(np.float32)


def test_five_lines_of_arithmetic(fix: cp.Adjustment, users: np.ndarray) -> None:
    for a, b in CASES:
        u = users[0].astype(np.float64)
        c = b * sum(u[d] * fix.user_direction[d] for d in range(len(u)))
        u = np.array([u[d] - c * fix.user_direction[d] for d in range(len(u))])
        c = a * sum(u[d] * fix.item_direction[d] for d in range(len(u)))
        u = np.array([u[d] - c * fix.item_direction[d] for d in range(len(u))])
        assert fix.query(users[0], a, b) == pytest.approx(u, abs=1e-5)


def test_javascript(fix: cp.Adjustment, users: np.ndarray, tmp_path: Path) -> None:
    node = shutil.which("node") or shutil.which("nodejs")
    if node is None:
        pytest.skip("node is not installed (Debian: nodejs)")
    cp.save_adjustment(fix, tmp_path / "fix")
    (source,) = blocks("js")
    script = f"""{source}
const fix = JSON.parse(require("fs").readFileSync("{tmp_path}/fix/adjustment.json"));
const {{ users, cases }} = JSON.parse(require("fs").readFileSync(0));
const out = cases.map(([a, b]) => users.map((u) => query(u, fix, a, b)));
out.push(users.map((u) => query(u, fix)));
out.push(users.map((u) => Array.from(query(Float32Array.from(u), fix))));
let refused = "";
try {{ query([1, 2], fix); }} catch (error) {{ refused = error.message; }}
console.log(JSON.stringify({{ out, refused }}));
"""
    (tmp_path / "port.cjs").write_text(script)
    given = json.dumps({"users": users.tolist(), "cases": CASES})
    done = subprocess.run([node, str(tmp_path / "port.cjs")], input=given, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    expected = [fix.query(users, a, b) for a, b in [*CASES, (None, None), (None, None)]]
    for theirs, ours in zip(printed["out"], expected, strict=True):
        assert np.array(theirs) == pytest.approx(ours, abs=1e-5)
    assert printed["refused"] == "expected 24 numbers"


def test_sql(fix: cp.Adjustment, users: np.ndarray, tmp_path: Path) -> None:
    pgserver = pytest.importorskip("pgserver", reason="pgserver (PostgreSQL with pgvector) is not installed")
    items = np.random.default_rng(2).normal(size=(300, 24)).astype(np.float32)

    def text(vector: np.ndarray) -> str:
        return f"'{json.dumps([float(x) for x in vector])}'"

    functions, table, search = blocks("sql")
    server = pgserver.get_server(tmp_path / "pg", cleanup_mode="delete")
    try:

        def ask(command: str) -> list[str]:
            """The lines of a query that returns one column."""
            printed = server.psql("\\pset tuples_only on\n\\pset format unaligned\n" + command).splitlines()
            return [line for line in printed if line and not line.startswith(("Tuples", "Output"))]

        rows = ", ".join(f"({n}, {text(item)})" for n, item in enumerate(items))
        people = ", ".join(f"({n + 1}, {text(user)})" for n, user in enumerate(users))
        ask(f"CREATE EXTENSION vector;\n{functions}\n{table}")
        ask(f"CREATE TABLE items (id int, embedding vector(24)); INSERT INTO items VALUES {rows};")
        ask(f"CREATE TABLE users (id int, embedding vector(24)); INSERT INTO users VALUES {people};")
        directions = f"{text(fix.item_direction)}, {text(fix.user_direction)}"
        ask(f"INSERT INTO popularity_fix VALUES ({directions}, 0.6, 0.4);")
        for a, b in CASES:
            found = ask(f"SELECT debiased_query({text(users[0])}, {directions}, {a}, {b});")
            assert json.loads(found[-1]) == pytest.approx(fix.query(users[0], a, b), abs=1e-5)
        ranked = [int(line) for line in ask(search)]
        cp.save_adjustment(fix, tmp_path / "FIX")
        insert, function, requests = blocks("sql", section("pgvector"))
        insert = insert.replace("FIX/", f"{tmp_path}/FIX/")
        ask(f"DROP TABLE popularity_fix;\n{insert}\n{function}")
        tuned, chosen = requests.splitlines()
        assert [int(line) for line in ask(tuned)] == ranked
        milder = np.argsort(-items @ fix.query(users[6], 0.3, 0.0))[:20]
        assert [int(line) for line in ask(chosen)] == milder.tolist() != ranked
        assert ranked == np.argsort(-items @ fix.query(users[6]))[:20].tolist()
        # the transform is computed once, so an index on inner products can serve the search
        plan = ask(
            f"CREATE INDEX ON items USING hnsw (embedding vector_ip_ops);\nSET enable_seqscan = off;\nEXPLAIN {search}"
        )
        assert any("Index Scan using items_embedding_idx on items" in line for line in plan)
    finally:
        server.cleanup()


@pytest.mark.parametrize(
    ("title", "package"),
    [("Qdrant", "qdrant_client"), ("Milvus", "pymilvus"), ("LanceDB", "lancedb"), ("DuckDB", "duckdb")],
)
def test_a_recipe_finds_what_an_exact_search_finds(
    title: str, package: str, fix: cp.Adjustment, users: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed (pip install 'counterpop[vectordb]')")
    monkeypatch.chdir(tmp_path)
    items = np.random.default_rng(2).normal(size=(300, 24)).astype(np.float32)
    ids = np.arange(300) + 1000
    names = {"item_ids": ids, "item_vectors": items, "user_vector": users[3], "fix": fix}
    (recipe,) = blocks("python", section(title))
    exec(compile(recipe, title, "exec"), names)
    exact = ids[np.argsort(-items @ fix.query(users[3]))[:20]].tolist()
    assert names["found"] == exact
    assert exact != ids[np.argsort(-items @ users[3])[:20]].tolist()


def test_the_blocks_for_databases_that_are_not_run_are_at_least_json() -> None:
    for title, count in (("OpenSearch", 2), ("Elasticsearch", 2), ("Vespa", 1)):
        found = blocks("json", section(title))
        assert len(found) == count
        for block in found:
            json.loads(block)


def test_items_stored_without_popularity_give_the_same_scores_at_every_strength(
    fix: cp.Adjustment, users: np.ndarray
) -> None:
    items = np.random.default_rng(2).normal(size=(300, 24)).astype(np.float32)
    (recipe,) = blocks("python", section("Graphs (HNSW)"))
    names = {"item_vectors": items, "user_vector": users[3], "fix": fix}
    exec(compile(recipe, "graphs", "exec"), names)
    assert names["stored"] @ names["query"] == pytest.approx(items @ fix.query(users[3]), abs=1e-4)
    assert names["stored"] @ names["milder"] == pytest.approx(items @ fix.query(users[3], 0.3, 0.0), abs=1e-4)
    by_activity = cp.Segments("activity", (10.0,), ((1.6, 0.2), (0.4, 0.0)))
    both = cp.Adjustment(fix.item_direction, fix.user_direction, 0.6, 0.4, by_activity)
    ours, theirs = (model.segments.strengths_of([3, 50]) for model in (both, both.stored_at(0.8)))
    scores = items @ both.query(users[:2], *ours).T
    assert names["stored"] @ both.query(users[:2], *theirs).T == pytest.approx(scores, abs=1e-4)
    with pytest.raises(cp.InputError, match="from 0 to below 1, got 1"):
        fix.stored_at(1)
