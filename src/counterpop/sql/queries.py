"""The query transform as SQL: vectors are arrays of numbers, and the directions are part of the text."""

from __future__ import annotations

from string import Template

from counterpop.adjustment import Adjustment
from counterpop.embeddings import FloatArray
from counterpop.sql.dialects import Dialect, check_dialect, in_dialect, quote

# The inner product of two arrays, and u - c p - d q for each component.
_DOT: dict[Dialect, str] = {
    "duckdb": "list_dot_product(CAST({} AS DOUBLE[]), {})",
    "postgresql": "(SELECT SUM(x * y) FROM unnest({}, {}) AS components(x, y))",
    "spark": "aggregate(zip_with({}, {}, (x, y) -> x * y), CAST(0 AS DOUBLE), (total, x) -> total + x)",
}
_TAKE_OUT: dict[Dialect, str] = {
    "duckdb": "list_transform(list_zip(u, p, q), lambda x: CAST(x[1] - c * x[2] - d * x[3] AS REAL))",
    "postgresql": "(SELECT array_agg(CAST(x - c * y - d * z AS REAL) ORDER BY n) "
    "FROM unnest(u, p, q) WITH ORDINALITY AS components(x, y, z, n))",
    "spark": "zip_with(zip_with(u, p, (x, y) -> x - c * y), q, (x, z) -> CAST(x - d * z AS FLOAT))",
}
# c = b (u.p) and d = a ((u - c p).q) = a (u.q - c p.q): one pass over u for both products. The table's columns are
# renamed first, so that none of them is taken for one of these.
_TEXT = Template("""WITH cp_fix AS (
  SELECT $p AS p, $q AS q, CAST($b AS DOUBLE PRECISION) AS b, CAST($a AS DOUBLE PRECISION) AS a
), cp_users AS (
  SELECT $id AS id, $vector AS u FROM $table
), cp_along AS (
  SELECT id, u, p, q, a, b * $u_dot_p AS c, $u_dot_q AS along_q, $p_dot_q AS p_dot_q
  FROM cp_users CROSS JOIN cp_fix
), cp_amounts AS (
  SELECT id, u, p, q, c, a * (along_q - c * p_dot_q) AS d FROM cp_along
)
SELECT id AS $id, $result AS $vector FROM cp_amounts""")


def write_query(
    fix: Adjustment, dialect: Dialect, table: str = "users", *, user: str = "id", vector: str = "features"
) -> str:
    """SQL that selects every user of a table with their query at the fix's strengths, under the same two columns.

    The column `vector` holds arrays of numbers (REAL[] in PostgreSQL, FLOAT[] in DuckDB, ARRAY<FLOAT> in Spark). The
    result is Adjustment.query to float tolerance. `table` is written as it is, column names are quoted. Strengths that
    differ by user (`segments`, `lean`) are not in the text.

    >>> import numpy as np
    >>> east, north = np.eye(2, dtype=np.float32)
    >>> print(write_query(Adjustment(east, north, 1.0, 0.5), "duckdb").splitlines()[1])
      SELECT ARRAY[CAST(0.0 AS DOUBLE PRECISION), 1.0] AS p, ARRAY[CAST(1.0 AS DOUBLE PRECISION), 0.0] AS q, \
CAST(0.5 AS DOUBLE PRECISION) AS b, CAST(1.0 AS DOUBLE PRECISION) AS a
    """
    check_dialect(dialect)
    dot = _DOT[dialect]
    text = _TEXT.substitute(
        p=_array(fix.user_direction, dialect),
        q=_array(fix.item_direction, dialect),
        a=float(fix.item_strength),
        b=float(fix.user_strength),
        id=quote(user, dialect),
        vector=quote(vector, dialect),
        table=table,
        u_dot_p=dot.format("u", "p"),
        u_dot_q=dot.format("u", "q"),
        p_dot_q=dot.format("p", "q"),
        result=_TAKE_OUT[dialect],
    )
    return in_dialect(text, dialect)


def _array(direction: FloatArray, dialect: Dialect) -> str:
    """An array of doubles as a literal; the cast of its first number decides the type of all."""
    first, *rest = [str(float(x)) for x in direction]
    numbers = ", ".join([f"CAST({first} AS DOUBLE PRECISION)", *rest])
    return f"array({numbers})" if dialect == "spark" else f"ARRAY[{numbers}]"
