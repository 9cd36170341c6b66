"""Key events that say the same of many partitions at once, as one line: of six elections when a broker is fenced."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from replica.ids import TopicPartition
from scenarios.language.record_sets import format_record_names
from scenarios.observe.story import Story, StoryLine

TOGETHER_US = 1_000_000
"""Events of different partitions within this time of the first are one group."""
RANGES_MAX = 8


@dataclass(slots=True)
class StoryGroup:
    """Lines of the same words but for their numbers, each of other partitions. first: the earliest"""

    first: StoryLine
    partitions: list[TopicPartition]
    alike: list[TopicPartition] = field(default_factory=list)
    """partitions whose line has other numbers"""

    def text(self, *, names_partitions: bool) -> str:
        """names_partitions: false where there is one only"""
        if not names_partitions or not self.partitions:
            return self.first.text
        text = self.first.text
        if len(self.partitions) > 1 or str(self.partitions[0]) not in text:
            text = f"{ranges_of_partitions(self.partitions)}: {text}"
        if self.alike:
            text += f"; alike in {len(self.alike)} more: {ranges_of_partitions(self.alike)}"
        return text


def grouped(story: Story) -> list[StoryGroup]:
    """Every line of the story is in one group, and the groups are in the order of their first lines."""
    groups: list[StoryGroup] = []
    latest: dict[tuple[str, str], StoryGroup] = {}
    for line, partitions in zip(story.lines, story.partitions_of_lines, strict=True):
        shape = (line.sign, re.sub(r"\d+", "#", line.text))
        group = latest.get(shape)
        if group is None or not partitions or not _belongs(group, line, partitions):
            group = latest[shape] = StoryGroup(line, list(partitions))
            groups.append(group)
        elif line.text == group.first.text:
            group.partitions += partitions
        else:
            group.alike += partitions
    return groups


def ungrouped(story: Story, first: int = 0) -> list[StoryGroup]:
    """One group for every line, from the line `first` on."""
    lines = zip(story.lines[first:], story.partitions_of_lines[first:], strict=True)
    return [StoryGroup(line, list(partitions)) for line, partitions in lines]


def _belongs(group: StoryGroup, line: StoryLine, partitions: Sequence[TopicPartition]) -> bool:
    """A second event of the same partition is news of its own."""
    is_soon = line.at_us - group.first.at_us <= TOGETHER_US
    known = (*group.partitions, *group.alike)
    return is_soon and not any(partition in known for partition in partitions)


def ranges_of_partitions(partitions: Sequence[TopicPartition]) -> str:
    """`t-0..t-5, t-7`."""
    return cropped(format_record_names([str(partition) for partition in sorted(partitions)]))


def cropped(ranges: str) -> str:
    """`r1, r3, r5..r7`; of very many the first few and the last."""
    found = ranges.split(", ")
    if len(found) <= RANGES_MAX:
        return ranges
    return ", ".join([*found[: RANGES_MAX - 1], "...", found[-1]])
