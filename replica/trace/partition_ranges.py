"""Partitions as ranges, in the same words on the terminal and on the report's page."""

from __future__ import annotations

from collections.abc import Collection

from replica.ids import TopicPartition

RANGES_MAX = 8
PARTITION_RANGES_MAX = 4
"""of those on one line of the story"""


def ranges_of_partitions(partitions: Collection[tuple[str, int]]) -> str:
    """`t-0..t-5, t-7`; of very many ranges the first few and the last, and how many partitions they are."""
    ranges: list[tuple[TopicPartition, TopicPartition]] = []
    for partition in (TopicPartition(*one) for one in sorted(partitions)):
        if ranges and ranges[-1][1] == (partition.topic, partition.partition - 1):
            ranges[-1] = (ranges[-1][0], partition)
        else:
            ranges.append((partition, partition))
    text = ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in ranges)
    shown = cropped(text, PARTITION_RANGES_MAX)
    return text if shown == text else f"{len(partitions)} partitions ({shown})"


def cropped(ranges: str, most: int = RANGES_MAX) -> str:
    """`r1, r3, r5..r7`; of very many the first few and the last. Dots stand for two or more: one is as short."""
    found = ranges.split(", ")
    return ranges if len(found) <= most + 1 else ", ".join([*found[: most - 1], "...", found[-1]])
