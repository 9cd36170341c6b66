"""The verdict from the trace alone, each anomaly with its witness. Definitions: scenarios/LANGUAGE.md."""

from __future__ import annotations

import functools
import operator

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    END_OFFSET_SEEN,
    INVARIANT_BROKEN,
    LOG_ENTRY_FOUND,
    POSITION_RESET,
    RECORD_READ,
    REPLICA_FOUND,
)
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.records import UNDONE, UNMARKED, is_undone
from spark_reports.transforms.settling import settled

VERDICT_ORDER = (
    "lost", "unseen", "dirty-read", "diverged", "duplicated", "reordered", "offset-regression", "poll-skip",
    "invariant",
)  # fmt: skip

JEPSEN_CLASS = {
    "lost": "lost-write",
    "unseen": "unseen",
    "dirty-read": "G1a",
    "diverged": "inconsistent-offsets",
    "duplicated": "duplicate",
    "reordered": "nonmonotonic-send",
    "offset-regression": "nonmonotonic-poll",
    "poll-skip": "poll-skip",
    "invariant": "invariant",
}

_OUT = (RUN, "anomaly", "topic", "partition", "witness", "offset", "detail")


def anomalies(
    fates: DataFrame,
    entries: DataFrame,
    final_log: DataFrame,
    consume: DataFrame,
    control: DataFrame,
) -> DataFrame:
    """One row per witness of an anomaly.

    in:  record_fates(), final_entries(), and the trace tables
    out: run, anomaly (of VERDICT_ORDER), topic, partition, witness (a record, a client or an invariant), offset, detail
    """
    parts = [
        record_anomalies(fates),
        diverged(final_log),
        offset_regressions(consume),
        poll_skips(consume, entries),
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return with_broken_invariants(together, control)


def record_anomalies(fates: DataFrame) -> DataFrame:
    """in: record_fates(); out: as anomalies(), witness = the record's name."""
    lost_where = F.format_string(
        "acked by %s at offset %d, not in the final log", F.col("acked_by"), F.col("ack_offset")
    )
    unread = F.when(F.col("readable"), UNMARKED).otherwise("acked and in the final log, but no consumer can read it")
    kinds: dict[str, tuple[str, Column, Column]] = {
        "lost": ("lost", F.col("ack_offset"), F.when(is_undone(), UNDONE).otherwise(lost_where)),
        "unseen": ("unseen", F.col("offset"), unread),
        "dirty": ("dirty-read", F.col("ack_offset"), F.lit("a consumer read it, but it is not in the final log")),
        "duplicated": ("duplicated", F.col("offset"), F.format_string("in the final log %d times", "settled_copies")),
        "reordered": ("reordered", F.col("offset"), F.lit("stands after a record that its producer sent later")),
    }
    rows = F.array(
        *[
            F.when(F.col(flag), F.struct(F.lit(name).alias("anomaly"), offset.alias("offset"), detail.alias("detail")))
            for flag, (name, offset, detail) in kinds.items()
        ]
    )
    is_one = functools.reduce(operator.or_, [F.col(flag) for flag in kinds])
    return (
        fates.filter(is_one)
        .select(
            RUN, "topic", "partition", F.col("record").alias("witness"), F.explode(F.array_compact(rows)).alias("found")
        )
        .select(RUN, "found.anomaly", "topic", "partition", "witness", "found.offset", "found.detail")
    )


def diverged(final_log: DataFrame) -> DataFrame:
    """Offsets below the high watermarks of two running replicas at which these hold different records.

    out: as anomalies(); witness = the records, by replica
    """
    running = final_log.filter((F.col("event") == REPLICA_FOUND) & F.col("running")).select(
        *PARTITION_KEY, "node", F.col("high_watermark").alias("end")
    )
    committed = (
        final_log.filter(F.col("event") == LOG_ENTRY_FOUND)
        .select(*PARTITION_KEY, "node", "offset", "record", "crc")
        .join(F.broadcast(running), [*PARTITION_KEY, "node"])
        .filter(F.col("offset") < F.col("end"))
    )
    # Numbers alone are compared in a hash table; the names are looked up where they differ.
    what = F.xxhash64("record", "crc")
    differ = (
        committed.groupBy(*PARTITION_KEY, "offset")
        .agg(F.min(what).alias("one"), F.max(what).alias("other"))
        .filter(F.col("one") != F.col("other"))
        .select(*PARTITION_KEY, "offset")
    )
    held = F.array_join(F.array_sort(F.collect_list(F.concat("node", F.lit(": "), "record"))), ", ")
    return (
        committed.join(F.broadcast(differ), [*PARTITION_KEY, "offset"])
        .groupBy(*PARTITION_KEY, "offset")
        .agg(held.alias("witness"))
        .select(
            RUN, F.lit("diverged").alias("anomaly"), "topic", "partition", "witness", "offset",
            F.lit("replicas hold different records below their high watermarks").alias("detail"),
        )
    )  # fmt: skip


def offset_regressions(consume: DataFrame) -> DataFrame:
    """A client saw the end of a partition below an end it had seen before.

    out: as anomalies(); witness = the client
    """
    before = Window.partitionBy(*PARTITION_KEY, "client").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    seen = consume.filter((F.col("event") == END_OFFSET_SEEN) & F.col("error").isNull())
    return (
        seen.withColumn("highest", F.max("offset").over(before))
        .filter(F.col("offset") < F.col("highest"))
        .select(
            RUN, F.lit("offset-regression").alias("anomaly"), "topic", "partition", F.col("client").alias("witness"),
            "offset", F.format_string("saw the end at %d after it had seen %d", "offset", "highest").alias("detail"),
        )
    )  # fmt: skip


def poll_skips(consume: DataFrame, entries: DataFrame) -> DataFrame:
    """Records of the final log that a consumer jumped over and never read, without a seek by its user. Records of
    aborted transactions are there and not for every reader.

    in:  consume table, final_entries()
    out: as anomalies(); witness = the client
    """
    of_consumer = [*PARTITION_KEY, "client"]
    in_order = Window.partitionBy(*of_consumer).orderBy("seq")
    is_read = F.col("event") == RECORD_READ
    # A seek by the user is a reset that no error caused: records read after it have no predecessor.
    is_seek = (F.col("event") == POSITION_RESET) & F.col("error").isNull()
    stood = F.when(is_seek, F.lit(_ANYWHERE)).when(is_read, F.col("offset"))
    previous = F.last(stood, ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    gaps = settled(
        consume.filter(is_read | is_seek)
        .withColumn("previous", previous)
        .filter(is_read & (F.col("offset") > F.col("previous") + 1))
        .select(*of_consumer, F.sequence(F.col("previous") + 1, F.col("offset") - 1).alias("skipped"))
    )
    # Hardly any consumer jumps: then neither its reads nor the final logs need to be searched.
    jumped = F.broadcast(gaps.select(*of_consumer).distinct())
    reads = consume.filter(is_read).join(jumped, of_consumer, "left_semi")
    there = entries.filter(~F.col("aborted")).join(jumped, list(PARTITION_KEY), "left_semi")
    return (
        gaps.select(*of_consumer, F.explode("skipped").alias("offset"))
        .distinct()
        .join(reads, [*of_consumer, "offset"], "left_anti")
        .join(there, [*PARTITION_KEY, "offset"])
        .select(
            RUN, F.lit("poll-skip").alias("anomaly"), "topic", "partition", F.col("client").alias("witness"), "offset",
            F.format_string("jumped over %s without a seek and never read it", "record").alias("detail"),
        )
    )  # fmt: skip


_ANYWHERE = (1 << 63) - 2
"""The position after a seek: no offset is beyond it, so nothing was jumped over."""


def with_broken_invariants(others: DataFrame, control: DataFrame) -> DataFrame:
    """One that the run's rules do not promise is an anomaly only where nothing else shows the damage.

    in:  the other anomalies(), control table
    out: as anomalies(), all of them; witness of a broken invariant = its name
    """
    broken = control.filter(F.col("event") == INVARIANT_BROKEN).select(
        RUN, F.lit("invariant").alias("anomaly"), "topic", "partition", F.col("invariant").alias("witness"), "offset",
        F.concat("reason", F.when(F.col("promised"), ". This is a defect of Highwater").otherwise("")).alias("detail"),
        F.coalesce("promised", F.lit(False)).alias("_promised"),
    )  # fmt: skip
    # Together with the others, and not joined to them: a join would look for them in the trace once more.
    is_other = F.col("_promised").isNull()
    damaged = F.max(is_other).over(Window.partitionBy(RUN))
    return (
        others.unionByName(broken, allowMissingColumns=True)
        .withColumn("_damaged", damaged)
        .filter(is_other | F.col("_promised") | ~F.col("_damaged"))
        .drop("_promised", "_damaged")
    )
