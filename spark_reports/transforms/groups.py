"""Compute to which member of a group each partition was assigned, and how long partitions were unread."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace import names
from replica.trace.events import OFFSETS_TOPIC
from spark_reports.folding import folded
from spark_reports.folds import groups as fold
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import joined_up, overlapping

GROUP_KEY = (RUN, "group")
_BEYOND = 1 << 62
"""A value that is greater than every seq."""


def group_assignments(group: DataFrame, control: DataFrame, ends: DataFrame) -> DataFrame:
    """Return one row per interval in which a partition had the same owner, or no owner although its group had members.

    Args:
        group, control: tables of the trace.
        ends: run_ends().
    """

    def of(*events: str) -> DataFrame:
        return group.filter(F.col("event").isin(*events))

    groups = group.select(*GROUP_KEY).distinct()
    leads = control.filter((F.col("event") == names.LEADERSHIP_BEGAN) & (F.col("topic") == OFFSETS_TOPIC))
    at = (*GROUP_KEY, "seq", "at_us", "node")
    who = ("member", "client_id", "generation")
    both = F.concat("partitions", F.coalesce("revoking", F.array().cast("array<string>")))
    facts = {
        fold.LEADS: groups.join(F.broadcast(leads.select(RUN, "seq", "at_us", "node")), RUN),
        fold.JOINED: of(names.GROUP_MEMBER_JOINED).select(*at, *who, "instance"),
        fold.LEFT: of(names.GROUP_MEMBER_LEFT).select(*at, *who),
        fold.REBALANCES: of(names.GROUP_REBALANCE_BEGAN).select(*at),
        fold.REBALANCED: of(names.GROUP_REBALANCED).select(
            *at,
            (F.size("members") == 0).alias("is_empty"),
            F.coalesce(F.contains("protocol", F.lit("cooperative")), F.lit(False)).alias("is_cooperative"),
        ),
        fold.HAS: of(names.GROUP_MEMBER_ASSIGNED, names.GROUP_MEMBER_RECONCILED).select(
            *at, *who, both.alias("partitions")
        ),
        fold.REMOVED: of(names.GROUP_REMOVED).select(*at),
        fold.OVER: groups.join(F.broadcast(ends), RUN).select(
            *GROUP_KEY, F.lit(_BEYOND).alias("seq"), F.col("end_us").alias("at_us")
        ),
    }
    return folded(facts, fold.COLUMNS, fold.group_assignments, RESULT_TABLES["group_assignments"].ddl, key=GROUP_KEY)


def group_unread(assignments: DataFrame, stopped: DataFrame, faults: DataFrame) -> DataFrame:
    """Return one row per group and partition with the time in which no member could read the partition.

    In that time the partition had no owner, or its owner was down or frozen. Owners are identified by their client.id.

    Args:
        assignments, stopped, faults: group_assignments(), stopped_intervals(), fault_intervals().
    """
    key = (RUN, "group", *PARTITION_KEY[1:])
    unowned = assignments.filter(F.col("member").isNull()).select(*key, "from_us", "until_us")
    idle = overlapping(
        _out_of_action(stopped, faults),
        assignments.withColumnsRenamed({"from_us": "other_from_us", "until_us": "other_until_us"}),
        (RUN, "client_id"),
    ).select(
        *key,
        F.greatest("from_us", "other_from_us").alias("from_us"),
        F.least("until_us", "other_until_us").alias("until_us"),
    )
    stretch_us = F.col("until_us") - F.col("from_us")
    unread = (
        joined_up(unowned.unionByName(idle), key)
        .groupBy(*key)
        .agg(F.sum(stretch_us).alias("unread_us"), F.max(stretch_us).alias("longest_unread_us"))
    )
    return (
        assignments.groupBy(*key)
        .agg(F.sum(stretch_us).alias("observed_us"), F.countDistinct("member").alias("members"))
        .join(unread, list(key), "left")
        .fillna(0, ["unread_us", "longest_unread_us"])
        .select(*key, "observed_us", "unread_us", "longest_unread_us", "members")
    )


def _out_of_action(stopped: DataFrame, faults: DataFrame) -> DataFrame:
    """Return the intervals in which a process was down or frozen: run, client_id, from_us, until_us."""
    frozen = faults.filter(F.col("verb") == "pause").select(
        RUN, F.explode("targets").alias("client_id"), "from_us", "until_us"
    )
    return frozen.unionByName(stopped.select(RUN, F.col("node").alias("client_id"), "from_us", "until_us"))
