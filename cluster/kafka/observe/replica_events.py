"""Derives the events of one broker's replicas: log contents from the files, roles from the console.

A console line states a log end that may be older or newer than the last check of the files. So batches below that end
are put before the line and all other batches after it, and the line's event states the log end in the files. The log
contents in the trace are therefore always those of the files.

Source: Partition.scala, LogManager.scala; a log's end after a start is that of its recovery
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from cluster.kafka.observe.console_lines import (
    ConsoleLine,
    SaidCleanness,
    SaidException,
    SaidFollower,
    SaidLeader,
    SaidLoaded,
    SaidRefusal,
    SaidShrink,
    SaidTruncation,
)
from cluster.kafka.observe.log_tail import LogFiles, LogTail, TailBatch
from cluster.kafka.observe.observed import CONSOLE, LOG_DIRECTORY, WIRE, Key, Seen, leader_key
from controller.image import PartitionRegistration
from replica.causes import IsrCause, LagCause, TruncationCause
from replica.errors import ErrorCode
from replica.ids import NO_BROKER, LeaderEpoch, Names, Offset, PartitionEpoch, TopicPartition
from replica.trace import events as trace

LEADER, FOLLOWER = "leader", "follower"


class SizedLog(LogFiles, Protocol):
    @property
    def size(self) -> int:
        """The size of all segments in bytes."""


class ReplicaDisk(Protocol):
    """The replicas in a broker's directory."""

    def logs(self) -> Mapping[TopicPartition, SizedLog]: ...

    def checkpointed_high_watermark(self, topic_partition: TopicPartition) -> Offset: ...


Decided = Callable[[TopicPartition], PartitionRegistration | None]


class Replica:
    """The state of one replica after its latest event.

    Attributes:
        end: log end offset.
        role: None until the broker's console shows it.
        leader: leader that the replica follows.
        loads: True if the broker has started and its recovery may still truncate this log.
        size_at_start: size of the log's files in bytes when the broker started.
        waiting: observed changes of the files that are not events yet: offsets of truncations, and appended batches.
        truncation: reason of the next truncation, from the console; None if the console has no line about it yet.
    """

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.tail = LogTail()
        self.start: Offset = 0
        self.end: Offset = 0
        self.high_watermark: Offset = 0
        self.role: str | None = None
        self.leader: str | None = None
        self.leader_epoch: LeaderEpoch = -1
        self.loads = False
        self.size_at_start = 0
        self.waiting: deque[TailBatch | Offset] = deque()
        self.truncation: str | None = None


class ReplicaEvents:
    """Derives the events of one broker's replicas.

    Args:
        decided: returns the latest state of a partition that a controller has decided.
    """

    def __init__(self, node: str, disk: ReplicaDisk, names: Names, *, decided: Decided) -> None:
        self.node = node
        self.replicas: dict[TopicPartition, Replica] = {}
        self._disk = disk
        self._names = names
        self._decided = decided
        self._was_clean = False
        self._refused: TopicPartition | None = None

    def started(self) -> None:
        """Handle a broker's start.

        Changes of the disk while the broker was stopped, such as injected faults, are no events of the broker. Its
        recovery shows them.
        """
        logs = self._disk.logs()
        self._was_clean = False
        for name in [name for name in self.replicas if name not in logs]:
            del self.replicas[name]
        for name, log in logs.items():
            replica = self._replica(name)
            replica.loads, replica.size_at_start, replica.role = True, log.size, None

    def stopped(self) -> None:
        for replica in self.replicas.values():
            replica.role = None

    def _replica(self, name: TopicPartition) -> Replica:
        known = self.replicas.get(name)
        if known is None:
            known = self.replicas[name] = Replica(name)
        return known

    # ------------------------------------------------------------------------------------------------------- files

    def look(self) -> Iterator[Seen]:
        """Check the files, and yield an event for each deleted replica.

        `said` and `rest` yield the events of other changes.
        """
        logs = self._disk.logs()
        for name in [name for name in self.replicas if name not in logs]:
            yield self._deleted(self.replicas.pop(name))
        for name, log in logs.items():
            replica = self._replica(name)
            if not replica.loads:
                self._note(replica, log)

    @staticmethod
    def _note(replica: Replica, log: LogFiles) -> None:
        change = replica.tail.look(log)
        if change.cut_to is not None:
            replica.waiting.append(change.cut_to)
        replica.waiting += change.appended

    def rest(self) -> Iterator[Seen]:
        """Yield the events of all observed changes of the files that are left."""
        for replica in self.replicas.values():
            while replica.waiting:
                yield self._next(replica)
            if replica.tail.start > replica.start and not replica.loads:
                yield from self._start_moved(replica)

    def _below(self, replica: Replica, end: Offset) -> Iterator[Seen]:
        """Yield the events that precede a console line in which the log ends at `end`."""
        while replica.waiting:
            first = replica.waiting[0]
            is_before = replica.truncation is not None if isinstance(first, int) else first.header.base_offset < end
            if not is_before:
                return
            yield self._next(replica)

    def _next(self, replica: Replica, wall_ms: int | None = None) -> Seen:
        first = replica.waiting.popleft()
        return self._cut(replica, first, wall_ms) if isinstance(first, int) else self._appended(replica, first)

    def _appended(self, replica: Replica, batch: TailBatch) -> Seen:
        header = batch.header
        replica.end = batch.end_offset
        leads = replica.role == LEADER and header.leader_epoch == replica.leader_epoch
        event = trace.BatchAppended(
            self.node,
            *replica.topic_partition,
            role=LEADER if leads else FOLLOWER,
            leader_epoch=header.leader_epoch,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            log_end_offset=replica.end,
            size_bytes=header.size_bytes,
            crc=batch.crc,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
        )
        return Seen(event, LOG_DIRECTORY)

    def _cut(self, replica: Replica, end: Offset, wall_ms: int | None) -> Seen:
        name, words = replica.topic_partition, replica.truncation
        before, high_watermark = replica.end, replica.high_watermark
        replica.end, replica.high_watermark, replica.truncation = end, min(high_watermark, end), None
        cause, epoch, leader_end = _why_cut(words or "")
        event = trace.LogTruncated(
            self.node,
            *name,
            leader_epoch=replica.leader_epoch,
            log_end_offset=end,
            previous_log_end_offset=before,
            high_watermark=replica.high_watermark,
            previous_high_watermark=high_watermark,
            cause=cause,
            leader=replica.leader,
            diverging_epoch=epoch,
            leader_end_offset=leader_end,
        )
        return Seen(event, LOG_DIRECTORY, wall_ms, after=self._role_key(name))

    def _deleted(self, replica: Replica) -> Seen:
        name = replica.topic_partition
        event = trace.ReplicaDeleted(self.node, *name, previous_log_end_offset=replica.end)
        return Seen(event, LOG_DIRECTORY)

    def _start_moved(self, replica: Replica) -> Iterator[Seen]:
        name, start = replica.topic_partition, replica.tail.start
        replica.start = start
        if start <= replica.end:  # Otherwise a follower has dropped its log and begins where its leader does.
            event = trace.LogStartOffsetAdvanced(
                self.node,
                *name,
                role=replica.role or FOLLOWER,
                leader_epoch=replica.leader_epoch,
                log_start_offset=start,
            )
            yield Seen(event, LOG_DIRECTORY)

    def _role_key(self, name: TopicPartition) -> Key:
        """Return the key of the latest console line about a replica's role."""
        return ("role", self.node, *name)

    # ----------------------------------------------------------------------------------------------------- console

    def said(self, line: ConsoleLine) -> Iterator[Seen]:
        said = line.said
        match said:
            case SaidLeader() | SaidFollower():
                replica = self._replica(said.topic_partition)
                yield from self._opened(replica, line.wall_ms)
                yield from self._below(replica, said.offset)
                yield (
                    self._led(replica, said, line)
                    if isinstance(said, SaidLeader)
                    else self._followed(replica, said, line)
                )
            case SaidLoaded():
                yield from self._opened(self._replica(said.topic_partition), line.wall_ms)
            case SaidCleanness():
                self._was_clean = said.was_clean
            case SaidTruncation():
                replica = self._replica(said.topic_partition)
                replica.truncation = said.words
                if replica.waiting and isinstance(replica.waiting[0], int):
                    yield self._next(replica, line.wall_ms)
            case SaidShrink():
                yield self._proposed(said, line)
            case SaidRefusal():
                self._refused = said.topic_partition
            case SaidException():
                yield from self._refusal(said, line)

    def _opened(self, replica: Replica, wall_ms: int) -> Iterator[Seen]:
        """Yield the event that the broker opened a log after its start.

        Further batches in the files were appended later.
        """
        log = self._disk.logs().get(replica.topic_partition)
        if log is None or not replica.loads:
            return
        replica.loads = False
        change = replica.tail.look(log)
        cut_bytes = max(0, replica.size_at_start - log.size)
        name, before = replica.topic_partition, replica.end
        replica.end = before if change.cut_to is None else change.cut_to
        replica.start = replica.tail.start
        replica.high_watermark = min(self._disk.checkpointed_high_watermark(name), replica.end)
        replica.waiting = deque(change.appended)
        event = trace.LogRecovered(
            self.node,
            *name,
            clean=self._was_clean,
            log_start_offset=replica.start,
            log_end_offset=replica.end,
            high_watermark=replica.high_watermark,
            size_bytes=cut_bytes,
        )
        yield Seen(event, CONSOLE, wall_ms)

    def _led(self, replica: Replica, said: SaidLeader, line: ConsoleLine) -> Seen:
        name = said.topic_partition
        replica.role, replica.leader_epoch = LEADER, said.leader_epoch
        replica.high_watermark = min(said.high_watermark, replica.end)
        event = trace.LeadershipBegan(
            self.node,
            *name,
            leader_epoch=said.leader_epoch,
            partition_epoch=self._partition_epoch(name, said.partition_epoch),
            isr=tuple(self._names(broker_id) for broker_id in said.isr),
            log_end_offset=replica.end,
            high_watermark=replica.high_watermark,
        )
        key = leader_key(name.topic, name.partition, said.leader_epoch)
        return Seen(event, CONSOLE, line.wall_ms, self._role_key(name), key)

    def _followed(self, replica: Replica, said: SaidFollower, line: ConsoleLine) -> Seen:
        name = said.topic_partition
        replica.role, replica.leader_epoch = FOLLOWER, said.leader_epoch
        replica.high_watermark = min(said.high_watermark, replica.end)
        leader = replica.leader = self._leader_of(said)
        event = trace.FollowingBegan(
            self.node,
            *name,
            broker=leader,
            leader_epoch=said.leader_epoch,
            partition_epoch=self._partition_epoch(name, said.partition_epoch),
            log_end_offset=replica.end,
            high_watermark=replica.high_watermark,
        )
        key = leader_key(name.topic, name.partition, said.leader_epoch)
        return Seen(event, CONSOLE, line.wall_ms, self._role_key(name), key)

    def _partition_epoch(self, name: TopicPartition, said: PartitionEpoch | None) -> PartitionEpoch:
        known = self._decided(name)
        if said is not None:
            return said
        return -1 if known is None else known.partition_epoch

    def _leader_of(self, said: SaidFollower) -> str | None:
        """Return the leader that the line names, else the leader in the latest decision; None if there is none."""
        known = self._decided(said.topic_partition)
        leader = said.leader if said.leader is not None or known is None else known.leader
        return None if leader is None or leader == NO_BROKER else self._names(leader)

    def _proposed(self, said: SaidShrink, line: ConsoleLine) -> Seen:
        name = said.topic_partition
        caught_up = {int(broker_id): int(since_ms) for broker_id, _, since_ms in _LAG.findall(said.words)}
        leaving = [broker_id for broker_id in said.previous_isr if broker_id not in said.isr]
        lags_us = {item: (line.wall_ms - caught_up.get(item, line.wall_ms)) * 1000 for item in leaving}
        event = trace.IsrProposed(
            self.node,
            *name,
            leader_epoch=self._replica(name).leader_epoch,
            partition_epoch=self._partition_epoch(name, None),
            isr=tuple(self._names(broker_id) for broker_id in said.isr),
            previous_isr=tuple(self._names(broker_id) for broker_id in said.previous_isr),
            cause=IsrCause.LAG,
            lag_causes=tuple(LagCause.NOT_CAUGHT_UP for _ in lags_us),
            lags=tuple(lags_us.values()),
        )
        return Seen(event, CONSOLE, line.wall_ms)

    def _refusal(self, said: SaidException, line: ConsoleLine) -> Iterator[Seen]:
        name, self._refused = self._refused, None
        error = re.sub(r"(?<!^)(?=[A-Z])", "_", said.name).upper()
        if name is not None and error in ErrorCode.__members__:
            event = trace.ProduceRefused(
                self.node,
                *name,
                peer="",
                error=error,
                message=said.message or said.name,
            )
            yield Seen(event, CONSOLE, line.wall_ms)

    # -------------------------------------------------------------------------------------------- high watermarks

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the high watermarks of all replicas whose role is known."""
        known = self.replicas.items()
        return {name: replica.high_watermark for name, replica in known if replica.role and not replica.loads}

    def sampled(self, name: TopicPartition, high_watermark: Offset) -> Iterator[Seen]:
        """Yield an event if a sampled high watermark is new."""
        replica = self.replicas.get(name)
        if replica is None or replica.loads or replica.role is None or high_watermark == replica.high_watermark:
            return
        before = replica.high_watermark
        if replica.role == LEADER and high_watermark < before:
            return  # A leader's high watermark never falls: the sample is older than the line about its role.
        replica.high_watermark = high_watermark
        kind = trace.HighWatermarkAdvanced if replica.role == LEADER else trace.HighWatermarkLearned
        event = kind(
            self.node,
            *name,
            role=replica.role,
            leader_epoch=replica.leader_epoch,
            high_watermark=high_watermark,
            previous_high_watermark=before,
            log_end_offset=replica.end,
        )
        yield Seen(event, WIRE)


def _why_cut(words: str) -> tuple[TruncationCause | None, LeaderEpoch | None, Offset | None]:
    """Return the cause of a truncation, with the epoch that decided it and the end of this epoch on the leader.

    Args:
        words: reason in the fetcher's console line, empty if unknown.

    Returns:
        None for each part that is unknown.
    """
    if match := _LEADER_ENDS.search(words):
        return TruncationCause.EPOCH_END, int(match[1]), int(match[2])
    return (TruncationCause.NO_EPOCHS if _OWN_HIGH_WATERMARK in words else None), None, None


_LEADER_ENDS = re.compile(r"due to leader epoch and offset .*leaderEpoch=(\d+), endOffset=(\d+)")
_OWN_HIGH_WATERMARK = "due to local high watermark"
_LAG = re.compile(r"brokerId: (\d+), endOffset: (-?\d+), lastCaughtUpTimeMs: (\d+)")
