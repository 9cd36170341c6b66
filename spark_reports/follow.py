"""Follow a growing trace with Structured Streaming, to show leader, ISR, HW, LEO and lag of every partition.

Spark reduces each batch of events to the latest value of each quantity. Between batches this process keeps one small
row per replica, however long the trace is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from replica.trace import names
from replica.trace.events import INTERNAL_TOPICS
from replica.trace.signs import SIGNS
from spark_reports.report.embedding import environment, page_style
from spark_reports.schema import trace_schema

FOLLOWED_TABLES = ("control", "log", "fetch", "high_watermark")
TRIGGER = "500 milliseconds"
_POLL_S = 0.2
_NOBODY = ""
_KEY = ("topic", "partition", "node")
_VALUES = (
    "leader",
    "leader_epoch",
    "isr",
    "log_end_offset",
    "high_watermark",
    "fetch_offset",
    "caught_up_us",
    "stopped",
)


class FollowingFailed(Exception):
    """The stream failed although the trace still exists."""


class ReplicaNow(NamedTuple):
    """The current state of one replica.

    `lag_records` and `lag_us` are its lag behind the leader according to its last fetch; None for the leader itself.
    """

    node: str
    log_end_offset: int | None
    high_watermark: int | None
    lag_records: int | None
    lag_us: int | None
    running: bool


class PartitionNow(NamedTuple):
    """The current state of one partition. `leader` is None for a partition without a leader."""

    topic: str
    partition: int
    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    high_watermark: int | None
    replicas: tuple[ReplicaNow, ...]


class InternalNow(NamedTuple):
    """The current state of a topic that brokers use internally.

    `leaderless` is the number of partitions without a running leader.
    """

    topic: str
    partitions: int
    leaderless: int

    def in_words(self) -> str:
        without = f", {self.leaderless} without a running leader" if self.leaderless else ", all with a leader"
        return f"{self.topic}: {self.partitions} partition{'' if self.partitions == 1 else 's'}{without}"


def users_and_internal(partitions: Sequence[PartitionNow]) -> tuple[list[PartitionNow], list[InternalNow]]:
    """Return the partitions of users' topics, and a summary of each internal topic."""
    lines = []
    for topic in INTERNAL_TOPICS:
        own = [partition for partition in partitions if partition.topic == topic]
        led = sum(any(replica.running and replica.node == part.leader for replica in part.replicas) for part in own)
        if own:
            lines.append(InternalNow(topic, len(own), len(own) - led))
    return [partition for partition in partitions if partition.topic not in INTERNAL_TOPICS], lines


class ClusterNow:
    """The latest values, such as leader, ISR, HW and LEO, of each partition, replica and node.

    The latest value is that of the event with the highest `seq`, since a micro-batch of Spark may deliver events of one
    table after later events of another table.
    """

    def __init__(self) -> None:
        self.at_us = 0
        self._latest: dict[tuple[str, int, str], dict[str, tuple[int, Any]]] = {}
        self._deleted: dict[str, int] = {}

    def take(self, rows: list[Any]) -> None:
        """Update the state from the rows of latest_of()."""
        for row in rows:
            self.at_us = max(self.at_us, row["at_us"])
            known = self._latest.setdefault((row["topic"], row["partition"], row["node"]), {})
            for name in _VALUES:
                if row[name] is not None and row[name]["seq"] >= known.get(name, (-1, None))[0]:
                    known[name] = (row[name]["seq"], row[name]["value"])
            if row["deleted"] is not None:
                self._deleted[row["topic"]] = max(row["deleted"], self._deleted.get(row["topic"], -1))

    def partitions(self) -> list[PartitionNow]:
        """Return the partitions, sorted by topic and number, without those of deleted topics."""
        found = []
        for topic, partition, node in sorted(self._latest):
            created = self._latest[topic, partition, node].get("isr", (-1, None))[0]
            if topic and node == _NOBODY and created > self._deleted.get(topic, -1):
                found.append(self._partition(topic, partition))
        return found

    def _partition(self, topic: str, partition: int) -> PartitionNow:
        def value(name: str, node: str = _NOBODY) -> Any:
            return self._latest.get((topic, partition, node), {}).get(name, (-1, None))[1]

        leader = value("leader") or None
        end = value("log_end_offset", leader) if leader else None
        nodes = [name for of_topic, number, name in self._latest if (of_topic, number) == (topic, partition) and name]
        replicas = []
        for node in sorted(nodes):
            lag = None if node == leader or end is None else _lag(end, value("fetch_offset", node))
            caught_up_us = value("caught_up_us", node)
            lag_us = None if lag is None or (lag and caught_up_us is None) else self.at_us - caught_up_us if lag else 0
            stopped = self._latest.get(("", -1, node), {}).get("stopped", (-1, False))[1]
            ends = value("log_end_offset", node), value("high_watermark", node)
            replicas.append(ReplicaNow(node, *ends, lag, lag_us, not stopped))
        high_watermark = value("high_watermark", leader) if leader else None
        isr = tuple(value("isr") or ())
        return PartitionNow(
            topic, partition, leader, value("leader_epoch") or 0, isr, high_watermark, tuple(replicas)
        )  # fmt: skip


def _lag(end: int, fetched: int | None) -> int | None:
    return None if fetched is None else max(0, end - fetched)


def follow(
    spark: SparkSession, trace_dir: Path, tell: Callable[[ClusterNow], None], keep_on: Callable[[], bool], scratch: Path
) -> None:
    """Call `tell` with the cluster's state after every batch of new events, until `keep_on` returns False.

    Also stop when the trace's folder is gone, because a finished run is moved to its final folder.

    Args:
        tell: called from a thread of Spark.
        scratch: an empty folder for the stream's checkpoints.

    Raises:
        FollowingFailed: if the stream fails although the trace still exists.
    """
    now = ClusterNow()

    def on_batch(batch: DataFrame, number: int) -> None:
        now.take(latest_of(batch).collect())
        tell(now)

    stream = None
    for table in FOLLOWED_TABLES:
        read = spark.readStream.schema(trace_schema(table)).option("pathGlobFilter", "part-*.parquet")
        facts = observations(table, read.parquet(str(trace_dir / table)))
        stream = facts if stream is None else stream.unionByName(facts)
    assert stream is not None
    writer = stream.writeStream.foreachBatch(on_batch).trigger(processingTime=TRIGGER)
    query = writer.option("checkpointLocation", str(scratch)).start()
    try:
        while query.isActive and keep_on() and trace_dir.is_dir():
            time.sleep(_POLL_S)
    finally:
        query.stop()
    error = query.exception()
    if error is not None and trace_dir.is_dir():
        raise FollowingFailed(str(error).partition("\n")[0]) from error


def observations(table: str, facts: DataFrame) -> DataFrame:
    """Return the values that the events of a table state about partitions, replicas and nodes.

    A value about a partition has `node` "", and a value about a node has `topic` "".

    Returns:
        seq, at_us, topic, partition, node, deleted, and the columns of _VALUES, null where an event has no value.
    """
    lines = {"control": _of_control, "log": _of_log, "fetch": _of_fetch, "high_watermark": _of_high_watermark}[table]()
    nothing = {
        "leader": "string", "leader_epoch": "long", "isr": "array<string>", "log_end_offset": "long",
        "high_watermark": "long", "fetch_offset": "long", "caught_up_us": "long", "stopped": "boolean",
        "deleted": "boolean",
    }  # fmt: skip
    columns = {name: F.lit(None).cast(kind) for name, kind in nothing.items()} | lines
    chosen = facts.select("seq", "at_us", *[column.alias(name) for name, column in columns.items()])
    return chosen.filter(F.col("node").isNotNull())


def _of_control() -> dict[str, Column]:
    event = F.col("event")
    is_node = event.isin(names.NODE_STARTED, names.NODE_STOPPED)
    is_decided = event.isin(
        names.PARTITION_CREATED, names.LEADER_ELECTED, names.PARTITION_WENT_OFFLINE, names.ISR_COMMITTED
    )
    of_replica = event.isin(names.LEADERSHIP_BEGAN, names.FOLLOWING_BEGAN, names.LOG_TRUNCATED, names.LOG_RECOVERED)
    is_deleted = event == names.TOPIC_DELETED
    leader = F.when(event.isin(names.PARTITION_CREATED, names.LEADER_ELECTED), F.col("broker"))
    return {
        "topic": F.when(is_node, F.lit("")).otherwise(F.col("topic")),
        "partition": F.when(is_node | is_deleted, F.lit(-1)).otherwise(F.col("partition")).cast("long"),
        "node": F.when(is_decided | is_deleted, F.lit(_NOBODY)).when(is_node | of_replica, F.col("node")),
        "leader": leader.when(event == names.PARTITION_WENT_OFFLINE, F.lit(_NOBODY)),
        "leader_epoch": F.when(is_decided, F.col("leader_epoch")),
        "isr": F.when(is_decided, F.col("isr")),
        "log_end_offset": F.when(of_replica, F.col("log_end_offset")),
        "high_watermark": F.when(of_replica, F.col("high_watermark")),
        "stopped": F.when(is_node, event == names.NODE_STOPPED),
        "deleted": F.when(is_deleted, F.lit(True)),
    }


def _of_log() -> dict[str, Column]:
    return {name: F.col(name) for name in (*_KEY, "log_end_offset")}


def _of_high_watermark() -> dict[str, Column]:
    return {name: F.col(name) for name in (*_KEY, "log_end_offset", "high_watermark")}


def _of_fetch() -> dict[str, Column]:
    """Return the columns of a fetch: the follower's offset, and the time if the follower has caught up."""
    judged = F.col("event") == names.FOLLOWER_FETCHED
    reached = F.col("fetch_offset") >= F.col("log_end_offset")
    return {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "node": F.when(judged, F.col("peer")),
        "fetch_offset": F.col("fetch_offset"),
        "caught_up_us": F.when(reached, F.col("at_us")),
    }


def latest_of(facts: DataFrame) -> DataFrame:
    """Return one row per topic, partition and node: the latest value of each quantity, with its `seq`.

    Args:
        facts: rows of observations().

    Returns:
        The columns of _KEY, at_us, deleted (a seq), and the columns of _VALUES as structs (seq, value), null if
        unknown.
    """

    def latest(name: str) -> Column:
        pair = F.struct("seq", F.col(name).alias("value"))
        return F.max_by(pair, F.when(F.col(name).isNotNull(), F.col("seq"))).alias(name)

    return facts.groupBy(*_KEY).agg(
        F.max("at_us").alias("at_us"),
        F.max(F.when(F.col("deleted"), F.col("seq"))).alias("deleted"),
        *[latest(name) for name in _VALUES],
    )


def render(at_us: int, partitions: Sequence[PartitionNow], internal: Sequence[InternalNow]) -> str:
    """Render the state as an HTML page; `partitions` are those of users' topics, `internal` the other topics."""
    template = environment().get_template("follow.html.j2")
    return template.render(at_us=at_us, partitions=partitions, internal=internal, signs=SIGNS, style=page_style())
