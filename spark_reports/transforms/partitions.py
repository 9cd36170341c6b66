"""Compute intervals of partition states, ISRs, stopped brokers and faults from the control events."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace import names
from spark_reports.schema import PARTITION_KEY, REPLICA_KEY, RUN
from spark_reports.transforms.intervals import first_after

_STATE_EVENTS = (
    names.PARTITION_CREATED, names.LEADER_ELECTED, names.PARTITION_WENT_OFFLINE, names.ISR_COMMITTED,
    names.REASSIGNMENT_BEGAN, names.REASSIGNMENT_COMPLETED, names.REASSIGNMENT_CANCELLED,
)  # fmt: skip
_NO_LEADER = ""
_BEFORE_EFFECTIVE_MIN_ISR = r"[- ]([0-2]\.|3\.[0-6]\b)"
"""Matches releases before 3.7, in which min.insync.replicas may exceed the number of replicas (KAFKA-15583)."""


def with_the_leaders_reasons(control: DataFrame) -> DataFrame:
    """Return the control events with the leader's reason, such as a replica's lag, for ISR changes that it proposed.

    The controller itself only knows that the ISR was proposed. If the controller removed a broker on its own, its own
    reason stays, even if the leader had proposed the same ISR before. Only the latest proposal of each proposer counts,
    since a deposed leader may make proposals at the same time.

    Returns:
        The control table and a column `proposal`: the proposal as JSON, null for other events.
    """
    proposer = F.when(F.col("event") == names.ISR_PROPOSED, F.col("node")).otherwise(F.col("proposed_by"))
    of_each = Window.partitionBy(*PARTITION_KEY, proposer).orderBy("seq")
    so_far = of_each.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    said = F.struct(F.array_sort("isr").alias("isr"), "reason", as_json(control).alias("json"))
    proposal = F.when(F.col("event") == names.ISR_PROPOSED, said)
    proposed = F.last(proposal, ignorenulls=True).over(so_far)
    is_it = F.col("proposed_by").isNotNull() & (F.col("_proposed.isr") == F.array_sort("isr"))
    return (
        control.withColumn("_proposed", proposed)
        .withColumn("reason", F.when(is_it, F.col("_proposed.reason")).otherwise(F.col("reason")))
        .withColumn("proposal", F.when(is_it, F.col("_proposed.json")))
        .drop("_proposed")
    )


def as_json(control: DataFrame) -> Column:
    """Return a column with each event as a JSON object of its columns, except run, seq, at_us, causes and nulls."""
    return F.to_json(F.struct(*(name for name in control.columns if name not in (RUN, "seq", "at_us", "causes"))))


def run_ends(control: DataFrame) -> DataFrame:
    """Return one row per run: run, end_us (time of the last control event, `run_finished` in a complete trace)."""
    return control.groupBy(RUN).agg(F.max("at_us").alias("end_us"))


def partition_states(control: DataFrame) -> DataFrame:
    """Return one row per decision of the controller about a partition: the state from then until the next decision.

    While the topic exists, the intervals of a partition have no gaps. After simultaneous decisions, all intervals but
    the last have length 0.
    """
    in_order = Window.partitionBy(*PARTITION_KEY).orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    profile = F.max(F.when(F.col("event") == names.RUN_STARTED, F.col("profile")))
    is_unbounded = F.col("profile").rlike(_BEFORE_EFFECTIVE_MIN_ISR)
    leader = F.when(F.col("event").isin(names.PARTITION_CREATED, names.LEADER_ELECTED), F.col("broker")).when(
        F.col("event") == names.PARTITION_WENT_OFFLINE, F.lit(_NO_LEADER)
    )
    # During a reassignment the added replicas do not count. Source: Partition.OngoingReassignmentState
    factor = F.when(
        F.col("event") == names.REASSIGNMENT_BEGAN, F.size(F.array_except("replicas", F.coalesce("adding", F.array())))
    ).otherwise(F.nullif(F.size("replicas"), F.lit(-1)))

    # If a topic was recreated with fewer partitions, later changes of its configuration must not restore the others.
    is_there = F.when(F.col("event") == names.TOPIC_DELETED, F.lit(False)).when(
        F.col("event") == names.PARTITION_CREATED, F.lit(True)
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
        # Every replica counts, including those that a reassignment adds. Source: Partition.effectiveMinIsr
        .withColumn("min_isr", F.when(is_unbounded, F.col("min_isr")).otherwise(F.least("min_isr", F.size("replicas"))))
        .drop("next_us", "end_us", "is_there", "profile")
    )


def _decisions(control: DataFrame) -> DataFrame:
    """Return the controller's decisions about partitions. Decisions about a topic are repeated for each partition."""
    decided = control.filter(F.col("event").isin(*_STATE_EVENTS))
    whole_topic = control.filter(
        (F.col("event") == names.TOPIC_DELETED)
        | ((F.col("event") == names.CONFIG_ALTERED) & F.col("min_isr").isNotNull())
    )
    partitions = decided.filter(F.col("event") == names.PARTITION_CREATED).select(*PARTITION_KEY).distinct()
    for_each = whole_topic.drop("partition").join(F.broadcast(partitions), [RUN, "topic"])
    return decided.unionByName(for_each.select(*decided.columns))


def touching(stretches: DataFrame, key: Sequence[str]) -> DataFrame:
    """Merge adjacent intervals of the same key (gaps and islands), with the reason of the first.

    Args:
        stretches: *key, seq, from_us, until_us, reason.

    Returns:
        *key, from_us, until_us, reason.
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
    """Return one row per interval in which a broker was down."""
    in_order = Window.partitionBy(RUN, "node").orderBy("seq")
    turns = control.filter(F.col("event").isin(names.NODE_STARTED, names.NODE_STOPPED)).select(
        RUN, "node", "event", "how", "reason", F.col("at_us").alias("from_us"),
        F.lead("at_us").over(in_order).alias("next_us"),
    )  # fmt: skip
    return (
        turns.filter(F.col("event") == names.NODE_STOPPED)
        .join(F.broadcast(run_ends(control)), RUN)
        .select(RUN, "node", "from_us", F.coalesce("next_us", "end_us").alias("until_us"), "how", "reason")
    )


def node_turns(control: DataFrame) -> DataFrame:
    """Return each start or stop of a process once for each partition of its run, for folds by partition.

    The columns are *PARTITION_KEY, seq, at_us, event (node_started, node_stopped), node.
    """
    turns = control.filter(F.col("event").isin(names.NODE_STARTED, names.NODE_STOPPED))
    partitions = control.filter(F.col("partition").isNotNull()).select(*PARTITION_KEY).distinct()
    return partitions.join(F.broadcast(turns.select(RUN, "seq", "at_us", "event", "node")), RUN)


def fault_intervals(control: DataFrame) -> DataFrame:
    """Return one row per fault with the interval in which it was in force.

    A fault that was not ended explicitly lasts
    * until one of its targets starts again, if it stopped them (`stop`, `kill`, `power_off`);
    * until one of its targets continues, stops or starts, if it froze them (`pause`);
    * until the end of the run, if it is a lasting condition (`cut`, `latency`) or damage (`bitflip`);
    * for no time, if it is an action (`start`, `heal`, `elect`, `tear`).
    """
    fault = (RUN, "fault", "seq")
    began = control.filter(F.col("event") == names.FAULT_BEGAN).select(
        *fault, "verb", "targets", "reason", F.col("at_us").alias("from_us")
    )
    ended = control.filter(F.col("event") == names.FAULT_ENDED).select(RUN, "fault", "seq", "at_us")
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
    """Return the starts, stops and resumes of nodes: run, node, by, seq, at_us.

    `by` is _ANY_MOVE; a start has a second row, in which it is _A_START.
    """
    resumes = F.col("verb") == "resume"
    starts = F.col("event") == names.NODE_STARTED
    moved = control.filter(starts | (F.col("event") == names.NODE_STOPPED) | resumes)
    return moved.select(
        RUN, F.explode(F.when(resumes, F.col("targets")).otherwise(F.array("node"))).alias("node"),
        F.when(starts, F.array(F.lit(_A_START), F.lit(_ANY_MOVE))).otherwise(F.array(F.lit(_ANY_MOVE))).alias("by"),
        "seq", "at_us",
    ).withColumn("by", F.explode("by"))  # fmt: skip


LASTING_VERBS = (
    "pause", "rolling_restart", "partition", "cut", "latency", "bandwidth", "loss", "hold", "fail", "bitflip",
    "slow_disk", "fill_disk", "fail_disk", "strobe_clock", "throttle",
)  # fmt: skip
"""Verbs of faults that last until they are ended; a test compares them with the declarations of verbs."""


def _without_end(stops: Column) -> Column:
    lasts = stops | F.col("verb").isin(*LASTING_VERBS)
    return F.when(lasts, F.col("end_us")).otherwise(F.col("from_us"))


LEADER, IN_SYNC, OUT_OF_SYNC = "leader", "in sync", "out of sync"


def isr_changes(states: DataFrame) -> DataFrame:
    """Return one row per change of a partition's ISR.

    Args:
        states: partition_states().
    """
    before = F.lag("isr").over(Window.partitionBy(*PARTITION_KEY).orderBy("seq"))
    return (
        states.withColumn("previous_isr", before)
        .filter((F.col("event") != names.PARTITION_CREATED) & (F.array_sort("isr") != F.array_sort("previous_isr")))
        .select(
            *PARTITION_KEY,
            F.col("from_us").alias("at_us"),
            "seq",
            "previous_isr",
            "isr",
            F.array_except("isr", "previous_isr").alias("joined"),
            F.array_except("previous_isr", "isr").alias("left"),
            "leader",
            "reason",
        )
    )


def isr_intervals(states: DataFrame) -> DataFrame:
    """Return one row per interval in which a replica's role (leader, in sync, out of sync) did not change.

    The row has the reason for the role. There are no intervals of length 0.

    Args:
        states: partition_states().
    """
    standing = (
        F.when(F.col("leader") == F.col("node"), LEADER)
        .when(F.array_contains("isr", F.col("node")), IN_SYNC)
        .otherwise(OUT_OF_SYNC)
    )
    per_replica = (
        states.filter(F.col("until_us") > F.col("from_us"))
        .withColumn("node", F.explode(F.array_union("replicas", "isr")))
        .withColumn("standing", standing)
    )
    return touching(per_replica, (*REPLICA_KEY, "standing")).select(
        *REPLICA_KEY, "from_us", "until_us", "standing", "reason"
    )
