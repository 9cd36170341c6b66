"""Transfer rows of short traces between this process and Spark, as Arrow data in one partition."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_reports.session import name_call_site
from spark_reports.settings import SMALL_TRACE_SETTINGS

_CHOSEN = {name: value for name, value in SMALL_TRACE_SETTINGS.items() if name.startswith("spark.sql.")}


def is_for_short_traces(spark: SparkSession) -> bool:
    """Return True if the session has all settings for short traces, even if a user has set some of them."""
    return all(spark.conf.get(name, None) == value for name, value in _CHOSEN.items())


def session_for_short_traces(spark: SparkSession) -> SparkSession:
    """Return a new session of the same Spark application, with the settings for short traces."""
    session = spark.newSession()
    for name, value in _CHOSEN.items():
        session.conf.set(name, value)
    return session


def held(spark: SparkSession, rows: pa.Table, columns: StructType) -> DataFrame:
    """Return a DataFrame that has these rows in its query plan.

    Spark's optimizer filters such rows itself, and drops the parts of a query that get no rows.
    """
    # Combine the chunks: Spark has lost rows of columns with several chunks, some of them empty.
    return spark.createDataFrame(rows.combine_chunks(), columns).coalesce(1) if len(rows) else no_rows(spark, columns)


def no_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """Return a DataFrame without rows, which the optimizer drops with everything that is computed from it.

    A DataFrame made of an empty list would start Python workers.
    """
    return spark.createDataFrame(to_arrow_schema(columns).empty_table(), columns)


def columns_of(ddl: str) -> StructType:
    columns = StructType.fromDDL(ddl)
    assert isinstance(columns, StructType)
    return columns


def none_of(spark: SparkSession, ddl: str) -> DataFrame:
    """Return a DataFrame without rows; `ddl` is its schema."""
    return no_rows(spark, columns_of(ddl))


def has_no_rows(table: DataFrame) -> bool:
    """Return True if the query plan proves that the table has no rows, which it never does for tables in files."""
    return has_at_most(table, 0)


def has_at_most(table: DataFrame, rows: int) -> bool:
    """Return True if the query plan proves that the table has at most this many rows."""
    most = table._jdf.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined() and most.get() <= rows)


def collected(table: DataFrame) -> pa.Table:
    rows = table.toArrow()
    name_call_site(table.sparkSession)  # PySpark has just set and removed its own call site.
    return rows


def few_rows(table: DataFrame) -> pa.Table:
    """Return the rows as collected() does, but without a query if the plan proves that there are none."""
    return to_arrow_schema(table.schema).empty_table() if has_no_rows(table) else collected(table)
