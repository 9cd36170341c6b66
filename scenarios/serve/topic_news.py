"""Topics that clients make and delete on a live cluster, as lines for its terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica.ids import INTERNAL_TOPICS, TopicPartition
from replica.trace import events as trace
from replica.trace.alike import TOGETHER_US
from replica.trace.events import TraceRow
from replica.trace.partition_ranges import cropped, ranges_of_partitions
from scenarios.language.record_sets import format_record_names, split_record_name
from scenarios.observe.story import StoryLine
from scenarios.observe.wording import count_of


class TopicNews:
    """Listener. The first topic is a line at once; those of the second that follows are one line together.

    announced: partitions that are no news when they are made: the banner has them
    """

    def __init__(self, announced: Iterable[TopicPartition]) -> None:
        self._announced = dict.fromkeys(announced)
        self._made: dict[str, tuple[int, list[trace.PartitionCreated]]] = {}
        self._deleted: dict[str, StoryLine] = {}
        self._deletions: dict[StoryLine, None] = {}
        """Lines of the story that are here, too."""
        self._waits_until_us = 0

    def wants(self, kind: type) -> bool:
        return kind in (trace.PartitionCreated, trace.TopicDeleted)

    def __call__(self, row: TraceRow) -> None:
        match row.event:
            case trace.PartitionCreated() as event if event.topic not in INTERNAL_TOPICS:
                partition = TopicPartition(event.topic, event.partition)
                if partition in self._announced:
                    del self._announced[partition]
                else:
                    self._made.setdefault(event.topic, (row.at_us, []))[1].append(event)
            case trace.TopicDeleted() as event if event.topic not in INTERNAL_TOPICS:
                line = StoryLine(row.at_us, "note", event.reason)
                self._deleted[event.topic] = line
                self._deletions[line] = None

    def has_told(self, line: StoryLine) -> bool:
        """Whether this line of the story is here, too. Asked once of each."""
        if line not in self._deletions:
            return False
        del self._deletions[line]
        return True

    def take(self, now_us: int) -> list[StoryLine]:
        """The lines that are due."""
        if now_us < self._waits_until_us or not (self._made or self._deleted):
            return []
        lines = [*_lines_of_made(self._made), *_lines_of_deleted(self._deleted)]
        self._made.clear()
        self._deleted.clear()
        self._waits_until_us = now_us + TOGETHER_US
        return sorted(lines)


def _lines_of_made(made: dict[str, tuple[int, list[trace.PartitionCreated]]]) -> list[StoryLine]:
    """Of partitions that an older topic is given, too."""
    if not made:
        return []
    at_us = next(iter(made.values()))[0]
    if len(made) > 1:
        partitions = sum(len(created) for _, created in made.values())
        text = f"{len(made):,} topics are made: {_names(made)}; {count_of(partitions, 'partition')}"
        return [StoryLine(at_us, "note", text)]
    ((topic, (_, created)),) = made.items()
    sizes = f"{count_of(len(created), 'partition')}, RF {len(created[0].replicas)}"
    begins = f"topic {topic} is made: {sizes}" if created[0].partition == 0 else f"topic {topic} has grown by {sizes}"
    return [StoryLine(at_us, "note", f"{begins}; {_leaders(created)}")]


def _leaders(created: Sequence[trace.PartitionCreated]) -> str:
    if len(created) == 1:
        return f"{_leader(created[0])} leads"
    led: dict[str, list[TopicPartition]] = {}
    for event in created:
        led.setdefault(_leader(event), []).append(TopicPartition(event.topic, event.partition))
    return "; ".join(f"{broker} leads {ranges_of_partitions(led[broker])}" for broker in sorted(led))


def _leader(event: trace.PartitionCreated) -> str:
    return event.broker or "no broker"


def _lines_of_deleted(deleted: dict[str, StoryLine]) -> list[StoryLine]:
    if len(deleted) < 2:
        return list(deleted.values())
    first = next(iter(deleted.values()))
    return [first._replace(text=f"{len(deleted):,} topics are deleted, with all their records: {_names(deleted)}")]


def _names(topics: Iterable[str]) -> str:
    return cropped(format_record_names(sorted(topics, key=split_record_name)))
