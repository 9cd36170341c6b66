"""Compute times and rates of acknowledgements, of fetches, and of followers that catch up after a restart."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica.trace import names
from replica.trace.events import OUTSIDE
from spark_reports.folds import catch_ups as fold
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same
from spark_reports.schema import RUN


def fetch_efficiency(fetch: DataFrame, request: DataFrame) -> DataFrame:
    """Return one row per broker and peer (a follower or a client) that fetched from it.

    Args:
        fetch, request: tables of the trace; `request` has rows only in runs that measure requests.
    """
    pair = [RUN, "node", "peer"]
    sent = F.col("event") == names.RECORDS_SENT
    reads = fetch.groupBy(*pair).agg(
        F.count_if(sent).alias("partition_reads"),
        F.coalesce(F.sum(F.when(sent, F.col("size_bytes"))), F.lit(0)).alias("record_bytes"),
        F.count_if(F.col("event") == names.FOLLOWER_FETCHED).alias("asked"),
    )
    fetches = (
        request.filter(F.col("api") == "Fetch")
        .groupBy(*pair)
        .agg(
            F.count("*").alias("requests"),
            F.sum("response_bytes").alias("response_bytes"),
            F.sum("sendfile_bytes").alias("sendfile_bytes"),
            F.sum("sendfile_calls").alias("sendfile_calls"),
        )
    )
    return reads.join(fetches, pair, "left").select(
        *pair, "partition_reads", "record_bytes", _ratio("record_bytes", "partition_reads").alias("bytes_per_read"),
        F.when(F.col("asked") > 0, F.greatest(F.lit(0), F.col("asked") - F.col("partition_reads")))
        .alias("empty_fetches"),
        "requests", _ratio("response_bytes", "requests").alias("bytes_per_request"), "sendfile_bytes",
        "sendfile_calls", _ratio("sendfile_bytes", "sendfile_calls").alias("bytes_per_call"),
        _ratio("sendfile_bytes", "response_bytes").alias("sendfile_share"),
    )  # fmt: skip


def _ratio(above: str, below: str) -> Column:
    return F.when(F.col(below) > 0, F.col(above) / F.col(below))


def catch_ups(changes: pa.Table) -> Folding:
    """Return a folding with one row per replica of a restarted broker: how it caught up, and when it joined the ISR.

    The row's records and bytes include those that were truncated later.

    Args:
        changes: isr_changes().
    """
    at = same("seq", "at_us")
    node = {**at, **same("node")}
    facts = {
        fold.STOPPED: Facts("control", node, {"event": [names.NODE_STOPPED]}, everywhere=True),
        fold.STARTED: Facts("control", node, {"event": [names.NODE_STARTED]}, everywhere=True),
        fold.FETCHED: Facts(
            "fetch",
            {**at, "node": "peer", **same("fetch_offset", "log_end_offset")},
            {"event": [names.FOLLOWER_FETCHED]},
        ),
        fold.APPENDED: Facts(
            "log", {**node, **same("base_offset", "last_offset", "size_bytes")}, {"role": ["follower"]}
        ),
        fold.JOINED: Facts(changes, {**at, **same("joined")}),
    }
    return Folding(by_partition(fold.catch_ups, fold.cut), facts, fold.COLUMNS)


_PERCENTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99, "p999_us": 0.999}
_NEAREST_RANK = "percentile_disc({}) WITHIN GROUP (ORDER BY latency_us)"
AT_PRODUCER, AT_BROKER = "producer", "broker"


def ack_latency(produce: DataFrame) -> DataFrame:
    """Return percentiles of the acknowledgement time, one row per topic, acks level and side of measurement.

    Percentiles are exact (nearest rank). For the scenario's producers the time is measured in the producer: from the
    send call to the acknowledgement, including retries; with acks=0 until the socket has the record. For external
    clients it is measured in the broker: from the arrival of the request until the kernel has the response. With acks=0
    an external client has no such time and no row.
    """
    answered = produce.filter(F.col("event").isin(names.RECORD_ACKED, names.RECORD_HANDED_OVER))
    index = F.when(F.col("client").startswith(OUTSIDE), F.lit(AT_BROKER)).otherwise(F.lit(AT_PRODUCER))
    return answered.groupBy(RUN, "topic", "acks", index.alias("measured_at")).agg(
        F.count("*").alias("records"),
        *[F.expr(_NEAREST_RANK.format(share)).cast("long").alias(name) for name, share in _PERCENTILES.items()],
        F.max("latency_us").alias("max_us"),
    )
