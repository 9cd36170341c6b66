"""Records that compaction has taken, and whether it might: of each key the last record has to stay."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.names import BATCH_COMPACTED, KEYS_APPENDED, TOPIC_DELETED
from spark_reports.held import has_no_rows
from spark_reports.io import Trace
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.batches import named_batches, told_apart
from spark_reports.transforms.records import COMPACTED, RECORD_KEY, deleted_records, final_entries, final_replicas


def gone_records(trace: Trace, control: DataFrame) -> DataFrame:
    """One row per record that was taken out of a log for a good reason: deleted, expired or compacted.

    control: as the tables see it     out: *RECORD_KEY, why
    """
    deleted = deleted_records(trace.produce, trace.log, control, trace.compaction)
    if has_no_rows(trace.compaction):
        return deleted
    return deleted.unionByName(compacted_records(trace, control, deleted))


def compacted_records(trace: Trace, control: DataFrame, deleted: DataFrame) -> DataFrame:
    """One row per record that compaction took out of some replica's log, and that had to go: a record below the end of
    the round had its key and a higher offset, it was a tombstone, or its transaction was aborted.

    And the reason holds at the end. A later record of its key is in the log that counts, was deleted or has expired, or
    is a tombstone that went by right. A tombstone did not, where that log was cut off below its offset, and still holds
    an earlier record of its key.

    deleted: deleted_records()     out: *RECORD_KEY, why
    """
    compaction = trace.compaction
    batch = [*PARTITION_KEY, "base_offset", "leader_epoch"]
    of_key = [*PARTITION_KEY, "life", "key"]
    keyed = compaction.filter(F.col("event") == KEYS_APPENDED).select(
        *batch, "seq", "crc", "tombstones", F.posexplode("keys").alias("place", "key")
    )
    keyed = keyed.withColumn("offset", F.col("base_offset") + F.col("place"))
    keyed = keyed.withColumn("is_tombstone", F.array_contains("tombstones", F.col("offset"))).drop("tombstones")
    keyed = _in_lives(keyed, control)
    removed = (
        compaction.filter((F.col("event") == BATCH_COMPACTED) & (F.size("removed") > 0))
        .select(*batch, "cleaned_to", "aborted", F.explode("removed").alias("offset"))
        .distinct()
        .join(keyed, [*batch, "offset"])
    )
    later = keyed.select(*of_key, F.col("offset").alias("later"))
    is_old = (F.col("later") > F.col("offset")) & (F.col("later") < F.col("cleaned_to"))
    had_to_go = (
        removed.join(later, of_key)
        .filter(F.col("aborted") | F.col("is_tombstone") | is_old)
        .select(*batch, "crc", "seq", "place", "offset", "life", "is_last_life", "key", "is_tombstone", "aborted")
        .distinct()
    )
    entries = final_entries(trace.final_log, trace.transaction)
    last_lives = keyed.filter("is_last_life").select(*PARTITION_KEY, "offset", "leader_epoch", "life", "key")
    standing = (
        entries.filter(~F.col("aborted"))
        .join(last_lives, [*PARTITION_KEY, "offset", "leader_epoch"])
        .groupBy(*of_key)
        .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    )
    names = named_batches(trace.produce)
    with_names = told_apart(keyed.join(names, [*PARTITION_KEY, "crc", "place"]), trace.produce, trace.log)
    deleted_to = (
        with_names.join(deleted.select(*RECORD_KEY).distinct(), list(RECORD_KEY), "left_semi")
        .groupBy(*of_key)
        .agg(F.max("offset").alias("deleted_to"))
    )
    tombstones = had_to_go.filter("is_tombstone").join(standing, of_key, "left")
    came_back = (F.col("first") < F.col("offset")) & (F.col("last") <= F.col("offset"))
    lost = _cut_off(tombstones.filter(came_back), entries, trace.final_log)
    lost_key = [*PARTITION_KEY, "life", "offset"]
    buried_to = tombstones.join(lost, lost_key, "left_anti").groupBy(*of_key).agg(F.max("offset").alias("buried_to"))
    replaced_to = F.greatest(*(F.coalesce(name, F.lit(-1)) for name in ("last", "deleted_to", "buried_to")))
    gone = had_to_go
    for one in (standing, deleted_to, buried_to):
        gone = gone.join(one, of_key, "left")
    gone = (
        gone.join(lost.withColumn("is_lost", F.lit(True)), lost_key, "left")
        .filter(
            F.col("aborted")
            | (F.col("is_tombstone") & F.col("is_lost").isNull())
            | (~F.col("is_tombstone") & (replaced_to > F.col("offset")))
        )
        .select(*batch, "crc", "seq", "place")
        .distinct()
        .join(names, [*PARTITION_KEY, "crc", "place"])
    )
    gone = told_apart(gone, trace.produce, trace.log)
    return gone.select(*RECORD_KEY, F.lit(COMPACTED).alias("why")).distinct()


def _in_lives(keyed: DataFrame, control: DataFrame) -> DataFrame:
    """With how often its topic had been deleted (`life`), and whether it was not deleted again (`is_last_life`)."""
    deletions = (
        control.filter(F.col("event") == TOPIC_DELETED)
        .groupBy(RUN, "topic")
        .agg(F.collect_list("seq").alias("deletions"))
    )
    deleted_before = F.filter("deletions", lambda deleted_seq: deleted_seq < F.col("seq"))
    life = F.coalesce(F.size(deleted_before), F.lit(0))
    lives = F.coalesce(F.size("deletions"), F.lit(0))
    joined = keyed.join(F.broadcast(deletions), [RUN, "topic"], "left")
    known = F.col("deletions").isNotNull()
    return joined.withColumns(
        {"life": F.when(known, life).otherwise(0), "is_last_life": ~known | (life == lives)}
    ).drop("deletions")


def _cut_off(tombstones: DataFrame, entries: DataFrame, final_log: DataFrame) -> DataFrame:
    """Those beyond the end of the log that counts, or where a later leader wrote.  out: PARTITION_KEY, life, offset"""
    ends = final_replicas(final_log).select(*PARTITION_KEY, "log_end_offset")
    before = entries.select(*PARTITION_KEY, F.col("offset").alias("at"), F.col("leader_epoch").alias("epoch_at"))
    return (
        tombstones.select(*PARTITION_KEY, "life", "offset", "leader_epoch")
        .join(F.broadcast(ends), list(PARTITION_KEY))
        .join(before, list(PARTITION_KEY))
        .filter(F.col("at") <= F.col("offset"))
        .groupBy(*PARTITION_KEY, "life", "offset", "leader_epoch", "log_end_offset")
        .agg(F.max_by("epoch_at", "at").alias("epoch_there"))
        .filter((F.col("log_end_offset") <= F.col("offset")) | (F.col("epoch_there") > F.col("leader_epoch")))
        .select(*PARTITION_KEY, "life", "offset")
    )
