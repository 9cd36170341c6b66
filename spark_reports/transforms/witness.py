"""Why a record was lost: who held it when it was acked, who led next without it, what erased it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import first_after
from spark_reports.transforms.records import RECORD_KEY


def lost_records(fates: DataFrame, produce: DataFrame, log: DataFrame, control: DataFrame) -> DataFrame:
    """One row per lost record, with the facts after its ack that decided.

    in:  record_fates(), and the trace tables
    out: *RECORD_KEY, acks, sent_us, acked_us, acked_by, ack_offset,
         held_by          replicas that had appended it before the ack, sorted by name
         elected_us, elected, elected_clean, elected_reason     the first election of the partition after the ack
         erased_us, erased_on (nodes), erased_reason            truncations after the ack that cut its offset
         disk_lost_us, disk_lost_on, disk_lost_reason           bytes of the partition that disks lost after the ack
    """
    lost = fates.filter("lost").select(
        *RECORD_KEY, "acks", "sent_us", "acked_us", "acked_seq", "acked_by", "ack_offset"
    )
    return (
        _with_first_election(lost, control)
        .join(_holders(lost, produce, log), list(RECORD_KEY), "left")
        .join(_erasures(lost, control), list(RECORD_KEY), "left")
        .join(_disk_losses(lost, control), list(RECORD_KEY), "left")
        .select(
            *RECORD_KEY, "acks", "sent_us", "acked_us", "acked_by", "ack_offset", "held_by", "elected_us", "elected",
            "elected_clean", "elected_reason", "erased_us", "erased_on", "erased_reason", "disk_lost_us",
            "disk_lost_on", "disk_lost_reason",
        )
    )  # fmt: skip


def _holders(lost: DataFrame, produce: DataFrame, log: DataFrame) -> DataFrame:
    batches = (
        produce.filter(F.col("event") == "batch_sent")
        .select(*PARTITION_KEY, "crc", F.explode("records").alias("record"))
        .join(lost.select(*RECORD_KEY, "acked_seq"), list(RECORD_KEY))
        .distinct()
    )
    appends = log.select(*PARTITION_KEY, "crc", "node", "seq")
    return (
        batches.join(appends, [*PARTITION_KEY, "crc"])
        .groupBy(*RECORD_KEY)
        .agg(F.array_sort(F.collect_set(F.when(F.col("seq") < F.col("acked_seq"), F.col("node")))).alias("held_by"))
    )


def _facts(control: DataFrame, event: str, *columns: str) -> DataFrame:
    return control.filter(F.col("event") == event).select(*PARTITION_KEY, "seq", "at_us", "reason", *columns)


def _with_first_election(lost: DataFrame, control: DataFrame) -> DataFrame:
    elected = _facts(control, "leader_elected", "broker", "clean")
    return first_after(lost, elected, PARTITION_KEY, "acked_seq", "next").select(
        *lost.columns, F.col("next.at_us").alias("elected_us"), F.col("next.broker").alias("elected"),
        F.col("next.clean").alias("elected_clean"), F.col("next.reason").alias("elected_reason"),
    )  # fmt: skip


def _erasures(lost: DataFrame, control: DataFrame) -> DataFrame:
    """Truncations are laid out by the offsets that they cut: no more of them than records were appended and cut."""
    cut = F.sequence(F.col("log_end_offset"), F.col("previous_log_end_offset") - 1)
    truncated = (
        _facts(control, "log_truncated", "node", "log_end_offset", "previous_log_end_offset")
        .filter(F.col("log_end_offset") < F.col("previous_log_end_offset"))
        .select(*PARTITION_KEY, "seq", "at_us", "reason", "node", F.explode(cut).alias("ack_offset"))
    )
    return (
        lost.join(truncated, [*PARTITION_KEY, "ack_offset"])
        .filter(F.col("seq") > F.col("acked_seq"))
        .groupBy(*RECORD_KEY)
        .agg(
            F.min("at_us").alias("erased_us"),
            F.array_sort(F.collect_set("node")).alias("erased_on"),
            F.min_by("reason", "seq").alias("erased_reason"),
        )
    )


def _disk_losses(lost: DataFrame, control: DataFrame) -> DataFrame:
    """Disks that lose bytes are as rare as the steps of a scenario."""
    return (
        lost.join(F.broadcast(_facts(control, "data_lost", "node")), list(PARTITION_KEY))
        .filter(F.col("seq") > F.col("acked_seq"))
        .groupBy(*RECORD_KEY)
        .agg(
            F.min("at_us").alias("disk_lost_us"),
            F.array_sort(F.collect_set("node")).alias("disk_lost_on"),
            F.min_by("reason", "seq").alias("disk_lost_reason"),
        )
    )


_KEY_MOMENTS = (
    "fault_began",
    "fault_ended",
    "node_started",
    "node_stopped",
    "data_lost",
    "broker_fenced",
    "leader_elected",
    "partition_went_offline",
    "election_refused",
    "isr_committed",
    "isr_rejected",
    "log_truncated",
    "log_recovered",
    "invariant_broken",
)


_TOLD_BY_THEIR_NODE = ("kill", "power_off", "stop", "start", "restart")
"""Verbs whose effect is told by node_stopped and node_started: live, a moment earlier or later."""


def key_moments(control: DataFrame) -> DataFrame:
    """One row per fact that belongs in the story of a run: faults, deaths, elections, ISR changes, truncations.

    Left out: what happened at time 0, when the cluster was built; an ISR written without a change; a log opened whole;
    a fault whose effect its node tells, in more words, when it stops or starts.
    out: run, seq, at_us, event, verb (of a fault), topic, partition, node, reason
    """
    changed = (F.col("event") != "isr_committed") | (F.array_sort("isr") != F.array_sort("previous_isr"))
    damaged = (F.col("event") != "log_recovered") | (F.col("size_bytes") > 0)
    told_by_node = F.col("event").isin("fault_began", "fault_ended") & F.col("verb").isin(*_TOLD_BY_THEIR_NODE)
    is_key = F.col("event").isin(*_KEY_MOMENTS) & (F.col("at_us") > 0) & changed & damaged & ~told_by_node
    return control.filter(is_key).select(
        RUN, "seq", "at_us", "event", "verb", "topic", "partition", F.coalesce("broker", "node").alias("node"), "reason"
    )


def runs(control: DataFrame) -> DataFrame:
    """One row per run. out: run, scenario, variant, seed, profile, end_us, facts (rows of the trace)"""
    started = F.col("event") == "run_started"
    return control.groupBy(RUN).agg(
        *[F.max(F.when(started, F.col(name))).alias(name) for name in ("scenario", "variant", "seed", "profile")],
        F.max("at_us").alias("end_us"),
        (F.max("seq") + 1).alias("facts"),
    )
