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
         pinned_by         followers in the ISR that held it longest: they had not fetched beyond it
         pinned_us         for how long: until their fetch, or until they left the ISR
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
    """How long each follower held each stall, from its beginning: not at all if it was beyond the high watermark then,
    though it may fetch no more. out: *TERM_KEY, from_seq, follower, held_us"""
    stall = [*TERM_KEY, "term_seq", "from_seq"]
    in_sync = (
        _overlapping(stalls, states)
        .select(*stall, "from_us", "until_us", "high_watermark", "other_until_us", F.explode("isr").alias("follower"))
        .filter(F.col("follower") != F.col("leader"))
        .groupBy(*stall, "from_us", "until_us", "high_watermark", "follower")
        .agg(F.max("other_until_us").alias("in_isr_until_us"))
    )
    earlier = Window.partitionBy(*TERM_KEY, "term_seq", "follower").orderBy("from_seq").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    stood_at = F.coalesce("offset_before", F.last("last_offset", ignorenulls=True).over(earlier))
    until_us = F.least("released_us", "in_isr_until_us", "until_us")
    return (
        in_sync.join(_fetched(stalls, fetch), [*stall, "follower"], "full")
        .withColumn("was_beyond", F.coalesce(stood_at > F.col("high_watermark"), F.lit(False)))
        .filter(F.col("from_us").isNotNull())
        .select(
            *TERM_KEY, "from_seq", "follower",
            F.when(F.col("was_beyond"), 0).otherwise(until_us - F.col("from_us")).alias("held_us"),
        )
    )  # fmt: skip


def _fetched(stalls: DataFrame, fetch: DataFrame) -> DataFrame:
    """What followers asked for before a stall and in it; each fetch counts with the stall that goes on or comes next.

    out: *TERM_KEY, term_seq, from_seq, follower, offset_before (the last since the stall before, or the term's
         beginning), last_offset, released_us (first fetch in the stall that was beyond its high watermark)
    """
    in_term = Window.partitionBy(*TERM_KEY, "term_seq").orderBy("from_seq")
    since_seq = F.coalesce(F.lag("until_seq").over(in_term) + 1, "term_seq")
    spans = stalls.select(
        *TERM_KEY, "term_seq", F.col("from_seq").alias("stalled_seq"), since_seq.alias("from_seq"), "until_seq",
        "high_watermark",
    )  # fmt: skip
    fetched = fetch.filter(F.col("event") == "follower_fetched").select(
        *PARTITION_KEY, "leader_epoch", F.col("node").alias("leader"), F.col("peer").alias("follower"), "seq", "at_us",
        "fetch_offset",
    )  # fmt: skip
    is_before = F.col("seq") < F.col("stalled_seq")
    releases = ~is_before & (F.col("fetch_offset") > F.col("high_watermark"))
    return (
        held_by(fetched, spans, TERM_KEY)
        .groupBy(*TERM_KEY, "term_seq", F.col("stalled_seq").alias("from_seq"), "follower")
        .agg(
            F.max_by("fetch_offset", F.when(is_before, F.col("seq"))).alias("offset_before"),
            F.max_by("fetch_offset", "seq").alias("last_offset"),
            F.min(F.when(releases, F.col("at_us"))).alias("released_us"),
        )
    )


def _with_time_under_min_isr(stalls: DataFrame, states: DataFrame) -> DataFrame:
    length = F.least("other_until_us", "until_us") - F.greatest("other_from_us", "from_us")
    under = (
        _overlapping(stalls, states)
        .filter(F.size("isr") < F.col("min_isr"))
        .groupBy(*TERM_KEY, "from_seq")
        .agg(F.sum(length).alias("under_min_isr_us"))
    )
    return stalls.join(under, [*TERM_KEY, "from_seq"], "left").fillna(0, ["under_min_isr_us"])
