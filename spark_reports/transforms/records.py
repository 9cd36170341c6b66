"""The fate of every record: its producer's answer, whether it is there at the end, its readers."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    ABORTED_BATCH_FOUND,
    BATCH_APPENDED,
    DATA_LOST,
    FOLLOWING_BEGAN,
    LEADERSHIP_BEGAN,
    LOG_ENTRY_FOUND,
    LOG_RECOVERED,
    LOG_START_OFFSET_ADVANCED,
    LOG_TRUNCATED,
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
from spark_reports.folds import fates as fold
from spark_reports.folds import findings
from spark_reports.folds.exchange import Steps
from spark_reports.folds.files import Facts, same
from spark_reports.from_files import RunFiles
from spark_reports.held import collected, few_rows, has_no_rows, none_of
from spark_reports.io import Trace
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.batches import named_batches, told_apart

RECORD_KEY = (*PARTITION_KEY, "record")
ACKED, FAILED, UNKNOWN = fold.TOLD_ACKED, fold.TOLD_FAILED, fold.TOLD_NOTHING
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


def _without_commit(transaction: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Where records stand whose transactions were aborted or will be, in any replica, and of those that are open.

    out: PARTITION_KEY, offset; PARTITION_KEY, node, offset
    """
    if has_no_rows(transaction):
        columns = "run string, topic string, partition bigint, {}offset bigint"
        spark = transaction.sparkSession
        return none_of(spark, columns.format("")), none_of(spark, columns.format("node string, "))
    aborting, undecided = _undecided(transaction)
    return aborted(transaction).unionByName(aborting.drop("node")).distinct(), undecided.distinct()


def final_entries(final_log: DataFrame, transaction: DataFrame) -> DataFrame:
    """One row per record in the final log of its partition.

    out: *PARTITION_KEY, offset, record, readable (below the high watermark of a running leader), aborted (with its
         transaction), open (its transaction is not decided)
    """
    not_committed, undecided = _without_commit(transaction)
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
            F.broadcast(undecided.withColumn("open", F.lit(True))),
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
    Not what that log had lost before, nor what a leader has appended again since.

    in:  the trace tables     out: *RECORD_KEY, why
    """
    is_topic = F.col("event") == TOPIC_DELETED
    is_with_disk = (F.col("event") == DATA_LOST) & (F.col("size_bytes") < 0)
    is_gone = (F.col("event") == REPLICA_DELETED) | is_with_disk
    by_start = (F.col("event") == LOG_START_OFFSET_ADVANCED) & (F.col("role") == "leader")
    by_age = F.col("event") == RECORDS_EXPIRED
    deletions = control.filter(by_start | is_topic | by_age).select(
        RUN, "topic", F.col("partition").alias("cut_partition"), F.col("node").alias("cut_on"),
        F.col("seq").alias("deleted_seq"), F.col("log_start_offset").alias("below"),
        F.when(by_age, EXPIRED).otherwise(DELETED).alias("why"),
    )  # fmt: skip
    if has_no_rows(deletions):
        return none_of(produce.sparkSession, "run string, topic string, partition bigint, record string, why string")
    replica = [*PARTITION_KEY, "node"]
    is_opening = F.col("event").isin(LEADERSHIP_BEGAN, FOLLOWING_BEGAN)
    # A life of a replica begins with its broker's first event of it, and ends when its broker deletes it, or its disk
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
    # Hardly any run has a deletion: then the log need not be read at all.
    appended = log.filter(F.col("event") == BATCH_APPENDED).select(
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
    names = named_batches(
        produce.join(F.broadcast(deletions.select(RUN, "topic").distinct()), [RUN, "topic"], "left_semi")
    )
    of_leaders = appended.filter(F.col("role") == "leader")
    batch = [*PARTITION_KEY, "crc", "seq", "leader_epoch", "base_offset"]
    named = doomed.select(*batch, "below", "why", "deleted_seq").join(names, [*PARTITION_KEY, "crc"])
    gone = (
        told_apart(named, produce, log)
        .filter(by_topic | (F.col("base_offset") + F.col("place") < F.col("below")))
        .groupBy(*RECORD_KEY, "why")
        .agg(F.max("deleted_seq").alias("deleted_seq"))
    )
    named_again = names.join(gone.select(*RECORD_KEY).distinct(), list(RECORD_KEY), "left_semi").join(
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


def _still_there(cut: DataFrame, control: DataFrame) -> DataFrame:
    """Of batches that a deletion finds in the log of a replica, those that had not left it before.

    cut: a batch's replica, seq, last_offset and deleted_seq     control: its table
    """
    emptied = (F.col("event") == REPLICA_DELETED) | (F.col("log_end_offset") > F.col("previous_log_end_offset"))
    ends = control.filter(F.col("event").isin(LOG_TRUNCATED, LOG_RECOVERED, REPLICA_DELETED)).select(
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


def record_fates(trace: Trace, known: DataFrame) -> DataFrame:
    """One row per record that was sent, stored, read or deleted.

    in:  the trace, and what else is known: transaction_ends.known_of_records()
    out: *RECORD_KEY, client, acks, sent_us, sent_seq, last_sent_seq, told (acked, failed = definitely not written,
         unknown), told_us and told_seq (of the word on it), handed_over, acked_us, acked_seq, acked_by, ack_offset,
         latency_us, error,
         copies (in the final log, but for those of aborted transactions), settled_copies (but for those of open ones,
         too), offset (the first), present, readable, read,
         promised (output of an input that is done),
         deleted, expired, compacted, and lost, unseen, missing, duplicated, dirty, reordered, aborted
    """
    its = same("record", "seq")
    said = {**its, **same("at_us", "latency_us")}
    facts = {
        fold.SENT: Facts("produce", {**its, **same("at_us", "client", "acks")}, {"event": [RECORD_SENT]}),
        fold.ACKED: Facts("produce", {**said, **same("peer", "offset")}, {"event": [RECORD_ACKED]}),
        fold.HANDED_OVER: Facts("produce", said, {"event": [RECORD_HANDED_OVER]}),
        fold.FAILED: Facts("produce", {**said, **same("error", "definite")}, {"event": [RECORD_FAILED]}),
        fold.STORED: Facts("final_log", same("record", "node", "offset"), {"event": [LOG_ENTRY_FOUND]}),
        fold.READ: Facts("consume", same("record"), {"event": [RECORD_READ]}),
        fold.PROMISED: Facts("consume", same("record"), {"event": [OUTPUT_PROMISED]}),
    }
    steps = Steps(_final_logs(trace).entries, fold.fates, fold.with_anomalies, fold.PLACE)
    return trace.files.exchanged("records", steps, facts, {fold.KNOWN: known})


def _final_logs(trace: Trace) -> fold.FinalLogs:
    replicas = final_replicas(trace.final_log).select(*PARTITION_KEY, "node", "is_leader", "high_watermark")
    not_committed, undecided = _without_commit(trace.transaction)
    return fold.FinalLogs(*map(few_rows, (replicas, not_committed, undecided)))


def record_counts(fates: DataFrame, files: RunFiles) -> DataFrame:
    """One row per run, topic and acks level: the fates of the records.

    in:  record_fates(), the trace
    out: run, topic, acks, sent, acked, handed_over, failed, unknown, and how many are lost, unseen, missing,
         duplicated, dirty, reordered
    """
    out = RESULT_TABLES["record_counts"].ddl
    of_some = collected(files.of_each("records", fates, findings.counts, findings.COUNTED_COLUMNS, out))
    return files.of_rows("record_counts", findings.summed(of_some).to_pylist())
