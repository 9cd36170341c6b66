"""Rows of result tables as dicts -> what the page reads: columns of the declared types, null where a dict is silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_reports.report.rows import Rows
from spark_reports.results import RESULT_TABLES

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
}


def schema_of(table: str) -> pa.Schema:
    columns = (column.split() for column in RESULT_TABLES[table].ddl.split(","))
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns])


def rows_of(table: str, rows: Sequence[dict[str, Any]] = ()) -> Rows:
    return Rows(pa.Table.from_pylist(list(rows), schema=schema_of(table)))
