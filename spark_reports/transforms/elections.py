"""Elections, and how long each took from the loss of the old leader to the first write under the new one."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import BEYOND_ALL, first_after, held_by

_WHOSE = (*PARTITION_KEY, "leader_epoch", "node")


def elections(control: DataFrame, log: DataFrame) -> DataFrame:
    """One row per leader the controller chose.

    out: *PARTITION_KEY, at_us, seq, leader, previous_leader, leader_epoch, clean, isr, reason,
         lost_us         since when the partition had had no leader at work: its leader's process stopped, the partition
                         went offline, or a broker was chosen that was down, whichever was first since a leader learned
                         that it leads; null if the old leader was deposed while it ran
         leading_us      when the chosen broker learned that it leads; null if it never did
         first_write_us  its first append in that epoch; null if there was none
         elect_us        at_us - lost_us
         write_us        first_write_us - lost_us: time to recover, as a producer sees it
    """
    chosen = control.filter(F.col("event") == "leader_elected").select(
        *PARTITION_KEY, "leader_epoch", "seq", "at_us", F.col("broker").alias("leader"), "previous_leader", "clean",
        "isr", "reason",
    )  # fmt: skip
    began = control.filter(F.col("event") == "leadership_began").select(*_WHOSE, "seq", "at_us")
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
        chosen.join(F.broadcast(_losses(control)), election, "left")
        .join(F.broadcast(first(began, "leading_us")), election, "left")
        .join(F.broadcast(first(appended, "first_write_us")), election, "left")
        .withColumn("elect_us", F.col("at_us") - F.col("lost_us"))
        .withColumn("write_us", F.col("first_write_us") - F.col("lost_us"))
        .select(*chosen.columns, "lost_us", "leading_us", "first_write_us", "elect_us", "write_us")
    )


def _losses(control: DataFrame) -> DataFrame:
    """When each election's outage began. out: *PARTITION_KEY, seq, lost_us (null: none was under way)

    A partition's facts stand in their order: losses of a leader begin an outage unless one is under way, and the
    leader that learns of its leadership ends it.
    """
    in_order = Window.partitionBy(*PARTITION_KEY).orderBy("seq", "is_loss")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ends = F.col("event").isin("partition_created", "leadership_began") & ~F.col("is_loss")
    under_way = Window.partitionBy(*PARTITION_KEY, "outage").orderBy("seq", "is_loss").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )  # fmt: skip
    return (
        _turns(control)
        .withColumn("outage", F.count_if(ends).over(so_far))
        .withColumn("lost_us", F.min(F.when(F.col("is_loss"), F.col("at_us"))).over(under_way))
        .filter((F.col("event") == "leader_elected") & ~F.col("is_loss"))
        .select(*PARTITION_KEY, "seq", "lost_us")
    )


def _turns(control: DataFrame) -> DataFrame:
    """What gave a partition a leader and what took it, once each.

    out: *PARTITION_KEY, event, seq, at_us, is_loss (a stop of the leader stands under the event that made it leader;
         a broker that is chosen while it is down is lost with its election)
    """
    decisions = ("partition_created", "leader_elected", "partition_went_offline")
    place = Window.partitionBy(*PARTITION_KEY).orderBy("seq")
    decided = F.when(F.col("event").isin(*decisions), F.struct("broker", "leader_epoch"))
    now = F.last(decided, ignorenulls=True).over(place.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    is_its = (F.col("node") == F.col("now.broker")) & (F.col("leader_epoch") >= F.col("now.leader_epoch"))
    turns = (
        control.filter(F.col("event").isin(*decisions, "leadership_began"))
        .withColumn("now", now)
        .filter((F.col("event") != "leadership_began") | is_its)
        .select(
            *PARTITION_KEY, "event", "seq", "at_us", F.col("now.broker").alias("leader"),
            F.lead("seq").over(place).alias("next_seq"),
            (F.col("event") == "partition_went_offline").alias("is_loss"),
        )
    )  # fmt: skip
    node = Window.partitionBy(RUN, "node").orderBy("seq")
    moves = control.filter(F.col("event").isin("node_started", "node_stopped")).select(
        RUN, F.col("node").alias("leader"), "event", "seq", "at_us", F.lead("seq").over(node).alias("next_seq")
    )
    stops = moves.filter(F.col("event") == "node_stopped")
    down = stops.select(
        RUN, "leader", F.col("seq").alias("from_seq"), F.coalesce("next_seq", F.lit(BEYOND_ALL)).alias("until_seq")
    )
    led = turns.filter(F.col("leader").isNotNull())
    stopped = (
        first_after(led, stops.select(RUN, "leader", "seq", "at_us"), (RUN, "leader"), "seq", "stop")
        .filter(F.col("stop.seq") < F.coalesce("next_seq", F.lit(BEYOND_ALL)))
        .select(*PARTITION_KEY, "event", "stop.seq", "stop.at_us", F.lit(True).alias("is_loss"))
    )
    chosen_dead = held_by(led.filter(F.col("event") == "leader_elected"), down, (RUN, "leader")).select(
        *PARTITION_KEY, "event", "seq", "at_us", F.lit(True).alias("is_loss")
    )
    return turns.select(*stopped.columns).unionByName(stopped).unionByName(chosen_dead)
