"""Why a record was lost: its holders at the ack, the leaders without it, the events that erased it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.names import (
    BATCH_APPENDED,
    BATCH_SENT,
    BROKER_FENCED,
    DATA_LOST,
    ELECTION_REFUSED,
    FAULT_BEGAN,
    FAULT_ENDED,
    INVARIANT_BROKEN,
    ISR_COMMITTED,
    ISR_REJECTED,
    LEADER_ELECTED,
    LOG_RECOVERED,
    LOG_TRUNCATED,
    NODE_STARTED,
    NODE_STOPPED,
    PARTITION_WENT_OFFLINE,
    RUN_STARTED,
)
from spark_reports.folding import folded, settled
from spark_reports.folds import losses as fold
from spark_reports.held import none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.records import RECORD_KEY


def lost_records(fates: DataFrame, trace: Trace) -> DataFrame:
    """One row per record that was acked and is gone, with the events after its ack that decided its fate.

    in:  record_fates(), the trace
    out: *RECORD_KEY, acks, sent_us, acked_us, acked_by, ack_offset,
         held_by          replicas that had appended it before the ack, sorted by name
         elected_us, elected, elected_clean, elected_reason     the first election after the ack of a leader that did
                                                                not have it then; null if there was none
         erased_us, erased_on (nodes), erased_reason            truncations after the ack that cut it off a log
         disk_lost_us, disk_lost_on, disk_lost_reason           bytes of the partition that disks lost after the ack
    """
    is_gone = F.col("lost") & F.col("acked_seq").isNotNull() & ~F.col("present")
    lost = settled(
        fates.filter(is_gone).select(
            *RECORD_KEY, F.col("acked_seq").alias("seq"), "acks", "sent_us", "acked_us", "acked_by",
            F.col("ack_offset").alias("offset"),
        )
    )  # fmt: skip
    if lost.isEmpty():
        return none_of(lost.sparkSession, RESULT_TABLES["lost_records"].ddl)

    def of(event: str, *columns: str) -> DataFrame:
        return trace.control.filter(F.col("event") == event).select(*PARTITION_KEY, "seq", "at_us", "reason", *columns)

    ends = ("log_end_offset", "previous_log_end_offset")
    facts = {
        fold.LOST: lost,
        fold.KEPT: _kept(lost, trace),
        fold.ELECTED: of(LEADER_ELECTED, "broker", "clean").withColumnRenamed("broker", "node"),
        fold.TRUNCATED: of(LOG_TRUNCATED, "node", *ends),
        fold.DISK_LOST: of(DATA_LOST, "node"),
        fold.OPENED: of(LOG_RECOVERED, "node", "log_end_offset", "size_bytes"),
    }
    return folded(facts, fold.COLUMNS, fold.lost_records, RESULT_TABLES["lost_records"].ddl)


def _kept(lost: DataFrame, trace: Trace) -> DataFrame:
    """One row per lost record and replica that ever appended it.

    out: *RECORD_KEY, offset, node, seq and last_seq (its first append and its last)
    """
    batches = (
        trace.produce.filter(F.col("event") == BATCH_SENT)
        .select(*PARTITION_KEY, "crc", F.explode("records").alias("record"))
        .join(F.broadcast(lost.select(*RECORD_KEY, "offset")), list(RECORD_KEY))
        .distinct()
    )
    appends = trace.log.filter(F.col("event") == BATCH_APPENDED).select(*PARTITION_KEY, "crc", "node", "seq")
    return (
        appends.join(F.broadcast(batches), [*PARTITION_KEY, "crc"])
        .groupBy(*RECORD_KEY, "offset", "node")
        .agg(F.min("seq").alias("seq"), F.max("seq").alias("last_seq"))
    )


_KEY_MOMENTS = (
    FAULT_BEGAN,
    FAULT_ENDED,
    NODE_STARTED,
    NODE_STOPPED,
    DATA_LOST,
    BROKER_FENCED,
    LEADER_ELECTED,
    PARTITION_WENT_OFFLINE,
    ELECTION_REFUSED,
    ISR_COMMITTED,
    ISR_REJECTED,
    LOG_TRUNCATED,
    LOG_RECOVERED,
    INVARIANT_BROKEN,
)


TOLD_BY_THEIR_NODE = ("kill", "power_off", "stop", "start", "restart")
"""Verbs whose effect node_stopped and node_started state: live, a moment earlier or later."""


def key_moments(control: DataFrame) -> DataFrame:
    """One row per event that belongs in the story of a run: faults, deaths, elections, ISR changes, truncations.

    Left out: events at time 0, when the cluster was built; an ISR written without a change; a log opened whole;
    a fault whose effect its node states, in more words, when it stops or starts.
    out: run, seq, at_us, event, verb (of a fault), how (of a stopped node), topic, partition, node, reason
    """
    changed = (F.col("event") != ISR_COMMITTED) | (F.array_sort("isr") != F.array_sort("previous_isr"))
    damaged = (F.col("event") != LOG_RECOVERED) | (F.col("size_bytes") > 0)
    told_by_node = F.col("event").isin(FAULT_BEGAN, FAULT_ENDED) & F.col("verb").isin(*TOLD_BY_THEIR_NODE)
    is_key = F.col("event").isin(*_KEY_MOMENTS) & (F.col("at_us") > 0) & changed & damaged & ~told_by_node
    return control.filter(is_key).select(
        RUN, "seq", "at_us", "event", "verb", "how", "topic", "partition",
        F.coalesce("broker", "node").alias("node"), "reason",
    )  # fmt: skip


def runs(control: DataFrame) -> DataFrame:
    """One row per run. out: run, scenario, variant, seed, profile, end_us, events (rows of the trace)"""
    started = F.col("event") == RUN_STARTED
    return control.groupBy(RUN).agg(
        *[F.max(F.when(started, F.col(name))).alias(name) for name in ("scenario", "variant", "seed", "profile")],
        F.max("at_us").alias("end_us"),
        (F.max("seq") + 1).alias("events"),
    )
