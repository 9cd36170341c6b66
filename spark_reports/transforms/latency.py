"""How long producers waited for the word that a record is written, by acks."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_reports.schema import RUN

_PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}


def ack_latency(produce: DataFrame) -> DataFrame:
    """One row per topic and acks level; exact percentiles of the time from the send call to the ack.

    For acks=0 it is the time to the hand-over to the socket: nobody answers.
    out: run, topic, acks, records, p50_us, p95_us, p99_us, p999_us, max_us
    """
    answered = produce.filter(F.col("event").isin("record_acked", "record_handed_over"))
    return answered.groupBy(RUN, "topic", "acks").agg(
        F.count("*").alias("records"),
        *[F.round(F.percentile("latency_us", share)).cast("long").alias(name) for name, share in _PERCENTILES.items()],
        F.max("latency_us").alias("max_us"),
    )
