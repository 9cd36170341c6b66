"""Fold events that are equal except for their partition into one line, for the terminal and the report.

`TraceEvent.fold_key` decides which events are equal. `sentence_of` of the event's class returns the text of the line.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from replica.ids import TopicPartition
from replica.trace.columns import OfPartitions, TraceEvent

TOGETHER_US = 1_000_000
"""Events of different partitions share a line if they occur at most this many microseconds after the first event."""


class ShownEvent(NamedTuple):
    """An event to display, with a number that the caller has chosen, and the sign to display before the event."""

    at_us: int
    event: TraceEvent
    number: int
    sign: str = ""


class Alike:
    """A single event, or events of different partitions that share a line."""

    def __init__(self, first: ShownEvent) -> None:
        self.first = first
        self.numbers = [first.number]
        self._events: dict[TopicPartition | None, TraceEvent] = {partition_of(first.event): first.event}

    @property
    def partitions(self) -> list[TopicPartition]:
        return [partition for partition in self._events if partition is not None]

    @property
    def text(self) -> str:
        return words_of(list(self._events.values()))

    def takes(self, entry: ShownEvent) -> bool:
        """Add an event with the same `fold_key` to these.

        Return False, and add nothing, if it happened too late after them or is about a partition that they have.
        """
        partition = partition_of(entry.event)
        if partition in self._events or entry.at_us - self.first.at_us > TOGETHER_US:
            return False
        self._events[partition] = entry.event
        self.numbers.append(entry.number)
        return True


def partition_of(event: TraceEvent) -> TopicPartition | None:
    """Return the partition of an event, None if the event is not about a partition."""
    topic, number = getattr(event, "topic", None), getattr(event, "partition", None)
    return None if topic is None or number is None else TopicPartition(topic, number)


def words_of(events: Sequence[Any]) -> str:
    """Return one sentence about all of these events, which have the same `fold_key`."""
    return str(events[0].sentence_of(events))


def together(entries: Iterable[ShownEvent]) -> list[Alike]:
    """Group the events that share a line. Events are in order of time, and groups in order of their first events."""
    groups: list[Alike] = []
    latest: dict[tuple[str, Hashable], Alike] = {}
    for entry in entries:
        kind = (entry.sign, entry.event.fold_key())
        group = latest.get(kind)
        if group is None or not isinstance(entry.event, OfPartitions) or not group.takes(entry):
            latest[kind] = group = Alike(entry)
            groups.append(group)
    return groups
