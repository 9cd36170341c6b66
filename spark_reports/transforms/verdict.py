"""The verdict from the trace alone, each anomaly with its witness. Definitions: scenarios/LANGUAGE.md."""

from __future__ import annotations

import functools

from pyspark.sql import DataFrame, Window
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
from spark_reports.folds import anomalies as fold
from spark_reports.folds import findings
from spark_reports.folds.events import Folding
from spark_reports.folds.files import Facts, same
from spark_reports.from_files import RunFiles
from spark_reports.held import has_no_rows, none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.compaction import gone_records
from spark_reports.transforms.records import RECORD_KEY, UNDONE, UNMARKED
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


def anomalies(fates: DataFrame, entries: DataFrame, trace: Trace, control: DataFrame) -> DataFrame:
    """One row per witness of an anomaly.

    in:  record_fates(), final_entries(), the trace, and its control table as the tables see it
    out: run, anomaly (of VERDICT_ORDER), topic, partition, witness (a record, a client or an invariant), offset, detail
    """
    parts = [
        record_anomalies(fates, trace.files),
        diverged(trace.files),
        offset_regressions(trace.files),
        poll_skips(trace, entries, control),
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return with_broken_invariants(together, control)


def record_anomalies(fates: DataFrame, files: RunFiles) -> DataFrame:
    """in: record_fates(), the trace; out: as anomalies(), witness = the record's name."""
    find = functools.partial(findings.anomalies, UNDONE, UNMARKED)
    return files.of_each("records", fates, find, findings.ANOMALY_COLUMNS, RESULT_TABLES["anomalies"].ddl)


DIVERGED = Folding(
    fold.diverged,
    {
        fold.REPLICA: Facts(
            "final_log", same("node", "high_watermark"), {"event": [REPLICA_FOUND], "running": [True]}, ahead=True
        ),
        fold.ENTRY: Facts("final_log", same("node", "offset", "record", "crc"), {"event": [LOG_ENTRY_FOUND]}),
    },
    fold.REPLICA_COLUMNS,
    along="offset",
    is_ordered=False,
)


def diverged(files: RunFiles) -> DataFrame:
    """Offsets below the high watermarks of two running replicas at which these hold different records.

    out: as anomalies(); witness = the records, by replica
    """
    return files.few(RESULT_TABLES["anomalies"].ddl, DIVERGED)


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
    return files.few(RESULT_TABLES["anomalies"].ddl, REGRESSIONS)


def poll_skips(trace: Trace, entries: DataFrame, control: DataFrame) -> DataFrame:
    """Records of the final log that a consumer jumped over and never read, without a seek by its user. Records of
    aborted transactions are there and not for every reader; what was taken out of a log for a good reason need not have
    been in the one that was read.

    in:  the trace, final_entries(), the control table as the tables see it
    out: as anomalies(); witness = the client
    """
    of_consumer = [*PARTITION_KEY, "client"]
    none = none_of(trace.files.spark, RESULT_TABLES["anomalies"].ddl)
    found = trace.files.few(JUMPS_DDL, JUMPS)
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
    served = control.filter(F.col("event").isin(LEADERSHIP_BEGAN, FOLLOWING_BEGAN)).select(
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
        .join(gone_records(trace, control), list(RECORD_KEY), "left_anti")
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
