"""Which member of a group was to read which partition, and how long none did."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replica.trace.names import (
    GROUP_MEMBER_ASSIGNED,
    GROUP_MEMBER_JOINED,
    GROUP_MEMBER_LEFT,
    GROUP_MEMBER_RECONCILED,
    GROUP_REBALANCE_BEGAN,
    GROUP_REBALANCED,
    GROUP_REMOVED,
)
from spark_reports.folding import folded
from spark_reports.folds import groups as fold
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import joined_up, overlapping

GROUP_KEY = (RUN, "group")
_BEYOND = 1 << 62
"""After every seq."""


def group_assignments(group: DataFrame, ends: DataFrame) -> DataFrame:
    """One row per stretch in which a partition had one owner, or none while its group had members.

    in:  the table group, run_ends()
    out: run, group, topic, partition, member, client_id and generation (null: nobody), from_us, until_us
    """

    def of(*events: str) -> DataFrame:
        return group.filter(F.col("event").isin(*events))

    at = (*GROUP_KEY, "seq", "at_us")
    who = ("member", "client_id", "generation")
    both = F.concat("partitions", F.coalesce("revoking", F.array().cast("array<string>")))
    facts = {
        fold.JOINED: of(GROUP_MEMBER_JOINED).select(*at, *who, "instance"),
        fold.LEFT: of(GROUP_MEMBER_LEFT).select(*at, *who),
        fold.REBALANCES: of(GROUP_REBALANCE_BEGAN).select(*at),
        fold.REBALANCED: of(GROUP_REBALANCED).select(
            *at,
            (F.size("members") == 0).alias("is_empty"),
            F.coalesce(F.contains("protocol", F.lit("cooperative")), F.lit(False)).alias("is_cooperative"),
        ),
        fold.HAS: of(GROUP_MEMBER_ASSIGNED, GROUP_MEMBER_RECONCILED).select(*at, *who, both.alias("partitions")),
        fold.REMOVED: of(GROUP_REMOVED).select(*at),
        fold.OVER: group.select(*GROUP_KEY)
        .distinct()
        .join(F.broadcast(ends), RUN)
        .select(*GROUP_KEY, F.lit(_BEYOND).alias("seq"), F.col("end_us").alias("at_us")),
    }
    return folded(facts, fold.COLUMNS, fold.group_assignments, RESULT_TABLES["group_assignments"].ddl, key=GROUP_KEY)


def group_unread(assignments: DataFrame, stopped: DataFrame, faults: DataFrame) -> DataFrame:
    """One row per group and partition. Unread: it has no owner, or its owner is down or frozen.

    in:  group_assignments(), stopped_intervals(), fault_intervals(); a client is known by its client.id
    out: run, group, topic, partition, observed_us, unread_us, longest_unread_us, members
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
    """When a process was down or frozen. out: run, client_id, from_us, until_us"""
    frozen = faults.filter(F.col("verb") == "pause").select(
        RUN, F.explode("targets").alias("client_id"), "from_us", "until_us"
    )
    return frozen.unionByName(stopped.select(RUN, F.col("node").alias("client_id"), "from_us", "until_us"))
