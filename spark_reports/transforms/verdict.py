"""The verdict from the trace alone, each anomaly with its witness. Definitions: scenarios/LANGUAGE.md."""

from __future__ import annotations

import functools
import operator

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    END_OFFSET_SEEN,
    FOLLOWING_BEGAN,
    INVARIANT_BROKEN,
    LEADERSHIP_BEGAN,
    LOG_ENTRY_FOUND,
    PARTITION_CREATED,
    POSITION_RESET,
    RECORD_READ,
    REPLICA_FOUND,
)
from spark_reports.folding import RunFiles, settled
from spark_reports.folds import anomalies as fold
from spark_reports.folds.events import Folding
from spark_reports.folds.facts import Facts, same
from spark_reports.held import has_no_rows, none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.records import RECORD_KEY, UNDONE, UNMARKED, is_undone

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
    """One row per witness of an anomaly.

    in:  record_fates(), final_entries(), gone_records(), the trace
    out: run, anomaly (of VERDICT_ORDER), topic, partition, witness (a record, a client or an invariant), offset, detail
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
    """in: record_fates()     out: as anomalies(), witness = the record's name"""
    lost = F.format_string("acked by %s at offset %d, not in the final log", F.col("acked_by"), F.col("ack_offset"))
    unread = F.when(F.col("readable"), UNMARKED).otherwise("acked and in the final log, but no consumer can read it")
    kinds: dict[str, tuple[str, str, Column]] = {
        "lost": ("lost", "ack_offset", F.when(is_undone(), UNDONE).otherwise(lost)),
        "unseen": ("unseen", "offset", unread),
        "dirty": ("dirty-read", "ack_offset", F.lit("a consumer read it, but it is not in the final log")),
        "duplicated": ("duplicated", "offset", F.format_string("in the final log %d times", "settled_copies")),
        "reordered": ("reordered", "offset", F.lit("stands after a record that its producer sent later")),
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
    place, held = [*PARTITION_KEY, "offset"], F.xxhash64("crc", "record")
    # Numbers alone are grouped in a hash table.
    numbered = committed.select(F.xxhash64(*PARTITION_KEY).alias("number"), "offset", held.alias("held"))
    differing = numbered.groupBy("number", "offset").agg(F.min("held").alias("least"), F.max("held").alias("most"))
    differing = settled(differing.filter("least != most").select("number", "offset"))
    if differing.isEmpty():
        return none_of(final_log.sparkSession, RESULT_TABLES["anomalies"].ddl)
    witness = F.array_join(F.array_sort(F.collect_list(F.concat("node", F.lit(": "), "record"))), ", ")
    return (
        committed.withColumn("number", F.xxhash64(*PARTITION_KEY))
        .join(F.broadcast(differing), ["number", "offset"])
        .groupBy(*place)
        .agg(witness.alias("witness"))
        .select(
            RUN, F.lit("diverged").alias("anomaly"), "topic", "partition", "witness", "offset",
            F.lit("replicas hold different records below their high watermarks").alias("detail"),
        )
    )  # fmt: skip


_MADE = Facts("control", same("seq"), {"event": [PARTITION_CREATED]}, ahead=True)
"""When a partition was made, and made again with its topic."""
_LED = Facts("control", same("seq", "node"), {"event": [LEADERSHIP_BEGAN]})
_SERVED = _LED._replace(where={"event": [LEADERSHIP_BEGAN, FOLLOWING_BEGAN]})
"""When a broker has heard of it: followers can be read, too."""

_ITS = same("seq", "client", "offset")
_ANSWER = {**_ITS, "node": "peer"}
REGRESSIONS = Folding(
    fold.regressions,
    {
        fold.SEEN: Facts("consume", _ANSWER, {"event": [END_OFFSET_SEEN], "error": [None]}),
        fold.MADE: _MADE,
        fold.SERVED: _LED,
    },
    fold.CLIENT_COLUMNS,
)
JUMPS = Folding(
    fold.jumps,
    {
        fold.READ: Facts("consume", _ANSWER, {"event": [RECORD_READ]}),
        # A seek by the user is a reset that no error caused: records read after it have no predecessor.
        fold.SEEK: Facts("consume", _ITS, {"event": [POSITION_RESET], "error": [None]}),
        fold.MADE: _MADE,
        fold.SERVED: _SERVED,
    },
    fold.CLIENT_COLUMNS,
)


def offset_regressions(files: RunFiles) -> DataFrame:
    """A client saw the end of a partition below an end it had seen before.

    out: as anomalies(); witness = the client
    """
    return files.rows(REGRESSIONS, RESULT_TABLES["anomalies"].ddl)


def poll_skips(trace: Trace, entries: DataFrame, gone: DataFrame) -> DataFrame:
    """Records of the final log that a consumer jumped over and never read, without a seek by its user. Records of
    aborted transactions are there and not for every reader; what was taken out of a log for a good reason need not have
    been in the one that was read.

    in:  the trace, final_entries(), gone_records()
    out: as anomalies(); witness = the client
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
    # Hardly any consumer jumps: then neither its reads nor the final logs need to be searched.
    if gaps.isEmpty():
        return none
    jumped = F.broadcast(gaps.select(*of_consumer, "since_seq").distinct())
    later = (
        trace.consume.filter(F.col("event") == RECORD_READ)
        .join(jumped, of_consumer)
        .filter(F.col("seq") > F.col("since_seq"))
        .select(*of_consumer, "offset", "record", "peer", "seq", "since_seq")
    )
    served = trace.control.filter(F.col("event").isin(LEADERSHIP_BEGAN, FOLLOWING_BEGAN)).select(
        *PARTITION_KEY, F.col("node").alias("peer"), F.col("seq").alias("served_seq")
    )
    is_in_time = (F.col("since_seq") < F.col("served_seq")) & (F.col("served_seq") < F.col("seq"))
    made_again = later.filter(F.col("since_seq") >= 0)
    of_today = made_again.join(F.broadcast(served), [*PARTITION_KEY, "peer"]).filter(is_in_time)
    # From brokers that have not said so far that they serve the topic of today: their offsets say nothing.
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
            F.format_string("jumped over %s without a seek and never read it", "record").alias("detail"),
        )
    )  # fmt: skip


JUMPS_DDL = (
    "run string, topic string, partition bigint, witness string, from_offset bigint, to_offset bigint, since_seq bigint"
)


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
    if has_no_rows(broken):
        return others
    # Together with the others, and not joined to them: a join would look for them in the trace once more.
    is_other = F.col("_promised").isNull()
    damaged = F.max(is_other).over(Window.partitionBy(RUN))
    return (
        others.unionByName(broken, allowMissingColumns=True)
        .withColumn("_damaged", damaged)
        .filter(is_other | F.col("_promised") | ~F.col("_damaged"))
        .drop("_promised", "_damaged")
    )
