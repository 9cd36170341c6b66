"""Rows of short traces on their way between this process and Spark: in Arrow, and in one partition."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_reports.session import name_call_site
from spark_reports.settings import SMALL_TRACE_SETTINGS

_CHOSEN = {name: value for name, value in SMALL_TRACE_SETTINGS.items() if name.startswith("spark.sql.")}


def is_for_short_traces(spark: SparkSession) -> bool:
    """Whether the session has the settings for short traces: all of them, for a user may have chosen one."""
    return all(spark.conf.get(name, None) == value for name, value in _CHOSEN.items())


def session_for_short_traces(spark: SparkSession) -> SparkSession:
    """Another session of the same Spark, with those settings."""
    session = spark.newSession()
    for name, value in _CHOSEN.items():
        session.conf.set(name, value)
    return session


def held(spark: SparkSession, rows: pa.Table, columns: StructType) -> DataFrame:
    """Rows that stand in the plan itself: Spark filters them while it optimizes, and leaves out what no row takes
    part in.
    """
    # In one piece: of columns in several pieces, some of them empty, Spark has lost rows.
    return spark.createDataFrame(rows.combine_chunks(), columns).coalesce(1) if len(rows) else no_rows(spark, columns)


def no_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """The optimizer drops it and what hangs on it. Made of an empty list it would start Python workers."""
    return spark.createDataFrame(to_arrow_schema(columns).empty_table(), columns)


def columns_of(ddl: str) -> StructType:
    columns = StructType.fromDDL(ddl)
    assert isinstance(columns, StructType)
    return columns


def none_of(spark: SparkSession, ddl: str) -> DataFrame:
    """no_rows() with these columns."""
    return no_rows(spark, columns_of(ddl))


def has_no_rows(table: DataFrame) -> bool:
    """Whether its plan alone says so. Of tables in files it does not."""
    return has_at_most(table, 0)


def has_at_most(table: DataFrame, rows: int) -> bool:
    """The same of so many rows."""
    most = table._jdf.queryExecution().optimizedPlan().maxRows()
    return bool(most.isDefined() and most.get() <= rows)


def collected(table: DataFrame) -> pa.Table:
    rows = table.toArrow()
    name_call_site(table.sparkSession)  # PySpark has just set its own, and removed it.
    return rows


def few_rows(table: DataFrame) -> pa.Table:
    """collected(), without a query where the plan says that there are none."""
    return to_arrow_schema(table.schema).empty_table() if has_no_rows(table) else collected(table)
