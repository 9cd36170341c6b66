"""Which member of a group was to read which partition, and how long nobody was."""

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
from spark_reports.folds import groups as fold
from spark_reports.results import RESULT_TABLES
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.folding import folded

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


def group_unread(assignments: DataFrame) -> DataFrame:
    """One row per group and partition.

    in:  group_assignments()
    out: run, group, topic, partition, observed_us, unread_us, longest_unread_us, members
    """
    length = F.col("until_us") - F.col("from_us")
    unread = F.when(F.col("member").isNull(), length)
    return assignments.groupBy(RUN, "group", *PARTITION_KEY[1:]).agg(
        F.sum(length).alias("observed_us"),
        F.coalesce(F.sum(unread), F.lit(0)).alias("unread_us"),
        F.coalesce(F.max(unread), F.lit(0)).alias("longest_unread_us"),
        F.countDistinct("member").alias("members"),
    )
