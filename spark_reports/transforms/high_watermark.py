"""High watermarks that stood still while records waited above them: for how long, and who held them."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_reports.schema import PARTITION_KEY
from spark_reports.transforms.intervals import held_by, overlapping
from spark_reports.transforms.terms import TERM_KEY, within_terms

SHORTEST_HW_STALL_US = 500_000
"""A shorter wait for the followers' next fetches is replication at work (replica.fetch.wait.max.ms is 500 ms)."""

ADVANCED = "the high watermark moved"


def hw_stalls(states: DataFrame, terms: DataFrame, log: DataFrame, fetch: DataFrame, moved: DataFrame) -> DataFrame:
    """One row per stretch of a leader's term in which records waited above a high watermark that did not move.

    in:  partition_states(), leader_terms(), the tables log, fetch and high_watermark
    out: *TERM_KEY, from_us, until_us, high_watermark, waiting_records (the most), ended_by,
         pinned_by         followers that held it longest: they were in the ISR and had not fetched beyond it in this
                           term (one that comes back with less than it had holds it again)
         pinned_us         for how long, of the stall; 0 if nobody did
         under_min_isr_us  time in which the ISR was below min.insync.replicas (no advance then from 3.7, KAFKA-15583)
    """
    # Few rows, found in all that was appended, and asked three times.
    stalls = _stalls(terms, log, moved).cache()
    key = [*TERM_KEY, "from_us", "from_seq", "until_us", "until_seq", "high_watermark", "waiting_records", "ended_by"]
    held = _held(stalls, states, fetch)
    longest = F.max("held_us").over(Window.partitionBy(*TERM_KEY, "from_seq"))
    pinned = (
        held.withColumn("longest", longest)
        .filter((F.col("held_us") == F.col("longest")) & (F.col("held_us") > 0))
        .groupBy(*TERM_KEY, "from_seq")
        .agg(F.array_sort(F.collect_set("follower")).alias("pinned_by"), F.max("held_us").alias("pinned_us"))
    )
    return (
        _with_time_under_min_isr(stalls.select(*key), states)
        .join(pinned, [*TERM_KEY, "from_seq"], "left")
        .select(
            *TERM_KEY, "from_us", "until_us", "high_watermark", "waiting_records", "ended_by",
            F.coalesce("pinned_by", F.array().cast("array<string>")).alias("pinned_by"),
            F.coalesce("pinned_us", F.lit(0)).alias("pinned_us"), "under_min_isr_us",
        )
    )  # fmt: skip


def _stalls(terms: DataFrame, log: DataFrame, moved: DataFrame) -> DataFrame:
    began = terms.select(*TERM_KEY, F.col("from_us").alias("at_us"), F.col("from_seq").alias("seq"),
                         "log_end_offset", "high_watermark")  # fmt: skip
    as_leader = F.col("role") == "leader"
    appends = log.filter(as_leader).select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "at_us", "seq", "log_end_offset",
        F.lit(None).cast("long").alias("high_watermark"),
    )  # fmt: skip
    moves = moved.filter(as_leader).select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), "at_us", "seq", "log_end_offset",
        "high_watermark",
    )  # fmt: skip
    facts = within_terms(
        began.unionByName(appends).unionByName(moves),
        terms.withColumnsRenamed({"until_us": "term_until_us", "ended_by": "term_ended_by"}),
        "term_until_us", "term_ended_by",
    )  # fmt: skip
    term = [*TERM_KEY, "from_seq"]
    in_order = Window.partitionBy(*term).orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    waits = F.col("log_end_offset") > F.col("level")
    waited = F.lag("log_end_offset").over(in_order) > F.lag("level").over(in_order)
    moved_on = ~F.col("level").eqNullSafe(F.lag("level").over(in_order))
    begins = waits & (moved_on | ~F.coalesce(waited, F.lit(False)))
    # In a term both ends only rise, so the last fact at a level tells how many waited, and the next one ends it.
    levels = (
        facts.withColumn("level", F.last("high_watermark", ignorenulls=True).over(so_far))
        .withColumn("begins", begins)
        .withColumn("began", F.last(F.when(F.col("begins"), F.struct("seq", "at_us")), ignorenulls=True).over(so_far))
        .withColumn("next", F.lead(F.struct("seq", "at_us", "level")).over(in_order))
        .filter(waits & (F.col("next").isNull() | (F.col("next.level") != F.col("level"))))
    )
    until_us = F.coalesce("next.at_us", "term_until_us")
    return levels.filter(until_us - F.col("began.at_us") >= SHORTEST_HW_STALL_US).select(
        *TERM_KEY, F.col("began.at_us").alias("from_us"), F.col("began.seq").alias("from_seq"),
        until_us.alias("until_us"), F.coalesce("next.seq", "until_seq").alias("until_seq"),
        F.col("from_seq").alias("term_seq"), F.col("level").alias("high_watermark"),
        (F.col("log_end_offset") - F.col("level")).alias("waiting_records"),
        F.when(F.col("next").isNotNull(), ADVANCED).otherwise(F.col("term_ended_by")).alias("ended_by"),
    )  # fmt: skip


def _overlapping(stalls: DataFrame, states: DataFrame) -> DataFrame:
    """Each stall with the decisions that were in force during it."""
    ruled = states.select(*PARTITION_KEY, F.col("seq").alias("state_seq"), F.col("from_us").alias("other_from_us"),
                          F.col("until_us").alias("other_until_us"), "isr", "min_isr")  # fmt: skip
    return overlapping(stalls, ruled, PARTITION_KEY)


def _held(stalls: DataFrame, states: DataFrame, fetch: DataFrame) -> DataFrame:
    """For how long each follower held each stall: the time in which it was in the ISR and not beyond the high
    watermark. out: *TERM_KEY, from_seq, follower, held_us"""
    stall = [*TERM_KEY, "term_seq", "from_seq"]
    in_sync = (
        _overlapping(stalls, states)
        .select(
            *stall, F.explode("isr").alias("follower"), F.greatest("from_us", "other_from_us").alias("isr_from_us"),
            F.least("until_us", "other_until_us").alias("isr_until_us"),
        )
        .filter(F.col("follower") != F.col("leader"))
    )  # fmt: skip
    behind = _behind(stalls, in_sync.select(*stall, "follower").distinct(), fetch)
    length = F.least("isr_until_us", "behind_until_us") - F.greatest("isr_from_us", "behind_from_us")
    return (
        in_sync.join(behind, [*stall, "follower"])
        .groupBy(*TERM_KEY, "from_seq", "follower")
        .agg(F.sum(F.greatest(F.lit(0), length)).alias("held_us"))
    )


def _behind(stalls: DataFrame, followers: DataFrame, fetch: DataFrame) -> DataFrame:
    """The stretches of a stall in which a follower had not fetched beyond its high watermark: as a rule one, up to a
    fetch; another one if it came back with less than it had.

    in:  followers: each with the stalls that it may have held      out: its columns, behind_from_us, behind_until_us
    """
    fetched = fetch.filter(F.col("event") == "follower_fetched").select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), F.col("peer").alias("follower"), "seq", "at_us",
        "fetch_offset",
    )  # fmt: skip
    key = [*followers.columns]
    began = followers.join(_stood_at(stalls, followers, fetched), key, "left").join(
        stalls.select(*TERM_KEY, "from_seq", "until_us", "high_watermark", F.col("from_us").alias("at_us")),
        [*TERM_KEY, "from_seq"],
    ).withColumn("seq", F.col("from_seq"))  # fmt: skip
    spans = stalls.select(*TERM_KEY, "term_seq", "from_seq", "until_seq", "until_us", "high_watermark")
    facts = held_by(fetched, spans, TERM_KEY).select(*began.columns).unionByName(began)
    in_order = Window.partitionBy(*key).orderBy("seq")
    is_behind = F.coalesce(F.col("fetch_offset") <= F.col("high_watermark"), F.lit(True))
    turns = (
        facts.withColumn("is_behind", is_behind)
        .withColumn("was_behind", F.lag("is_behind").over(in_order))
        .filter(~F.col("is_behind").eqNullSafe(F.col("was_behind")))
    )
    return (
        turns.withColumn("behind_until_us", F.coalesce(F.lead("at_us").over(in_order), F.col("until_us")))
        .filter("is_behind")
        .select(*key, F.col("at_us").alias("behind_from_us"), "behind_until_us")
    )


def _stood_at(stalls: DataFrame, followers: DataFrame, fetched: DataFrame) -> DataFrame:
    """What followers had last asked for in the term before each stall (no row, or null: nothing).

    out: the columns of followers, fetch_offset
    """
    key = [*TERM_KEY, "term_seq", "from_seq"]
    in_term = Window.partitionBy(*TERM_KEY, "term_seq").orderBy("from_seq")
    # Each fetch counts with the next stall; those that come later are told what the ones before saw last.
    since = stalls.select(
        *TERM_KEY, "term_seq", F.col("from_seq").alias("stalled_seq"),
        F.coalesce(F.lag("from_seq").over(in_term), "term_seq").alias("from_seq"),
        (F.col("from_seq") - 1).alias("until_seq"),
    )  # fmt: skip
    seen = (
        held_by(fetched, since, TERM_KEY)
        .groupBy(*TERM_KEY, "term_seq", F.col("stalled_seq").alias("from_seq"), "follower")
        .agg(F.max_by("fetch_offset", "seq").alias("fetch_offset"))
    )
    so_far = Window.partitionBy(*TERM_KEY, "term_seq", "follower").orderBy("from_seq").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )  # fmt: skip
    told = F.last("fetch_offset", ignorenulls=True).over(so_far)
    return followers.join(seen, [*key, "follower"], "full").withColumn("fetch_offset", told)


def _with_time_under_min_isr(stalls: DataFrame, states: DataFrame) -> DataFrame:
    length = F.least("other_until_us", "until_us") - F.greatest("other_from_us", "from_us")
    under = (
        _overlapping(stalls, states)
        .filter(F.size("isr") < F.col("min_isr"))
        .groupBy(*TERM_KEY, "from_seq")
        .agg(F.sum(length).alias("under_min_isr_us"))
    )
    return stalls.join(under, [*TERM_KEY, "from_seq"], "left").fillna(0, ["under_min_isr_us"])
