"""Derive the Spark schemas of the trace's tables from the declarations of events in `replica.trace`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from replica.trace.events import Column, columns_of_table

RUN = "run"
"""Column with the name of the run folder, added on reading because one job may read many runs."""

PARTITION_KEY = (RUN, "topic", "partition")
REPLICA_KEY = (*PARTITION_KEY, "node")

_SPARK_TYPES: dict[str, DataType] = {
    "int64": LongType(),
    "string": StringType(),
    "bool": BooleanType(),
    "list<string>": ArrayType(StringType(), containsNull=False),
    "list<int64>": ArrayType(LongType(), containsNull=False),
}


def trace_schema(table: str, *, observed: bool = False) -> StructType:
    """Return the schema of a trace table on disk, with each column's meaning as its comment.

    `observed` is True for a run on real Kafka.
    """
    return spark_schema(columns_of_table(table, observed=observed))


def spark_schema(columns: Sequence[Column]) -> StructType:
    """Return the Spark schema of columns, each with its meaning as its comment."""
    return StructType(
        [
            StructField(column.name, _SPARK_TYPES[column.type], column.nullable, {"comment": column.doc})
            for column in columns
        ]
    )
