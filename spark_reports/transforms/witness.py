"""Why a record was lost: its holders at the ack, the leaders without it, the events that erased it."""

from __future__ import annotations

import functools

import pyarrow as pa
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
from spark_reports.folds import losses as fold
from spark_reports.folds.files import Facts, same
from spark_reports.from_files import RunFiles, by_partition
from spark_reports.held import collected
from spark_reports.schema import RUN
from spark_reports.transforms.records import RECORD_KEY


def lost_records(fates: DataFrame, files: RunFiles) -> DataFrame:
    """One row per record that was acked and is gone, with the events after its ack that decided its fate.

    in:  record_fates(), the trace
    out: *RECORD_KEY, acks, sent_us, acked_us, acked_by, ack_offset,
         held_by          replicas that had appended it before the ack, sorted by name
         elected_us, elected, elected_clean, elected_reason     the first election after the ack of a leader that did
                                                                not have it then; null if there was none
         erased_us, erased_on (nodes), erased_reason            truncations after the ack that cut it off a log
         disk_lost_us, disk_lost_on, disk_lost_reason           bytes of the partition that disks lost after the ack
    """
    lost = collected(files.of_each("records", fates, fold.lost, fold.LOST_COLUMNS, fold.LOST_DDL))
    if not len(lost):
        return files.of_rows("lost_records", [])
    at = same("seq", "at_us", "reason")
    its, ends = {**at, **same("node")}, same("log_end_offset", "previous_log_end_offset")
    facts = {
        fold.LOST: Facts(lost, same("seq", "record", "acks", "sent_us", "acked_us", "acked_by", "offset")),
        fold.KEPT: Facts(_kept(lost, files), same("seq", "record", "offset", "node", "last_seq")),
        fold.ELECTED: Facts("control", {**at, "node": "broker", **same("clean")}, {"event": [LEADER_ELECTED]}),
        fold.TRUNCATED: Facts("control", {**its, **ends}, {"event": [LOG_TRUNCATED]}),
        fold.DISK_LOST: Facts("control", its, {"event": [DATA_LOST]}),
        fold.OPENED: Facts("control", {**its, **same("log_end_offset", "size_bytes")}, {"event": [LOG_RECOVERED]}),
    }
    return files.made("lost_records", by_partition(fold.lost_records, facts, fold.COLUMNS))


def _kept(lost: pa.Table, files: RunFiles) -> pa.Table:
    """Replicas that ever appended a lost record: as fold.kept()"""
    sent = Facts("produce", same("crc", "records"), {"event": [BATCH_SENT]})
    names = lost["record"].unique()
    batches = files.gathered(functools.partial(fold.batches_with, names), {"sent": sent}, fold.BATCHES)
    appended = Facts("log", same("crc", "node", "seq"), {"event": [BATCH_APPENDED]})
    crcs = batches["crc"].unique()
    appends = files.gathered(functools.partial(fold.appends_of, crcs), {"appended": appended}, fold.APPENDS)
    return fold.kept(lost.select([*RECORD_KEY, "offset"]), batches, appends)


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
