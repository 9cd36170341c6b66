"""Rows that this process hands to Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_reports.held import collected, held

pytestmark = pytest.mark.spark


def test_rows_in_several_pieces_all_arrive(spark: SparkSession) -> None:
    columns = StructType.fromDDL("word string, number bigint")
    assert isinstance(columns, StructType)
    words = pa.chunked_array([[], ["a"], [], ["b", "c"]], pa.string())
    rows = pa.table({"word": words, "number": pa.chunked_array([[1, 2, 3]], pa.int64())})
    assert collected(held(spark, rows, columns)).to_pylist() == rows.to_pylist()
