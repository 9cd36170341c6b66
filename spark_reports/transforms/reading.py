"""When consumers, and groups of them, were left waiting for records that were committed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from replica.trace.events import OUTSIDE
from replica.trace.names import (
    FETCH_FAILED,
    GROUP_ASSIGNED,
    GROUP_MEMBER_JOINED,
    GROUP_REBALANCED,
    GROUP_REMOVED,
    NODE_STOPPED,
    PARTITION_CREATED,
    POSITION_RESET,
    RECORD_READ,
    TRANSACTION_MARKER_WRITTEN,
)
from spark_reports.held import has_no_rows
from spark_reports.schema import PARTITION_KEY, RUN
from spark_reports.transforms.availability import SHORTEST_STALL_US
from spark_reports.transforms.intervals import held_by, joined_up
from spark_reports.transforms.partitions import run_ends
from spark_reports.transforms.records import aborted

_CONSUMER = (*PARTITION_KEY, "client", "group")
"""A consumer of the scenario (`group` is null) or a group (`client` is null)."""
_STEP = (*_CONSUMER, "seq", "at_us", "event", "error", "position", "high_watermark")
_GONE = (1 << 63) - 1
"""Position of a consumer that has stopped, and of a group without members: nothing waits for it."""
_CLIENT_NAME_CHARACTERS = 60
"""Of the client.id, in the name of a client from outside (cluster/live/peers.py)."""


def read_stalls(
    control: DataFrame,
    consume: DataFrame,
    group: DataFrame,
    transaction: DataFrame,
    terms: DataFrame,
    moved: DataFrame,
) -> DataFrame:
    """One row per stretch in which a committed record waited at a consumer's position and it read nothing.

    A stretch begins when the leader's high watermark passes the position, or with the last read while more wait; it
    ends with the next read or seek, when the consumer stops, or with the run. Those under SHORTEST_STALL_US are left
    out. A group counts as one consumer, whichever member reads, from its first read in a partition until its last
    member has left; rebalances are part of its stalls. Without rows: consumers from outside that belong to no group
    (it is unknown whether they are still there), and groups whose members share their client.id with another.
    Nothing waits at a transaction's marker; nor at records of an aborted transaction for a consumer that read none of
    the partition's.
    in:  tables control, consume, group and transaction, leader_terms(), high_watermark table
    out: run, topic, partition, client (null: a group), group (null: a consumer of the scenario), from_us, until_us,
         waiting_records (at its end), refused (answers with an error), errors (sorted names), recovered (a read ended
         it)
    """
    moves = _own_moves(control, consume).unionByName(_group_moves(consume, group))
    if not has_no_rows(transaction):
        moves = _past_what_is_not_handed_out(moves, transaction)
    marks = moves.select(*_CONSUMER).distinct().join(_high_watermarks(control, terms, moved), list(PARTITION_KEY))
    in_order = Window.partitionBy(*_CONSUMER).orderBy("seq")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    steps = (
        moves.unionByName(marks.select(*_STEP))
        .withColumn("moves", F.sum(F.col("position").isNotNull().cast("int")).over(so_far))
        .withColumn("stood", F.last("position", ignorenulls=True).over(so_far))
        .withColumn("high_watermark", F.last("high_watermark", ignorenulls=True).over(so_far))
    )
    waits = F.col("high_watermark") > F.col("stood")
    stretches = steps.groupBy(*_CONSUMER, "moves").agg(
        F.min(F.when(waits, F.col("at_us"))).alias("from_us"),
        F.min("at_us").alias("first_us"),
        F.min_by("event", "seq").alias("first_event"),
        F.max(F.when(waits, F.col("high_watermark") - F.col("stood"))).alias("waiting_records"),
        F.count_if(F.col("event") == FETCH_FAILED).alias("refused"),
        F.array_sort(F.collect_set(F.when(F.col("event") == FETCH_FAILED, F.col("error")))).alias("errors"),
    )
    next_move = Window.partitionBy(*_CONSUMER).orderBy("moves")
    return (
        stretches.withColumn("next_us", F.lead("first_us").over(next_move))
        .withColumn("next_event", F.lead("first_event").over(next_move))
        .join(F.broadcast(run_ends(control)), RUN)
        .withColumn("until_us", F.coalesce("next_us", "end_us"))
        .withColumn("recovered", F.coalesce(F.col("next_event") == RECORD_READ, F.lit(False)))
        .filter(F.col("until_us") - F.col("from_us") >= SHORTEST_STALL_US)
        .select(*_CONSUMER, "from_us", "until_us", "waiting_records", "refused", "errors", "recovered")
    )


def _past_what_is_not_handed_out(moves: DataFrame, transaction: DataFrame) -> DataFrame:
    """Positions at markers and at aborted records are moved behind them. in, out: _STEP"""
    markers = transaction.filter(F.col("event") == TRANSACTION_MARKER_WRITTEN).select(*PARTITION_KEY, "offset")
    dropped = aborted(transaction)
    reads = moves.filter(F.col("event") == RECORD_READ).withColumn("offset", F.col("position") - 1)
    reader = F.coalesce("client", "group")
    uncommitted = (
        reads.join(F.broadcast(dropped), [*PARTITION_KEY, "offset"], "left_semi")
        .select(*PARTITION_KEY, reader.alias("reader"))
        .distinct()
        .withColumn("reads_all", F.lit(True))
    )
    known = moves.withColumn("reader", reader).join(F.broadcast(uncommitted), [*PARTITION_KEY, "reader"], "left")
    reads_all = F.coalesce("reads_all", F.lit(False))
    return _behind(known.filter(reads_all), markers).unionByName(
        _behind(known.filter(~reads_all), markers.unionByName(dropped))
    )


def _behind(moves: DataFrame, offsets: DataFrame) -> DataFrame:
    """Positions that lie among these offsets of their partition move behind them. out: _STEP"""
    each = offsets.distinct().select(*PARTITION_KEY, "offset", (F.col("offset") + 1).alias("next_offset"))
    stretches = joined_up(each, PARTITION_KEY, "offset", "next_offset").select(
        *PARTITION_KEY, F.col("offset").alias("from_seq"), (F.col("next_offset") - 1).alias("until_seq")
    )
    asked = moves.withColumnRenamed("seq", "of_seq").withColumn("seq", F.coalesce("position", F.lit(_GONE)))
    found = held_by(asked, stretches, PARTITION_KEY, "left")
    return found.withColumn("position", F.coalesce(F.col("until_seq") + 1, "position")).select(
        *[F.col("of_seq").alias("seq") if name == "seq" else F.col(name) for name in _STEP]
    )


def _own_moves(control: DataFrame, consume: DataFrame) -> DataFrame:
    """Consumers of the scenario state where they begin, and their stop is an event. out: _STEP"""
    own = consume.filter(~F.col("client").startswith(OUTSIDE)).withColumn("group", F.lit(None).cast("string"))
    known = own.filter(F.col("event") == POSITION_RESET).select(*PARTITION_KEY, "client").distinct()
    stops = control.filter(F.col("event") == NODE_STOPPED).select(
        RUN, F.col("node").alias("client"), "seq", "at_us", "event"
    )
    gone = known.join(F.broadcast(stops), [RUN, "client"]).withColumn("group", F.lit(None).cast("string"))
    return _moves(own.join(F.broadcast(known), [*PARTITION_KEY, "client"])).unionByName(_goes(gone))


def _group_moves(consume: DataFrame, group: DataFrame) -> DataFrame:
    """The members' reads while their group had any. out: _STEP"""
    lives = _lives_of_groups(group)
    is_then = F.col("seq").between(F.col("from_seq"), F.col("until_seq"))
    read = (
        consume.join(F.broadcast(_members(group)), [RUN, "client"])
        .join(F.broadcast(lives), [RUN, "group"])
        .filter(is_then)
        .withColumn("client", F.lit(None).cast("string"))
    )
    known = read.select(*_CONSUMER).distinct()
    ends = lives.filter(F.col("until_us").isNotNull()).select(
        RUN, "group", F.col("until_seq").alias("seq"), F.col("until_us").alias("at_us"),
        F.lit("group_emptied").alias("event"),
    )  # fmt: skip
    return _moves(read).unionByName(_goes(known.join(F.broadcast(ends), [RUN, "group"])))


def _members(group: DataFrame) -> DataFrame:
    """Clients that are members of one group and of no other. out: run, group, client"""
    # As Python's quote(client_id, safe=": ") spells it.
    quoted = F.url_encode("client_id")
    for theirs, ours in (("+", " "), ("*", "%2A"), ("%7E", "~"), ("%3A", ":")):
        quoted = F.replace(quoted, F.lit(theirs), F.lit(ours))
    name = F.concat(F.lit(OUTSIDE), F.substring(quoted, 1, _CLIENT_NAME_CHARACTERS))
    joined = group.filter(F.col("event") == GROUP_MEMBER_JOINED).select(RUN, "group", name.alias("client")).distinct()
    groups = F.count("*").over(Window.partitionBy(RUN, "client"))
    return joined.withColumn("groups", groups).filter(F.col("groups") == 1).drop("groups")


def _lives_of_groups(group: DataFrame) -> DataFrame:
    """One row per time a group had members with an assignment.

    out: run, group, from_seq, until_seq (of the last one's leaving; beyond all events if there is none), until_us
    """
    is_empty = (F.col("event") == GROUP_REBALANCED) & (F.size("members") == 0)
    lives = F.when(F.col("event") == GROUP_ASSIGNED, True).when(
        is_empty | (F.col("event") == GROUP_REMOVED), F.lit(False)
    )
    in_order = Window.partitionBy(RUN, "group").orderBy("seq")
    turns = group.withColumn("lives", lives).filter(F.col("lives").isNotNull())
    turns = turns.withColumn("lived", F.coalesce(F.lag("lives").over(in_order), F.lit(False)))
    turns = turns.filter(F.col("lives") != F.col("lived"))
    return (
        turns.withColumn("until_us", F.lead("at_us").over(in_order))
        .withColumn("until_seq", F.coalesce(F.lead("seq").over(in_order), F.lit(_GONE)))
        .filter(F.col("lives"))
        .select(RUN, "group", F.col("seq").alias("from_seq"), "until_seq", "until_us")
    )


def _moves(consume: DataFrame) -> DataFrame:
    position = F.when(F.col("event") == RECORD_READ, F.col("offset") + 1).when(
        F.col("event") == POSITION_RESET, F.col("offset")
    )
    facts = consume.filter(F.col("event").isin(RECORD_READ, POSITION_RESET, FETCH_FAILED))
    return facts.select(*_steps(F.col("error"), position, F.lit(None)))


def _goes(gone: DataFrame) -> DataFrame:
    return gone.select(*_steps(F.lit(None), F.lit(_GONE), F.lit(None)))


def _steps(error: Column, position: Column, high_watermark: Column) -> list[Column]:
    return [
        *map(F.col, (*_CONSUMER, "seq", "at_us", "event")), error.cast("string").alias("error"),
        position.cast("long").alias("position"), high_watermark.cast("long").alias("high_watermark"),
    ]  # fmt: skip


def _high_watermarks(control: DataFrame, terms: DataFrame, moved: DataFrame) -> DataFrame:
    """The high watermarks that leaders returned to consumers over time. out: _STEP without the consumer

    A partition begins at 0, also if its topic was deleted and is made again.
    """

    def as_step(rows: DataFrame) -> DataFrame:
        return rows.select(
            *PARTITION_KEY, "seq", "at_us", F.lit("moved").alias("event"), F.lit(None).cast("string").alias("error"),
            F.lit(None).cast("long").alias("position"), "high_watermark",
        )  # fmt: skip

    created = control.filter(F.col("event") == PARTITION_CREATED).withColumn("high_watermark", F.lit(0).cast("long"))
    began = terms.withColumnsRenamed({"from_seq": "seq", "from_us": "at_us"})
    moves = moved.filter(F.col("role") == "leader")
    return as_step(created).unionByName(as_step(began)).unionByName(as_step(moves))
