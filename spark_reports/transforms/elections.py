"""Elections, and how long each took from the loss of the old leader to the first write under the new one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.names import (
    LEADER_ELECTED,
    LEADERSHIP_BEGAN,
    NODE_STARTED,
    NODE_STOPPED,
    PARTITION_CREATED,
    PARTITION_WENT_OFFLINE,
)
from spark_reports.folds import terms as fold
from spark_reports.schema import PARTITION_KEY
from spark_reports.transforms.folding import folded
from spark_reports.transforms.intervals import BEYOND_ALL

_WHOSE = (*PARTITION_KEY, "leader_epoch", "node")


def elections(control: DataFrame, losses: DataFrame, log: DataFrame) -> DataFrame:
    """One row per leader the controller chose.

    in:  the table control, leader_losses(), the table log
    out: *PARTITION_KEY, at_us, seq, leader, previous_leader, leader_epoch, clean, isr, reason,
         lost_us         since when the partition had had no running leader: its leader's process stopped, the partition
                         went offline, or a broker was chosen that was down, whichever was first since a leader learned
                         that it leads; null if the old leader was deposed while it ran
         leading_us      when the chosen broker learned that it leads; null if it never did
         first_write_us  its first append in that epoch; null if there was none
         elect_us        at_us - lost_us
         write_us        first_write_us - lost_us: time to recover, as a producer sees it
    """
    chosen = control.filter(F.col("event") == LEADER_ELECTED).select(
        *PARTITION_KEY, "leader_epoch", "seq", "at_us", F.col("broker").alias("leader"), "previous_leader", "clean",
        "isr", "reason",
    )  # fmt: skip
    began = control.filter(F.col("event") == LEADERSHIP_BEGAN).select(*_WHOSE, "seq", "at_us")
    appended = log.filter(F.col("role") == "leader").select(*_WHOSE, "seq", "at_us")
    # A topic of the same name that was made anew counts its epochs from 0 again.
    again = F.lead("seq").over(Window.partitionBy(*PARTITION_KEY, "leader_epoch", "leader").orderBy("seq"))
    elected = chosen.select(
        *PARTITION_KEY, "leader_epoch", F.col("leader").alias("node"), F.col("seq").alias("elected_seq"),
        F.coalesce(again, F.lit(BEYOND_ALL)).alias("next_seq"),
    )  # fmt: skip

    def first(facts: DataFrame, name: str) -> DataFrame:
        its = (F.col("seq") > F.col("elected_seq")) & (F.col("seq") < F.col("next_seq"))
        found = facts.join(F.broadcast(elected), list(_WHOSE)).filter(its)
        return found.groupBy(*PARTITION_KEY, F.col("elected_seq").alias("seq")).agg(F.min("at_us").alias(name))

    election = [*PARTITION_KEY, "seq"]
    return (
        chosen.join(F.broadcast(losses), election, "left")
        .join(F.broadcast(first(began, "leading_us")), election, "left")
        .join(F.broadcast(first(appended, "first_write_us")), election, "left")
        .withColumn("elect_us", F.col("at_us") - F.col("lost_us"))
        .withColumn("write_us", F.col("first_write_us") - F.col("lost_us"))
        .select(*chosen.columns, "lost_us", "leading_us", "first_write_us", "elect_us", "write_us")
    )


def leader_losses(control: DataFrame, turns: DataFrame) -> DataFrame:
    """When each election's outage began. out: *PARTITION_KEY, seq, lost_us (null: none was under way)"""
    at: list[Column | str] = [*PARTITION_KEY, "seq", "at_us"]

    def of_controller(event: str) -> DataFrame:
        return control.filter(F.col("event") == event).select(*at, F.col("broker").alias("leader"), "leader_epoch")

    def of_node(event: str) -> DataFrame:
        return turns.filter(F.col("event") == event).select(*at, F.col("node").alias("leader"))

    facts = {
        fold.CREATED: of_controller(PARTITION_CREATED),
        fold.ELECTED: of_controller(LEADER_ELECTED),
        fold.OFFLINE: of_controller(PARTITION_WENT_OFFLINE),
        fold.BEGAN: control.filter(F.col("event") == LEADERSHIP_BEGAN).select(
            *at, F.col("node").alias("leader"), "leader_epoch"
        ),
        fold.STOPPED: of_node(NODE_STOPPED),
        fold.STARTED: of_node(NODE_STARTED),
    }
    schema = "run string, topic string, partition bigint, seq bigint, lost_us bigint"
    return folded(facts, fold.LOSS_COLUMNS, fold.leader_losses, schema)
