"""Why a record was lost: who held it when it was acked, who led without it, what erased it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import first_after
from spark_reports.transforms.records import RECORD_KEY


def lost_records(fates: DataFrame, produce: DataFrame, log: DataFrame, control: DataFrame) -> DataFrame:
    """One row per lost record, with the facts after its ack that decided.

    in:  record_fates(), and the trace tables
    out: *RECORD_KEY, acks, sent_us, acked_us, acked_by, ack_offset,
         held_by          replicas that had appended it before the ack, sorted by name
         elected_us, elected, elected_clean, elected_reason     the first election after the ack of a leader that did
                                                                not have it then; null if there was none
         erased_us, erased_on (nodes), erased_reason            truncations after the ack that cut it off a log
         disk_lost_us, disk_lost_on, disk_lost_reason           bytes of the partition that disks lost after the ack
    """
    lost = fates.filter("lost").select(
        *RECORD_KEY, "acks", "sent_us", "acked_us", "acked_seq", "acked_by", "ack_offset"
    )
    kept = _kept(lost, produce, log).cache()
    cuts = _cuts(kept, control).cache()
    held_by = F.array_sort(F.collect_set(F.when(F.col("had_seq") < F.col("acked_seq"), F.col("node"))))
    return (
        lost.join(_elections_without_it(lost, kept, cuts, control), list(RECORD_KEY), "left")
        .join(kept.groupBy(*RECORD_KEY).agg(held_by.alias("held_by")), list(RECORD_KEY), "left")
        .join(_erasures(cuts), list(RECORD_KEY), "left")
        .join(_disk_losses(lost, control), list(RECORD_KEY), "left")
        .select(
            *RECORD_KEY, "acks", "sent_us", "acked_us", "acked_by", "ack_offset", "held_by", "elected_us", "elected",
            "elected_clean", "elected_reason", "erased_us", "erased_on", "erased_reason", "disk_lost_us",
            "disk_lost_on", "disk_lost_reason",
        )
    )  # fmt: skip


def _kept(lost: DataFrame, produce: DataFrame, log: DataFrame) -> DataFrame:
    """One row per lost record and replica that ever appended it. out: *RECORD_KEY, acked_seq, ack_offset, node,
    had_seq and last_had_seq (its first append and its last)"""
    batches = (
        produce.filter(F.col("event") == "batch_sent")
        .select(*PARTITION_KEY, "crc", F.explode("records").alias("record"))
        .join(lost.select(*RECORD_KEY, "acked_seq", "ack_offset"), list(RECORD_KEY))
        .distinct()
    )
    appends = log.filter(F.col("event") == "batch_appended").select(*PARTITION_KEY, "crc", "node", "seq")
    return (
        batches.join(appends, [*PARTITION_KEY, "crc"])
        .groupBy(*RECORD_KEY, "acked_seq", "ack_offset", "node")
        .agg(F.min("seq").alias("had_seq"), F.max("seq").alias("last_had_seq"))
    )


def _facts(control: DataFrame, event: str, *columns: str) -> DataFrame:
    return control.filter(F.col("event") == event).select(*PARTITION_KEY, "seq", "at_us", "reason", *columns)


def _cuts(kept: DataFrame, control: DataFrame) -> DataFrame:
    """One row per time a replica that had a lost record lost it: a truncation, or a start after which it was gone.

    Truncations are laid out by the offsets that they cut: no more of them than records were appended and cut.
    in: _kept()     out: *RECORD_KEY, node, seq, at_us, reason, truncated, acked_seq, last_had_seq
    """
    cut = F.sequence(F.col("log_end_offset"), F.col("previous_log_end_offset") - 1)
    truncated = (
        _facts(control, "log_truncated", "node", "log_end_offset", "previous_log_end_offset")
        .filter(F.col("log_end_offset") < F.col("previous_log_end_offset"))
        .select(*PARTITION_KEY, "seq", "at_us", "reason", "node", F.explode(cut).alias("ack_offset"))
    )
    by_truncation = kept.join(truncated, [*PARTITION_KEY, "node", "ack_offset"]).withColumn("truncated", F.lit(True))
    by_start = (
        kept.join(F.broadcast(_lossy_starts(control)), [*PARTITION_KEY, "node"])
        .filter(F.col("ack_offset") >= F.col("log_end_offset"))
        .withColumn("truncated", F.lit(False))
    )
    columns = (*RECORD_KEY, "node", "seq", "at_us", "reason", "truncated", "acked_seq", "had_seq", "last_had_seq")
    return by_truncation.select(*columns).unionByName(by_start.select(*columns)).filter("seq > had_seq")


def _lossy_starts(control: DataFrame) -> DataFrame:
    """Starts of brokers whose disk had lost bytes before, or whose log was torn: as rare as the steps of a scenario."""
    in_order = Window.partitionBy(*PARTITION_KEY, "node").orderBy("seq")
    opened = control.filter(F.col("event").isin("data_lost", "log_recovered"))
    after_loss = F.coalesce(F.lag("event").over(in_order) == "data_lost", F.lit(False))
    return (
        opened.withColumn("is_lossy", after_loss | (F.col("size_bytes") > 0))
        .filter((F.col("event") == "log_recovered") & F.col("is_lossy"))
        .select(*PARTITION_KEY, "node", "log_end_offset", "seq", "at_us", "reason")
    )


def _elections_without_it(lost: DataFrame, kept: DataFrame, cuts: DataFrame, control: DataFrame) -> DataFrame:
    """The first election after the ack of a leader whose log did not have the record then.

    Each broker that was ever chosen is asked by itself: the first time after the ack, and the first time after it had
    lost the record. out: *RECORD_KEY, elected_us, elected, elected_clean, elected_reason
    """
    elected = _facts(control, "leader_elected", "broker", "clean").withColumnRenamed("broker", "node")
    place = [*PARTITION_KEY, "node"]
    gone = cuts.filter("seq > last_had_seq").groupBy(*RECORD_KEY, "node").agg(F.min("seq").alias("gone_seq"))
    had = kept.select(*RECORD_KEY, "node", "had_seq").join(gone, [*RECORD_KEY, "node"], "left")
    asked = (
        lost.select(*RECORD_KEY, "acked_seq")
        .join(F.broadcast(elected.select(*place).distinct()), list(PARTITION_KEY))
        .join(had, [*RECORD_KEY, "node"], "left")
        .withColumn("gone_seq", F.when(F.col("gone_seq").isNotNull(), F.greatest("acked_seq", "gone_seq")))
    )
    told = first_after(first_after(asked, elected, place, "acked_seq", "first"), elected, place, "gone_seq", "again")
    without = F.col("had_seq").isNull() | (F.col("first.seq") < F.col("had_seq"))
    found = F.least(
        *[
            F.when(is_it, F.struct(*[F.col(f"{name}.{of}") for of in ("seq", "at_us", "clean", "reason")], "node"))
            for name, is_it in (
                ("first", F.col("first").isNotNull() & without),
                ("again", F.col("again").isNotNull() & F.col("gone_seq").isNotNull()),
            )
        ]
    )
    return (
        told.groupBy(*RECORD_KEY)
        .agg(F.min(found).alias("found"))
        .select(
            *RECORD_KEY, F.col("found.at_us").alias("elected_us"), F.col("found.node").alias("elected"),
            F.col("found.clean").alias("elected_clean"), F.col("found.reason").alias("elected_reason"),
        )
    )  # fmt: skip


def _erasures(cuts: DataFrame) -> DataFrame:
    return (
        cuts.filter(F.col("truncated") & (F.col("seq") > F.col("acked_seq")))
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


TOLD_BY_THEIR_NODE = ("kill", "power_off", "stop", "start", "restart")
"""Verbs whose effect is told by node_stopped and node_started: live, a moment earlier or later."""


def key_moments(control: DataFrame) -> DataFrame:
    """One row per fact that belongs in the story of a run: faults, deaths, elections, ISR changes, truncations.

    Left out: what happened at time 0, when the cluster was built; an ISR written without a change; a log opened whole;
    a fault whose effect its node tells, in more words, when it stops or starts.
    out: run, seq, at_us, event, verb (of a fault), topic, partition, node, reason
    """
    changed = (F.col("event") != "isr_committed") | (F.array_sort("isr") != F.array_sort("previous_isr"))
    damaged = (F.col("event") != "log_recovered") | (F.col("size_bytes") > 0)
    told_by_node = F.col("event").isin("fault_began", "fault_ended") & F.col("verb").isin(*TOLD_BY_THEIR_NODE)
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
