"""Compute the outcome of every record from its producer's answer, the final logs and its readers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace import names
from spark_reports.held import has_no_rows, none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.batches import named_batches, told_apart

RECORD_KEY = (*PARTITION_KEY, "record")
ACKED, FAILED, UNKNOWN = "acked", "failed", "unknown"
DELETED, EXPIRED, COMPACTED = "deleted", "expired", "compacted"
ABORTED, COMMITTED = "aborted", "committed"
_NEVER = (1 << 63) - 1
UNDONE = "its input was processed, but read_committed consumers cannot find the output"
"""Value of `detail` for the anomaly of a lost output."""
UNMARKED = "committed and in the final log, but without its marker, so read_committed consumers do not get it"
"""Value of `detail` for the anomaly of an unseen record whose transaction has no marker."""


def final_replicas(final_log: DataFrame) -> DataFrame:
    """Return one row per partition: the replica whose log counts as the partition's log after the run.

    It is the running leader, otherwise a member of the ISR, otherwise a member of the ELR, otherwise any replica with a
    log. Among several replicas, those with the latest leader epoch, then the largest log end offset, then the first
    name come first.

    Returns:
        *PARTITION_KEY, node, is_leader, high_watermark, log_end_offset.
    """
    preference = Window.partitionBy(*PARTITION_KEY).orderBy(
        *(F.col(name).desc() for name in ("is_leader", "in_isr", "in_elr", "leader_epoch", "log_end_offset")), "node"
    )
    return (
        final_log.filter(F.col("event") == names.REPLICA_FOUND)
        .withColumn("rank", F.row_number().over(preference))
        .filter(F.col("rank") == 1)
        .select(*PARTITION_KEY, "node", "is_leader", "high_watermark", "log_end_offset")
    )


def aborted(transaction: DataFrame) -> DataFrame:
    """Return the offsets of records that have an ABORT marker in some replica: *PARTITION_KEY, offset."""
    return _offsets_of(transaction.filter(F.col("event") == names.ABORTED_BATCH_FOUND)).drop("node").distinct()


def _offsets_of(batches: DataFrame) -> DataFrame:
    """Return one row per offset in these batches: *PARTITION_KEY, node, offset."""
    return batches.select(*PARTITION_KEY, "node", F.explode(F.sequence("base_offset", "last_offset")).alias("offset"))


def pending_markers(transaction: DataFrame) -> DataFrame:
    """Return the markers that a coordinator had decided on but not written when the run ended.

    Returns:
        run, partition_name (such as t-0), producer_id, committing (True if the marker is COMMIT).
    """
    latest = Window.partitionBy(RUN, "transactional_id").orderBy(F.col("seq").desc())
    is_prepared = F.col("state").isin("PrepareCommit", "PrepareAbort")
    return (
        transaction.filter(F.col("event") == names.TRANSACTION_STATE_CHANGED)
        .withColumn("rank", F.row_number().over(latest))
        .filter((F.col("rank") == 1) & is_prepared)
        .select(
            RUN, F.explode("partitions").alias("partition_name"), "producer_id",
            (F.col("state") == "PrepareCommit").alias("committing"),
        )
    )  # fmt: skip


def _undecided(transaction: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return two tables of records without a marker: those to be aborted, and those of open transactions.

    Both tables have the columns *PARTITION_KEY, node, offset.
    """
    name = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    batches = (
        transaction.filter(F.col("event") == names.OPEN_BATCH_FOUND)
        .withColumn("partition_name", name)
        .join(F.broadcast(pending_markers(transaction)), [RUN, "partition_name", "producer_id"], "left")
    )
    return _offsets_of(batches.filter(~F.col("committing"))), _offsets_of(batches.filter(F.col("committing").isNull()))


def _without_commit(transaction: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the offsets of aborted records, including those to be aborted, and of records of open transactions.

    Returns:
        A table with *PARTITION_KEY and offset, and one with *PARTITION_KEY, node and offset.
    """
    if has_no_rows(transaction):
        columns = "run string, topic string, partition bigint, {}offset bigint"
        spark = transaction.sparkSession
        return none_of(spark, columns.format("")), none_of(spark, columns.format("node string, "))
    aborting, undecided = _undecided(transaction)
    return aborted(transaction).unionByName(aborting.drop("node")).distinct(), undecided.distinct()


def logged_records(final_log: DataFrame) -> DataFrame:
    """Return one row per record in the final log of each replica.

    Returns:
        *PARTITION_KEY, node, offset, leader_epoch, crc, record.
    """
    batches = final_log.filter(F.col("event") == names.LOG_ENTRIES_FOUND)
    each = batches.select("*", F.posexplode("records").alias("place", "record"))
    return each.select(
        *PARTITION_KEY, "node", (F.col("offset") + F.col("place")).alias("offset"), "leader_epoch", "crc", "record"
    )


def final_entries(final_log: DataFrame, transaction: DataFrame) -> DataFrame:
    """Return one row per record in the log that counts as its partition's final log; see final_replicas().

    Returns:
        *PARTITION_KEY, offset, leader_epoch, record, and flags: readable (below the high watermark of a running
        leader), aborted (its transaction is or will be aborted), open (its transaction is undecided).
    """
    not_committed, undecided = _without_commit(transaction)
    chosen = final_replicas(final_log).select(*PARTITION_KEY, "node", "is_leader", F.col("high_watermark").alias("end"))
    return (
        logged_records(final_log)
        .join(F.broadcast(chosen), [*PARTITION_KEY, "node"])
        .select(
            *PARTITION_KEY,
            "node",
            "offset",
            "leader_epoch",
            "record",
            (F.col("is_leader") & (F.col("offset") < F.col("end"))).alias("readable"),
        )
        .join(
            F.broadcast(not_committed.withColumn("aborted", F.lit(True))),
            [*PARTITION_KEY, "offset"],
            "left",
        )
        .join(
            F.broadcast(undecided.withColumn("open", F.lit(True))),
            [*PARTITION_KEY, "node", "offset"],
            "left",
        )
        .drop("node")
        .withColumns({name: F.coalesce(name, F.lit(False)) for name in ("aborted", "open")})
    )


def deleted_records(trace: Trace) -> DataFrame:
    """Return one row per record that was deleted or has expired: *RECORD_KEY, why.

    * `deleted`: an operator deleted the record. It was below the new log start of a leader, or in some replica of a
      deleted topic, even if it was appended before the broker learned of the deletion.
    * `expired`: retention removed the record. It was below the new log start of any replica.

    A record does not count if the log had lost or compacted it before, or if a leader has appended it again since.
    """
    produce, log, control = trace.produce, trace.log, trace.control
    is_topic = F.col("event") == names.TOPIC_DELETED
    is_with_disk = (F.col("event") == names.DATA_LOST) & (F.col("size_bytes") < 0)
    is_gone = (F.col("event") == names.REPLICA_DELETED) | is_with_disk
    by_start = (F.col("event") == names.LOG_START_OFFSET_ADVANCED) & (F.col("role") == "leader")
    by_age = F.col("event") == names.RECORDS_EXPIRED
    deletions = control.filter(by_start | is_topic | by_age).select(
        RUN, "topic", F.col("partition").alias("cut_partition"), F.col("node").alias("cut_on"),
        F.col("seq").alias("deleted_seq"), F.col("log_start_offset").alias("below"),
        F.when(by_age, EXPIRED).otherwise(DELETED).alias("why"),
    )  # fmt: skip
    if has_no_rows(deletions):
        return none_of(produce.sparkSession, "run string, topic string, partition bigint, record string, why string")
    replica = [*PARTITION_KEY, "node"]
    is_opening = F.col("event").isin(names.LEADERSHIP_BEGAN, names.FOLLOWING_BEGAN)
    # A replica's life begins with its broker's first event about it, and ends when its broker deletes it or its disk
    # is replaced.
    before = Window.partitionBy(*replica).orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    lives = (
        control.filter(is_opening | is_gone)
        .join(F.broadcast(control.filter(is_topic).select(RUN, "topic").distinct()), [RUN, "topic"], "left_semi")
        .withColumn("life", F.coalesce(F.count(F.when(is_gone, 1)).over(before), F.lit(0)))
        .groupBy(*replica, "life")
        .agg(
            F.min(F.when(is_opening, F.col("seq"))).alias("begun_seq"),
            F.coalesce(F.max(F.when(is_gone, F.col("seq"))), F.lit(_NEVER)).alias("gone_seq"),
        )
        .drop("life")
    )
    topics = deletions.filter(F.col("below").isNull()).select(RUN, "topic", "deleted_seq")
    doomed_lives = (
        lives.join(F.broadcast(topics), [RUN, "topic"])
        .filter((F.col("begun_seq") < F.col("deleted_seq")) & (F.col("deleted_seq") < F.col("gone_seq")))
        .select(*replica, "begun_seq", "gone_seq")
        .distinct()
    )
    # Few runs have a deletion, and other runs end above, so the log is read only if needed.
    appended = log.filter(F.col("event") == names.BATCH_APPENDED).select(
        *replica, "role", "crc", "seq", "leader_epoch", "base_offset", "last_offset"
    )
    same_replica = (F.col("partition") == F.col("cut_partition")) & (F.col("node") == F.col("cut_on"))
    by_topic = F.col("below").isNull()
    cut = appended.join(F.broadcast(deletions), [RUN, "topic"]).filter(
        (F.col("seq") < F.col("deleted_seq")) & (by_topic | same_replica)
    )
    late = (
        appended.join(F.broadcast(doomed_lives), replica)
        .filter((F.col("seq") > F.col("begun_seq")) & (F.col("seq") < F.col("gone_seq")))
        .withColumns({"below": F.lit(None).cast("long"), "why": F.lit(DELETED), "deleted_seq": F.col("seq")})
    )
    doomed = _still_there(cut, control).unionByName(late, allowMissingColumns=True)
    batch_names = named_batches(
        produce.join(F.broadcast(deletions.select(RUN, "topic").distinct()), [RUN, "topic"], "left_semi")
    )
    of_leaders = appended.filter(F.col("role") == "leader")
    batch = [*PARTITION_KEY, "crc", "seq", "leader_epoch", "base_offset"]
    named = doomed.select(*batch, "node", "below", "why", "deleted_seq").join(batch_names, [*PARTITION_KEY, "crc"])
    if not has_no_rows(trace.compaction):
        named = _without_compacted(named, trace.compaction)
    gone = (
        told_apart(named, produce, log)
        .filter(by_topic | (F.col("base_offset") + F.col("place") < F.col("below")))
        .groupBy(*RECORD_KEY, "why")
        .agg(F.max("deleted_seq").alias("deleted_seq"))
    )
    named_again = batch_names.join(gone.select(*RECORD_KEY).distinct(), list(RECORD_KEY), "left_semi").join(
        of_leaders, [*PARTITION_KEY, "crc"]
    )
    again = (
        told_apart(named_again, produce, log)
        .join(late.select(RUN, "seq"), [RUN, "seq"], "left_anti")
        .groupBy(*RECORD_KEY)
        .agg(F.max("seq").alias("again_seq"))
    )
    is_back = F.coalesce(F.col("again_seq") > F.col("deleted_seq"), F.lit(False))
    return gone.join(again, list(RECORD_KEY), "left").filter(~is_back).select(*RECORD_KEY, "why")


def _without_compacted(named: DataFrame, compaction: DataFrame) -> DataFrame:
    """Drop the records that the replica's log cleaner had already removed before their deletion."""
    taken = compaction.filter(F.col("event") == names.BATCH_COMPACTED).select(
        *PARTITION_KEY, "node", F.col("seq").alias("taken_seq"), F.explode("removed").alias("taken_at")
    )
    item, other = named.alias("one"), taken.alias("other")
    is_its = [F.col(f"one.{name}") == F.col(f"other.{name}") for name in (*PARTITION_KEY, "node")]
    is_before = (
        (F.col("one.base_offset") + F.col("one.place") == F.col("other.taken_at"))
        & (F.col("one.seq") < F.col("other.taken_seq"))
        & (F.col("other.taken_seq") < F.col("one.deleted_seq"))
    )
    return item.join(other, [*is_its, is_before], "left_anti")


def _still_there(cut: DataFrame, control: DataFrame) -> DataFrame:
    """Keep only the batches that were still in the replica's log at the time of the deletion.

    Args:
        cut: batches with *PARTITION_KEY, node, seq (of the append), last_offset and deleted_seq.
        control: the control table.
    """
    emptied = (F.col("event") == names.REPLICA_DELETED) | (F.col("log_end_offset") > F.col("previous_log_end_offset"))
    ends = control.filter(F.col("event").isin(names.LOG_TRUNCATED, names.LOG_RECOVERED, names.REPLICA_DELETED)).select(
        *PARTITION_KEY, "node", F.col("seq").alias("end_seq"),
        F.when(emptied, F.lit(0)).otherwise(F.col("log_end_offset")).alias("end"),
    )  # fmt: skip
    batch, later = cut.alias("batch"), F.broadcast(ends).alias("later")
    is_its = [F.col(f"batch.{name}") == F.col(f"later.{name}") for name in (*PARTITION_KEY, "node")]
    has_gone = (
        (F.col("batch.seq") < F.col("later.end_seq"))
        & (F.col("later.end_seq") < F.col("batch.deleted_seq"))
        & (F.col("batch.last_offset") >= F.col("later.end"))
    )
    return batch.join(later, [*is_its, has_gone], "left_anti")


def record_fates(trace: Trace, entries: DataFrame, known: DataFrame) -> DataFrame:
    """Return one row per record that was sent, stored, read or deleted, with its outcome.

    Copies of a record in aborted transactions do not count as stored.

    Args:
        entries: final_entries().
        known: known_of_records().
    """
    written = trace.produce.filter(F.col("record").isNotNull()).select(
        *RECORD_KEY, "event", "seq", "at_us", "client", "acks", "peer", F.col("offset").alias("ack_offset"),
        "latency_us", "error", "definite",
    )  # fmt: skip
    read = trace.consume.filter(F.col("event").isin(names.RECORD_READ, names.OUTPUT_PROMISED)).select(
        *RECORD_KEY, "event"
    )
    facts = (
        written.unionByName(entries.drop("leader_epoch").withColumn("event", F.lit(names.LOG_ENTRIES_FOUND)), True)
        .unionByName(read, True)
        .unionByName(known.withColumnRenamed("why", "event"), True)
    )
    return _judged(_of_each_record(facts, trace.produce))


_NAMES = ("client", "peer", "error")

_DEFINITE_FAILURE = "failed for good"
_KINDS = {
    event: 1 << index
    for index, event in enumerate(
        (
            names.RECORD_SENT, names.RECORD_ACKED, names.RECORD_HANDED_OVER, names.RECORD_FAILED, _DEFINITE_FAILURE,
            names.LOG_ENTRIES_FOUND, names.RECORD_READ, names.OUTPUT_PROMISED, DELETED, EXPIRED, COMPACTED, ABORTED,
            COMMITTED,
        )
    )
}  # fmt: skip
"""A bit for each kind of fact about a record. The facts about one record are combined by bitwise OR."""


def _kind() -> Column:
    """Return a column with the bit of each fact, 0 for events that do not affect a record's outcome."""
    event = F.when((F.col("event") == names.RECORD_FAILED) & F.col("definite"), _DEFINITE_FAILURE).otherwise(
        F.col("event")
    )
    bits = [F.when(event == name, bit) for name, bit in _KINDS.items()]
    return F.coalesce(*bits, F.lit(0))


def _of_each_record(facts: DataFrame, produce: DataFrame) -> DataFrame:
    """Combine all facts about each record in one row.

    `sent_before` is the largest `seq` of a send among the same producer's records that are earlier in the log.
    """

    def is_a(*events: str) -> Column:
        return F.col("kind").isin(*[_KINDS[event] for event in events])

    is_sent, is_acked, is_stored = is_a(names.RECORD_SENT), is_a(names.RECORD_ACKED), is_a(names.LOG_ENTRIES_FOUND)
    is_failed = is_a(names.RECORD_FAILED, _DEFINITE_FAILURE)
    is_told = is_a(names.RECORD_ACKED, names.RECORD_HANDED_OVER, names.RECORD_FAILED, _DEFINITE_FAILURE)
    is_copy = is_stored & ~F.col("aborted")

    def least(name: str, rows: Column) -> Column:
        return F.min(F.when(rows, F.col(name)))

    def first(name: str, rows: Column, by: str = "seq") -> Column:
        return F.min_by(F.when(rows, F.col(name)), F.when(rows, F.col(by)))

    def has(event: str) -> Column:
        return F.col("kinds").bitwiseAND(_KINDS[event]) != 0

    # Spark aggregates numbers in a hash table. With a string column it would sort all events, twice.
    numbers = {name: F.when(F.col(name).isNotNull(), F.xxhash64(name)) for name in _NAMES}
    numbered = facts.withColumns({"kind": _kind(), **numbers}).drop("event", "definite")
    # A record without a key is sent before it has a partition (-1); later events have its partition.
    of_each = (
        numbered.repartition(RUN, "topic", "record")
        .groupBy(RUN, "topic", "record")
        .agg(
            F.max("partition").alias("partition"),
            F.bit_or("kind").alias("kinds"),
            first("client", is_sent).alias("client"),
            least("acks", is_sent).alias("acks"),
            least("at_us", is_sent).alias("sent_us"),
            least("seq", is_sent).alias("sent_seq"),
            F.max(F.when(is_sent, F.col("seq"))).alias("last_sent_seq"),
            least("at_us", is_told).alias("told_us"),
            least("seq", is_told).alias("told_seq"),
            least("at_us", is_acked).alias("acked_us"),
            least("seq", is_acked).alias("acked_seq"),
            first("peer", is_acked).alias("peer"),
            first("ack_offset", is_acked).alias("ack_offset"),
            F.min("latency_us").alias("latency_us"),
            first("error", is_failed & F.col("error").isNotNull()).alias("error"),
            F.count_if(is_copy).alias("copies"),
            F.count_if(is_copy & ~F.col("open")).alias("settled_copies"),
            least("offset", is_stored).alias("offset"),
            first("readable", is_stored, by="offset").alias("readable"),
        )
    )
    # Sorting by one number for partition and producer is faster than sorting by their names.
    producer = F.xxhash64(*PARTITION_KEY, "client")
    before = Window.partitionBy(producer).orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    sent_before = F.max(F.when(F.col("offset").isNotNull(), F.col("sent_seq"))).over(before)
    found = of_each.withColumn("sent_before", sent_before)
    words = produce.select(*_NAMES).distinct().select(F.explode(F.array(*_NAMES)).alias("word"))
    words = words.filter(F.col("word").isNotNull()).distinct()
    for name in _NAMES:
        word = words.select(F.xxhash64("word").alias(name), F.col("word").alias(f"{name}_word"))
        found = found.join(F.broadcast(word), name, "left").drop(name).withColumnRenamed(f"{name}_word", name)
    flags = {
        "is_acked": names.RECORD_ACKED, "is_failed": _DEFINITE_FAILURE, "handed_over": names.RECORD_HANDED_OVER,
        "read": names.RECORD_READ, "promised": names.OUTPUT_PROMISED,
        **{why: why for why in (DELETED, EXPIRED, COMPACTED, ABORTED, COMMITTED)},
    }  # fmt: skip
    return found.withColumns({flag: has(event) for flag, event in flags.items()}).withColumnRenamed("peer", "acked_by")


def _is_taken() -> Column:
    return F.col("deleted") | F.col("expired") | F.col("compacted")


def is_undone() -> Column:
    """Return a column that is True for lost outputs: records that the log lacks and that no client writes again."""
    return F.col("promised") & (F.col("copies") == 0) & ~_is_taken()


def _judged(records: DataFrame) -> DataFrame:
    """Add one boolean column per kind of anomaly to the records."""
    outcome = F.when(F.col("is_acked"), ACKED).when(F.col("is_failed"), FAILED).otherwise(UNKNOWN)
    judged = records.withColumns(
        {
            "told": outcome,
            "present": F.col("offset").isNotNull(),
            "readable": F.coalesce("readable", F.lit(False)),
        }
    )
    is_acked = F.col("told") == ACKED
    is_gone = ~F.col("present") & ~_is_taken()
    is_aborted = F.when(F.col("present"), F.col("copies") == 0).otherwise(F.col(ABORTED) & ~_is_taken())
    # The record exists, but the marker that committed it is in no final log.
    is_stranded = F.col(COMMITTED) & (F.col("copies") > 0) & (F.col("settled_copies") == 0)
    return judged.withColumns(
        {
            "lost": (is_acked & is_gone & ~F.col(ABORTED)) | is_undone(),
            "unseen": is_acked & F.col("present") & (~F.col("readable") | is_stranded),
            "missing": (F.col("told") == UNKNOWN) & F.col("sent_seq").isNotNull() & is_gone,
            "duplicated": F.col("settled_copies") > 1,
            "dirty": F.col("read") & is_gone,
            "reordered": F.coalesce(F.col("present") & (F.col("last_sent_seq") < F.col("sent_before")), F.lit(False)),
            ABORTED: is_acked & is_aborted & ~is_undone(),
        }
    ).select(*RESULT_TABLES["records"].columns)


def record_counts(fates: DataFrame) -> DataFrame:
    """Return one row per run, topic and acks level with the number of records by outcome.

    Args:
        fates: record_fates().
    """
    flags = ("lost", "unseen", "missing", "duplicated", "dirty", "reordered")
    return (
        fates.filter(F.col("sent_seq").isNotNull())
        .groupBy(RUN, "topic", "acks")
        .agg(
            F.count("*").alias("sent"),
            F.count_if(F.col("told") == ACKED).alias("acked"),
            F.count_if("handed_over").alias("handed_over"),
            F.count_if(F.col("told") == FAILED).alias("failed"),
            F.count_if(F.col("told") == UNKNOWN).alias("unknown"),
            *[F.count_if(name).alias(name) for name in flags],
        )
    )
