"""Records that compaction has taken, and whether it might: of each key the last record has to stay."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.names import BATCH_COMPACTED, KEYS_APPENDED
from spark_reports.held import has_no_rows
from spark_reports.io import Trace
from spark_reports.schema import PARTITION_KEY
from spark_reports.transforms.batches import named_batches, told_apart
from spark_reports.transforms.records import COMPACTED, RECORD_KEY, deleted_records


def gone_records(trace: Trace, control: DataFrame) -> DataFrame:
    """One row per record that was taken out of a log for a good reason: deleted, expired or compacted.

    control: as the tables see it     out: *RECORD_KEY, why
    """
    deleted = deleted_records(trace.produce, trace.log, control)
    if has_no_rows(trace.compaction):
        return deleted
    return deleted.unionByName(compacted_records(trace))


def compacted_records(trace: Trace) -> DataFrame:
    """One row per record that compaction took out of some replica's log, and that had to go: a record below the end of
    the round has its key and a higher offset, it is a tombstone, or its transaction was aborted.

    The reason stands whatever became of that later record. The verdict of a run takes it back where that
    record is lost by the end.

    out: *RECORD_KEY, why
    """
    compaction = trace.compaction
    batch = [*PARTITION_KEY, "base_offset", "leader_epoch"]
    keyed = compaction.filter(F.col("event") == KEYS_APPENDED).select(
        *batch, "seq", "crc", "tombstones", F.posexplode("keys").alias("place", "key")
    )
    keyed = keyed.withColumn("offset", F.col("base_offset") + F.col("place"))
    removed = (
        compaction.filter((F.col("event") == BATCH_COMPACTED) & (F.size("removed") > 0))
        .select(*batch, "cleaned_to", "aborted", F.explode("removed").alias("offset"))
        .distinct()
        .join(keyed, [*batch, "offset"])
    )
    later = keyed.select(*PARTITION_KEY, "key", F.col("offset").alias("later"))
    is_old = (F.col("later") > F.col("offset")) & (F.col("later") < F.col("cleaned_to"))
    may_go = F.col("aborted") | F.array_contains("tombstones", F.col("offset")) | is_old
    gone = (
        removed.join(later, [*PARTITION_KEY, "key"])
        .filter(may_go)
        .select(*batch, "crc", "seq", "place")
        .distinct()
        .join(named_batches(trace.produce), [*PARTITION_KEY, "crc", "place"])
    )
    gone = told_apart(gone, trace.produce, trace.log)
    return gone.select(*RECORD_KEY, F.lit(COMPACTED).alias("why")).distinct()
