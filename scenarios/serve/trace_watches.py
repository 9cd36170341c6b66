"""Listeners of a live cluster that report lost records, deleted topics and the progress of judging at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import format_record_names
from scenarios.observe.story import StoryLine
from scenarios.observe.wording import count_of
from scenarios.terminal.safe_output import OutputFailed

if TYPE_CHECKING:
    from cluster.live.client_tap import ClientTap
    from scenarios.observe.mirror import LogMirror
    from scenarios.observe.view import ClusterView
    from scenarios.terminal.progress import ProgressLine

ACKED_KEPT = 10_000
"""Number of a partition's latest acked records that are compared with a new leader's log during the run.

The verdict at the end compares all records.
"""
NO_EPOCH = -1
EPOCHS_KEPT = 100
"""Number of leader epochs that are kept per partition, the latest ones."""
_READING_SHARE = 0.7
"""Share of the progress of judging that stands for reading the final logs."""


class DeletionWatch(Listener):
    """Listener that reports deleted topics to the observer of client traffic (`tap`)."""

    def __init__(self) -> None:
        self.tap: ClientTap | None = None

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        if self.tap is not None:
            self.tap.topic_deleted(event.topic)


class JudgingProgress(Listener):
    """Listener that shows the progress of judging: the share of the final logs that has been read."""

    def __init__(self) -> None:
        self._line: ProgressLine | None = None
        self._all = 0
        self._found = 0

    def begin(self, view: ClusterView, line: ProgressLine) -> None:
        states = (state for name, state in view.partitions.items() if name.topic not in INTERNAL_TOPICS)
        replicas = (replica for state in states for replica in state.replicas.values())
        self._all = sum(replica.log_end_offset - replica.log_start_offset for replica in replicas)
        self._line = line

    @on(trace.LogEntriesFound)
    def _entries(self, row: TraceRow, event: trace.LogEntriesFound) -> None:
        self._found += len(event.records)
        self._show(min(self._found / max(self._all, 1), 1), f"reading the logs: {self._found:,} records")

    @on(trace.RunFinished)
    def _finished(self, row: TraceRow, event: trace.RunFinished) -> None:
        self._show(1, "comparing the logs with the acks")

    def _show(self, fraction: float, what: str) -> None:
        if self._line is not None:
            with suppress(OSError, OutputFailed):  # The terminal may be closed.
                self._line.show(_READING_SHARE * fraction, what)


class LossWatch(Listener):
    """Listener that reports acked records that a new leader lacks, and keeps them in `gone`.

    A record counts as gone in three cases: the new leader's log ends before the record's offset, that log has no
    records of the record's epoch, or a former leader acked the record at an offset at which a later leader's epoch had
    begun. The record is no longer gone if a later leader's log has it, or if it is acked again after a retry.

    If a deleted topic is created again, records that were acked before the deletion do not count, nor do records acked
    by a broker that has not learned of the deletion.
    """

    def __init__(self, say_line: SayLine) -> None:
        self.gone: dict[TopicPartition, dict[str, tuple[int, int]]] = {}
        """(offset, leader epoch) of each acked record that is gone, by partition and name of the record."""
        self.mirror: LogMirror | None = None
        """The logs of all replicas as the trace shows them. If None, only the ends of logs are compared."""
        self._say_line = say_line
        self._acked: dict[TopicPartition, deque[tuple[int, str, int]]] = {}
        """(offset, name, leader epoch) of the latest acked records of each partition."""
        self._starts: dict[TopicPartition, list[tuple[int, int]]] = {}
        """(leader epoch, start offset) of the latest epochs of each partition."""
        self._leaders: dict[TopicPartition, dict[str, int]] = {}
        """The latest epoch in which each broker led a partition."""
        self._former: dict[tuple[TopicPartition, str], None] = {}
        """Brokers that have led a deleted partition of this name and have not learned of the deletion."""

    @on(trace.RecordAcked)
    def _record_acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        partition = TopicPartition(event.topic, event.partition)
        if (partition, event.peer) in self._former:
            return
        epoch = self._leaders.get(partition, {}).get(event.peer, NO_EPOCH)
        starts = self._starts.get(partition, ())
        if epoch != NO_EPOCH and any(later > epoch and start <= event.offset for later, start in starts):
            self.gone.setdefault(partition, {})[event.record] = event.offset, epoch
            text = (
                f"{event.peer} acked {event.record} of {partition}, but is no longer the leader: {event.record} is gone"
            )
            self._say_line(StoryLine(row.at_us, "lost", text))
            return
        self._acked.setdefault(partition, deque(maxlen=ACKED_KEPT)).append((event.offset, event.record, epoch))
        if event.record in self.gone.get(partition, ()):
            self._take_back(partition, [event.record])
            text = f"{event.peer} acked {event.record} of {partition} again: {event.record} is not gone"
            self._say_line(StoryLine(row.at_us, "note", text))

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for partition in [name for name in self._leaders if name.topic == event.topic]:
            for known in (self._acked, self._starts, self.gone):
                known.pop(partition, None)
            self._former.update(((partition, node), None) for node in self._leaders.pop(partition))

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """Note that a broker has learned of a partition's deletion."""
        self._former.pop((TopicPartition(event.topic, event.partition), event.node), None)

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        partition, end = TopicPartition(event.topic, event.partition), event.log_end_offset
        self._leaders.setdefault(partition, {})[event.node] = event.leader_epoch
        self._starts[partition] = [*self._starts.get(partition, ())[-EPOCHS_KEPT:], (event.leader_epoch, end)]
        self._former.pop((partition, event.node), None)
        log = None if self.mirror is None else self.mirror.logs.get(partition, {}).get(event.node)
        has = NO_EPOCH if log is None else log.last_epoch
        self._find_again(row, event, partition)
        kept, missing = deque[tuple[int, str, int]](maxlen=ACKED_KEPT), dict[str, tuple[int, int]]()
        for offset, record, epoch in self._acked.get(partition, ()):
            if offset >= end or epoch > has >= 0:
                missing[record] = offset, epoch
            else:
                kept.append((offset, record, epoch))
        if missing:
            self._acked[partition] = kept
            self.gone.setdefault(partition, {}).update(missing)
            text = f"the new leader {event.node} does not have {_named(list(missing), partition)}"
            self._say_line(StoryLine(row.at_us, "lost", text))

    def _find_again(self, row: TraceRow, event: trace.LeadershipBegan, partition: TopicPartition) -> None:
        """Report the records that are no longer gone because the new leader's log has them."""
        log = None if self.mirror is None else self.mirror.logs.get(partition, {}).get(event.node)
        if self.mirror is None or log is None:
            return
        found = []
        for record, (offset, epoch) in self.gone.get(partition, {}).items():
            batch = log.at(offset)
            if batch is not None and record in self.mirror.sent.records(partition, batch.base_offset, batch.crc):
                found.append(record)
                self._acked.setdefault(partition, deque(maxlen=ACKED_KEPT)).append((offset, record, epoch))
        if found:
            self._take_back(partition, found)
            text = f"the new leader {event.node} has {_named(found, partition)}; not gone"
            self._say_line(StoryLine(row.at_us, "note", text))

    def _take_back(self, partition: TopicPartition, records: Sequence[str]) -> None:
        gone = self.gone[partition]
        for record in records:
            del gone[record]
        if not gone:
            del self.gone[partition]


def _named(records: Sequence[str], partition: TopicPartition) -> str:
    return f"{count_of(len(records), 'acked record')} of {partition}: {format_record_names(records)}"


# ------------------------------------------------------------------------------------------------- lines for the viewer
#
# Lines for the user's terminal. The cluster must not wait for a terminal or a pipe that is not read.

WAITING_MAX = 500
"""Largest number of lines that wait to be written. If there are more, the oldest are dropped."""
PAUSE_S = 0.05

SayLine = Callable[[StoryLine], None]


class LineWriter:
    """Writes lines in a thread, because writing to a stopped terminal or a pipe without a reader blocks."""

    def __init__(self, say_line: SayLine) -> None:
        self._say_line = say_line
        self._waiting: deque[StoryLine] = deque(maxlen=WAITING_MAX)
        self._left_out = 0

    def tell(self, line: StoryLine) -> None:
        self._left_out += len(self._waiting) == WAITING_MAX
        self._waiting.append(line)

    async def run(self) -> None:
        """Write the waiting lines every PAUSE_S until cancelled."""
        while True:
            await trio.sleep(PAUSE_S)
            if self._waiting:
                lines, left_out = list(self._waiting), self._left_out
                self._waiting.clear()
                self._left_out = 0
                await trio.to_thread.run_sync(self._say, lines, left_out, abandon_on_cancel=True)

    def _say(self, lines: list[StoryLine], left_out: int) -> None:
        if left_out:
            self._say_line(
                StoryLine(
                    lines[0].at_us, "note", f"{count_of(left_out, 'line')} left out, because the output was not read"
                )
            )
        for line in lines:
            self._say_line(line)
