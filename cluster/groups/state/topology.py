"""The topology of a Kafka Streams application: its tasks, the partitions of its internal topics, and missing topics.

A topology has subtopologies. Each reads source topics and repartition topics, and may have state, whose changes are
written to changelog topics. The coordinator derives the partition counts of the internal topics (repartition and
changelog topics) from those of the source topics.

Source: InternalTopicManager.java, RepartitionTopics.java, CopartitionedTopicsEnforcer.java, ChangelogTopics.java,
StreamsTopology.java
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from cluster.protocol.cold import request_class
from cluster.protocol.entities import Entity, shapes
from cluster.protocol.versions import STREAMS_GROUP_HEARTBEAT
from replica.errors import ErrorCode, KafkaError

(
    STALE_TOPOLOGY,
    MISSING_SOURCE_TOPICS,
    INCORRECTLY_PARTITIONED_TOPICS,
    MISSING_INTERNAL_TOPICS,
    SHUTDOWN_APPLICATION,
    ASSIGNMENT_DELAYED,
) = range(6)
"""Codes of the statuses in heartbeat responses. Source: StreamsGroupHeartbeatResponse.Status"""
Status = tuple[int, str]
PartitionsOf = Callable[[str], int | None]
"""A function that returns the number of partitions of a topic, None if the topic does not exist."""
TOPICS_NAMED_MAX = 3


@cache
def topology_class() -> type:
    """Return the class of a topology in heartbeats; records of topologies have the same format."""
    found = shapes(request_class(STREAMS_GROUP_HEARTBEAT, 0))["topology"].entity
    assert found is not None, "the structure is null"
    return found


class MissingTopic(NamedTuple):
    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Configured:
    """The tasks and internal topics of a topology, derived from the topics that exist.

    Attributes:
        counts: number of tasks by subtopology, in ascending order; empty if topics are missing or wrongly partitioned.
        partitions: number of partitions of each internal topic.
        missing: internal topics to create.
        status: why the topology is not ready, None if it is ready.
    """

    counts: Mapping[str, int]
    partitions: Mapping[str, int]
    missing: tuple[MissingTopic, ...] = ()
    status: Status | None = None


class _NotConfigured(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.status = code, message


def sources_of(subtopology: Entity) -> list[str]:
    """Return the topics that a subtopology reads."""
    return [*map(str, subtopology.source_topics), *(str(topic.name) for topic in subtopology.repartition_source_topics)]


def subtopologies(topology: Entity) -> list[Entity]:
    """Return the subtopologies in ascending order of their ids."""
    return sorted(topology.subtopologies, key=lambda subtopology: subtopology.subtopology_id)


def required_topics(topology: Entity) -> list[str]:
    """Return all topics of a topology in ascending order, existing or not. Source: requiredTopics"""
    logs = (str(topic.name) for subtopology in topology.subtopologies for topic in subtopology.state_changelog_topics)
    return sorted({*logs, *(name for subtopology in topology.subtopologies for name in sources_of(subtopology))})


def configure(topology: Entity, existing: PartitionsOf) -> Configured:
    """Derive a topology's tasks and internal topics from the existing topics.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY, if the partitions of a repartition topic cannot be derived, or
            UNKNOWN_SERVER_ERROR, as in Kafka, if a subtopology reads nothing or names topics that it does not read.
    """
    parts = subtopologies(topology)
    if not all(map(_is_sound, parts)) or len({part.subtopology_id for part in parts}) < len(parts):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        return _configured(parts, existing)
    except _NotConfigured as reason:
        return Configured({}, {}, status=reason.status)


def _is_sound(subtopology: Entity) -> bool:
    plain, written = len(subtopology.source_topics), len(subtopology.repartition_source_topics)
    groups = subtopology.copartition_groups
    return plain + written > 0 and all(
        all(0 <= index < plain for index in group.source_topics)
        and all(0 <= index < written for index in group.repartition_source_topics)
        for group in groups
    )


def _configured(parts: Sequence[Entity], existing: PartitionsOf) -> Configured:
    unknown = sorted({str(name) for part in parts for name in part.source_topics if existing(str(name)) is None})
    if unknown:
        raise _NotConfigured(MISSING_SOURCE_TOPICS, f"Source topics {_summary(unknown)} are missing.")
    decided = _repartitioned(parts, existing)

    def count_of(name: str) -> int:
        found = existing(name)
        return decided[name] if found is None else found

    for part in parts:
        for group in part.copartition_groups:
            together = [str(part.source_topics[index]) for index in group.source_topics]
            together += [str(part.repartition_source_topics[index].name) for index in group.repartition_source_topics]
            decided.update(_copartitioned(parts, together, count_of))
    counts = {part.subtopology_id: max(map(count_of, sources_of(part))) for part in parts}
    internal: dict[str, MissingTopic] = {}
    for part in parts:
        of_log = dict.fromkeys((str(topic.name) for topic in part.state_changelog_topics), counts[part.subtopology_id])
        decided.update(of_log)
        for topic in (*part.repartition_source_topics, *part.state_changelog_topics):
            name, config = str(topic.name), {str(entry.key): str(entry.value) for entry in topic.topic_configs}
            partitions = int(topic.partitions) or decided[name]
            internal[name] = MissingTopic(name, partitions, int(topic.replication_factor) or -1, config)
    for name, wanted in internal.items():
        found = existing(name)
        if found not in (None, wanted.partitions):
            raise _NotConfigured(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted.partitions}, "
                f"found {found}",
            )
    missing = tuple(internal[name] for name in sorted(internal) if existing(name) is None)
    names = [topic.name for topic in missing]
    status = (MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(names)}") if missing else None
    return Configured(counts, {name: topic.partitions for name, topic in internal.items()}, missing, status)


def _repartitioned(parts: Sequence[Entity], existing: PartitionsOf) -> dict[str, int]:
    """Return the partition counts of repartition topics.

    A repartition topic without a fixed count gets the largest count of the topics read by the subtopology that writes
    to it.
    """
    decided = {
        str(topic.name): int(topic.partitions)
        for part in parts
        for topic in part.repartition_source_topics
        if topic.partitions
    }
    waiting = [(str(name), part) for part in parts for name in part.repartition_sink_topics]
    while waiting := [(name, item) for name, item in waiting if name not in decided]:
        before = len(decided)
        for name, item in waiting:
            known = [decided.get(str(topic.name)) for topic in item.repartition_source_topics]
            known += [existing(str(topic)) for topic in item.source_topics]
            counts = [count for count in known if count is not None]
            if counts:
                decided.setdefault(name, max(counts))
        if len(decided) == before:
            raise _invalid("There may be loops in the topology that cannot be resolved.")
    if any(str(topic.name) not in decided for part in parts for topic in part.repartition_source_topics):
        raise _invalid("because a repartition source topic is never used as a sink topic.")
    return decided


def _invalid(why: str) -> KafkaError:
    what = "Failed to compute number of partitions for all repartition topics, "
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, what + why)


def _copartitioned(parts: Sequence[Entity], together: Iterable[str], count_of: Callable[[str], int]) -> dict[str, int]:
    """Return the partition counts of the repartition topics in a copartition group.

    Args:
        together: names of the topics in the group, which must have the same number of partitions.
        count_of: returns the number of partitions of a topic.
    """
    topics = [topic for part in parts for topic in part.repartition_source_topics]
    fixed = {str(topic.name): int(topic.partitions) for topic in topics if topic.partitions}
    flexible = {str(topic.name) for topic in topics if not topic.partitions}
    counts = {name: count_of(name) for name in together}
    if not counts:
        return {}
    own = {name: count for name, count in counts.items() if name in fixed or name in flexible}
    others = {name: count for name, count in counts.items() if name not in own}
    decisive = others or {name: count_of(name) for name in fixed} or {"": max(own.values(), default=0)}
    if len(set(decisive.values())) > 1:
        shown = ", ".join(f"{name}={count}" for name, count in sorted((others or own).items()))
        raise _NotConfigured(
            INCORRECTLY_PARTITIONED_TOPICS, f"Following topics do not have the same number of partitions: [{{{shown}}}]"
        )
    (count,) = dict.fromkeys(decisive.values())
    for name in own:
        if name in fixed and own[name] != count:
            raise _NotConfigured(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{own[name]}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{count}] of the source topic.",
            )
    return dict.fromkeys(own, count)


def _summary(topics: Sequence[str]) -> str:
    more = len(topics) - TOPICS_NAMED_MAX
    named = ", ".join(topics[:TOPICS_NAMED_MAX])
    return f"{named} and {more} additional topics" if more > 0 else named
