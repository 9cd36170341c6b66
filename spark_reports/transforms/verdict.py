"""Compute the verdict from the trace alone, with a witness for each anomaly, as scenarios/LANGUAGE.md defines it."""

from __future__ import annotations

import functools
import operator

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace import names
from spark_reports.folding import RunFiles, settled
from spark_reports.folds import anomalies as fold
from spark_reports.folds.events import Folding
from spark_reports.folds.facts import Facts, same
from spark_reports.held import has_no_rows, none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.records import RECORD_KEY, UNDONE, UNMARKED, is_undone, logged_records

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


def anomalies(fates: DataFrame, entries: DataFrame, gone: DataFrame, trace: Trace) -> DataFrame:
    """Return one row per witness of an anomaly.

    Args:
        fates, entries, gone: record_fates(), final_entries(), gone_records().
    """
    parts = [
        record_anomalies(fates),
        diverged(trace.final_log),
        offset_regressions(trace.files),
        poll_skips(trace, entries, gone),
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return with_broken_invariants(together, trace.control)


def record_anomalies(fates: DataFrame) -> DataFrame:
    """Return the anomalies of records, with the columns of anomalies(); `fates` is record_fates()."""
    lost = F.format_string("acked by %s at offset %d, not in the final log", F.col("acked_by"), F.col("ack_offset"))
    unread = F.when(F.col("readable"), UNMARKED).otherwise("acked and in the final log, but no consumer can read it")
    kinds: dict[str, tuple[str, str, Column]] = {
        "lost": ("lost", "ack_offset", F.when(is_undone(), UNDONE).otherwise(lost)),
        "unseen": ("unseen", "offset", unread),
        "dirty": ("dirty-read", "ack_offset", F.lit("a consumer read it, but it is not in the final log")),
        "duplicated": ("duplicated", "offset", F.format_string("in the final log %d times", "settled_copies")),
        "reordered": ("reordered", "offset", F.lit("in the final log after a record that its producer sent later")),
    }
    found = [
        F.when(
            F.col(flag),
            F.struct(F.lit(anomaly).alias("anomaly"), F.col(offset).alias("offset"), detail.alias("detail")),
        )
        for flag, (anomaly, offset, detail) in kinds.items()
    ]
    each = F.explode(F.array_compact(F.array(*found))).alias("found")
    return (
        fates.filter(functools.reduce(operator.or_, map(F.col, kinds)))
        .select(*PARTITION_KEY, F.col("record").alias("witness"), each)
        .select(RUN, "found.anomaly", "topic", "partition", "witness", "found.offset", "found.detail")
    )


def diverged(final_log: DataFrame) -> DataFrame:
    """Return the offsets at which running replicas have different records, below the high watermarks of both.

    The columns are those of anomalies(); the witness names the records by replica.
    """
    running = final_log.filter((F.col("event") == names.REPLICA_FOUND) & F.col("running")).select(
        *PARTITION_KEY, "node", F.col("high_watermark").alias("end")
    )
    committed = (
        logged_records(final_log)
        .join(F.broadcast(running), [*PARTITION_KEY, "node"])
        .filter(F.col("offset") < F.col("end"))
    )
    index, held = [*PARTITION_KEY, "offset"], F.xxhash64("crc", "record")
    # Only numbers are grouped in a hash table.
    numbered = committed.select(F.xxhash64(*PARTITION_KEY).alias("number"), "offset", held.alias("held"))
    differing = numbered.groupBy("number", "offset").agg(F.min("held").alias("least"), F.max("held").alias("most"))
    differing = settled(differing.filter("least != most").select("number", "offset"))
    if differing.isEmpty():
        return none_of(final_log.sparkSession, RESULT_TABLES["anomalies"].ddl)
    witness = F.array_join(F.array_sort(F.collect_list(F.concat("node", F.lit(": "), "record"))), ", ")
    return (
        committed.withColumn("number", F.xxhash64(*PARTITION_KEY))
        .join(F.broadcast(differing), ["number", "offset"])
        .groupBy(*index)
        .agg(witness.alias("witness"))
        .select(
            RUN, F.lit("diverged").alias("anomaly"), "topic", "partition", "witness", "offset",
            F.lit("replicas hold different records below their high watermarks").alias("detail"),
        )
    )  # fmt: skip


_MADE = Facts("control", same("seq"), {"event": [names.PARTITION_CREATED]}, ahead=True)
"""Creations of a partition; there are several if its topic was deleted and created again."""
_LED = Facts("control", same("seq", "node"), {"event": [names.LEADERSHIP_BEGAN]})
_SERVED = _LED._replace(where={"event": [names.LEADERSHIP_BEGAN, names.FOLLOWING_BEGAN]})
"""Events at which a broker begins to serve the partition, even as a follower, since consumers may read from it."""

_ITS = same("seq", "client", "offset")
_ANSWER = {**_ITS, "node": "peer"}
REGRESSIONS = Folding(
    fold.regressions,
    {
        fold.SEEN: Facts("consume", _ANSWER, {"event": [names.END_OFFSET_SEEN], "error": [None]}),
        fold.MADE: _MADE,
        fold.SERVED: _LED,
    },
    fold.CLIENT_COLUMNS,
)
JUMPS = Folding(
    fold.jumps,
    {
        fold.READ: Facts("consume", _ANSWER, {"event": [names.RECORD_READ]}),
        # A seek by the application is a reset without an error. The first record read after it has no predecessor.
        fold.SEEK: Facts("consume", _ITS, {"event": [names.POSITION_RESET], "error": [None]}),
        fold.MADE: _MADE,
        fold.SERVED: _SERVED,
    },
    fold.CLIENT_COLUMNS,
)


def offset_regressions(files: RunFiles) -> DataFrame:
    """Return the end offsets that a client saw after it had seen a higher one.

    The columns are those of anomalies(); the witness is the client.
    """
    return files.rows(REGRESSIONS, RESULT_TABLES["anomalies"].ddl)


def poll_skips(trace: Trace, entries: DataFrame, gone: DataFrame) -> DataFrame:
    """Return records of the final log that a consumer skipped without a seek and never read.

    Records of aborted transactions do not count, since not every consumer gets them. Records that were removed
    legitimately do not count either, since the replica that was read may not have had them.

    Args:
        entries, gone: final_entries(), gone_records().

    Returns:
        The columns of anomalies(); the witness is the client.
    """
    of_consumer = [*PARTITION_KEY, "client"]
    none = none_of(trace.files.spark, RESULT_TABLES["anomalies"].ddl)
    found = trace.files.rows(JUMPS, JUMPS_DDL)
    if has_no_rows(found):
        return none
    gaps = settled(
        found.select(
            *PARTITION_KEY, F.col("witness").alias("client"), "since_seq",
            F.sequence("from_offset", "to_offset").alias("skipped"),
        )
    )  # fmt: skip
    # Few consumers skip offsets. If none did, neither reads nor final logs need to be searched.
    if gaps.isEmpty():
        return none
    jumped = F.broadcast(gaps.select(*of_consumer, "since_seq").distinct())
    later = (
        trace.consume.filter(F.col("event") == names.RECORD_READ)
        .join(jumped, of_consumer)
        .filter(F.col("seq") > F.col("since_seq"))
        .select(*of_consumer, "offset", "record", "peer", "seq", "since_seq")
    )
    served = trace.control.filter(F.col("event").isin(names.LEADERSHIP_BEGAN, names.FOLLOWING_BEGAN)).select(
        *PARTITION_KEY, F.col("node").alias("peer"), F.col("seq").alias("served_seq")
    )
    is_in_time = (F.col("since_seq") < F.col("served_seq")) & (F.col("served_seq") < F.col("seq"))
    made_again = later.filter(F.col("since_seq") >= 0)
    of_today = made_again.join(F.broadcast(served), [*PARTITION_KEY, "peer"]).filter(is_in_time)
    # Ignore offsets of brokers that have no event yet about serving the current topic.
    apart = made_again.join(of_today.select(RUN, "seq").distinct(), [RUN, "seq"], "left_anti")
    reads = later.filter(F.col("since_seq") < 0).unionByName(of_today.drop("served_seq")).select(*of_consumer, "offset")
    there = entries.filter(~F.col("aborted")).join(jumped, list(PARTITION_KEY), "left_semi")
    return (
        gaps.select(*of_consumer, F.explode("skipped").alias("offset"))
        .distinct()
        .join(reads, [*of_consumer, "offset"], "left_anti")
        .join(there, [*PARTITION_KEY, "offset"])
        .join(apart.select(*of_consumer, "record"), [*of_consumer, "record"], "left_anti")
        .join(gone, list(RECORD_KEY), "left_anti")
        .select(
            RUN, F.lit("poll-skip").alias("anomaly"), "topic", "partition", F.col("client").alias("witness"), "offset",
            F.format_string("skipped %s without a seek and never read it", "record").alias("detail"),
        )
    )  # fmt: skip


JUMPS_DDL = (
    "run string, topic string, partition bigint, witness string, from_offset bigint, to_offset bigint, since_seq bigint"
)


def with_broken_invariants(others: DataFrame, control: DataFrame) -> DataFrame:
    """Add an anomaly for each broken invariant to the other anomalies.

    An invariant is promised if the rules of the run should keep it. If it is not promised, it counts only in a run
    without other anomalies.

    Args:
        others: the other anomalies().
        control: the control table.

    Returns:
        All anomalies, with the columns of anomalies(); the witness of a broken invariant is its name.
    """
    broken = control.filter(F.col("event") == names.INVARIANT_BROKEN).select(
        RUN, F.lit("invariant").alias("anomaly"), "topic", "partition", F.col("invariant").alias("witness"), "offset",
        F.concat("reason", F.when(F.col("promised"), ". This is a defect of Highwater").otherwise("")).alias("detail"),
        F.coalesce("promised", F.lit(False)).alias("_promised"),
    )  # fmt: skip
    if has_no_rows(broken):
        return others
    # A union is used, since a join would search the trace for the other anomalies once more.
    is_other = F.col("_promised").isNull()
    damaged = F.max(is_other).over(Window.partitionBy(RUN))
    return (
        others.unionByName(broken, allowMissingColumns=True)
        .withColumn("_damaged", damaged)
        .filter(is_other | F.col("_promised") | ~F.col("_damaged"))
        .drop("_promised", "_damaged")
    )
