"""Find records that were removed from a log legitimately: deleted, expired or compacted."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.names import BATCH_COMPACTED, KEYS_APPENDED, TOPIC_DELETED
from spark_reports.folding import folded, settled
from spark_reports.folds import compaction as fold
from spark_reports.held import has_no_rows
from spark_reports.io import Trace
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.batches import named_batches, told_apart
from spark_reports.transforms.records import COMPACTED, RECORD_KEY, deleted_records, final_entries, final_replicas

_BEYOND = 1 << 62
"""A value that is greater than every seq."""


def gone_records(trace: Trace) -> DataFrame:
    """Return one row per record that was removed from a log legitimately: *RECORD_KEY, why."""
    deleted = deleted_records(trace)
    if not has_no_rows(deleted):
        deleted = settled(deleted)
    if has_no_rows(trace.compaction):
        return deleted
    return settled(deleted.unionByName(compacted_records(trace, deleted)))


def compacted_records(trace: Trace, deleted: DataFrame) -> DataFrame:
    """Return one row per record that compaction removed from some replica's log legitimately.

    folds/compaction.py decides which removals are legitimate.

    Args:
        deleted: deleted_records().

    Returns:
        *RECORD_KEY, why.
    """
    keyed = trace.compaction.filter(F.col("event") == KEYS_APPENDED)
    its = (*PARTITION_KEY, "seq", F.col("base_offset").alias("offset"), "leader_epoch")
    taken = trace.compaction.filter((F.col("event") == BATCH_COMPACTED) & (F.size("removed") > 0))
    partitions = keyed.select(*PARTITION_KEY).distinct()
    topics = trace.control.filter(F.col("event") == TOPIC_DELETED).select(RUN, "topic", "seq")
    entries = final_entries(trace.final_log, trace.transaction).join(F.broadcast(partitions), list(PARTITION_KEY))
    facts = {
        fold.KEYS: keyed.select(*its, "crc", "keys", "tombstones"),
        fold.DELETED: _deleted_keys(trace, keyed, deleted),
        fold.TAKEN: taken.select(*its, "removed", "cleaned_to", "aborted"),
        fold.TOPIC_DELETED: partitions.join(F.broadcast(topics), [RUN, "topic"]),
        fold.ENTRY: entries.select(*PARTITION_KEY, F.lit(_BEYOND).alias("seq"), "offset", "leader_epoch", "aborted"),
        fold.END: final_replicas(trace.final_log).select(
            *PARTITION_KEY, F.lit(_BEYOND).alias("seq"), F.col("log_end_offset").alias("offset")
        ),
    }
    gone = settled(folded(facts, fold.COLUMNS, fold.compacted, fold.OUT))
    named = gone.join(named_batches(trace.produce), [*PARTITION_KEY, "crc", "place"])
    return told_apart(named, trace.produce, trace.log).select(*RECORD_KEY, F.lit(COMPACTED).alias("why")).distinct()


def _deleted_keys(trace: Trace, keyed: DataFrame, deleted: DataFrame) -> DataFrame:
    """Return the keys of records that were deleted or have expired: *PARTITION_KEY, seq, offset, keys."""
    each = keyed.select(
        *PARTITION_KEY, "seq", "leader_epoch", "base_offset", "crc", F.posexplode("keys").alias("place", "key")
    )
    named = each.join(named_batches(trace.produce), [*PARTITION_KEY, "crc", "place"])
    its = told_apart(named, trace.produce, trace.log).join(deleted.select(*RECORD_KEY).distinct(), list(RECORD_KEY))
    return its.select(
        *PARTITION_KEY, "seq", (F.col("base_offset") + F.col("place")).alias("offset"), F.array("key").alias("keys")
    )
