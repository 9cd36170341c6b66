"""Answers about partitions, by topic, and which member of a group asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cluster.broker.apis.api import Values
from cluster.broker.metadata.follower import MetadataCache
from cluster.groups.state.offsets import OffsetAndMetadata
from cluster.protocol.entities import Entity
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import UNDEFINED_EPOCH, TopicPartition


def instance_id_of(request: Entity) -> str | None:
    """group.instance.id; older versions of every request have no field for it"""
    found: object = getattr(request, "group_instance_id", None)
    return None if found is None else str(found)


def exists(cache: MetadataCache, name: TopicPartition) -> bool:
    return cache.image.partition(name.topic, name.partition) is not None


def commits_of(
    request: Entity, cache: MetadataCache, now_ms: int, expires_ms: int
) -> tuple[list[TopicPartition], dict[TopicPartition, OffsetAndMetadata]]:
    """Of OffsetCommit or TxnOffsetCommit: the partitions named, and the commits of those that exist."""
    names: list[TopicPartition] = []
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in request.topics:
        for one in topic.partitions:
            name = TopicPartition(str(topic.name), int(one.partition_index))
            names.append(name)
            if exists(cache, name):
                offsets[name] = _commit_of(one, now_ms, expires_ms)
    return names, offsets


def _commit_of(one: Entity, now_ms: int, expires_ms: int) -> OffsetAndMetadata:
    """Times are the wall clock's."""
    return OffsetAndMetadata(
        offset=int(one.committed_offset),
        leader_epoch=int(getattr(one, "committed_leader_epoch", UNDEFINED_EPOCH)),
        metadata="" if one.committed_metadata is None else str(one.committed_metadata),
        committed_ms=now_ms,
        expires_ms=expires_ms,
    )


def by_topic(partitions: Iterable[tuple[TopicPartition, Values]]) -> Iterator[Values]:
    """Answers about partitions, gathered by topic in the order in which topics first come.

    They are gathered when the answer is written, which is done in slices.
    """
    topics: dict[str, list[Values]] = {}
    for name, answer in paced(partitions):
        topics.setdefault(name.topic, []).append(answer)
    for topic, answers in topics.items():
        yield {"name": topic, "partitions": answers}


def error_of_each(names: Sequence[TopicPartition], errors: Mapping[TopicPartition, ErrorCode]) -> Iterator[Values]:
    """Partitions that the coordinator was not asked about do not exist."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return by_topic(
        (name, {"partition_index": name.partition, "error_code": errors.get(name, missing)}) for name in names
    )
