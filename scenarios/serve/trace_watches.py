"""Listeners of a live cluster: what of its trace concerns its clients at once."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import format_record_names
from scenarios.observe.story import StoryLine
from scenarios.observe.wording import count_of
from scenarios.serve.telling import SayLine
from scenarios.terminal.safe_output import OutputFailed

if TYPE_CHECKING:
    from cluster.live.client_tap import ClientTap
    from scenarios.observe.view import ClusterView
    from scenarios.terminal.progress import ProgressLine

ACKED_KEPT = 10_000
"""So many of a partition's latest acked records are looked for on a new leader while the cluster runs; the verdict at
the end looks at all of them."""
_READING_SHARE = 0.7
"""of the time that judging takes"""


class DeletionWatch(Listener):
    """Listener: removes deleted topics from the tap."""

    def __init__(self) -> None:
        self.tap: ClientTap | None = None

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        if self.tap is not None:
            self.tap.topic_deleted(event.topic)


class JudgingProgress(Listener):
    """Listener: how much of what is on the disks has been read, once the cluster has stopped."""

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
        self._found += event.count
        self._show(min(self._found / max(self._all, 1), 1), f"{self._found} records of the logs read")

    @on(trace.RunFinished)
    def _finished(self, row: TraceRow, event: trace.RunFinished) -> None:
        self._show(1, "comparing the logs with the answers")

    def _show(self, fraction: float, what: str) -> None:
        if self._line is not None:
            with suppress(OSError, OutputFailed):  # The terminal may be gone.
                self._line.show(_READING_SHARE * fraction, what)


class LossWatch(Listener):
    """Listener: says at once when a new leader does not have records that were acked.

    A topic that is recreated under the name of a deleted one is unrelated to records acked before, and to records acked
    by a broker that has not heard of the deletion.
    """

    def __init__(self, say_line: SayLine) -> None:
        self._say_line = say_line
        self._acked: dict[TopicPartition, deque[tuple[int, str]]] = {}
        self._leaders: dict[TopicPartition, dict[str, None]] = {}
        """Brokers that have led the partition."""
        self._former: dict[tuple[TopicPartition, str], None] = {}
        """Brokers that have led one of that name, and not yet the one of today."""

    @on(trace.RecordAcked)
    def _record_acked(self, row: TraceRow, event: trace.RecordAcked) -> None:
        partition = TopicPartition(event.topic, event.partition)
        if (partition, event.peer) not in self._former:
            self._acked.setdefault(partition, deque(maxlen=ACKED_KEPT)).append((event.offset, event.record))

    @on(trace.TopicDeleted)
    def _topic_deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for partition in [name for name in self._leaders if name.topic == event.topic]:
            self._acked.pop(partition, None)
            self._former.update(((partition, node), None) for node in self._leaders.pop(partition))

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        """It has heard of the deletion."""
        self._former.pop((TopicPartition(event.topic, event.partition), event.node), None)

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._leaders.setdefault(partition, {})[event.node] = None
        self._former.pop((partition, event.node), None)
        acked = self._acked.get(partition, deque())
        missing = [record for offset, record in acked if offset >= event.log_end_offset]
        if missing:
            self._acked[partition] = deque(
                ((offset, record) for offset, record in acked if offset < event.log_end_offset), maxlen=ACKED_KEPT
            )
            what = f"{count_of(len(missing), 'acked record')} of {partition}"
            text = f"the new leader {event.node} does not have {what}: {format_record_names(missing)}"
            self._say_line(StoryLine(row.at_us, "lost", text))
