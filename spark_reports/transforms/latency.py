"""How long producers waited for the word that a record is written, by acks."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.events import OUTSIDE
from replica.trace.names import RECORD_ACKED, RECORD_HANDED_OVER
from spark_reports.schema import RUN

_PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
_NEAREST_RANK = "percentile_disc({}) WITHIN GROUP (ORDER BY latency_us)"
AT_PRODUCER, AT_BROKER = "producer", "broker"


def ack_latency(produce: DataFrame) -> DataFrame:
    """One row per topic, acks level and place of measurement; exact percentiles (nearest rank) of the time to the ack.

    For producers of the scenario the time is measured in the producer: from the send call to the ack, retries included;
    for acks=0 to the hand-over to the socket. For clients from outside it is measured in the broker: from the arrival
    of the acked request until the kernel has its answer; for acks=0 the time is unknown, and there is no figure.
    out: run, topic, acks, measured_at (producer or broker), records, p50_us, p95_us, p99_us, p999_us, max_us
    """
    answered = produce.filter(F.col("event").isin(RECORD_ACKED, RECORD_HANDED_OVER))
    place = F.when(F.col("client").startswith(OUTSIDE), F.lit(AT_BROKER)).otherwise(F.lit(AT_PRODUCER))
    return answered.groupBy(RUN, "topic", "acks", place.alias("measured_at")).agg(
        F.count("*").alias("records"),
        *[F.expr(_NEAREST_RANK.format(share)).cast("long").alias(name) for name, share in _PERCENTILES.items()],
        F.max("latency_us").alias("max_us"),
    )
