"""Fewer points for pictures, chosen so that no peak and no rare event is lost."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN

BINS = 700
WHOLE_UP_TO = 4_000
"""Partitions with at most this many points are drawn as they are."""


def thinned(points: DataFrame, ends: DataFrame, series: Sequence[str], peak: str, always: Column) -> DataFrame:
    """Of each of BINS stretches of the run and each series, keep the last point and those with the largest and the
    smallest `peak`.

    series: columns that distinguish lines       always: points to keep in any case
    in:     points with *PARTITION_KEY, at_us, seq; run_ends()
    out:    the same columns; besides `always` at most three points for each series and stretch
    """
    width = F.greatest(F.lit(1), F.col("end_us") / F.lit(BINS)).cast("long")
    bins = [*series, "bin"]
    is_last = F.row_number().over(Window.partitionBy(*bins).orderBy(F.col("seq").desc())) == 1
    is_peak = F.row_number().over(Window.partitionBy(*bins).orderBy(F.col(peak).desc_nulls_last(), "seq")) == 1
    is_trough = F.row_number().over(Window.partitionBy(*bins).orderBy(F.col(peak).asc_nulls_last(), "seq")) == 1
    is_small = F.count("*").over(Window.partitionBy(*PARTITION_KEY)) <= WHOLE_UP_TO
    return (
        points.join(F.broadcast(ends), RUN)
        .withColumn("bin", F.floor(F.col("at_us") / width))
        .withColumns({"is_last": is_last, "is_peak": is_peak, "is_trough": is_trough, "is_small": is_small})
        .filter(F.col("is_small") | F.col("is_last") | F.col("is_peak") | F.col("is_trough") | always)
        .select(*points.columns)
    )
