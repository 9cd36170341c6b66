"""When a partition could not do its work, or did it on too few replicas; and when clients were left waiting."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.events import INTERNAL_TOPICS
from replica.trace.names import (
    BATCH_REFUSED,
    NODE_STOPPED,
    RECORD_ACKED,
    RECORD_FAILED,
    RECORD_HANDED_OVER,
    RECORD_SENT,
)
from spark_reports.held import is_for_short_traces
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import overlapping
from spark_reports.transforms.partitions import touching

_WINDOW = (*PARTITION_KEY, "kind")
LEADERLESS, LEADER_DOWN = "no leader", "leader down"
UNDER_REPLICATED, UNDER_MIN_ISR = "under-replicated", "under min ISR"

SHORTEST_STALL_US = 500_000
"""A client that waits less is not called unavailable: one metadata refresh and retry takes about as long."""


def is_internal() -> Column:
    """Whether the topic is one that brokers keep for themselves."""
    return F.col("topic").isin(*INTERNAL_TOPICS)


def unavailability(states: DataFrame, stopped: DataFrame) -> DataFrame:
    """One row per stretch in which a partition was not as it should be; stretches of different kinds overlap.

    `no leader`: the controller had none. `leader down`: it still named one whose broker had stopped.
    `under-replicated`: fewer in sync than assigned. `under min ISR`: fewer in sync than min.insync.replicas, so that
    acks=all is refused.
    in:  partition_states(), stopped_intervals()
    out: *PARTITION_KEY, kind, from_us, until_us, reason (of the decision that began it), internal (topic)
    """
    conditions: dict[str, Column] = {
        LEADERLESS: F.col("leader").isNull(),
        UNDER_REPLICATED: F.size("isr") < F.col("replication_factor"),
        UNDER_MIN_ISR: F.size("isr") < F.col("min_isr"),
    }
    held = F.array(*[F.when(condition, F.lit(kind)) for kind, condition in conditions.items()])
    per_kind = states.filter(F.col("until_us") > F.col("from_us")).withColumn("kind", F.explode(F.array_compact(held)))
    windows = touching(per_kind, _WINDOW).unionByName(_leader_down(states, stopped))
    return windows.withColumn("internal", is_internal())


def _leader_down(states: DataFrame, stopped: DataFrame) -> DataFrame:
    leading = states.filter(F.col("leader").isNotNull() & (F.col("until_us") > F.col("from_us"))).select(
        *PARTITION_KEY,
        F.col("leader").alias("node"),
        F.col("from_us").alias("other_from_us"),
        F.col("until_us").alias("other_until_us"),
        "seq",
    )
    lasting = stopped.filter(F.col("until_us") > F.col("from_us"))
    down = overlapping(lasting, leading, (RUN, "node")).select(
        *PARTITION_KEY,
        F.lit(LEADER_DOWN).alias("kind"),
        F.greatest("from_us", "other_from_us").alias("from_us"),
        F.least("until_us", "other_until_us").alias("until_us"),
        "seq",
        "reason",
    )
    return touching(down, _WINDOW)


def availability(windows: DataFrame, states: DataFrame) -> DataFrame:
    """One row per partition: microseconds of each kind of trouble, and of the time observed.

    in:  unavailability(), partition_states()
    out: *PARTITION_KEY, observed_us, offline_us (no leader, or leader down), under_replicated_us, under_min_isr_us,
         internal (topic)
    """
    length = F.col("until_us") - F.col("from_us")
    observed = states.groupBy(*PARTITION_KEY).agg((F.max("until_us") - F.min("from_us")).alias("observed_us"))

    def of_kind(*kinds: str) -> Column:
        return F.coalesce(F.sum(F.when(F.col("kind").isin(*kinds), length)), F.lit(0))

    sums = windows.groupBy(*PARTITION_KEY).agg(
        of_kind(LEADERLESS, LEADER_DOWN).alias("offline_us"),
        of_kind(UNDER_REPLICATED).alias("under_replicated_us"),
        of_kind(UNDER_MIN_ISR).alias("under_min_isr_us"),
    )
    return observed.join(sums, list(PARTITION_KEY), "left").fillna(0).withColumn("internal", is_internal())


def write_stalls(produce: DataFrame, control: DataFrame, ends: DataFrame) -> DataFrame:
    """One row per stretch in which at least one attempt of a producer to write to a partition is pending (its record
    sent, neither answered nor given up, its client alive) and none succeeds.

    A stretch begins when a record starts to wait, or with the last success while others wait; it ends with the next
    success, when the last waiting record is given up, with its client, or with the run. Those under SHORTEST_STALL_US
    are left out.
    in:  produce table, control table, run_ends()
    out: run, topic, partition, client, from_us, until_us, refused (attempts), errors (sorted names), recovered (a
         success ended it)
    """
    of_producer = [*PARTITION_KEY, "client"]
    in_order = Window.partitionBy(*of_producer, "life").orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    waiting = F.sum("change").over(so_far)
    waited = F.col("waiting") - F.col("change") > 0
    waits = F.col("waiting") > 0
    begins = waits & (F.col("is_success") | ~waited)
    steps = (
        _until_their_client_stops(_waiting_changes(produce, of_producer), control, ends)
        .withColumn("waiting", waiting)
        .withColumn("open", F.last(F.when(begins, F.struct("seq", "at_us")), ignorenulls=True).over(before))
        .withColumn("is_last", F.lead("seq").over(in_order).isNull())
    )
    # A row may end one stretch and begin the last one, which the client's end or the run's ends.
    ended = F.when(waited & (F.col("is_success") | ~waits), _stretch("open", F.col("at_us"), F.col("is_success")))
    last_from = F.when(begins, F.struct("seq", "at_us")).otherwise(F.col("open"))
    unended = F.when(waits & F.col("is_last"), _stretch(last_from, F.col("end_us"), F.lit(False)))
    is_long = F.col("ended.until_us") - F.col("ended.from_us") >= SHORTEST_STALL_US
    told = steps.select(
        *of_producer, "event", "error", waited.alias("in_stretch"), F.col("open.seq").alias("open_seq"),
        F.explode_outer(F.array_compact(F.array(ended, unended))).alias("ended"),
    )  # fmt: skip
    # Few rows remain: ends of long stretches, and what was refused or failed in any.
    begun = F.coalesce("ended.from_seq", "open_seq")
    return (
        told.filter(is_long | (F.col("in_stretch") & F.col("error").isNotNull()))
        .groupBy(*of_producer, begun.alias("begun"))
        .agg(
            F.max(F.when(is_long, F.col("ended"))).alias("stretch"),
            F.count_if(F.col("event") == BATCH_REFUSED).alias("refused"),
            F.array_sort(F.collect_set("error")).alias("errors"),
        )
        .filter(F.col("stretch").isNotNull())
        .select(*of_producer, "stretch.from_us", "stretch.until_us", "refused", "errors", "stretch.recovered")
    )


def _stretch(began: Column | str, until_us: Column, recovered: Column) -> Column:
    open_ = F.col(began) if isinstance(began, str) else began
    return F.struct(
        open_["seq"].alias("from_seq"), open_["at_us"].alias("from_us"), until_us.alias("until_us"),
        recovered.alias("recovered"),
    )  # fmt: skip


def _until_their_client_stops(changes: DataFrame, control: DataFrame, ends: DataFrame) -> DataFrame:
    """A client that stops waits for nothing any more; started again, it has another life.

    out: changes, life (0, 1, ...), end_us (of this life)
    """
    stops = control.filter(F.col("event") == NODE_STOPPED).select(
        RUN, F.col("node").alias("client"), F.struct("seq", "at_us").alias("stop")
    )
    of_each = stops.groupBy(RUN, "client").agg(F.array_sort(F.collect_list("stop")).alias("stops"))
    stopped_before = F.size(F.filter("stops", lambda stop: stop["seq"] < F.col("seq")))
    return (
        changes.join(F.broadcast(of_each), [RUN, "client"], "left")
        .join(F.broadcast(ends), RUN)
        .withColumn("life", F.when(F.col("stops").isNull(), 0).otherwise(stopped_before))
        .withColumn("end_us", F.coalesce(F.get("stops", F.col("life"))["at_us"], "end_us"))
        .drop("stops")
    )


def _waiting_changes(produce: DataFrame, of_producer: list[str]) -> DataFrame:
    """A record waits from its sending until its producer knows its fate; a refused batch changes nothing. Two producers
    may send a record of one name: each waits for its own.

    Of a record without a key the partition is known after it was sent.
    out: *of_producer, seq, at_us, event, error, change (1, -1, 0), is_success
    """
    is_success = F.col("event").isin(RECORD_ACKED, RECORD_HANDED_OVER)
    of_record = Window.partitionBy(RUN, "topic", "client", "record")
    known = F.col("partition") if _all_are_placed(produce) else F.max("partition").over(of_record)
    of_records = (
        produce.filter(F.col("event").isin(RECORD_SENT, RECORD_ACKED, RECORD_HANDED_OVER, RECORD_FAILED))
        .select(
            RUN, "topic", known.alias("partition"), "client", "seq", "at_us",
            F.when(F.col("event") == RECORD_SENT, 1).otherwise(-1).alias("change"),
            is_success.alias("is_success"), "error", F.lit("record").alias("event"),
        )
    )  # fmt: skip
    refused = produce.filter(F.col("event") == BATCH_REFUSED).select(
        *of_producer, "seq", "at_us", F.lit(0).alias("change"), F.lit(False).alias("is_success"), "error", "event"
    )
    return of_records.unionByName(refused)


def _all_are_placed(produce: DataFrame) -> bool:
    """Whether every record of a long trace has a partition when it is sent. The statistics of the files say so in no
    time, and sorting all events by record would take a third of this table's.
    """
    if is_for_short_traces(produce.sparkSession):
        return False
    is_unplaced = F.col("partition").isNull() | (F.col("partition") < 0)
    return produce.filter(is_unplaced & (F.col("event") == RECORD_SENT)).isEmpty()
