"""Verdicts on records and what the producer knew, each on a trace of few events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from replica.causes import DataLossCause, ResetCause, RetentionCause, TransactionCause
from replica.trace import events as t
from spark_reports.io import Trace, read_trace
from spark_reports.tables import ResultTables
from spark_reports.transforms.compaction import gone_records
from spark_reports.transforms.records import final_entries, record_fates
from spark_reports.transforms.transactions import known_of_records
from spark_reports.transforms.verdict import anomalies

pytestmark = pytest.mark.spark

Written = Callable[[str, list[tuple[float, t.TraceEvent]]], Path]
PLACE: dict[str, Any] = {"topic": "t", "partition": 0}
TWIN = 77
"""The checksum of several batches."""


def sent(record: str, acks: int = -1, partition: int = 0, client: str = "p1") -> t.TraceEvent:
    return t.RecordSent(client=client, topic="t", partition=partition, record=record, acks=acks)


def acked(record: str, offset: int, by: str = "b1") -> t.TraceEvent:
    return t.RecordAcked(client="p1", peer=by, record=record, offset=offset, acks=-1, latency_us=10, **PLACE)


def failed(record: str, definite: bool) -> t.TraceEvent:
    return t.RecordFailed(
        client="p1", record=record, acks=-1, error="REQUEST_TIMED_OUT", definite=definite, latency_us=10, **PLACE,
    )  # fmt: skip


def found_at(node: str, offset: int, record: str) -> t.TraceEvent:
    return t.LogEntriesFound(node=node, offset=offset, records=(record,), leader_epoch=0, crc=hash_of(record), **PLACE)


def ends(node: str, end: int) -> t.TraceEvent:
    """The log of the leader, all of it committed."""
    return t.ReplicaFound(
        node=node, log_start_offset=0, log_end_offset=end, high_watermark=end, is_leader=True, in_isr=True,
        running=True, **PLACE,
    )  # fmt: skip


def found(
    node: str,
    *records: str,
    hw: int | None = None,
    leader: bool = False,
    isr: bool = True,
    elr: bool = False,
    up: bool = True,
    epoch: int = 0,
) -> list[t.TraceEvent]:
    """A replica's log at the end: one record an offset."""
    entries = [found_at(node, offset, record) for offset, record in enumerate(records)]
    end = t.ReplicaFound(
        node=node, log_start_offset=0, log_end_offset=len(records),
        high_watermark=len(records) if hw is None else hw, is_leader=leader, in_isr=isr, in_elr=elr,
        running=up, leader_epoch=epoch if records else -1, **PLACE,
    )  # fmt: skip
    return [*entries, end]


def hash_of(record: str) -> int:
    return int.from_bytes(record.encode(), "big")


def read(offset: int, record: str) -> t.TraceEvent:
    return t.RecordRead(client="c1", peer="b1", offset=offset, record=record, leader_epoch=0, **PLACE)


INPUT: dict[str, Any] = {"input": "i0", "input_partition": "i-0", "offset": 0, "committed_offset": 1}


def promised(record: str) -> t.TraceEvent:
    return t.OutputPromised(client="t1", topic="t", partition=-1, record=record, **INPUT)


def reset(offset: int, error: str | None) -> t.TraceEvent:
    return t.PositionReset(
        client="c1", peer="b1", offset=offset, previous_offset=0, error=error, cause=ResetCause.SEEK, **PLACE
    )


UNHEARD = t.PartitionCreated(
    node="c1", broker="b1", replicas=("b1",), isr=("b1",), leader_epoch=0, partition_epoch=0, min_isr=1, **PLACE,
)  # fmt: skip
MADE: list[t.TraceEvent] = [
    UNHEARD,
    t.LeadershipBegan(
        node="b1", leader_epoch=0, partition_epoch=0, isr=("b1",), log_end_offset=0, high_watermark=0,
        **PLACE,
    ),
]  # fmt: skip
"""Once more: with its topic, which was deleted."""


def end_seen(offset: int, error: str | None = None) -> t.TraceEvent:
    return t.EndOffsetSeen(client="c1", peer="b1", offset=offset, error=error, **PLACE)


def kept(record: str, offset: int, crc: int | None = None) -> list[t.TraceEvent]:
    return kept_by("b1", record, offset, 1 + int(record[1:]) if crc is None else crc, 0)


def kept_by(leader: str, record: str, offset: int, number: int, epoch: int) -> list[t.TraceEvent]:
    """A record that a leader has appended and acked. number: the batch's checksum"""
    batch = t.BatchSent(
        client="p1", peer=leader, topic="t", partition=0, records=(record,), crc=number, attempt=1, acks=1,
        producer_id=-1, base_sequence=-1,
    )  # fmt: skip
    appended = t.BatchAppended(
        node=leader, role="leader", topic="t", partition=0, leader_epoch=epoch, base_offset=offset, last_offset=offset,
        log_end_offset=offset + 1, size_bytes=100, crc=number, producer_id=-1, producer_epoch=-1, base_sequence=-1,
    )  # fmt: skip
    return [sent(record), batch, appended, acked(record, offset, leader)]


def starts_at(offset: int, node: str, role: str) -> t.TraceEvent:
    return t.LogStartOffsetAdvanced(
        node=node, role=role, topic="t", partition=0, leader_epoch=0, log_start_offset=offset
    )


def expires_to(offset: int, node: str) -> t.TraceEvent:
    return t.RecordsExpired(
        node=node,
        role="leader",
        leader_epoch=0,
        log_start_offset=offset,
        size_bytes=100,
        cause=RetentionCause.TIME,
        **PLACE,
    )


def cut_to(end: int, before: int) -> t.TraceEvent:
    """The log of b1."""
    return t.LogTruncated(
        node="b1", leader_epoch=1, log_end_offset=end, previous_log_end_offset=before, high_watermark=0,
        previous_high_watermark=0, **PLACE,
    )  # fmt: skip


def opened_at(end: int) -> t.TraceEvent:
    """The log of b1."""
    return t.LogRecovered(
        node="b1", clean=False, log_start_offset=0, log_end_offset=end, high_watermark=0, size_bytes=100,
        **PLACE,
    )  # fmt: skip


def keyed(key: str, offset: int, record: str, *, tombstone: bool = False, crc: int | None = None) -> t.TraceEvent:
    return t.KeysAppended(
        node="b1", leader_epoch=0, base_offset=offset, crc=1 + int(record[1:]) if crc is None else crc, keys=(key,),
        tombstones=(offset,) if tombstone else (), **PLACE,
    )  # fmt: skip


def compacted(offset: int, to: int, *, aborted: bool = False) -> t.TraceEvent:
    return t.BatchCompacted(
        node="b1", leader_epoch=0, base_offset=offset, last_offset=offset, crc=1, new_crc=None, cleaned_to=to,
        removed=(offset,), aborted=aborted, **PLACE,
    )  # fmt: skip


def known_in(trace: Trace) -> DataFrame:
    return known_of_records(trace, gone_records(trace))


def in_transaction(record: str, offset: int, producer_id: int = 7) -> list[t.TraceEvent]:
    """Sent and acked."""
    batch = t.BatchSent(
        client="p1", peer="b1", records=(record,), crc=hash_of(record), attempt=1, acks=-1, producer_id=producer_id,
        base_sequence=0, **PLACE,
    )  # fmt: skip
    return [sent(record), batch, acked(record, offset)]


def changed(state: str, producer_id: int = 7) -> t.TraceEvent:
    return t.TransactionStateChanged(
        node="b1", transactional_id=f"orders.{producer_id}", previous_state="-", state=state, producer_id=producer_id,
        producer_epoch=0, partitions=("t-0",), fences=False, cause=TransactionCause.COMMIT,
    )  # fmt: skip


CASES: dict[str, tuple[list[t.TraceEvent], set[tuple[str, str]]]] = {
    "all is well": (
        [sent("r0"), sent("r1"), acked("r0", 0), acked("r1", 1), read(0, "r0"), *found("b1", "r0", "r1", leader=True)],
        set(),
    ),
    "an acked record without a copy in the final log": (
        [sent("r0"), acked("r0", 0), *found("b1", leader=True), *found("b2", "r0", isr=False)],
        {("lost", "r0")},
    ),
    "without a leader the longest log of an ISR member counts, but nobody can read it": (
        [sent("r0"), acked("r0", 0), *found("b1", up=False), *found("b2", "r0", up=False)],
        {("unseen", "r0")},
    ),
    "of equal ISR members the first by name": (
        [sent("r0"), acked("r0", 0), *found("b2", "r0", up=False), *found("b1", "rx", up=False)],
        {("lost", "r0")},
    ),
    "no leader, nobody in ISR or ELR: what a disk has may come back": (
        [sent("r0"), acked("r0", 0), *found("b1", isr=False, up=False), *found("b2", "r0", isr=False, up=False)],
        {("unseen", "r0")},
    ),
    "of such logs the one with the latest records counts, not the longest": (
        [sent("r0"), sent("r1"), acked("r0", 0), acked("r1", 1),
         *found("b1", "rx", "r1", "ry", isr=False, up=False), *found("b2", "r0", isr=False, up=False, epoch=1)],
        {("unseen", "r0"), ("lost", "r1")},
    ),
    "whoever is in the ISR with an empty log is elected before a log that holds it": (
        [sent("r0"), acked("r0", 0), *found("b1", up=False), *found("b2", "r0", isr=False)],
        {("lost", "r0")},
    ),
    "no log is left at all": ([sent("r0"), acked("r0", 0)], {("lost", "r0")}),
    "no ISR member: that of the ELR counts": (
        [sent("r0"), acked("r0", 0), *found("b1", "rx", "ry", isr=False, up=False),
         *found("b2", "r0", isr=False, elr=True, up=False)],
        {("unseen", "r0")},
    ),
    "an ISR member counts before a longer log of the ELR": (
        [sent("r0"), acked("r0", 0), *found("b1", "rx", up=False), *found("b2", "r0", "ry", isr=False, elr=True)],
        {("lost", "r0")},
    ),
    "above the high watermark": (
        [sent("r0"), sent("r1"), acked("r0", 0), acked("r1", 1), *found("b1", "r0", "r1", hw=1, leader=True)],
        {("unseen", "r1")},
    ),
    "neither acked nor failed, handed over or failed: nothing was promised": (
        [sent("r0"), sent("r1", acks=0), sent("r2"), sent("r3"), failed("r2", True), failed("r3", False),
         *found("b1", leader=True)],
        set(),
    ),
    "read, then gone": (
        [sent("r0"), read(0, "r0"), *found("b1", leader=True)],
        {("dirty-read", "r0")},
    ),
    "twice in the log": (
        [sent("r0"), acked("r0", 0), *found("b1", "r0", "r0", leader=True)],
        {("duplicated", "r0")},
    ),
    "out of the order of sending, by first occurrence": (
        [sent("r0"), sent("r1"), sent("r2"), *found("b1", "r1", "r0", "r2", "r1", leader=True)],
        {("reordered", "r0"), ("duplicated", "r1")},
    ),
    "sent again behind the one that stands before it": (
        [sent("r0"), sent("r1"), sent("r0"), *found("b1", "r1", "r0", leader=True)],
        set(),
    ),
    "sent again, and overtaken all the same": (
        [sent("r0"), sent("r0"), sent("r1"), *found("b1", "r1", "r0", leader=True)],
        {("reordered", "r0")},
    ),
    "two producers have no order between them, whatever their records are called": (
        [sent("r0"), sent("r1", client="p2"), *found("b1", "r1", "r0", leader=True)],
        set(),
    ),
    "one producer has an order, whatever its records are called": (
        [sent("hello"), sent("world"), *found("b1", "world", "hello", leader=True)],
        {("reordered", "hello")},
    ),
    "replicas that differ below both high watermarks": (
        [*found("b1", "r0", "r1", leader=True), *found("b2", "r0", "rx", isr=False)],
        {("diverged", "b1: r1, b2: rx")},
    ),
    "replicas that differ above one of them, or on a broker that is down": (
        [*found("b1", "r0", "r1", leader=True), *found("b2", "r0", "rx", hw=1), *found("b3", "ry", up=False)],
        set(),
    ),
    "the end of the log goes back, errors aside": (
        [end_seen(5), end_seen(-1, "OFFSET_NOT_AVAILABLE"), end_seen(5), end_seen(4), end_seen(6)],
        {("offset-regression", "c1")},
    ),
    "a jump over records that are there": (
        [read(0, "r0"), reset(2, "OFFSET_OUT_OF_RANGE"), read(2, "r2"), *found("b1", "r0", "r1", "r2", leader=True)],
        {("poll-skip", "c1")},
    ),
    "a seek, a hole in the log, and a record read later are no skips": (
        [reset(0, None), read(0, "r0"), reset(2, None), read(2, "r2"), reset(1, None), read(1, "r1"), read(9, "r9"),
         *found("b1", "r0", "r1", "r2", leader=True)],
        {("dirty-read", "r9")},
    ),
    "a topic made again under its reader, which goes on where it was": (
        [*MADE, read(0, "r0"), read(1, "r1"), *MADE, read(2, "r7"), *found("b1", "r5", "r6", "r7", leader=True)],
        {("poll-skip", "c1"), ("dirty-read", "r0"), ("dirty-read", "r1")},
    ),
    "a topic made again, whose reader begins anew; what it jumped over and saw before is gone": (
        [*MADE, end_seen(9), read(0, "r5"), read(2, "r7"), *MADE, end_seen(2), reset(0, "OFFSET_OUT_OF_RANGE"),
         read(0, "r5"), read(1, "r6"), *found("b1", "r5", "r6", "r7", leader=True)],
        set(),
    ),
    "a topic made again, of which its leader has not heard yet": (
        [*MADE, end_seen(2), read(0, "r0"), UNHEARD, end_seen(2), read(1, "r1"), *MADE[1:], end_seen(1),
         read(2, "r7"), *found("b1", "r5", "r6", "r7", leader=True)],
        {("poll-skip", "c1"), ("dirty-read", "r0"), ("dirty-read", "r1")},
    ),
    "a topic made again, of which its leader says so only after a record of it was read": (
        [*MADE, read(0, "r0"), UNHEARD, read(0, "r5"), *MADE[1:], read(1, "r6"),
         *found("b1", "r5", "r6", leader=True)],
        {("dirty-read", "r0")},
    ),
    "a topic made again, whose leader has shown more of it than it shows at the end": (
        [*MADE, end_seen(2), *MADE, end_seen(2), end_seen(1), *found("b1", "r5", "r6", "r7", leader=True)],
        {("offset-regression", "c1")},
    ),
    "a topic made again, in which its reader seeks": (
        [*MADE, read(0, "r5"), *MADE, reset(2, None), read(2, "r7"), *found("b1", "r5", "r6", "r7", leader=True)],
        set(),
    ),
    "a jump over records of an aborted transaction, and over one that was not": (
        [read(0, "r0"), read(4, "r4"), *found("b1", "r0", "r1", "r2", "r3", "r4", leader=True),
         t.AbortedBatchFound(node="b1", producer_id=7, base_offset=1, last_offset=2, **PLACE)],
        {("poll-skip", "c1")},
    ),
    "a jump over nothing but records of an aborted transaction": (
        [read(0, "r0"), read(3, "r3"), *found("b1", "r0", "r1", "r2", "r3", leader=True),
         t.AbortedBatchFound(node="b1", producer_id=7, base_offset=1, last_offset=2, **PLACE)],
        set(),
    ),
    "an output that was aborted or never sent, while its input is done": (
        [*kept("r0", 0), *kept("r1", 1), promised("r0"), promised("r1"), promised("r2"), sent("r3"),
         *found("b1", "r0", "r1", leader=True),
         t.AbortedBatchFound(node="b1", producer_id=7, base_offset=1, last_offset=1, **PLACE)],
        {("lost", "r1"), ("lost", "r2")},
    ),
    "an output that was aborted and written again": (
        [*kept("r0", 0), promised("r0"), *found("b1", "r0", "r0", leader=True),
         t.AbortedBatchFound(node="b1", producer_id=7, base_offset=0, last_offset=0, **PLACE)],
        set(),
    ),
    "an output of a transaction that is open in the leader's log, and was written again": (
        [*found("b1", "r0", "r1", "r0", "r1", leader=True), *found("b2", "r0", "r1", "r0", "r1"),
         t.OpenBatchFound(node="b1", producer_id=7, base_offset=0, last_offset=0, **PLACE),
         t.OpenBatchFound(node="b2", producer_id=7, base_offset=1, last_offset=1, **PLACE)],
        {("duplicated", "r1")},
    ),
    "an output of a transaction that is open, while its input is done": (
        [*kept("r0", 0), promised("r0"), *found("b1", "r0", leader=True),
         t.OpenBatchFound(node="b1", producer_id=7, base_offset=0, last_offset=0, **PLACE)],
        set(),
    ),
    "what no log has, of transactions that were aborted, by a word of their coordinator or before it": (
        [*in_transaction("r0", 0), changed("PrepareAbort"), *in_transaction("r1", 1), changed("CompleteAbort"),
         changed("PrepareCommit"), changed("CompleteCommit"), *in_transaction("r2", 2), changed("Ongoing"),
         changed("CompleteAbort"), *in_transaction("r3", 3),
         *found("b1", leader=True)],
        {("lost", "r1"), ("lost", "r3")},
    ),
    "what no log has, of transactions of two producers": (
        [*in_transaction("r0", 0, 7), *in_transaction("r1", 1, 8), changed("PrepareCommit", 8),
         changed("PrepareAbort", 7),
         *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "what was sent again in another transaction, and what was aborted twice": (
        [*in_transaction("r0", 0, 7), *in_transaction("r1", 1, 7), changed("PrepareAbort", 7),
         *in_transaction("r0", 2, 8), changed("PrepareCommit", 8), *in_transaction("r1", 3, 8),
         changed("PrepareAbort", 8),
         *found("b1", leader=True)],
        {("lost", "r0")},
    ),
    "what was committed and has no marker any more": (
        [*in_transaction("r0", 0), changed("PrepareCommit"), changed("CompleteCommit"), *found("b1", "r0", leader=True),
         t.OpenBatchFound(node="b1", producer_id=7, base_offset=0, last_offset=0, **PLACE)],
        {("unseen", "r0")},
    ),
    "what was committed and whose marker is on its way, or was aborted": (
        [*in_transaction("r0", 0, 7), *in_transaction("r1", 1, 8), changed("PrepareCommit", 7),
         changed("PrepareAbort", 8), changed("CompleteAbort", 8), *found("b1", "r0", "r1", leader=True),
         t.OpenBatchFound(node="b1", producer_id=7, base_offset=0, last_offset=0, **PLACE),
         t.OpenBatchFound(node="b1", producer_id=8, base_offset=1, last_offset=1, **PLACE)],
        set(),
    ),
    "an output whose only copy will be aborted, and one that will be committed twice": (
        [*in_transaction("r0", 0, 7), *in_transaction("r1", 1, 8), *in_transaction("r1", 2, 8), promised("r0"),
         changed("PrepareAbort", 7), changed("PrepareCommit", 8), *found("b1", "r0", "r1", "r1", leader=True),
         *[t.OpenBatchFound(node="b1", producer_id=producer_id, base_offset=offset, last_offset=offset, **PLACE)
           for offset, producer_id in enumerate((7, 8, 8))]],
        {("lost", "r0"), ("duplicated", "r1")},
    ),
    "an invariant": (
        [t.InvariantBroken(invariant="S3", promised=True, finding="two leaders in one epoch")],
        {("invariant", "S3")},
    ),
    "an invariant that is not promised, and nothing else": (
        [t.InvariantBroken(invariant="S6", promised=False, finding="an old rule")],
        {("invariant", "S6")},
    ),
    "an invariant that is not promised, where the damage shows, and one that is": (
        [end_seen(5), end_seen(4), t.InvariantBroken(invariant="S6", promised=False, finding="an old rule"),
         t.InvariantBroken(invariant="S3", promised=True, finding="two leaders in one epoch")],
        {("offset-regression", "c1"), ("invariant", "S3")},
    ),
    "records that an operator has deleted are not lost, nor read and lost": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), read(0, "r0"), starts_at(2, "b1", "leader"),
         *found("b1", leader=True)],
        {("lost", "r2")},
    ),
    "the start of a follower's log says nothing of the leader's": (
        [*kept("r0", 0), starts_at(1, "b1", "follower"), *found("b1", leader=True)],
        {("lost", "r0")},
    ),
    "a record that a later one of its key replaced is compacted, and the last of a key is lost": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), *kept("r3", 3), keyed("a", 0, "r0"), keyed("b", 1, "r1"),
         keyed("a", 2, "r2"), keyed("b", 3, "r3"), compacted(0, 3), compacted(1, 3), *found("b1", leader=True)],
        {("lost", "r0"), ("lost", "r1"), ("lost", "r2"), ("lost", "r3")},
    ),
    "what compaction took is lost with the record that replaced it, unless an operator deleted that one": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), *kept("r3", 3), *kept("r4", 4), keyed("a", 0, "r0"),
         keyed("b", 1, "r1"), keyed("b", 2, "r2"), keyed("a", 3, "r3"), keyed("c", 4, "r4"), compacted(0, 4),
         compacted(1, 4), starts_at(3, "b1", "leader"), cut_to(3, 5), *kept("r4", 3), *found("b1", leader=True)],
        {("lost", "r0"), ("lost", "r3"), ("lost", "r4")},
    ),
    "what a tombstone replaced that was cut off": (
        [*kept("r0", 0), *kept("r1", 1), keyed("a", 0, "r0"), keyed("a", 1, "r1", tombstone=True), compacted(0, 2),
         cut_to(1, 2), *found("b1", leader=True)],
        {("lost", "r0"), ("lost", "r1")},
    ),
    "a tombstone that was compacted and cut off, where its key came back": (
        [*kept("r0", 0), *kept("r1", 1), keyed("a", 0, "r0"), keyed("a", 1, "r1", tombstone=True), compacted(1, 2),
         *found("b2", "r0", leader=True)],
        {("lost", "r1")},
    ),
    "what was lost with the record that replaced it, before their topic was deleted": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), keyed("a", 0, "r0"), keyed("b", 1, "r1"), keyed("a", 2, "r2"),
         compacted(0, 3), cut_to(2, 3), t.TopicDeleted(node="c1", topic="t"),
         *found("b1", leader=True)],
        {("lost", "r0"), ("lost", "r2")},
    ),
    "tombstones and what was aborted may go though they are the last of their key": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), keyed("a", 0, "r0", tombstone=True), keyed("b", 1, "r1"),
         keyed("c", 2, "r2"), compacted(0, 3), compacted(1, 3, aborted=True), compacted(2, 3),
         *found("b1", leader=True)],
        {("lost", "r2")},
    ),
    "a topic takes its records along, but not those of the next one of its name": (
        [*kept("r0", 0), t.TopicDeleted(node="c1", topic="t"), *kept("r1", 0),
         *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "what a broker appends before it hears that its topic is gone goes with it": (
        [t.LeadershipBegan(node="b1", leader_epoch=0, partition_epoch=0, isr=("b1",), log_end_offset=0,
                           high_watermark=0, **PLACE),
         t.TopicDeleted(node="c1", topic="t"), *kept("r0", 0),
         t.ReplicaDeleted(node="b1", previous_log_end_offset=1, **PLACE), *kept("r1", 0),
         *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "a new disk has no log of the former topic": (
        [*MADE, *kept("r0", 0), t.TopicDeleted(node="c1", topic="t"),
         t.DataLost(node="b1", size_bytes=-1, log_end_offset=0, cause=DataLossCause.DISK_REPLACED, **PLACE),
         *MADE, *kept("r1", 0), *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "a jump over what compaction took from the replica that was read, and another has": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), keyed("a", 0, "r0"), keyed("b", 1, "r1"), keyed("b", 2, "r2"),
         read(0, "r0"), compacted(1, 3), read(2, "r2"), *found("b2", "r0", "r1", "r2", leader=True)],
        set(),
    ),
    "a jump over what retention took from the replica that was read, and over what it left": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), *kept("r3", 3), read(0, "r0"), expires_to(2, "b1"),
         reset(3, "OFFSET_OUT_OF_RANGE"), read(3, "r3"), *found("b2", "r0", "r1", "r2", "r3", leader=True)],
        {("poll-skip", "c1")},
    ),
    "a jump over nothing but what retention took from the replica that was read": (
        [*kept("r0", 0), *kept("r1", 1), *kept("r2", 2), read(0, "r0"), expires_to(2, "b1"),
         reset(2, "OFFSET_OUT_OF_RANGE"), read(2, "r2"), *found("b2", "r0", "r1", "r2", leader=True)],
        set(),
    ),
    "what was cut off before retention came so far is lost": (
        [*kept("r0", 0), *kept("r1", 1), cut_to(1, 2), *kept("r2", 1), expires_to(2, "b1"), *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "what a disk had lost before an operator deleted what came after it is lost": (
        [*kept("r0", 0), *kept("r1", 1), opened_at(1), *kept("r2", 1), starts_at(2, "b1", "leader"),
         *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "what was cut off before its topic was deleted is lost": (
        [*kept("r0", 0), cut_to(0, 1), *kept("r1", 0), t.TopicDeleted(node="c1", topic="t"),
         *found("b1", leader=True)],
        {("lost", "r0")},
    ),
    "what was emptied and fetched once more goes with its topic": (
        [*kept("r0", 0), cut_to(5, 1), cut_to(0, 5), *kept("r0", 0),
         t.TopicDeleted(node="c1", topic="t"), *found("b1", leader=True)],
        set(),
    ),
    "what was sent again to the next topic of its name, and is not there either, is lost": (
        [*kept("r0", 0), t.TopicDeleted(node="c1", topic="t"), *kept("r0", 0), cut_to(0, 1),
         *found("b1", leader=True)],
        {("lost", "r0")},
    ),
    "of two batches with the same bytes one was deleted, and the other was cut off": (
        [*kept("r0", 0, TWIN), *kept("r1", 1, TWIN), starts_at(1, "b1", "leader"), cut_to(1, 2),
         *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "a batch was deleted, and another with the same bytes was appended after that": (
        [*kept("r0", 0, TWIN), starts_at(1, "b1", "leader"), *kept("r1", 1, TWIN), *found("b1", "r1", leader=True)],
        set(),
    ),
    "two leaders have the same bytes at one offset, and those of the deposed one were cut off": (
        [*kept_by("b2", "r0", 0, TWIN, 1)[:3], *kept_by("b1", "r1", 0, TWIN, 0), *kept_by("b2", "r0", 0, TWIN, 1)[3:],
         cut_to(0, 1), starts_at(1, "b2", "leader"), *found("b2", leader=True)],
        {("lost", "r1")},
    ),
    "the next topic of a name has a batch with the same bytes at the same offset": (
        [*kept("r0", 0, TWIN), t.TopicDeleted(node="c1", topic="t"),
         t.ReplicaDeleted(node="b1", previous_log_end_offset=1, **PLACE), *kept("r1", 0, TWIN),
         *found("b1", "r1", leader=True)],
        set(),
    ),
    "the next topic of a name has lost a batch with the same bytes at the same offset": (
        [*kept("r0", 0, TWIN), t.TopicDeleted(node="c1", topic="t"),
         t.ReplicaDeleted(node="b1", previous_log_end_offset=1, **PLACE), *kept("r1", 0, TWIN),
         cut_to(0, 1), *found("b1", leader=True)],
        {("lost", "r1")},
    ),
    "a batch that was stored twice because it was sent again, and both copies are deleted": (
        [*kept("r0", 0), *kept("r0", 1), starts_at(2, "b1", "leader"), *found("b1", leader=True)],
        set(),
    ),
    "a record that was never acked has the bytes of one that was, and was read before both were deleted": (
        [*kept("r0", 0, TWIN), *kept("r1", 1, TWIN)[:3], read(1, "r1"), starts_at(2, "b1", "leader"),
         *found("b1", leader=True)],
        set(),
    ),
    "of two batches with the same bytes compaction took one, and the other was cut off": (
        [*kept("r0", 0, TWIN), *kept("r1", 1, TWIN), *kept("r2", 2), keyed("a", 0, "r0", crc=TWIN),
         keyed("b", 1, "r1", crc=TWIN), keyed("a", 2, "r2"), cut_to(1, 3), *kept("r2", 1),
         keyed("a", 1, "r2"), compacted(0, 3),
         found_at("b1", 1, "r2"), ends("b1", 2)],
        {("lost", "r1")},
    ),
    "a record without a key gets its partition after it was sent": (
        [sent("r0", partition=-1), acked("r0", 0), *found("b1", "r0", leader=True)],
        set(),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def witnesses(spark: SparkSession, written: Written) -> dict[str, set[tuple[str, str]]]:
    """Spark's results for every case at once: each case is a run."""
    folders = [
        written(f"case-{n}", [(i / 10, event) for i, event in enumerate(events)])
        for n, (events, _) in enumerate(CASES.values())
    ]
    trace = read_trace(spark, folders)
    entries = final_entries(trace.final_log, trace.transaction)
    gone = gone_records(trace)
    fates = record_fates(trace, entries, known_of_records(trace, gone))
    verdict = anomalies(fates, entries, gone, trace)
    rows = verdict.select("run", "anomaly", "witness").collect()
    return {
        case: {(row["anomaly"], row["witness"]) for row in rows if row["run"] == f"case-{n}"}
        for n, case in enumerate(CASES)
    }


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES)
def test_verdict(case: str, witnesses: dict[str, set[tuple[str, str]]]) -> None:
    assert witnesses[case] == CASES[case][1]


@pytest.mark.soak
def test_what_the_producer_was_told(spark: SparkSession, written: Written) -> None:
    events = [
        sent("r0"), sent("r1"), sent("r2"), sent("r3", acks=0), sent("r4"), acked("r0", 0), failed("r1", True),
        failed("r2", False), *found("b1", "r0", leader=True),
    ]  # fmt: skip
    trace = read_trace(spark, [written("told", [(i / 10, event) for i, event in enumerate(events)])])
    fates = record_fates(trace, final_entries(trace.final_log, trace.transaction), known_in(trace)).orderBy("sent_seq")
    assert [tuple(row) for row in fates.select("record", "told", "present", "missing").collect()] == [
        ("r0", "acked", True, False),
        ("r1", "failed", False, False),
        ("r2", "unknown", False, True),
        ("r3", "unknown", False, True),
        ("r4", "unknown", False, True),
    ]


@pytest.mark.soak
def test_a_stall_that_never_ended(spark: SparkSession, written: Written) -> None:
    finished = t.RunFinished(lasted_us=0)
    facts = [(1.0, sent("r0")), (1.1, acked("r0", 0)), (2.0, sent("r1", partition=-1)), (9.0, finished)]
    trace = read_trace(spark, [written("stall", facts)])
    stalls = ResultTables(trace)["write_stalls"]
    assert [tuple(row) for row in stalls.select("from_us", "until_us", "recovered").collect()] == [
        (2_000_000, 9_000_000, False)
    ]


def test_a_stall_ends_with_its_client_which_waits_anew_once_it_is_started_again(
    spark: SparkSession, written: Written
) -> None:
    facts: list[Any] = [
        (1.0, sent("r0")), (3.0, t.NodeStopped(node="p1", how="kill")),
        (5.0, t.NodeStarted(node="p1", role="producer", incarnation=1)),
        (6.0, sent("r0")), (8.0, acked("r0", 0)), (8.5, sent("r1")),
        (9.5, t.NodeStopped(node="p1", how="kill")), (20.0, t.RunFinished(lasted_us=0)),
    ]  # fmt: skip
    stalls = ResultTables(read_trace(spark, [written("killed", facts)]))["write_stalls"].orderBy("from_us")
    assert [tuple(row) for row in stalls.select("from_us", "until_us", "recovered").collect()] == [
        (1_000_000, 3_000_000, False), (6_000_000, 8_000_000, True), (8_500_000, 9_500_000, False),
    ]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("partition", [0, -1])
def test_a_stall_is_found_whether_or_not_records_have_a_partition_when_they_are_sent(
    partition: int, spark: SparkSession, written: Written
) -> None:
    facts = [
        (1.0, sent("r0")), (1.1, acked("r0", 0)), (2.0, sent("r1", partition=partition)), (5.0, acked("r1", 1)),
        (9.0, t.RunFinished(lasted_us=0)),
    ]  # fmt: skip
    stalls = ResultTables(read_trace(spark, [written("long", facts)]))["write_stalls"]
    assert [tuple(row) for row in stalls.select("partition", "from_us", "until_us", "recovered").collect()] == [
        (0, 2_000_000, 5_000_000, True)
    ]
