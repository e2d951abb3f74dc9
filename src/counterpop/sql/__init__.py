"""The query transform and the audit as SQL text for DuckDB, PostgreSQL and Spark SQL."""

from counterpop.sql.audits import write_audit
from counterpop.sql.dialects import Dialect
from counterpop.sql.queries import write_query

__all__ = ["Dialect", "write_audit", "write_query"]
