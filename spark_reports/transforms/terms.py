"""Who led a partition from when to when: the frame of what only a leader knows."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.intervals import first_after

TERM_KEY = (*PARTITION_KEY, "leader_epoch", "leader")

NEXT_TERM, LEADER_STOPPED, RUN_ENDED = "the next term began", "the leader stopped", "the run ended"


def leader_terms(control: DataFrame) -> DataFrame:
    """One row per time a broker learned that it leads: its term, to when the controller chose another or none, its
    broker stopped, or the run ended. What a deposed leader does before it hears of it belongs to no term.

    out: *TERM_KEY, from_us, from_seq, until_us, until_seq, ended_by, log_end_offset and high_watermark at its beginning
    """
    began = control.filter(F.col("event") == "leadership_began").select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), F.col("at_us").alias("from_us"),
        F.col("seq").alias("from_seq"), "log_end_offset", "high_watermark",
    )  # fmt: skip
    # In the ZooKeeper era an epoch can also rise without an election: when the controller takes a follower offline.
    next_terms = ("leader_elected", "partition_went_offline", "leadership_began")
    ends = control.filter(F.col("event").isin(*next_terms)).select(
        *PARTITION_KEY,
        F.col("leader_epoch").alias("next_epoch"),
        "seq",
        "at_us",
    )
    stops = control.filter(F.col("event") == "node_stopped").select(RUN, F.col("node").alias("leader"), "seq", "at_us")
    last = control.groupBy(RUN).agg(F.max(F.struct(F.col("seq"), F.col("at_us"))).alias("last"))
    return (
        first_after(_with_the_next(began, ends), stops, (RUN, "leader"), "from_seq", "stop")
        .join(F.broadcast(last), RUN)
        .withColumn("end", F.least("chosen", "stop", "last"))
        # A leader that is told of its leadership twice begins no second term.
        .groupBy(*TERM_KEY, "end", "chosen", "stop")
        .agg(*[F.min_by(name, "from_seq").alias(name) for name in began.columns if name not in TERM_KEY])
        .select(
            *TERM_KEY, "from_us", "from_seq", F.col("end.at_us").alias("until_us"), F.col("end.seq").alias("until_seq"),
            F.when(F.col("end") == F.col("chosen"), NEXT_TERM)
            .when(F.col("end") == F.col("stop"), LEADER_STOPPED)
            .otherwise(RUN_ENDED).alias("ended_by"),
            "log_end_offset", "high_watermark",
        )
    )  # fmt: skip


def _with_the_next(began: DataFrame, ends: DataFrame) -> DataFrame:
    """With `chosen`, the first of `ends` after it that names a higher epoch (null if there is none)."""
    so_far = Window.partitionBy(*PARTITION_KEY).orderBy("seq").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = so_far.rowsBetween(Window.unboundedPreceding, -1)
    at = ("seq", "at_us")
    rises = ends.withColumn("before", F.max("next_epoch").over(before)).filter(
        F.coalesce(F.col("next_epoch") > F.col("before"), F.lit(True))
    )
    highest = ends.select(*PARTITION_KEY, F.col("seq").alias("from_seq"), F.max("next_epoch").over(so_far).alias("top"))
    known = began.join(highest, [*PARTITION_KEY, "from_seq"])
    is_late = F.col("leader_epoch") < F.col("top")
    in_time = first_after(
        known.filter(~is_late), rises.select(*PARTITION_KEY, *at), PARTITION_KEY, "from_seq", "chosen"
    )
    # Who hears of its epoch when a higher one is known already is rare: there each is compared with each.
    is_next = (F.col("next_epoch") > F.col("leader_epoch")) & (F.col("seq") > F.col("from_seq"))
    late = (
        known.filter(is_late)
        .join(ends, list(PARTITION_KEY))
        .groupBy(*known.columns)
        .agg(F.min(F.when(is_next, F.struct(*at))).alias("chosen"))
    )
    return in_time.unionByName(late).drop("top")


def within_terms(facts: DataFrame, terms: DataFrame, *columns: str) -> DataFrame:
    """Facts of leaders, each with the `columns` of the term that it belongs to; facts of no term are left out.

    in: facts with *TERM_KEY and seq, leader_terms()
    """
    term = terms.select(*TERM_KEY, "from_seq", "until_seq", *columns)
    inside = (F.col("seq") >= F.col("from_seq")) & (F.col("seq") <= F.col("until_seq"))
    return facts.join(F.broadcast(term), list(TERM_KEY)).filter(inside)
