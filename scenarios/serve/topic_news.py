"""Lines about topics for the terminal of a live cluster.

They report topics that clients create and delete, and transactions whose coordinator cannot write to its topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from replica.ids import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from replica.trace import events as trace
from replica.trace.alike import TOGETHER_US
from replica.trace.events import TraceRow
from replica.trace.listening import Listener, on
from replica.trace.ranges import cropped, format_record_names, ranges_of_partitions, split_record_name
from scenarios.language.values.reading import shortened
from scenarios.observe.story import StoryLine
from scenarios.observe.wording import count_of

WITHOUT_COORDINATOR_MAX = 100
"""Largest number of transactional ids with a line each while their coordinators cannot write to their topic."""

Change = Literal["made", "grown", "deleted"]


_GONE_WITH = {
    OFFSETS_TOPIC: "; the offsets of all groups were deleted with it",
    TRANSACTIONS_TOPIC: "; the state of all transactions was deleted with it",
}


@dataclass(slots=True)
class _Burst:
    """Topics that have changed in the same way and are shown in one line.

    Attributes:
        deletion: sentence about the deletion of the first topic, "" if the topics were created or have grown.
    """

    at_us: int
    change: Change
    deletion: str
    topics: dict[str, list[trace.PartitionCreated]] = field(default_factory=dict)
    """The new partitions of each topic."""


class TopicNews(Listener):
    """Listener that turns changes of topics into lines.

    The first change gets a line at once. Changes in the next second share lines, one per kind of change, but the
    changes of one topic keep their order: a topic that is created, deleted and created again has three lines.

    Args:
        announced: partitions that the banner shows, whose creation needs no line.
    """

    def __init__(self, announced: Iterable[TopicPartition]) -> None:
        self._announced = dict.fromkeys(announced)
        self._bursts: list[_Burst] = []
        self._latest: dict[str, int] = {}
        """Index in `_bursts` of each topic's latest change."""
        self._waits_until_us = 0
        self._refusals: list[StoryLine] = []
        self._unwritten: tuple[int, str] | None = None
        """Sequence number and sentence of the event for the latest refused write to the transactions topic."""
        self._without_coordinator: dict[str, None] = {}
        """Transactional ids that have had a line since their coordinator last wrote to its topic."""

    @on(trace.PartitionCreated)
    def _created(self, row: TraceRow, event: trace.PartitionCreated) -> None:
        partition = TopicPartition(event.topic, event.partition)
        if event.topic in INTERNAL_TOPICS:
            return
        if partition in self._announced:
            del self._announced[partition]
            return
        latest = self._latest.get(event.topic)
        if latest is None or self._bursts[latest].change == "deleted":
            self._changed(event.topic, _Burst(row.at_us, "grown" if event.partition else "made", ""))
        self._bursts[self._latest[event.topic]].topics[event.topic].append(event)

    @on(trace.TopicDeleted)
    def _deleted(self, row: TraceRow, event: trace.TopicDeleted) -> None:
        """Add the deletion of a topic, also of an internal one, since groups or transactions are deleted with it."""
        self._changed(event.topic, _Burst(row.at_us, "deleted", event.sentence()))

    @on(trace.ProduceRefused)
    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        if event.topic == TRANSACTIONS_TOPIC:
            self._unwritten = row.seq, event.sentence()

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self._without_coordinator.pop(event.transactional_id, None)

    @on(trace.TransactionRefused)
    def _transaction_refused(self, row: TraceRow, event: trace.TransactionRefused) -> None:
        """Add a line for the first refusal of a transaction after a refused write. Retries get no further lines."""
        name, known = event.transactional_id, self._without_coordinator
        seq, why = self._unwritten or (-1, "")
        if seq in row.causes and name not in known and len(known) < WITHOUT_COORDINATOR_MAX:
            known[name] = None
            self._refusals.append(StoryLine(row.at_us, "refused", f"{event.sentence()}; {why}"))

    def among(self, story: Iterable[StoryLine], now_us: int) -> list[StoryLine]:
        """Return the story's new lines and the lines about topics that are due, sorted by time.

        If the story has new lines, all lines about topics are due.
        """
        others = [line for line in story if not isinstance(line.event, trace.TopicDeleted)]
        own = self._take(now_us) if others or now_us >= self._waits_until_us else []
        return sorted([*own, *others], key=attrgetter("at_us"))

    def _take(self, now_us: int) -> list[StoryLine]:
        if not self._bursts and not self._refusals:
            return []
        lines = [*self._refusals, *(StoryLine(burst.at_us, "note", _text(burst)) for burst in self._bursts)]
        self._refusals.clear()
        self._bursts.clear()
        self._latest.clear()
        self._waits_until_us = now_us + TOGETHER_US
        return lines

    def _changed(self, topic: str, found: _Burst) -> None:
        """Add a topic to the first burst of the same change after the topic's latest burst, or else append `found`."""
        index = self._latest.get(topic, -1) + 1
        while index < len(self._bursts) and self._bursts[index].change != found.change:
            index += 1
        if index == len(self._bursts):
            self._bursts.append(found)
        self._bursts[index].topics[topic] = []
        self._latest[topic] = index


def _text(burst: _Burst) -> str:
    count, names = len(burst.topics), _names(burst.topics)
    created = [event for events in burst.topics.values() for event in events]
    if burst.change == "deleted":
        if count == 1:
            return f"{burst.deletion}{_GONE_WITH.get(next(iter(burst.topics)), '')}"
        return f"{count:,} topics were deleted with all their records: {names}"
    partitions = count_of(len(created), "partition")
    if count > 1:
        if burst.change == "made":
            return f"{count:,} topics were created: {names}; {partitions}"
        return f"{count:,} topics got {count_of(len(created), 'more partition')}: {names}"
    begins = f"topic {names} was created:" if burst.change == "made" else f"topic {names} was extended by"
    return f"{begins} {partitions}, RF {len(created[0].replicas)}; {_leaders(created)}"


def _leaders(created: Sequence[trace.PartitionCreated]) -> str:
    if len(created) == 1:
        return f"{_leader(created[0])} leads"
    led: dict[str, list[TopicPartition]] = {}
    for event in created:
        led.setdefault(_leader(event), []).append(TopicPartition(_shortened(event.topic), event.partition))
    return "; ".join(f"{broker} leads {ranges_of_partitions(led[broker])}" for broker in sorted(led))


def _leader(event: trace.PartitionCreated) -> str:
    return event.broker or "no broker"


def _names(topics: Iterable[str]) -> str:
    return cropped(format_record_names([_shortened(topic) for topic in sorted(topics, key=split_record_name)]))


def _shortened(topic: str) -> str:
    """Shorten a topic's name without the number at its end, so that topics can still be listed as ranges."""
    prefix, _ = split_record_name(topic)
    return shortened(prefix) + shortened(topic[len(prefix) :])
