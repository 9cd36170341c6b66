"""The fate of every record: its producer's answer, whether it is there at the end, its readers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    ABORTED_BATCH_FOUND,
    BATCH_APPENDED,
    BATCH_SENT,
    FOLLOWING_BEGAN,
    LEADERSHIP_BEGAN,
    LOG_ENTRY_FOUND,
    LOG_START_OFFSET_ADVANCED,
    OPEN_BATCH_FOUND,
    OUTPUT_PROMISED,
    RECORD_ACKED,
    RECORD_FAILED,
    RECORD_HANDED_OVER,
    RECORD_READ,
    RECORD_SENT,
    RECORDS_EXPIRED,
    REPLICA_DELETED,
    REPLICA_FOUND,
    TOPIC_DELETED,
    TRANSACTION_STATE_CHANGED,
)
from spark_reports.schema import PARTITION_KEY, RUN

RECORD_KEY = (*PARTITION_KEY, "record")
ACKED, FAILED, UNKNOWN = "acked", "failed", "unknown"
DELETED, EXPIRED, COMPACTED = "deleted", "expired", "compacted"
ABORTED, COMMITTED = "aborted", "committed"
_NEVER = (1 << 63) - 1
UNDONE = "its application is done with the input, and no reader of committed records finds the output"
"""Why it is lost, in the witness of the verdict."""
UNMARKED = "committed and in the final log, but without the marker: no reader of committed records gets it"
"""Why it is unseen, there."""


def final_replicas(final_log: DataFrame) -> DataFrame:
    """One row per partition: the replica whose log is the partition's log after the run.

    The running leader; without one, the ISR member with the largest log end offset (of equals, the first by name).
    Partitions that have neither have no row.
    out: *PARTITION_KEY, node, is_leader, high_watermark, log_end_offset
    """
    preference = Window.partitionBy(*PARTITION_KEY).orderBy(
        F.col("is_leader").desc(), F.col("log_end_offset").desc(), F.col("node")
    )
    return (
        final_log.filter((F.col("event") == REPLICA_FOUND) & (F.col("is_leader") | F.col("in_isr")))
        .withColumn("rank", F.row_number().over(preference))
        .filter(F.col("rank") == 1)
        .select(*PARTITION_KEY, "node", "is_leader", "high_watermark", "log_end_offset")
    )


def aborted(transaction: DataFrame) -> DataFrame:
    """Where records stand that an ABORT marker has ended, in any replica.  out: PARTITION_KEY, offset"""
    return _offsets_of(transaction.filter(F.col("event") == ABORTED_BATCH_FOUND)).drop("node").distinct()


def _offsets_of(batches: DataFrame) -> DataFrame:
    """out: PARTITION_KEY, node, offset"""
    return batches.select(*PARTITION_KEY, "node", F.explode(F.sequence("base_offset", "last_offset")).alias("offset"))


def pending_markers(transaction: DataFrame) -> DataFrame:
    """Markers that a coordinator has still to write when the run ends: a decision stands with and without them.

    out: run, partition_name (as in t-0), producer_id, committing (what the marker will say)
    """
    latest = Window.partitionBy(RUN, "transactional_id").orderBy(F.col("seq").desc())
    is_prepared = F.col("state").isin("PrepareCommit", "PrepareAbort")
    return (
        transaction.filter(F.col("event") == TRANSACTION_STATE_CHANGED)
        .withColumn("rank", F.row_number().over(latest))
        .filter((F.col("rank") == 1) & is_prepared)
        .select(
            RUN, F.explode("partitions").alias("partition_name"), "producer_id",
            (F.col("state") == "PrepareCommit").alias("committing"),
        )
    )  # fmt: skip


def _undecided(transaction: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Of the records that no marker has ended: those that will be aborted, and those of open transactions.

    out: PARTITION_KEY, node, offset
    """
    name = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    batches = (
        transaction.filter(F.col("event") == OPEN_BATCH_FOUND)
        .withColumn("partition_name", name)
        .join(F.broadcast(pending_markers(transaction)), [RUN, "partition_name", "producer_id"], "left")
    )
    return _offsets_of(batches.filter(~F.col("committing"))), _offsets_of(batches.filter(F.col("committing").isNull()))


def final_entries(final_log: DataFrame, transaction: DataFrame) -> DataFrame:
    """One row per record in the final log of its partition.

    out: *PARTITION_KEY, offset, record, readable (below the high watermark of a running leader), aborted (with its
         transaction), open (its transaction is not decided)
    """
    aborting, undecided = _undecided(transaction)
    not_committed = aborted(transaction).unionByName(aborting.drop("node")).distinct()
    chosen = final_replicas(final_log).select(*PARTITION_KEY, "node", "is_leader", F.col("high_watermark").alias("end"))
    return (
        final_log.filter(F.col("event") == LOG_ENTRY_FOUND)
        .select(*PARTITION_KEY, "node", "offset", "record")
        .join(F.broadcast(chosen), [*PARTITION_KEY, "node"])
        .select(
            *PARTITION_KEY,
            "node",
            "offset",
            "record",
            (F.col("is_leader") & (F.col("offset") < F.col("end"))).alias("readable"),
        )
        .join(
            F.broadcast(not_committed.withColumn("aborted", F.lit(True))),
            [*PARTITION_KEY, "offset"],
            "left",
        )
        .join(
            F.broadcast(undecided.distinct().withColumn("open", F.lit(True))),
            [*PARTITION_KEY, "node", "offset"],
            "left",
        )
        .drop("node")
        .withColumns({name: F.coalesce(name, F.lit(False)) for name in ("aborted", "open")})
    )


def deleted_records(produce: DataFrame, log: DataFrame, control: DataFrame) -> DataFrame:
    """One row per record that was taken out of a log for a good reason (`why`). An operator `deleted` it: records of a
    leader below the start that its log was raised to, and records of a deleted topic that any replica had, or got until
    its broker heard of the deletion. It `expired`: records of any replica below the start that retention raised.

    in:  the trace tables     out: *RECORD_KEY, why
    """
    is_topic, is_gone = F.col("event") == TOPIC_DELETED, F.col("event") == REPLICA_DELETED
    by_start = (F.col("event") == LOG_START_OFFSET_ADVANCED) & (F.col("role") == "leader")
    by_age = F.col("event") == RECORDS_EXPIRED
    deletions = control.filter(by_start | is_topic | by_age).select(
        RUN, "topic", F.col("partition").alias("cut_partition"), F.col("node").alias("cut_on"),
        F.col("seq").alias("deleted_seq"), F.col("log_start_offset").alias("below"),
        F.when(by_age, EXPIRED).otherwise(DELETED).alias("why"),
    )  # fmt: skip
    replica = [*PARTITION_KEY, "node"]
    is_opening = F.col("event").isin(LEADERSHIP_BEGAN, FOLLOWING_BEGAN)
    # A life of a replica begins with its broker's first event of it, and ends when its broker deletes it.
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
    # Hardly any run has a deletion: then the log need not be read at all.
    appended = log.filter(F.col("event") == BATCH_APPENDED).select(*replica, "crc", "seq", "base_offset")
    same_replica = (F.col("partition") == F.col("cut_partition")) & (F.col("node") == F.col("cut_on"))
    by_topic = F.col("below").isNull()
    cut = appended.join(F.broadcast(deletions), [RUN, "topic"]).filter(
        (F.col("seq") < F.col("deleted_seq")) & (by_topic | same_replica)
    )
    late = (
        appended.join(F.broadcast(doomed_lives), replica)
        .filter((F.col("seq") > F.col("begun_seq")) & (F.col("seq") < F.col("gone_seq")))
        .withColumns({"below": F.lit(None).cast("long"), "why": F.lit(DELETED)})
    )
    doomed = cut.select(*PARTITION_KEY, "crc", "base_offset", "below", "why").unionByName(
        late.select(*PARTITION_KEY, "crc", "base_offset", "below", "why")
    )
    names = produce.filter(F.col("event") == BATCH_SENT).select(
        *PARTITION_KEY, "crc", F.posexplode("records").alias("place", "record")
    )
    return (
        doomed.join(names, [*PARTITION_KEY, "crc"])
        .filter(by_topic | (F.col("base_offset") + F.col("place") < F.col("below")))
        .select(*RECORD_KEY, "why")
        .distinct()
    )


def record_fates(produce: DataFrame, consume: DataFrame, entries: DataFrame, known: DataFrame) -> DataFrame:
    """One row per record that was sent, stored, read or deleted: one conditional groupBy over all of that, no joins.

    in:  produce and consume tables, final_entries(), and what else is known: transaction_ends.known_of_records()
    out: *RECORD_KEY, client, acks, sent_us, sent_seq, last_sent_seq, told (acked, failed = definitely not written,
         unknown), told_us and told_seq (of the word on it), handed_over, acked_us, acked_seq, acked_by, ack_offset,
         latency_us, error,
         copies (in the final log, but for those of aborted transactions), settled_copies (but for those of open ones,
         too), offset (the first), present, readable, read,
         promised (output of an input that is done),
         deleted, expired, compacted, and lost, unseen, missing, duplicated, dirty, reordered, aborted
    """
    nothing = F.lit(None)
    sends = produce.filter(F.col("record").isNotNull()).select(
        *RECORD_KEY, "event", "seq", "at_us", "client", "acks", "peer", F.col("offset").alias("ack_offset"),
        "latency_us", "error", "definite", nothing.cast("long").alias("offset"),
        nothing.cast("boolean").alias("readable"), nothing.cast("boolean").alias("aborted"),
        nothing.cast("boolean").alias("open"),
    )  # fmt: skip

    def without_producer(rows: DataFrame, event: Column) -> DataFrame:
        filled = {*RECORD_KEY, "offset", "readable", "aborted", "open"}
        return rows.select(
            *[
                event.alias("event")
                if name == "event"
                else F.col(name)
                if name in filled and name in rows.columns
                else nothing.cast(sends.schema[name].dataType).alias(name)
                for name in sends.columns
            ]
        )

    reads = consume.filter(F.col("event") == RECORD_READ).select(*RECORD_KEY)
    promised = consume.filter(F.col("event") == OUTPUT_PROMISED).select(*RECORD_KEY)
    facts = sends.unionByName(without_producer(entries, F.lit("stored")))
    facts = facts.unionByName(without_producer(reads, F.lit("read")))
    facts = facts.unionByName(without_producer(promised, F.lit(OUTPUT_PROMISED)))
    facts = facts.unionByName(without_producer(known, F.col("why")))
    return _with_anomalies(_folded(facts, _names(produce)))


def _names(produce: DataFrame) -> DataFrame:
    """The names of nodes and errors, a few hundred at most, by number (64 bits of hash: no two of them meet)."""
    names = produce.select("client", "peer", "error").distinct().select(F.explode(F.array("*")).alias("name"))
    return names.filter(F.col("name").isNotNull()).distinct().select(F.xxhash64("name").alias("number"), "name")


def _named(folded: DataFrame, names: DataFrame, column: str) -> DataFrame:
    """With a column of numbers replaced by their meanings."""
    of_column = names.select(F.col("number").alias(column), F.col("name").alias("_name"))
    joined = folded.join(F.broadcast(of_column), column, "left")
    return joined.withColumn(column, F.col("_name")).drop("_name")


def _folded(facts: DataFrame, names: DataFrame) -> DataFrame:
    def number(name: str) -> Column:
        return F.when(F.col(name).isNotNull(), F.xxhash64(name))

    is_sent = F.col("event") == RECORD_SENT
    is_acked = F.col("event") == RECORD_ACKED
    is_failed = F.col("event") == RECORD_FAILED
    is_told = F.col("event").isin(RECORD_ACKED, RECORD_HANDED_OVER, RECORD_FAILED)
    is_stored = F.col("event") == "stored"
    # Numbers alone are folded in a hash table; with one string among them Spark would sort all events, twice.
    # A record without a key is sent before it has a partition (-1); later events say which one it got.
    folded = facts.groupBy(RUN, "topic", "record").agg(
        F.max("partition").alias("partition"),
        F.min(F.when(is_sent, number("client"))).alias("client"),
        F.min(F.when(is_sent, F.col("acks"))).alias("acks"),
        F.min(F.when(is_sent, F.col("at_us"))).alias("sent_us"),
        F.min(F.when(is_sent, F.col("seq"))).alias("sent_seq"),
        F.max(F.when(is_sent, F.col("seq"))).alias("last_sent_seq"),
        F.max(is_acked).alias("is_acked"),
        F.max(is_failed & F.col("definite")).alias("is_failed"),
        F.max(F.col("event") == RECORD_HANDED_OVER).alias("handed_over"),
        F.min(F.when(is_acked, F.col("at_us"))).alias("acked_us"),
        F.min(F.when(is_acked, F.col("seq"))).alias("acked_seq"),
        F.min_by(F.when(is_acked, number("peer")), F.when(is_acked, F.col("seq"))).alias("acked_by"),
        F.min_by(F.when(is_acked, F.col("ack_offset")), F.when(is_acked, F.col("seq"))).alias("ack_offset"),
        F.min(F.col("latency_us")).alias("latency_us"),
        F.min(F.when(is_failed, number("error"))).alias("error"),
        F.min(F.when(is_told, F.col("at_us"))).alias("told_us"),
        F.min(F.when(is_told, F.col("seq"))).alias("told_seq"),
        # An offset of the final log is one entry, so there is nothing to make distinct: that costs as much again.
        F.count(F.when(is_stored & ~F.col("aborted"), F.col("offset"))).alias("copies"),
        F.count(F.when(is_stored & ~F.col("aborted") & ~F.col("open"), F.col("offset"))).alias("settled_copies"),
        F.min(F.when(is_stored, F.col("offset"))).alias("offset"),
        F.min_by(F.when(is_stored, F.col("readable")), F.when(is_stored, F.col("offset"))).alias("readable"),
        F.max(F.col("event") == "read").alias("read"),
        F.max(F.col("event") == OUTPUT_PROMISED).alias("promised"),
        F.max(F.col("event") == DELETED).alias("deleted"),
        F.max(F.col("event") == EXPIRED).alias("expired"),
        F.max(F.col("event") == COMPACTED).alias("compacted"),
        F.max(F.col("event") == ABORTED).alias("is_aborted"),
        F.max(F.col("event") == COMMITTED).alias("is_committed"),
    )
    told = F.when(F.col("is_acked"), ACKED).when(F.col("is_failed"), FAILED).otherwise(UNKNOWN)
    for column in ("client", "acked_by", "error"):
        folded = _named(folded, names, column)
    return folded.select(
        *RECORD_KEY, "client", "acks", "sent_us", "sent_seq", "last_sent_seq", told.alias("told"), "told_us",
        "told_seq", "handed_over", "acked_us",
        "acked_seq", "acked_by", "ack_offset", "latency_us", "error", "copies", "settled_copies", "offset",
        F.col("offset").isNotNull().alias("present"), F.coalesce("readable", F.lit(False)).alias("readable"), "read",
        "promised", "deleted", "expired", "compacted", "is_aborted", "is_committed",
    )  # fmt: skip


def _is_taken() -> Column:
    return F.col("deleted") | F.col("expired") | F.col("compacted")


def is_undone() -> Column:
    """Of record_fates(): nobody writes this output any more."""
    return F.col("promised") & (F.col("copies") == 0) & ~_is_taken()


def _with_anomalies(fates: DataFrame) -> DataFrame:
    before = Window.partitionBy(*PARTITION_KEY, "client").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    sent_before = F.max(F.when(F.col("present"), F.col("sent_seq"))).over(before)
    is_acked = F.col("told") == ACKED
    is_gone = ~F.col("present") & ~_is_taken()
    is_aborted = F.when(F.col("present"), F.col("copies") == 0).otherwise(F.col("is_aborted") & ~_is_taken())
    # It is there, and the marker that committed it is in no log that counts.
    is_stranded = F.col("is_committed") & (F.col("copies") > 0) & (F.col("settled_copies") == 0)
    judged = fates.withColumns(
        {
            "lost": (is_acked & is_gone & ~F.col("is_aborted")) | is_undone(),
            "unseen": is_acked & F.col("present") & (~F.col("readable") | is_stranded),
            "missing": (F.col("told") == UNKNOWN) & F.col("sent_seq").isNotNull() & is_gone,
            "duplicated": F.col("settled_copies") > 1,
            "dirty": F.col("read") & is_gone,
            "reordered": F.coalesce(F.col("present") & (F.col("last_sent_seq") < sent_before), F.lit(False)),
            "aborted": is_acked & is_aborted & ~is_undone(),
        }
    )
    return judged.drop("is_aborted", "is_committed")


def record_counts(fates: DataFrame) -> DataFrame:
    """One row per run, topic and acks level: the fates of the records.

    in:  record_fates()
    out: run, topic, acks, sent, acked, handed_over, failed, unknown, and how many are lost, unseen, missing,
         duplicated, dirty, reordered
    """

    def how_many(condition: Column | str) -> Column:
        return F.count_if(F.col(condition) if isinstance(condition, str) else condition)

    return fates.filter(F.col("sent_seq").isNotNull()).groupBy(RUN, "topic", "acks").agg(
        F.count("*").alias("sent"),
        how_many(F.col("told") == ACKED).alias("acked"),
        how_many("handed_over").alias("handed_over"),
        how_many(F.col("told") == FAILED).alias("failed"),
        how_many(F.col("told") == UNKNOWN).alias("unknown"),
        *[how_many(name).alias(name) for name in ("lost", "unseen", "missing", "duplicated", "dirty", "reordered")],
    )  # fmt: skip
