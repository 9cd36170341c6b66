"""Key events that say the same of many partitions at once, as one line: of six elections when a broker is fenced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica.ids import TopicPartition
from replica.trace.alike import Told, together
from replica.trace.partition_ranges import ranges_of_partitions
from scenarios.observe.story import Story, StoryLine


@dataclass(frozen=True, slots=True)
class StoryGroup:
    """Lines that are one. first: the earliest     said: its words     is_merged: they are several"""

    first: StoryLine
    said: str
    partitions: Sequence[TopicPartition]
    is_merged: bool = False

    def text(self, *, names_partitions: bool) -> str:
        """names_partitions: false where there is one only"""
        if not names_partitions or not self.partitions:
            return self.said
        if len(self.partitions) == 1 and str(self.partitions[0]) in self.said:
            return self.said
        return f"{ranges_of_partitions(self.partitions)}: {self.said}"


def grouped(story: Story) -> list[StoryGroup]:
    """Every line of the story is in one group, and the groups are in the order of their first lines."""
    view = story.view
    names = {*view.nodes, *(partition.topic for partition in view.partitions), *view.deleted_topics}
    groups = []
    for alike in together(_told(story), names):
        partitions = [TopicPartition(*place) for place in alike.places]
        groups.append(StoryGroup(story.lines[alike.first.number], alike.text, partitions, len(set(alike.numbers)) > 1))
    return groups


def _told(story: Story) -> Iterator[Told]:
    for number, (line, partitions) in enumerate(zip(story.lines, story.partitions_of_lines, strict=True)):
        for partition in partitions or (None,):
            yield Told(line.at_us, line.text, partition, number, line.sign)


def ungrouped(story: Story, first: int = 0) -> list[StoryGroup]:
    """One group for every line, from the line `first` on."""
    lines = zip(story.lines[first:], story.partitions_of_lines[first:], strict=True)
    return [StoryGroup(line, line.text, list(partitions)) for line, partitions in lines]
