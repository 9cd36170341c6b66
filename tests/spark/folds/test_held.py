"""Rows that this process hands to Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_reports.held import collected, columns_of, held

pytestmark = pytest.mark.spark


@pytest.mark.soak
def test_rows_in_several_pieces_all_arrive(spark: SparkSession) -> None:
    words = pa.chunked_array([[], ["a"], [], ["b", "c"]], pa.string())
    rows = pa.table({"word": words, "number": pa.chunked_array([[1, 2, 3]], pa.int64())})
    assert collected(held(spark, rows, columns_of("word string, number bigint"))).to_pylist() == rows.to_pylist()
