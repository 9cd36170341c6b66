"""Find the windows of time in which a partition could not be written to or read from.

* Writes: at least one attempt to write is pending, and none succeeds. An attempt is pending from the time its record is
  sent until the client gets an answer, gives up or stops.
* Reads: no running broker leads the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from replica.ids import TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on

if TYPE_CHECKING:
    from scenarios.observe.mirror import LogMirror
    from scenarios.observe.view import ClusterView


def time_of_any(unavailable: Mapping[str, Iterable[Sequence[int]]]) -> int:
    """Return for how many microseconds at least one partition was unavailable.

    Args:
        unavailable: (start, end) of every window, by partition.
    """
    total_us = over_us = 0
    for since_us, until_us in sorted((since, until) for windows in unavailable.values() for since, until in windows):
        total_us += max(0, until_us - max(since_us, over_us))
        over_us = max(over_us, until_us)
    return total_us


# ---------------------------------------------------------------------------------------------------------- gone topics
#
# A topic is gone when it was deleted and not created again, and every broker has deleted its logs of the topic.
#
# Observers then drop what they know about its partitions, but keep its records, because the verdict names each record.

IsGone = Callable[[str], bool]
"""A function that returns True if a topic was deleted on all brokers and not created again, given its name."""

REPLICAS_MIN = 64
"""State is dropped after this many replicas were deleted, or as many as there are partitions if that is more.

A search through all state is then rare compared with deletions.
"""


class Forgetful(Protocol):
    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics for which `is_gone` returns True."""


class GoneTopics(Listener):
    """Listener that makes other listeners drop the state of topics that are gone.

    It must be called after those listeners and after the mirror. The view keeps the names of deleted topics, because
    weaker rules apply to a topic that is created again.
    """

    def __init__(self, view: ClusterView, mirror: LogMirror, forgetful: Sequence[Forgetful]) -> None:
        self._view = view
        self._mirror = mirror
        self._forgetful = forgetful
        self._deleted = 0

    @on(trace.ReplicaDeleted)
    def _replica_deleted(self, row: TraceRow, event: trace.ReplicaDeleted) -> None:
        if event.topic not in self._view.deleted_topics:
            return
        self._deleted += 1
        if self._deleted >= max(REPLICAS_MIN, len(self._view.partitions)):
            self._deleted = 0
            self._drop()

    def _drop(self) -> None:
        here = {name.topic for name in self._view.partitions}.union(self._mirror.doomed_topics)
        deleted = self._view.deleted_topics

        def is_gone(topic: str) -> bool:
            return topic in deleted and topic not in here

        for item in self._forgetful:
            item.forget(is_gone)


def drop(is_gone: IsGone, *kept: dict[Any, Any]) -> None:
    """Remove the entries of gone topics from dictionaries whose keys are tuples that begin with a topic."""
    for known in kept:
        for key in [key for key in known if is_gone(key[0])]:
            del known[key]


PATIENCE_US = 1_000_000
"""The shortest unavailability, in microseconds. Shorter waits count as latency."""


class Window(NamedTuple):
    from_us: int
    to_us: int

    @property
    def length_us(self) -> int:
        return self.to_us - self.from_us


class Attempts:
    """The attempts of all clients to write to one partition. Times are in microseconds."""

    __slots__ = ("pending", "succeeded_us", "vain", "windows")

    def __init__(self) -> None:
        self.pending: dict[str, dict[str, int]] = {}
        """The send times of pending records, in ascending order, by client and record."""
        self.succeeded_us = 0
        """Time of the last success."""
        self.vain: list[Window] = []
        """Start and end of the attempts that failed since the last success; overlapping attempts are merged."""
        self.windows: list[Window] = []

    def end_in_vain(self, sent_us: int, at_us: int) -> None:
        last = self.vain[-1] if self.vain else None
        if last is not None and last.from_us <= sent_us <= last.to_us:
            self.vain[-1] = Window(last.from_us, max(last.to_us, at_us))
        else:
            self.vain.append(Window(sent_us, at_us))

    def succeed(self, sent_us: int, at_us: int) -> None:
        """Record that an attempt of `sent_us` succeeded at `at_us`. The caller has removed it from `pending`."""
        if at_us - self.succeeded_us >= PATIENCE_US:
            self.windows += self.stretches(at_us, sent_us)
        self.succeeded_us = max(self.succeeded_us, at_us)
        self.vain.clear()

    def stretches(self, until_us: int, *sent_us: int) -> Iterator[Window]:
        """Yield the windows since the last success in which attempts were pending for at least PATIENCE_US.

        Args:
            until_us: end of the last window.
            sent_us: send times of further attempts, which were pending until `until_us`.
        """
        still = (next(iter(sent.values())) for sent in self.pending.values() if sent)
        waits = sorted([*self.vain, *(Window(since_us, until_us) for since_us in (*still, *sent_us))])
        from_us = to_us = self.succeeded_us
        for wait in waits:
            if wait.from_us > to_us:
                if to_us - from_us >= PATIENCE_US:
                    yield Window(from_us, to_us)
                from_us = wait.from_us
            to_us = max(to_us, min(wait.to_us, until_us))
        if to_us - from_us >= PATIENCE_US:
            yield Window(from_us, to_us)


class WriteTimes(Listener):
    """Listener that finds the windows in which no attempt to write to a partition succeeded."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], Attempts] = {}

    def windows(self, partition: TopicPartition, end_us: int) -> list[Window]:
        """Return the windows of at least PATIENCE_US. An open window ends at `end_us`, the end of the run."""
        attempts = self._partitions.get(partition)
        return [] if attempts is None else [*attempts.windows, *attempts.stretches(end_us)]

    @on(trace.RecordSent)
    def _sent(self, row: TraceRow, event: trace.RecordSent) -> None:
        pending = self._attempts_of(event.topic, event.partition).pending
        of_client = pending.get(event.client)
        if of_client is None:
            of_client = pending[event.client] = {}
        of_client.setdefault(event.record, row.at_us)

    @on(trace.RecordAcked, trace.RecordHandedOver)
    def _succeeded(self, row: TraceRow, event: trace.RecordAcked | trace.RecordHandedOver) -> None:
        """Count an ack as a success. With acks=0 the handover counts, because the client learns nothing more."""
        self._attempts_of(event.topic, event.partition).succeed(self._taken(row.at_us, event), row.at_us)

    @on(trace.RecordFailed)
    def _failed(self, row: TraceRow, event: trace.RecordFailed) -> None:
        self._attempts_of(event.topic, event.partition).end_in_vain(self._taken(row.at_us, event), row.at_us)

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        """End the attempts of a stopped client, because another process may get its name."""
        for attempts in self._partitions.values():
            sent = attempts.pending.pop(event.node, None)
            if sent:
                attempts.end_in_vain(next(iter(sent.values())), row.at_us)

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of gone topics (see Forgetful). Partitions with windows or pending records stay."""
        for name, attempts in list(self._partitions.items()):
            if is_gone(name[0]) and not attempts.windows and not any(attempts.pending.values()):
                del self._partitions[name]

    def _attempts_of(self, topic: str, partition: int) -> Attempts:
        attempts = self._partitions.get((topic, partition))
        if attempts is None:
            attempts = self._partitions[topic, partition] = Attempts()
        return attempts

    def _taken(self, at_us: int, event: trace.RecordAcked | trace.RecordHandedOver | trace.RecordFailed) -> int:
        """Remove the attempt that `event` ends, and return its send time, or `at_us` if the attempt is unknown."""
        for partition in (event.partition, -1):  # -1: sent before the client knew the partition.
            attempts = self._partitions.get((event.topic, partition))
            sent = None if attempts is None else attempts.pending.get(event.client)
            if sent and event.record in sent:
                return sent.pop(event.record)
        return at_us


class ServiceTimes(Listener):
    """Listener that finds the times in which no running broker led a partition."""

    def __init__(self) -> None:
        self._leading: dict[TopicPartition, dict[str, None]] = {}
        self._gaps: dict[TopicPartition, list[Window]] = {}
        self._unserved_since: dict[TopicPartition, int] = {}

    def read_windows(self, partition: TopicPartition, end_us: int) -> list[Window]:
        """Return the windows of at least PATIENCE_US without a running leader, since the first leader."""
        gaps = list(self._gaps.get(partition, ()))
        since = self._unserved_since.get(partition)
        if since is not None:
            gaps.append(Window(since, end_us))
        return [gap for gap in gaps if gap.length_us >= PATIENCE_US]

    def forget(self, is_gone: IsGone) -> None:
        """Drop the state of topics that are gone (see Forgetful)."""
        drop(is_gone, self._leading, self._gaps, self._unserved_since)

    @on(trace.LeadershipBegan)
    def _leadership_began(self, row: TraceRow, event: trace.LeadershipBegan) -> None:
        partition = TopicPartition(event.topic, event.partition)
        self._leading.setdefault(partition, {})[event.node] = None
        since = self._unserved_since.pop(partition, None)
        if since is not None:
            self._gaps.setdefault(partition, []).append(Window(since, row.at_us))

    @on(trace.FollowingBegan)
    def _following_began(self, row: TraceRow, event: trace.FollowingBegan) -> None:
        self._leads_no_more(TopicPartition(event.topic, event.partition), event.node, row.at_us)

    @on(trace.NodeStopped)
    def _node_stopped(self, row: TraceRow, event: trace.NodeStopped) -> None:
        for partition in self._leading:
            self._leads_no_more(partition, event.node, row.at_us)

    def _leads_no_more(self, partition: TopicPartition, node: str, at_us: int) -> None:
        leading = self._leading.get(partition, {})
        if node in leading:
            del leading[node]
            if not leading:
                self._unserved_since[partition] = at_us
