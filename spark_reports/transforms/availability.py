"""Compute when a partition was unavailable or had too few replicas in sync, and when producers had to wait."""

from __future__ import annotations

import functools

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from replica.trace import names
from replica.trace.events import INTERNAL_TOPICS
from spark_reports.folds import write_stalls as fold
from spark_reports.folds.events import Folding
from spark_reports.folds.facts import Facts, same
from spark_reports.held import few_rows, has_no_rows
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import overlapping
from spark_reports.transforms.partitions import touching

_WINDOW = (*PARTITION_KEY, "kind")
LEADERLESS, LEADER_DOWN = "no leader", "leader down"
UNDER_REPLICATED, UNDER_MIN_ISR = "under-replicated", "under min ISR"

SHORTEST_STALL_US = 500_000
"""Shortest stall that counts, about the time that a metadata refresh and a retry take."""


def is_internal() -> Column:
    """Return a column that is True for topics that brokers use internally."""
    return F.col("topic").isin(*INTERNAL_TOPICS)


def unavailability(states: DataFrame, stopped: DataFrame) -> DataFrame:
    """Return one row per interval and kind of trouble of a partition. Intervals of different kinds may overlap.

    * `no leader`: the controller had chosen no leader.
    * `leader down`: the broker of the leader had stopped, but the controller had not chosen another leader yet.
    * `under-replicated`: fewer replicas were in sync than assigned.
    * `under min ISR`: fewer replicas were in sync than min.insync.replicas, and acks=all is refused.

    Args:
        states: partition_states().
        stopped: stopped_intervals().
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
    """Return one row per partition with the time of each kind of trouble and the observed time, in microseconds.

    Args:
        windows: unavailability().
        states: partition_states().
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


def write_stalls(produce: DataFrame, control: DataFrame, ends: DataFrame) -> Folding:
    """Return a folding with one row per interval in which a producer's writes were pending and none succeeded.

    A write is pending from the send of its record until the record is answered or given up, while its client runs. An
    interval begins when the first record starts to wait, or with a success while other records wait. It ends with the
    next success, when the last waiting record is given up, with the client's stop, or with the run. Intervals shorter
    than SHORTEST_STALL_US are left out.

    Args:
        produce, control: tables of the trace.
        ends: run_ends().
    """
    its = same("client", "seq", "at_us")
    wrong = {**its, **same("error")}
    placed = few_rows(_placed(produce))
    facts = {
        fold.SENT: Facts("produce", its, {"event": [names.RECORD_SENT]}),
        fold.PLACED_SENT: Facts(placed, its, {"event": [names.RECORD_SENT]}),
        fold.WRITTEN: Facts("produce", its, {"event": [names.RECORD_ACKED, names.RECORD_HANDED_OVER]}),
        fold.FAILED: Facts("produce", wrong, {"event": [names.RECORD_FAILED]}),
        fold.PLACED_FAILED: Facts(placed, wrong, {"event": [names.RECORD_FAILED]}),
        fold.REFUSED: Facts("produce", wrong, {"event": [names.BATCH_REFUSED]}),
    }
    stops = control.filter(F.col("event") == names.NODE_STOPPED).select(
        RUN, F.col("node").alias("client"), "seq", "at_us"
    )
    until = fold.Ends(few_rows(stops), few_rows(ends))
    return Folding(functools.partial(fold.write_stalls, until, SHORTEST_STALL_US), facts, fold.COLUMNS)


def _placed(produce: DataFrame) -> DataFrame:
    """Return the events of records that had no partition yet, with the partition that they got later, -1 if none.

    Records of different producers may have the same name.
    """
    record = [RUN, "topic", "client", "record"]
    events = produce.filter(F.col("event").isin(names.RECORD_SENT, names.RECORD_FAILED) & (F.col("partition") < 0))
    events = events.select(*record, "event", "seq", "at_us", "error")
    if has_no_rows(events):
        return events.withColumn("partition", F.lit(-1).cast("long"))
    later = produce.filter(F.col("record").isNotNull() & (F.col("partition") >= 0)).select(*record, "partition")
    later = later.join(F.broadcast(events.select(*record).distinct()), record, "left_semi")
    later = later.groupBy(*record).agg(F.max("partition").alias("partition"))
    found = events.join(later, record, "left")
    return found.fillna(-1, ["partition"])
