"""Invariants of share groups (KIP-932), checked by what partition leaders report about records."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from replica.causes import ShareCause
from replica.ids import SHARE_STATE_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.events import TraceRow
from replica.trace.listening import on
from scenarios.check.invariants.checker import Invariant, InvariantChecker

FINAL = (ShareCause.ACCEPTED, ShareCause.REJECTED)


class ArchivedAtTheLimit(Invariant):
    """S36: a record that no member has accepted or rejected is archived only after the last permitted delivery.

    Records that the log no longer has, and records of aborted transactions, are not checked.
    """

    NAME = "S36"

    @on(trace.ShareRecordsSettled)
    def _settled(self, row: TraceRow, event: trace.ShareRecordsSettled) -> None:
        if (
            event.state in ("archived", "archiving")
            and event.share_cause in trace.RELEASES
            and event.delivery_count < event.delivery_limit
        ):
            which = f"records {event.first} to {event.last} of {event.name}"
            after = f"after {event.delivery_count} of {event.delivery_limit} deliveries"
            sentence = f"{event.node} gave up {which} for share group {event.group} {after}"
            self.broken(sentence, event.topic, event.partition)


class SettledIsNotDelivered(Invariant):
    """S37: a record is not delivered to a share group once its acceptance or rejection was committed.

    When an operator has altered or deleted the group's start offset, the records from there on may be delivered again.

    Only the current leader is checked: a former leader that does not know of its successor may still deliver records,
    but acknowledgements of these are fenced.

    * `S37 forgotten-state`: the topic of share states was re-based, or a disk has lost bytes, so acknowledgements may
      be lost.
    """

    NAME = "S37"

    def __init__(self, checker: InvariantChecker) -> None:
        super().__init__(checker)
        self.done: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = {}
        """Settled offsets as ranges [first, last] in ascending order, by group and partition. No two ranges touch."""

    @on(trace.TopicDeleted)
    def _deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        for key in [item for item in self.done if item[1].topic == event.topic]:
            del self.done[key]

    @on(trace.ShareRecordsSettled)
    def _settled(self, row: TraceRow, event: trace.ShareRecordsSettled) -> None:
        if event.share_cause in FINAL:
            key = event.group, TopicPartition(event.topic, event.partition)
            self.done[key] = _with(self.done.get(key, []), event.first, event.last)

    @on(trace.ShareStateReset)
    def _reset(self, row: TraceRow, event: trace.ShareStateReset) -> None:
        key = event.group, TopicPartition(event.topic, event.partition)
        self.done[key] = [(0, event.start_offset - 1)] if event.start_offset else []

    @on(trace.ShareRecordsAcquired)
    def _acquired(self, row: TraceRow, event: trace.ShareRecordsAcquired) -> None:
        name = TopicPartition(event.topic, event.partition)
        settled = self.done.get((event.group, name), [])
        before = bisect_right(settled, event.last, key=lambda item: item[0])
        if self.view.leader(name) == event.node and before and settled[before - 1][1] >= event.first:
            first, last = settled[before - 1]
            delivered = f"{event.node} delivered records {event.first} to {event.last} of {event.name}"
            sentence = f"{delivered} to share group {event.group}, which had already settled records {first} to {last}"
            broken = "S37 forgotten-state" if self._may_be_forgotten else self.NAME
            self.broken(sentence, event.topic, event.partition, broken)

    @property
    def _may_be_forgotten(self) -> bool:
        kept_in = (name for name in self.view.partitions if name.topic == SHARE_STATE_TOPIC)
        is_rebased = any(self.truth.of(*name).rebased_epoch >= 0 for name in kept_in)
        return self.checker.circumstances.bytes_lost or is_rebased


def _with(ranges: list[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """Return the ranges with [first, last] added. Ranges that touch are joined."""
    low = bisect_left(ranges, first - 1, key=lambda item: item[1])
    high = bisect_right(ranges, last + 1, key=lambda item: item[0])
    touched = ranges[low:high]
    joined = min([first, *(item[0] for item in touched)]), max([last, *(item[1] for item in touched)])
    return [*ranges[:low], joined, *ranges[high:]]


INVARIANTS: tuple[type[Invariant], ...] = (ArchivedAtTheLimit, SettledIsNotDelivered)
