"""The fetch path in figures: bytes per answer and per system call, and how fast a follower that came back caught up."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica.trace.names import FOLLOWER_FETCHED, NODE_STARTED, NODE_STOPPED, RECORDS_SENT
from spark_reports.folds import catch_ups as fold
from spark_reports.folds.events import Folding, by_partition
from spark_reports.folds.facts import Facts, same
from spark_reports.schema import RUN


def fetch_efficiency(fetch: DataFrame, request: DataFrame) -> DataFrame:
    """One row per broker and peer that fetched from it (a follower or a client).

    in:  the tables fetch and request; only runs that measure requests have rows in the latter
    out: run, node, peer, partition_reads (partitions of fetches answered with records), record_bytes, bytes_per_read,
         empty_fetches (of a follower: partitions asked for and nothing sent), and from the request log, else null:
         requests (fetches that found something), bytes_per_request, sendfile_bytes, sendfile_calls, bytes_per_call,
         sendfile_share (of the bytes answered)
    """
    pair = [RUN, "node", "peer"]
    sent = F.col("event") == RECORDS_SENT
    reads = fetch.groupBy(*pair).agg(
        F.count_if(sent).alias("partition_reads"),
        F.coalesce(F.sum(F.when(sent, F.col("size_bytes"))), F.lit(0)).alias("record_bytes"),
        F.count_if(F.col("event") == FOLLOWER_FETCHED).alias("asked"),
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
    """One row per replica of a broker that started again: from its first fetch to the leader's end, and into the ISR.

    in:  isr_changes()
    out: *REPLICA_KEY, started_us, first_fetch_us, from_offset (of its first fetch), caught_up_us (its fetch
         reached the leader's end; null: never), to_offset, joined_us (it came back into the ISR; null: it did not, or
         had never left), records and bytes (appended meanwhile: up to then, or to the end of its life; records that
         are cut off later count too), records_per_s, bytes_per_s
    """
    at = same("seq", "at_us")
    node = {**at, **same("node")}
    facts = {
        fold.STOPPED: Facts("control", node, {"event": [NODE_STOPPED]}, everywhere=True),
        fold.STARTED: Facts("control", node, {"event": [NODE_STARTED]}, everywhere=True),
        fold.FETCHED: Facts(
            "fetch", {**at, "node": "peer", **same("fetch_offset", "log_end_offset")}, {"event": [FOLLOWER_FETCHED]}
        ),
        fold.APPENDED: Facts(
            "log", {**node, **same("base_offset", "last_offset", "size_bytes")}, {"role": ["follower"]}
        ),
        fold.JOINED: Facts(changes, {**at, **same("joined")}),
    }
    return Folding(by_partition(fold.catch_ups, fold.cut), facts, fold.COLUMNS)
