"""Topics of a live cluster, as lines for its terminal: those that clients make and delete, and that of the transaction
coordinators while it cannot be written.
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
"""So many transactional ids have a line of their own while what their coordinator decides cannot be kept."""

Change = Literal["made", "grown", "deleted"]


_GONE_WITH = {
    OFFSETS_TOPIC: "; the offsets of all groups went with it",
    TRANSACTIONS_TOPIC: "; the state of all transactions went with it",
}


@dataclass(slots=True)
class _Burst:
    """Topics that have changed in the same way: one line. deletion: of the first topic, in the controller's words"""

    at_us: int
    change: Change
    deletion: str
    topics: dict[str, list[trace.PartitionCreated]] = field(default_factory=dict)
    """With their new partitions."""


class TopicNews(Listener):
    """Listener. The first topic is a line at once; those of the second that follows are one line together. The changes
    of one topic keep their order: one that is made, deleted and made again has three lines.

    announced: partitions that are no news when they are made: the banner has them
    """

    def __init__(self, announced: Iterable[TopicPartition]) -> None:
        self._announced = dict.fromkeys(announced)
        self._bursts: list[_Burst] = []
        self._latest: dict[str, int] = {}
        """By topic the place of its latest burst."""
        self._deletions: dict[StoryLine, None] = {}
        """Lines of the story that are here, too."""
        self._waits_until_us = 0
        self._refusals: list[StoryLine] = []
        self._unwritten: tuple[int, str] | None = None
        """The latest refusal of a write to the coordinators' topic: its number and its reason."""
        self._without_coordinator: dict[str, None] = {}
        """Transactional ids that have had their line, until their coordinator writes again."""

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
        """Of the internal ones, too: their groups or transactions go with them."""
        self._changed(event.topic, _Burst(row.at_us, "deleted", event.sentence()))
        self._deletions[StoryLine(row.at_us, "note", event.sentence())] = None

    @on(trace.ProduceRefused)
    def _produce_refused(self, row: TraceRow, event: trace.ProduceRefused) -> None:
        if event.topic == TRANSACTIONS_TOPIC:
            self._unwritten = row.seq, event.sentence()

    @on(trace.TransactionStateChanged)
    def _transaction_changed(self, row: TraceRow, event: trace.TransactionStateChanged) -> None:
        self._without_coordinator.pop(event.transactional_id, None)

    @on(trace.TransactionRefused)
    def _transaction_refused(self, row: TraceRow, event: trace.TransactionRefused) -> None:
        """A client asks again until it gives up, so the first refusal is a line."""
        name, known = event.transactional_id, self._without_coordinator
        seq, why = self._unwritten or (-1, "")
        if seq in row.causes and name not in known and len(known) < WITHOUT_COORDINATOR_MAX:
            known[name] = None
            text = f"{event.node} refuses {event.api} of transactional.id {name} with {event.error} ({why})"
            self._refusals.append(StoryLine(row.at_us, "refused", text))

    def among(self, story: Iterable[StoryLine], now_us: int) -> list[StoryLine]:
        """The next lines of the story and those of topics, by time. What waits is due with any other line."""
        others = [line for line in story if not self._is_told(line)]
        own = self._take(now_us) if others or now_us >= self._waits_until_us else []
        return sorted([*own, *others], key=attrgetter("at_us"))

    def _is_told(self, line: StoryLine) -> bool:
        """Asked once of each."""
        if line not in self._deletions:
            return False
        del self._deletions[line]
        return True

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
        """Put the topic into the first burst of this change behind its latest one; if there is none, into `found`."""
        place = self._latest.get(topic, -1) + 1
        while place < len(self._bursts) and self._bursts[place].change != found.change:
            place += 1
        if place == len(self._bursts):
            self._bursts.append(found)
        self._bursts[place].topics[topic] = []
        self._latest[topic] = place


def _text(burst: _Burst) -> str:
    count, names = len(burst.topics), _names(burst.topics)
    created = [event for events in burst.topics.values() for event in events]
    if burst.change == "deleted":
        if count == 1:
            return f"{burst.deletion}{_GONE_WITH.get(next(iter(burst.topics)), '')}"
        return f"{count:,} topics are deleted, with all their records: {names}"
    partitions = count_of(len(created), "partition")
    if count > 1:
        if burst.change == "made":
            return f"{count:,} topics are made: {names}; {partitions}"
        return f"{count:,} topics have grown by {partitions}: {names}"
    begins = f"topic {names} is made:" if burst.change == "made" else f"topic {names} has grown by"
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
    """With its number, so that ranges stay ranges."""
    prefix, _ = split_record_name(topic)
    return shortened(prefix) + shortened(topic[len(prefix) :])
