"""The controller's decisions about each partition, as intervals: the frame of the other definitions; and faults."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    CONFIG_ALTERED,
    FAULT_BEGAN,
    FAULT_ENDED,
    ISR_COMMITTED,
    ISR_PROPOSED,
    LEADER_ELECTED,
    NODE_STARTED,
    NODE_STOPPED,
    PARTITION_CREATED,
    PARTITION_WENT_OFFLINE,
    REASSIGNMENT_BEGAN,
    REASSIGNMENT_CANCELLED,
    REASSIGNMENT_COMPLETED,
    RUN_STARTED,
    TOPIC_DELETED,
)
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import first_after

_STATE_EVENTS = (
    PARTITION_CREATED, LEADER_ELECTED, PARTITION_WENT_OFFLINE, ISR_COMMITTED, REASSIGNMENT_BEGAN,
    REASSIGNMENT_COMPLETED, REASSIGNMENT_CANCELLED,
)  # fmt: skip
_NO_LEADER = ""
_BEFORE_EFFECTIVE_MIN_ISR = r"[- ]([0-2]\.|3\.[0-6]\b)"
"""Releases before 3.7 (KAFKA-15583), in which more in-sync replicas may be asked for than there are."""


def with_the_leaders_reasons(control: DataFrame) -> DataFrame:
    """The control events, with the reason of an ISR that its leader had proposed: the lagging replica and its lag time.

    The controller only knows that it was proposed, and says so; where it took a broker out by itself, its own reason
    stays, even if the leader had asked for that ISR before and had no answer. Each proposer's last proposal counts: a
    deposed leader may propose at the same time. in, out: the control table
    """
    proposer = F.when(F.col("event") == ISR_PROPOSED, F.col("node")).otherwise(F.col("proposed_by"))
    of_each = Window.partitionBy(*PARTITION_KEY, proposer).orderBy("seq")
    so_far = of_each.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    proposal = F.when(F.col("event") == ISR_PROPOSED, F.struct(F.array_sort("isr").alias("isr"), "reason"))
    proposed = F.last(proposal, ignorenulls=True).over(so_far)
    is_it = F.col("proposed_by").isNotNull() & (F.col("_proposed.isr") == F.array_sort("isr"))
    return (
        control.withColumn("_proposed", proposed)
        .withColumn("reason", F.when(is_it, F.col("_proposed.reason")).otherwise(F.col("reason")))
        .drop("_proposed")
    )


def run_ends(control: DataFrame) -> DataFrame:
    """One row per run.

    out: run, end_us (virtual time of the last control event, which is `run_finished` in a whole trace)
    """
    return control.groupBy(RUN).agg(F.max("at_us").alias("end_us"))


def partition_states(control: DataFrame) -> DataFrame:
    """One row per decision of the controller about a partition: its state from then until the next decision.

    out: *PARTITION_KEY, seq, from_us, until_us, event, leader (null: none), leader_epoch, partition_epoch, isr,
         replicas, replication_factor, min_isr, reason. Intervals of one partition touch while its topic exists;
         decisions at one instant leave some of length 0.
    """
    in_order = Window.partitionBy(*PARTITION_KEY).orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    profile = F.max(F.when(F.col("event") == RUN_STARTED, F.col("profile")))
    is_unbounded = F.col("profile").rlike(_BEFORE_EFFECTIVE_MIN_ISR)
    leader = F.when(F.col("event").isin(PARTITION_CREATED, LEADER_ELECTED), F.col("broker")).when(
        F.col("event") == PARTITION_WENT_OFFLINE, F.lit(_NO_LEADER)
    )
    # While a reassignment is under way the replicas it adds do not count. source: Partition.OngoingReassignmentState
    factor = F.when(
        F.col("event") == REASSIGNMENT_BEGAN, F.size(F.array_except("replicas", F.coalesce("adding", F.array())))
    ).otherwise(F.nullif(F.size("replicas"), F.lit(-1)))

    # What is altered of a topic that was made again with fewer partitions does not bring back the others.
    is_there = F.when(F.col("event") == TOPIC_DELETED, F.lit(False)).when(
        F.col("event") == PARTITION_CREATED, F.lit(True)
    )

    def standing(value: Column | str) -> Column:
        return F.last(value, ignorenulls=True).over(so_far)

    return (
        _decisions(control)
        .select(
            *PARTITION_KEY,
            "seq",
            F.col("at_us").alias("from_us"),
            F.lead("at_us").over(in_order).alias("next_us"),
            "event",
            F.nullif(standing(leader), F.lit(_NO_LEADER)).alias("leader"),
            standing("leader_epoch").alias("leader_epoch"),
            standing("partition_epoch").alias("partition_epoch"),
            standing("isr").alias("isr"),
            standing("replicas").alias("replicas"),
            standing(factor).alias("replication_factor"),
            standing("min_isr").alias("min_isr"),
            "reason",
            F.coalesce(standing(is_there), F.lit(True)).alias("is_there"),
        )
        .filter(F.col("is_there") & F.col("replicas").isNotNull())
        .join(F.broadcast(control.groupBy(RUN).agg(F.max("at_us").alias("end_us"), profile.alias("profile"))), RUN)
        .withColumn("until_us", F.coalesce("next_us", "end_us"))
        # Every replica counts, those that a reassignment adds, too. source: Partition.effectiveMinIsr
        .withColumn("min_isr", F.when(is_unbounded, F.col("min_isr")).otherwise(F.least("min_isr", F.size("replicas"))))
        .drop("next_us", "end_us", "is_there", "profile")
    )


def _decisions(control: DataFrame) -> DataFrame:
    """The controller's decisions about partitions; a decision about a whole topic appears once for each of them."""
    decided = control.filter(F.col("event").isin(*_STATE_EVENTS))
    whole_topic = control.filter(
        (F.col("event") == TOPIC_DELETED) | ((F.col("event") == CONFIG_ALTERED) & F.col("min_isr").isNotNull())
    )
    partitions = decided.filter(F.col("event") == PARTITION_CREATED).select(*PARTITION_KEY).distinct()
    for_each = whole_topic.drop("partition").join(F.broadcast(partitions), [RUN, "topic"])
    return decided.unionByName(for_each.select(*decided.columns))


def touching(stretches: DataFrame, key: Sequence[str]) -> DataFrame:
    """Join stretches of one key that touch (gaps and islands); the first one's reason stays.

    in:  stretches with *key, seq, from_us, until_us, reason     out: *key, from_us, until_us, reason
    """
    in_order = Window.partitionBy(*key).orderBy("from_us", "seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    is_new = F.coalesce(F.lag("until_us").over(in_order) < F.col("from_us"), F.lit(True))
    return (
        stretches.withColumn("is_new", is_new.cast("int"))
        .withColumn("island", F.sum("is_new").over(so_far))
        .groupBy(*key, "island")
        .agg(
            F.min("from_us").alias("from_us"), F.max("until_us").alias("until_us"),
            F.min_by("reason", F.struct("from_us", "seq")).alias("reason"),
        )
        .drop("island")
    )  # fmt: skip


def stopped_intervals(control: DataFrame) -> DataFrame:
    """One row per time a broker was down.

    out: run, node, from_us, until_us, how (stop, kill or power_off), reason
    """
    in_order = Window.partitionBy(RUN, "node").orderBy("seq")
    turns = control.filter(F.col("event").isin(NODE_STARTED, NODE_STOPPED)).select(
        RUN, "node", "event", "how", "reason", F.col("at_us").alias("from_us"),
        F.lead("at_us").over(in_order).alias("next_us"),
    )  # fmt: skip
    return (
        turns.filter(F.col("event") == NODE_STOPPED)
        .join(F.broadcast(run_ends(control)), RUN)
        .select(RUN, "node", "from_us", F.coalesce("next_us", "end_us").alias("until_us"), "how", "reason")
    )


def node_turns(control: DataFrame) -> DataFrame:
    """One row per start and stop of a process and partition of its run, for folds by partition.

    out: *PARTITION_KEY, seq, at_us, event (node_started, node_stopped), node
    """
    turns = control.filter(F.col("event").isin(NODE_STARTED, NODE_STOPPED))
    partitions = control.filter(F.col("partition").isNotNull()).select(*PARTITION_KEY).distinct()
    return partitions.join(F.broadcast(turns.select(RUN, "seq", "at_us", "event", "node")), RUN)


def fault_intervals(control: DataFrame) -> DataFrame:
    """One row per fault, from its beginning to its end.

    A fault without its own end lasts until one of its targets starts again if it stopped them (`stop`, `kill`,
    `power_off`), until one of them continues, stops or starts if it froze them (`pause`), until the run's end if it is
    a state (`cut`, `latency`, ...) or a damage (`bitflip`, ...), and no time at all if it is a deed (`start`, `heal`,
    `elect`, `tear`, ...).
    out: run, fault, verb, targets, from_us, until_us, reason
    """
    fault = (RUN, "fault", "seq")
    began = control.filter(F.col("event") == FAULT_BEGAN).select(
        *fault, "verb", "targets", "reason", F.col("at_us").alias("from_us")
    )
    ended = control.filter(F.col("event") == FAULT_ENDED).select(RUN, "fault", "seq", "at_us")
    stops = F.col("verb").isin("stop", "kill", "power_off", "wipe")
    freezes = F.col("verb") == "pause"
    undone_by = F.when(stops, F.lit(_A_START)).when(freezes, F.lit(_ANY_MOVE))
    undoable = began.select(*fault, F.explode("targets").alias("node"), undone_by.alias("by"))
    undone = (
        first_after(undoable.filter(F.col("by").isNotNull()), _moves(control), (RUN, "node", "by"), "seq", "move")
        .groupBy(*fault)
        .agg(F.min("move.at_us").alias("moved_us"))
    )
    undone_us = F.when(stops, F.col("moved_us")).when(freezes, F.least("moved_us", "end.at_us"))
    return (
        first_after(began, ended, (RUN, "fault"), "seq", "end")
        .join(undone, list(fault), "left")
        .join(F.broadcast(run_ends(control)), RUN)
        .withColumn("until_us", F.coalesce(undone_us, "end.at_us", _without_end(stops)))
        .select(RUN, "fault", "verb", "targets", "from_us", "until_us", "reason")
    )


_A_START, _ANY_MOVE = "a start", "any move"


def _moves(control: DataFrame) -> DataFrame:
    """When a node started, stopped, or continued. out: run, node, by (a start is any move too), seq, at_us"""
    resumes = F.col("verb") == "resume"
    starts = F.col("event") == NODE_STARTED
    moved = control.filter(starts | (F.col("event") == NODE_STOPPED) | resumes)
    return moved.select(
        RUN, F.explode(F.when(resumes, F.col("targets")).otherwise(F.array("node"))).alias("node"),
        F.when(starts, F.array(F.lit(_A_START), F.lit(_ANY_MOVE))).otherwise(F.array(F.lit(_ANY_MOVE))).alias("by"),
        "seq", "at_us",
    ).withColumn("by", F.explode("by"))  # fmt: skip


LASTING_VERBS = (
    "pause", "partition", "cut", "latency", "bandwidth", "loss", "hold", "bitflip", "slow_disk", "fill_disk",
    "fail_disk", "strobe_clock", "throttle",
)  # fmt: skip
"""Copied from the verbs' declarations; a test compares them."""


def _without_end(stops: Column) -> Column:
    lasts = stops | F.col("verb").isin(*LASTING_VERBS)
    return F.when(lasts, F.col("end_us")).otherwise(F.col("from_us"))
