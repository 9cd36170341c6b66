"""The committed log of every partition, as an observer who sees everything knows it.

A record is committed once some leader has legally moved its high watermark past it; `end` is what
replica/RULES.md calls trueHW. For each replica `matched` says how far its log equals the committed one.

The committed log is only ever shortened ("re-based") in two ways, both of which Kafka permits by configuration:

* an unclean election: from then on the chosen broker's log is the truth, and what a leader of an older epoch still
  commits does not count;
* a broker whose disk lost bytes (DataLost: power_off, tear, wipe) leads before it has caught up with the committed log;
  without ELR the controller cannot know better (KIP-966). Until it has caught up, such a replica is `excused`; the
  excuse also ends when the broker registers anew and is in no ISR: from then on it must catch up before it may join.
  With ELR that is so however it went down, unless in order: only damage after an orderly stop goes unseen. A member of
  the ELR is excused as well from what its leader has committed by an earlier min.insync.replicas (invariants/log.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from replica.ids import TopicPartition
from replica.rules import Rules
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from scenarios.observe.columns.batch_columns import BatchColumns, BatchList, MirroredBatch
from scenarios.observe.mirror import LogMirror, ReplicaLog
from scenarios.observe.view import ClusterView, PartitionView


class CommittedLog:
    """One partition's committed log.

    end: trueHW      peak: the highest `end` ever      leader_peaks: the highest HW each broker has had as a leader
    rebased_epoch: leader epoch of the last re-basing, -1 for none; leaders of older epochs no longer commit
    corrupted: first offset that each broker's disk has damaged unnoticed
    damaged_in: leader epoch in which each broker's disk last lost bytes
    start: records below were deleted on purpose, so no replica has to hold them
    shortfall: how many records the latest leader lacked without an excuse (0: complete)
    """

    __slots__ = (
        "_batches",
        "corrupted",
        "damaged_in",
        "end",
        "excused",
        "leader_peaks",
        "matched",
        "peak",
        "rebased_epoch",
        "shortfall",
        "start",
        "unclean_epochs",
    )

    def __init__(self, columns: BatchColumns) -> None:
        self._batches = BatchList(columns)
        self.start = 0
        self.end = 0
        self.peak = 0
        self.matched: dict[str, int] = {}
        self.excused: dict[str, None] = {}
        self.corrupted: dict[str, int] = {}
        self.damaged_in: dict[str, int] = {}
        self.leader_peaks: dict[str, int] = {}
        self.unclean_epochs: dict[int, None] = {}
        self.rebased_epoch = -1
        self.shortfall = 0

    def awaits_rebasing(self, leader_epoch: int) -> bool:
        """Whether an unclean election up to this epoch was the last word, and no broker has begun to lead since."""
        return any(self.rebased_epoch < unclean <= leader_epoch for unclean in self.unclean_epochs)

    def at(self, offset: int) -> MirroredBatch | None:
        return None if offset >= self.end else self._batches.at(offset)

    def extend(self, log: ReplicaLog, end: int) -> None:
        """The records of `log` from here to `end` are committed."""
        for place in log.places_between(self.end, end):
            if log.columns.bases[place] >= self.end:
                self._batches.append(place)
        self.end = end
        self.peak = max(self.peak, end)

    def rebase(self, end: int, epoch: int) -> None:
        """The committed log ends at `end` now; older leader epochs commit nothing from now on."""
        self._batches.cut_to(end)
        self.end = min(self.end, end)
        self.rebased_epoch = epoch
        for node, matched in self.matched.items():
            self.matched[node] = min(matched, self.end)

    def match(self, node: str, places: Iterable[int], are_gone: Callable[[int, int], bool]) -> None:
        """Compare further batches of a replica, in offset order, from where it matched so far.

        are_gone: whether compaction has taken all batches of a range of offsets
        """
        columns = self._batches.columns
        matched = self.matched.get(node, 0)
        for place in places:
            base = columns.bases[place]
            if base > matched and are_gone(matched, base):
                matched = base
            if base > matched:
                break
            last = base + columns.counts[place]
            if last < matched:
                continue
            committed = -1 if matched >= self.end else self._batches.place_holding(matched)
            if committed < 0 or not columns.is_same_append(committed, place):
                break
            matched = last + 1
        self.matched[node] = matched
        if matched >= self.end:
            self.excused.pop(node, None)


def same_batch(one: MirroredBatch, other: MirroredBatch) -> bool:
    """The same append of one leader. A batch that was sent again after a failover has the CRC of its first copy, which
    a former leader may hold at the same offset in an older epoch: that copy is not the committed one."""
    return one.crc == other.crc and one.leader_epoch == other.leader_epoch and one.base_offset == other.base_offset


def _nothing_is_gone(low: int, high: int) -> bool:
    return False


class Truth(Listener):
    """Keeps the CommittedLog of every partition; it takes an event before the invariants do."""

    def __init__(self, view: ClusterView, mirror: LogMirror, rules: Rules) -> None:
        self.view = view
        self.mirror = mirror
        self.rules = rules
        self.committed: dict[TopicPartition, CommittedLog] = {}

    def of(self, topic: str, number: int) -> CommittedLog:
        known = self.committed.get((topic, number))  # type: ignore[call-overload]  # equal to, and hashes as, the key
        if known is None:
            known = self.committed[TopicPartition(topic, number)] = CommittedLog(
                self.mirror.columns((topic, number))  # type: ignore[arg-type]
            )
        return known  # type: ignore[no-any-return]

    def _are_gone(self, topic: str, number: int) -> Callable[[int, int], bool]:
        compacted = self.mirror.sent.compacted
        return partial(compacted.are_gone, TopicPartition(topic, number)) if compacted.are_any else _nothing_is_gone

    def partition(self, topic: str, number: int) -> PartitionView | None:
        return self.view.partitions.get((topic, number))  # type: ignore[call-overload, no-any-return]

    @on(trace.BatchAppended)
    def _batch_appended(self, row: TraceRow, event: trace.BatchAppended) -> None:
        committed = self.of(event.topic, event.partition)
        matched = committed.matched.get(event.node, 0)
        if event.base_offset < committed.end and (
            # DeleteRecords may have left a part of a batch: a new follower begins there and is sent the whole batch.
            event.base_offset <= matched <= event.last_offset
            or (
                matched < event.base_offset and self._are_gone(event.topic, event.partition)(matched, event.base_offset)
            )
        ):
            log = self.mirror.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
            committed.match(event.node, (log.place_at(-1),), self._are_gone(event.topic, event.partition))

    @on(trace.LogTruncated, trace.FollowingBegan, trace.LeadershipBegan)
    def _end_stated(self, row: TraceRow, event: Any) -> None:
        committed = self.of(event.topic, event.partition)
        matched = committed.matched.get(event.node, 0)
        log = self.mirror.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        if matched < log.start <= committed.start:
            matched = log.start  # It begins where the leader's log does.
        committed.matched[event.node] = matched = min(matched, event.log_end_offset)
        if matched >= committed.end:
            committed.excused.pop(event.node, None)  # what its disk lost was not committed
        if matched < committed.start <= event.log_end_offset:
            self._pass_start(event.topic, event.partition)  # It has reached the start by now.

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        """The content of a disk is known again, and may match records that were committed while its machine was off."""
        committed = self.of(event.topic, event.partition)
        # Its leader may count on the lost records: the high watermark can still rise over them while it is in the ISR.
        lost_records = event.node in committed.excused and bool(self.mirror.dropped)
        self._end_stated(row, event)
        if event.log_end_offset <= committed.corrupted.get(event.node, -1):
            del committed.corrupted[event.node]
            committed.excused[event.node] = None  # recovery cut at the batch that the disk had damaged
        log = self.mirror.log((event.topic, event.partition), event.node)  # type: ignore[arg-type]
        places = log.places_between(committed.matched[event.node], log.end)
        committed.match(event.node, places, self._are_gone(event.topic, event.partition))
        if lost_records:
            committed.excused[event.node] = None

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        committed = self.of(event.topic, event.partition)
        partition = self.partition(event.topic, event.partition)
        committed.shortfall = 0
        self._served_below(committed, event.node, event.high_watermark)
        if partition is not None and event.leader_epoch < partition.leader_epoch:
            return  # stale before it began
        matched = committed.matched[event.node]
        unclean = committed.awaits_rebasing(event.leader_epoch)
        if matched < committed.end:
            if not unclean and event.node not in committed.excused:
                committed.shortfall = committed.end - matched
            committed.rebase(matched, event.leader_epoch)
        elif unclean:
            committed.rebase(committed.end, event.leader_epoch)
        committed.excused.pop(event.node, None)

    @on(trace.LogStartOffsetAdvanced)
    def _log_start_advanced(self, row: TraceRow, event: trace.LogStartOffsetAdvanced) -> None:
        if event.role == "leader":
            committed = self.of(event.topic, event.partition)
            committed.start = max(committed.start, event.log_start_offset)
            self._pass_start(event.topic, event.partition)

    @on(trace.RecordsExpired)
    def _records_expired(self, row: TraceRow, event: trace.RecordsExpired) -> None:
        """Of any replica: it may lead later, and others begin where it does."""
        committed = self.of(event.topic, event.partition)
        committed.start = max(committed.start, event.log_start_offset)
        self._pass_start(event.topic, event.partition)

    def _pass_start(self, topic: str, number: int) -> None:
        """Nothing is asked of what lies below the start: a replica may have other records there, for its leader dropped
        its own before they could be compared. It drops them when it hears of the start.
        """
        committed = self.of(topic, number)
        for node, log in self.mirror.logs.get((topic, number), {}).items():  # type: ignore[call-overload]
            if committed.matched.get(node, 0) < committed.start <= log.end and not log.doubtful:
                committed.matched[node] = committed.start
                places = log.places_between(committed.start, log.end)
                committed.match(node, places, self._are_gone(topic, number))

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for name in [name for name in self.committed if name.topic == event.topic]:
            del self.committed[name]

    @on(trace.LeaderElected)
    def _leader_elected(self, row: TraceRow, event: trace.LeaderElected) -> None:
        if not event.clean:
            self.of(event.topic, event.partition).unclean_epochs[event.leader_epoch] = None

    @on(trace.HighWatermarkAdvanced)
    def _high_watermark_advanced(self, row: TraceRow, event: trace.HighWatermarkAdvanced) -> None:
        if event.role != "leader":
            return
        committed = self.of(event.topic, event.partition)
        node, hw = event.node, event.high_watermark
        self._served_below(committed, node, hw)
        if hw <= committed.end or event.leader_epoch < committed.rebased_epoch:
            return
        before = committed.end
        logs = self.mirror.logs.get((event.topic, event.partition), {})  # type: ignore[call-overload]
        if node in logs and committed.matched.get(node, 0) >= before:
            committed.extend(logs[node], hw)
            for other, log in logs.items():
                if committed.matched.get(other, 0) == before and not log.doubtful:
                    places = log.places_between(before, hw)
                    committed.match(other, places, self._are_gone(event.topic, event.partition))

    @staticmethod
    def _served_below(committed: CommittedLog, node: str, high_watermark: int) -> None:
        """A leader serves the records below the high watermark it begins with, and all records that it commits."""
        if high_watermark > committed.leader_peaks.get(node, 0):
            committed.leader_peaks[node] = high_watermark

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        committed, partition = self.of(event.topic, event.partition), self.partition(event.topic, event.partition)
        committed.excused[event.node] = None
        committed.damaged_in[event.node] = -1 if partition is None else partition.leader_epoch

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """It may be a replica again, and be elected, before it has a log."""
        self.of(event.topic, event.partition).matched.pop(event.node, None)

    @on(trace.BatchCorrupted)
    def _corrupted(self, row: TraceRow, event: trace.BatchCorrupted) -> None:
        corrupted = self.of(event.topic, event.partition).corrupted
        corrupted[event.node] = min(event.offset, corrupted.get(event.node, event.offset))

    @on(trace.BrokerRegistered)
    def _registered(self, row: TraceRow, event: trace.BrokerRegistered) -> None:
        if event.broker is None or self.view.nodes[event.broker].registered_again:
            return
        is_seen = self.rules.elr and self.view.nodes[event.broker].came_in_disorder
        for (topic, number), committed in self.committed.items():
            partition = self.partition(topic, number)
            if event.broker not in committed.excused or partition is None:
                continue
            if is_seen or (event.broker not in partition.isr and event.broker not in partition.eligible):
                del committed.excused[event.broker]
