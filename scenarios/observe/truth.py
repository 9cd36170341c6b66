"""Derive the committed log of every partition from the trace, as an observer with full knowledge sees it.

A record is committed once some leader has legally moved its high watermark past it. `end` is called trueHW in
replica/RULES.md. For each replica, `matched` is the offset up to which its log equals the committed log.

The committed log is shortened ("re-based") only in two cases, both of which Kafka permits by configuration:

* An unclean election. The log of the new leader then counts, and leaders of older epochs commit nothing more.
* A broker whose disk lost bytes (DataLost: power_off, tear, wipe) leads before it has caught up with the committed log.
  Without ELR the controller cannot know better (KIP-966), so the replica is `excused` until it has caught up.
  - The excuse also ends when the broker registers again and is in no ISR: it must then catch up before it may join.
  - With ELR the excuse ends with the registration after any disorderly stop. Only damage after an orderly stop is
    unknown to the controller. A member of the ELR is also excused from records that its leader has committed under an
    earlier min.insync.replicas (invariants/log.py).
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
    """The committed log of one partition.

    Attributes:
        end: records below this offset are committed (trueHW).
        peak: the highest `end` ever.
        leader_peaks, follower_peaks: highest high watermark of each broker as a leader, and as a follower.
        rebased_epoch: leader epoch of the last re-basing, -1 for none; leaders of older epochs no longer commit.
        corrupted: first offset of each broker's log that its disk has damaged unnoticed.
        damaged_in: leader epoch in which each broker's disk last lost bytes, or the broker last deleted its log.
        start: records below this offset were deleted on purpose, so no replica needs them.
        shortfall: number of committed records that the latest leader lacked without an excuse, 0 if it had all.
    """

    __slots__ = (
        "_batches",
        "corrupted",
        "damaged_in",
        "end",
        "excused",
        "follower_peaks",
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
        self.follower_peaks: dict[str, int] = {}
        self.unclean_epochs: dict[int, None] = {}
        self.rebased_epoch = -1
        self.shortfall = 0

    def awaits_rebasing(self, leader_epoch: int) -> bool:
        """Return True if an unclean election up to this epoch has not shortened the log yet, for lack of a leader."""
        return any(self.rebased_epoch < unclean <= leader_epoch for unclean in self.unclean_epochs)

    def at(self, offset: int) -> MirroredBatch | None:
        return None if offset >= self.end else self._batches.at(offset)

    def extend(self, log: ReplicaLog, end: int) -> None:
        """Commit the records of `log` up to the offset `end`."""
        for index in log.places_between(self.end, end):
            if log.columns.bases[index] >= self.end:
                self._batches.append(index)
        self.end = end
        self.peak = max(self.peak, end)

    def rebase(self, end: int, epoch: int) -> None:
        """Shorten the committed log to `end`. Leaders of epochs before `epoch` commit nothing from now on."""
        self._batches.cut_to(end)
        self.end = min(self.end, end)
        self.rebased_epoch = epoch
        for node, matched in self.matched.items():
            self.matched[node] = min(matched, self.end)

    def match(self, node: str, places: Iterable[int], are_gone: Callable[[int, int], bool]) -> None:
        """Compare further batches of a replica with the committed log, and advance the replica's matched offset.

        Args:
            places: column indexes of the batches, in offset order.
            are_gone: returns True if compaction has removed all batches with offsets [low, high).
        """
        columns = self._batches.columns
        matched = self.matched.get(node, 0)
        for index in places:
            base = columns.bases[index]
            if base > matched and are_gone(matched, base):
                matched = base
            if base > matched:
                break
            last = base + columns.counts[index]
            if last < matched:
                continue
            committed = -1 if matched >= self.end else self._batches.place_holding(matched)
            if committed < 0 or not columns.is_same_append(committed, index):
                break
            matched = last + 1
        self.matched[node] = matched
        if matched >= self.end:
            self.excused.pop(node, None)


def same_batch(mirrored_batch: MirroredBatch, other: MirroredBatch) -> bool:
    """Return True if two batches come from the same append by one leader.

    CRC and offset do not identify an append: a batch that is sent again after a failover has the CRC of its first copy,
    which a former leader may have at the same offset in an older epoch.
    """
    return (
        mirrored_batch.crc == other.crc
        and mirrored_batch.leader_epoch == other.leader_epoch
        and mirrored_batch.base_offset == other.base_offset
    )


def _nothing_is_gone(low: int, high: int) -> bool:
    return False


class Truth(Listener):
    """Listener that keeps the CommittedLog of every partition. It must be called before the invariants are checked."""

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
            # DeleteRecords may have left a part of a batch. A new follower begins there and gets the whole batch.
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
            matched = log.start  # The follower's log begins where the leader's does.
        committed.matched[event.node] = matched = min(matched, event.log_end_offset)
        if matched >= committed.end:
            committed.excused.pop(event.node, None)  # The lost records were not committed.
        if matched < committed.start <= event.log_end_offset:
            self._pass_start(event.topic, event.partition)  # The log now reaches the start.

    @on(trace.LogRecovered)
    def _recovered(self, row: TraceRow, event: trace.LogRecovered) -> None:
        """Compare a recovered log again, since it may have records that were committed while its machine was off."""
        committed = self.of(event.topic, event.partition)
        # The leader does not know of the loss, so the high watermark can pass the lost records while the broker is
        # in the ISR.
        lost_records = event.node in committed.excused and bool(self.mirror.dropped)
        self._end_stated(row, event)
        if event.log_end_offset <= committed.corrupted.get(event.node, -1):
            del committed.corrupted[event.node]
            committed.excused[event.node] = None  # Recovery truncated the log at the batch that the disk had damaged.
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
            return  # The leader was deposed before it began to lead.
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
        """Handle expired records on any replica. If this replica leads later, others begin at its log start."""
        committed = self.of(event.topic, event.partition)
        committed.start = max(committed.start, event.log_start_offset)
        self._pass_start(event.topic, event.partition)

    def _pass_start(self, topic: str, number: int) -> None:
        """Skip records below the start of the committed log, where replicas may differ.

        The leader may have removed these records before they could be compared.
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
        """Record that a leader serves the records below its high watermark."""
        if high_watermark > committed.leader_peaks.get(node, 0):
            committed.leader_peaks[node] = high_watermark

    @on(trace.FollowingBegan, trace.HighWatermarkLearned)
    def _served_by_follower(self, row: TraceRow, event: trace.FollowingBegan | trace.HighWatermarkLearned) -> None:
        """Record that a follower serves the records below its high watermark (KIP-392)."""
        peaks = self.of(event.topic, event.partition).follower_peaks
        if event.high_watermark > peaks.get(event.node, 0):
            peaks[event.node] = event.high_watermark

    @on(trace.DataLost)
    def _data_lost(self, row: TraceRow, event: trace.DataLost) -> None:
        committed, partition = self.of(event.topic, event.partition), self.partition(event.topic, event.partition)
        committed.excused[event.node] = None
        committed.damaged_in[event.node] = -1 if partition is None else partition.leader_epoch

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """Drop the match of a deleted replica, which may be assigned and elected again before it has a new log."""
        committed, partition = self.of(event.topic, event.partition), self.partition(event.topic, event.partition)
        committed.matched.pop(event.node, None)
        committed.damaged_in[event.node] = -1 if partition is None else partition.leader_epoch

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
