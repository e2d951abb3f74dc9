"""The audit as SQL: every measure of `auditing.DEFINITIONS`, by group-bys, joins and windows over items.

The text is a chain of steps. `write_audit` joins them as one query; Spark runs them one by one and keeps those that
several later ones use.
"""

from __future__ import annotations

from counterpop.auditing import CLASSES
from counterpop.auditing.measures import MOST_RECOMMENDED, REPEATS
from counterpop.errors import InputError
from counterpop.interactions import HEAD_SHARE
from counterpop.metrics.popularity import TOP_SHARE
from counterpop.sql.dialects import Dialect, check_dialect, in_dialect, quote


def _divergence(pairs: list[tuple[str, str]]) -> str:
    """Jensen-Shannon divergence in bits of two lists of shares: see `metrics.popularity.jensen_shannon`."""
    terms = [
        f"CASE WHEN {one} > 0 THEN {one} * LN(2 * {one} / ({x} + {y})) ELSE 0 END" for x, y in pairs for one in (x, y)
    ]
    return f"({' + '.join(terms)}) / (2 * LN(2))"


def _spread(tail: str, head: str, tails: str, heads: str) -> str:
    """Standard deviation / mean of two rates, which is |x - y| / (x + y)."""
    x, y = (f"CAST({n} AS DOUBLE PRECISION) / NULLIF({of}, 0)" for n, of in ((tail, tails), (head, heads)))
    return f"ABS({x} - {y}) / NULLIF({x} + {y}, 0)"


def _by_class(what: str, prefix: str) -> str:
    return ", ".join(f"SUM(CASE WHEN class = {n} THEN {what} ELSE 0 END) AS {prefix}{c}" for n, c in enumerate(CLASSES))


_MIX = _divergence([(f"l.{c} / l.size", f"p.{c} / p.size") for c in CLASSES])
_FAIR = _divergence([(f"l.a_{c} / l.attention", f"w.{c} / w.n") for c in CLASSES])
_D = "DOUBLE PRECISION"

# {pairs}: the log, {places}: the lists, {later}: held-out pairs; u is a user, i an item
STEPS: dict[str, str] = {
    "shown": f"""
      SELECT u, i, place, LN(2) / LN(1 + CAST(place AS {_D})) AS attention FROM (
        SELECT u, i, ROW_NUMBER() OVER (PARTITION BY u ORDER BY r, i) AS place FROM (
          SELECT u, i, MIN(r) AS r FROM {{places}} GROUP BY u, i
        ) AS first_places
      ) AS numbered WHERE place <= {{k}}""",
    "chosen": "SELECT DISTINCT u, i FROM {pairs}",
    # items by falling count, ties by id; a running sum decides on head and tail
    "items": f"""
      SELECT i, n, place, running, n_items,
        CASE WHEN running <= {TOP_SHARE} * total OR place = 0 THEN 0
             WHEN running <= {HEAD_SHARE} * total THEN 1 ELSE 2 END AS class
      FROM (
        SELECT i, n, ROW_NUMBER() OVER (ORDER BY n DESC, i) - 1 AS place,
          SUM(n) OVER (ORDER BY n DESC, i ROWS UNBOUNDED PRECEDING) AS running,
          SUM(n) OVER () AS total, COUNT(*) OVER () AS n_items
        FROM (
          SELECT i, CAST(SUM(n) AS {_D}) AS n FROM (
            SELECT i, COUNT(*) AS n FROM {{chosen}} GROUP BY i UNION ALL SELECT DISTINCT i, 0 AS n FROM {{shown}}
          ) AS both_sources GROUP BY i
        ) AS counted
      ) AS ordered""",
    "whole": f"""
      SELECT SUM(n) AS n, SUM(n * n) AS n2, COUNT(*) AS items, {_by_class("n", "")}, {_by_class("1", "items_")},
        SUM((n_items - 2 * place - 1) * n) / (COUNT(*) * SUM(n)) AS gini,
        SUM(CASE WHEN place < CEIL({MOST_RECOMMENDED} * n_items) THEN n ELSE 0 END) / SUM(n) AS most
      FROM {{items}}""",
    "places_with_counts": """
      SELECT s.u, s.i, s.attention, c.n, c.class, CASE WHEN p.i IS NULL THEN 1 ELSE 0 END AS fresh
      FROM {shown} AS s JOIN {items} AS c ON c.i = s.i LEFT JOIN {chosen} AS p ON p.u = s.u AND p.i = s.i""",
    "of_lists": f"""
      SELECT u, CAST(COUNT(*) AS {_D}) AS size, AVG(n) AS popularity, {_by_class("1", "")},
        SUM(attention) AS attention, {_by_class("attention", "a_")}
      FROM {{places_with_counts}} GROUP BY u""",
    "profiles": """
      SELECT p.u, c.n, c.place, c.class, ROW_NUMBER() OVER (PARTITION BY p.u ORDER BY c.place) - 1 AS nth
      FROM {chosen} AS p JOIN {items} AS c ON c.i = p.i JOIN {of_lists} AS l ON l.u = p.u""",
    "whole_lists": """
      SELECT COUNT(*) AS places, MAX(place) AS k, COUNT(DISTINCT u) AS lists FROM {shown}""",
    # an item of the profile is skipped if fewer than k more popular items are not in the profile
    "of_profiles": f"""
      SELECT u, CAST(COUNT(*) AS {_D}) AS size, SUM(n) AS n, SUM(n * n) AS n2, {_by_class("1", "")},
        {_by_class("n", "n_")},
        SUM(CASE WHEN place - nth < k THEN 1 ELSE 0 END) AS skipped,
        SUM(CASE WHEN place - nth < k THEN n ELSE 0 END) AS n_skipped
      FROM {{profiles}} CROSS JOIN {{whole_lists}} AS all_lists GROUP BY u""",
    "repeating": f"""
      SELECT CASE WHEN SUM(1 - fresh) >= {REPEATS} * COUNT(*) THEN 1 ELSE 0 END AS again,
        SUM(CASE WHEN class = 2 THEN fresh ELSE 0 END) AS tail, SUM(CASE WHEN class < 2 THEN fresh ELSE 0 END) AS head
      FROM {{places_with_counts}}""",
    "top": """
      SELECT AVG(n) AS n FROM {items} CROSS JOIN {whole_lists} AS all_lists WHERE place < k""",
    "users": f"""
      SELECT l.popularity, l.tail / l.size AS tail_share, p.n / p.size AS profile_popularity,
        p.tail / p.size AS profile_tail_share, {_MIX} AS miscalibration, 1 - {_FAIR} AS awrf,
        CASE WHEN again = 1 THEN w.n2 / w.n ELSE (w.n2 - COALESCE(p.n2, 0)) / NULLIF(w.n - COALESCE(p.n, 0), 0) END
          AS expected_popularity,
        CASE WHEN again = 1 THEN w.tail / w.n
             ELSE (w.tail - COALESCE(p.n_tail, 0)) / NULLIF(w.n - COALESCE(p.n, 0), 0) END AS expected_tail_share,
        CASE WHEN again = 1 THEN t.n
             ELSE (c.running - COALESCE(p.n_skipped, 0)) / NULLIF(c.place + 1 - COALESCE(p.skipped, 0), 0) END
          AS highest_popularity
      FROM {{of_lists}} AS l CROSS JOIN {{whole}} AS w CROSS JOIN {{whole_lists}} AS x CROSS JOIN {{repeating}} AS r
        CROSS JOIN {{top}} AS t LEFT JOIN {{of_profiles}} AS p ON p.u = l.u
        LEFT JOIN {{items}} AS c ON c.place = LEAST(x.k + COALESCE(p.skipped, 0), w.items) - 1
      WHERE p.u IS NOT NULL OR NOT EXISTS (SELECT 1 FROM {{of_profiles}})""",
    "means": """
      SELECT AVG(popularity) AS average_popularity, AVG(expected_popularity) AS expected_popularity,
        AVG(profile_popularity) AS profile_popularity, AVG(highest_popularity) AS highest_popularity,
        AVG(tail_share) AS tail_share, AVG(expected_tail_share) AS expected_tail_share,
        AVG(profile_tail_share) AS profile_tail_share, AVG(miscalibration) AS miscalibration, AVG(awrf) AS awrf
      FROM {users}""",
    "exposures": f"""
      SELECT c.n, c.class, COALESCE(e.times, 0) AS times, COALESCE(e.attention, 0) AS attention, n_items,
        ROW_NUMBER() OVER (ORDER BY COALESCE(e.times, 0) DESC, c.place) - 1 AS place
      FROM {{items}} AS c LEFT JOIN (
        SELECT i, CAST(COUNT(*) AS {_D}) AS times, SUM(attention) AS attention FROM {{shown}} GROUP BY i
      ) AS e ON e.i = c.i""",
    "spread": f"""
      SELECT CAST(SUM(CASE WHEN times > 0 THEN 1 ELSE 0 END) AS {_D}) / COUNT(*) AS coverage,
        AVG(CASE WHEN class = 2 THEN CASE WHEN times > 0 THEN CAST(1 AS {_D}) ELSE 0 END END) AS tail_coverage,
        SUM(CASE WHEN class = 2 THEN times ELSE 0 END) AS tail_places,
        SUM((n_items - 2 * e.place - 1) * times) / (COUNT(*) * SUM(times)) AS gini,
        SUM(CASE WHEN e.place < CEIL({MOST_RECOMMENDED} * n_items) THEN times ELSE 0 END) / SUM(times) AS most,
        SUM(POWER(attention / all_attention, 2)) AS exposure_disparity,
        SUM(POWER(e.n / w.n, 2)) AS log_disparity,
        SUM(POWER(attention / all_attention - e.n / w.n, 2)) AS exposure_loss,
        AVG(1 - EXP(places * LN(1 - LEAST(e.n / w.n, 1 - 1e-16)))) AS expected_coverage
      FROM {{exposures}} AS e CROSS JOIN {{whole}} AS w CROSS JOIN {{whole_lists}} AS x
        CROSS JOIN (SELECT SUM(attention) AS all_attention FROM {{shown}}) AS total""",
    # pairs of a user with a list and an item that is not in the profile
    "candidates": """
      SELECT x.lists * w.items_tail - COALESCE(SUM(p.tail), 0) AS tail,
        x.lists * (w.items_top + w.items_middle) - COALESCE(SUM(p.top + p.middle), 0) AS head
      FROM {whole} AS w CROSS JOIN {whole_lists} AS x LEFT JOIN {of_profiles} AS p ON 1 = 1
      GROUP BY x.lists, w.items_tail, w.items_top, w.items_middle""",
    "liked": """
      SELECT SUM(CASE WHEN c.class = 2 THEN 1 ELSE 0 END) AS tail, SUM(CASE WHEN c.class < 2 THEN 1 ELSE 0 END) AS head,
        SUM(CASE WHEN c.class = 2 AND s.i IS NOT NULL THEN 1 ELSE 0 END) AS tail_found,
        SUM(CASE WHEN c.class < 2 AND s.i IS NOT NULL THEN 1 ELSE 0 END) AS head_found
      FROM (SELECT DISTINCT u, i FROM {later}) AS h JOIN {items} AS c ON c.i = h.i JOIN {of_lists} AS l ON l.u = h.u
        LEFT JOIN {chosen} AS p ON p.u = h.u AND p.i = h.i LEFT JOIN {shown} AS s ON s.u = h.u AND s.i = h.i
      WHERE p.i IS NULL""",
    "audit": f"""
      SELECT x.lists, x.k, w.items, w.items_top + w.items_middle AS head_items, m.*,
        average_popularity / expected_popularity - 1 AS amplification,
        average_popularity / profile_popularity - 1 AS popularity_lift,
        s.tail_places / x.lists AS tail_items, s.tail_coverage, s.coverage, s.expected_coverage, s.gini,
        w.gini AS log_gini, s.most AS most_recommended_share, w.most AS log_top_share, s.exposure_disparity,
        s.log_disparity, s.exposure_loss,
        {_spread("r.tail", "r.head", "c.tail", "c.head")} AS pop_rsp,
        {_spread("expected_tail_share", "(1 - expected_tail_share)", "c.tail", "c.head")} AS expected_pop_rsp,
        {_spread("h.tail_found", "h.head_found", "h.tail", "h.head")} AS pop_reo
      FROM {{means}} AS m CROSS JOIN {{spread}} AS s CROSS JOIN {{whole}} AS w CROSS JOIN {{whole_lists}} AS x
        CROSS JOIN {{repeating}} AS r CROSS JOIN {{candidates}} AS c CROSS JOIN {{liked}} AS h""",
}


def write_sources(
    log: str, lists: str, later: str | None, dialect: Dialect, *, user: str, item: str, rank: str
) -> dict[str, str]:
    """The steps that read the three tables; without held-out pairs the third is empty."""
    u, i, r = (quote(name, dialect) for name in (user, item, rank))
    rows = f"SELECT {u} AS u, {i} AS i"
    return {
        "pairs": f"{rows} FROM {log}",
        "places": f"{rows}, {r} AS r FROM {lists}",
        "later": f"{rows} FROM {later}" if later else f"{rows} FROM {log} WHERE 1 = 0",
    }


def write_audit(
    dialect: Dialect,
    log: str = "log",
    lists: str = "lists",
    later: str | None = None,
    *,
    user: str = "user",
    item: str = "item",
    rank: str = "rank",
    k: int | None = None,
) -> str:
    """SQL that selects one row: every measure of `audit` over the lists in a table, and `lists`, `k`, `items`.

    `log` has a row for each interaction, `lists` one for each recommended item with its rank (1 is best), and `later`
    what users liked afterwards. Equal to `audit` on `read_recommendations(..., keep_unknown=True)`: repeated rows count
    once, and lists are cut after `k` places. A measure that cannot be known is NULL. Table names are written as they
    are, column names are quoted. Ties in popularity are broken by id, in PostgreSQL by its collation: declare text ids
    COLLATE "C". Intervals and segments of users are not in the text.
    """
    check_dialect(dialect)
    if k is not None and k < 1:
        raise InputError(f"k must be at least 1, got {k}")
    sources = write_sources(log, lists, later, dialect, user=user, item=item, rank=rank)
    names = {step: f"cp_{step}" for step in sources | STEPS}
    filled = {step: in_dialect(text.format(**names, k=k or 2**31 - 1), dialect) for step, text in STEPS.items()}
    last = filled.pop("audit")
    joined = ",\n".join(f"{names[step]} AS ({text}\n)" for step, text in (sources | filled).items())
    return f"WITH {joined}{last}"
