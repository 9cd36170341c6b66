"""The trace's tables as Spark schemas, derived from `replica.trace`: declared once, beside the events."""

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
"""Name of the run folder; added by the reader, so that one job can read many runs."""

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
    """Schema of one trace table as it lies on disk, with each column's documentation as its comment.

    observed: of a run on real Kafka
    """
    return spark_schema(columns_of_table(table, observed=observed))


def spark_schema(columns: Sequence[Column]) -> StructType:
    """The same for any declared columns."""
    return StructType(
        [
            StructField(column.name, _SPARK_TYPES[column.type], column.nullable, {"comment": column.doc})
            for column in columns
        ]
    )
