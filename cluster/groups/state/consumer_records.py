"""The records of consumer groups in the offsets topic: Kafka's own keys 3 to 8, so that other tools can read the log.

3 group epoch, 4 subscribed topics, 5 member, 6 epoch of the target assignment, 7 a member's target, 8 what a member
has. A null value is a tombstone. Simplified: as Kafka 4.0 writes them; 4.1 keeps a hash of the topics in 3, and
resolved patterns in 16.
source: ConsumerGroup*Key.json, ConsumerGroup*Value.json, GroupCoordinatorRecordHelpers.java
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from cluster.groups.assignors.specification import Partitions, TopicIdPartition
from cluster.groups.state.consumer_member import ClassicMetadata, ConsumerMember, MemberState
from cluster.protocol.primitives import (
    INT8,
    INT16,
    INT32,
    decodes,
    length,
    read_count,
    read_length,
    read_string,
    read_tagged,
    read_text,
    read_uuid,
    skip_tagged,
    string,
    tagged,
)
from replica.errors import PeerViolation

VALUE_VERSION = 0
EPOCH_KEY, TOPICS_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY = 3, 4, 5, 6, 7, 8
CONSUMER_KEYS = range(EPOCH_KEY, CURRENT_KEY + 1)
NO_TAGS = b"\0"
CLASSIC_METADATA_TAG = 0


class SubscribedTopic(NamedTuple):
    """A topic of the group that exists."""

    name: str
    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class GroupEpochRecord:
    epoch: int | None


@dataclass(frozen=True, slots=True)
class GroupTopicsRecord:
    topics: tuple[SubscribedTopic, ...] | None


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """subscription: only what the member says of itself is written"""

    member_id: str
    subscription: ConsumerMember | None


@dataclass(frozen=True, slots=True)
class TargetEpochRecord:
    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetRecord:
    member_id: str
    partitions: Partitions | None


class CurrentAssignment(NamedTuple):
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Partitions
    pending_revocation: Partitions


@dataclass(frozen=True, slots=True)
class CurrentAssignmentRecord:
    member_id: str
    current: CurrentAssignment | None


ConsumerRecord = (
    GroupEpochRecord | GroupTopicsRecord | MemberRecord | TargetEpochRecord | TargetRecord | CurrentAssignmentRecord
)


def current_record(member: ConsumerMember) -> CurrentAssignmentRecord:
    current = CurrentAssignment(
        member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation
    )
    return CurrentAssignmentRecord(member.member_id, current)


# ------------------------------------------------------------------------------------------------------------- writing


def encode(group_id: str, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Key and value."""
    match record:
        case GroupEpochRecord(epoch):
            return _key(EPOCH_KEY, group_id), None if epoch is None else _value(INT32.pack(epoch))
        case GroupTopicsRecord(topics):
            return _key(TOPICS_KEY, group_id), None if topics is None else _value(_array(topics, _topic))
        case MemberRecord(member_id, subscription):
            return _key(MEMBER_KEY, group_id, member_id), None if subscription is None else _value(
                _member(subscription), tags=_classic_metadata(subscription.classic)
            )
        case TargetEpochRecord(epoch):
            return _key(TARGET_EPOCH_KEY, group_id), None if epoch is None else _value(INT32.pack(epoch))
        case TargetRecord(member_id, partitions):
            return _key(TARGET_KEY, group_id, member_id), None if partitions is None else _value(
                _partitions(partitions)
            )
        case CurrentAssignmentRecord(member_id, current):
            return _key(CURRENT_KEY, group_id, member_id), None if current is None else _value(_current(current))


def _key(version: int, *texts: str) -> bytes:
    return INT16.pack(version) + b"".join(string(text, False) for text in texts)


def _value(*parts: bytes, tags: bytes = NO_TAGS) -> bytes:
    return b"".join((INT16.pack(VALUE_VERSION), *parts, tags))


def _array(values: Sequence[Any], write: Callable[[Any], bytes]) -> bytes:
    return length(len(values), True) + b"".join(write(value) for value in values)


def _topic(topic: SubscribedTopic) -> bytes:
    no_racks = length(0, True)
    return topic.topic_id.bytes + string(topic.name, True) + INT32.pack(topic.partitions) + no_racks + NO_TAGS


def _member(member: ConsumerMember) -> bytes:
    parts = (
        string(member.instance_id, True),
        string(member.rack_id, True),
        string(member.client_id, True),
        string(member.client_host, True),
        _array(member.topics, lambda topic: string(topic, True)),
        string(member.topic_regex, True),
        INT32.pack(member.rebalance_timeout_ms),
        string(member.assignor, True),
    )
    return b"".join(parts)


def _classic_metadata(classic: ClassicMetadata | None) -> bytes:
    """The tagged section of a member's value."""
    if classic is None:
        return NO_TAGS

    def write(protocol: tuple[str, bytes]) -> bytes:
        name, metadata = protocol
        return string(name, True) + length(len(metadata), True) + metadata + NO_TAGS

    is_there = INT8.pack(1)
    fields = INT32.pack(classic.session_timeout_ms) + _array(classic.protocols, write) + NO_TAGS
    return tagged({CLASSIC_METADATA_TAG: is_there + fields})


def _partitions(partitions: Partitions) -> bytes:
    topics = [(topic, list(of_topic)) for topic, of_topic in groupby(partitions, key=lambda one: one.topic_id)]

    def write(topic: tuple[UUID, list[TopicIdPartition]]) -> bytes:
        topic_id, of_topic = topic
        return topic_id.bytes + _array(of_topic, lambda one: INT32.pack(one.partition)) + NO_TAGS

    return _array(topics, write)


def _current(current: CurrentAssignment) -> bytes:
    epochs = INT32.pack(current.epoch) + INT32.pack(current.previous_epoch) + INT8.pack(current.state.value)
    return epochs + _partitions(current.assigned) + _partitions(current.pending_revocation)


# ------------------------------------------------------------------------------------------------------------- reading


@decodes("the key of a consumer group's record")
def read_consumer_key(key: bytes) -> tuple[int, str, str]:
    """(version, group id, member id or nothing).  raises: PeerViolation"""
    (version,) = INT16.unpack_from(key, 0)
    group_id, position = read_text(key, 2, False)
    member_id = read_text(key, position, False)[0] if version in (MEMBER_KEY, TARGET_KEY, CURRENT_KEY) else ""
    return version, group_id, member_id


@decodes("a consumer group's record")
def read_consumer_record(version: int, member_id: str, value: bytes | None) -> ConsumerRecord:
    """version: of the key.  raises: PeerViolation"""
    if value is not None and INT16.unpack_from(value, 0)[0] != VALUE_VERSION:
        raise PeerViolation(f"a record of a consumer group of version {INT16.unpack_from(value, 0)[0]}")
    match version:
        case 3:
            return GroupEpochRecord(None if value is None else INT32.unpack_from(value, 2)[0])
        case 4:
            return GroupTopicsRecord(None if value is None else _read_topics(value))
        case 5:
            return MemberRecord(member_id, None if value is None else _read_member(member_id, value))
        case 6:
            return TargetEpochRecord(None if value is None else INT32.unpack_from(value, 2)[0])
        case 7:
            return TargetRecord(member_id, None if value is None else _read_partitions(value, 2)[0])
        case _:
            return CurrentAssignmentRecord(member_id, None if value is None else _read_current(value))


def _read_topics(value: bytes) -> tuple[SubscribedTopic, ...]:
    count, position = read_count(value, 2, True, 22, nullable=True)
    found = []
    for _ in range(count):
        topic_id, position = read_uuid(value, position)
        name, position = read_text(value, position, True)
        (partitions,) = INT32.unpack_from(value, position)
        racks, position = read_count(value, position + 4, True, 6, nullable=True)
        for _ in range(racks):
            names, position = read_count(value, position + 4, True, 1, nullable=True)
            for _ in range(names):
                _, position = read_text(value, position, True)
            position = skip_tagged(value, position)
        position = skip_tagged(value, position)
        found.append(SubscribedTopic(name, topic_id, partitions))
    return tuple(found)


def _read_member(member_id: str, value: bytes) -> ConsumerMember:
    instance_id, position = read_string(value, 2, True)
    rack_id, position = read_string(value, position, True)
    client_id, position = read_text(value, position, True)
    client_host, position = read_text(value, position, True)
    count, position = read_count(value, position, True, 1, nullable=True)
    topics = []
    for _ in range(count):
        topic, position = read_text(value, position, True)
        topics.append(topic)
    regex, position = read_string(value, position, True)
    (rebalance_timeout_ms,) = INT32.unpack_from(value, position)
    assignor, position = read_string(value, position + 4, True)
    tags, position = read_tagged(value, position)
    return ConsumerMember(
        member_id=member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        topics=tuple(topics),
        topic_regex=regex,
        assignor=assignor,
        classic=_read_classic_metadata(tags.get(CLASSIC_METADATA_TAG)),
    )


def _read_classic_metadata(data: bytes | None) -> ClassicMetadata | None:
    if data is None or INT8.unpack_from(data, 0)[0] < 0:
        return None
    (session_timeout_ms,) = INT32.unpack_from(data, 1)
    count, position = read_count(data, 5, True, 2)
    protocols = []
    for _ in range(count):
        name, position = read_text(data, position, True)
        size, position = read_length(data, position, True)
        protocols.append((name, data[position : position + max(size, 0)]))
        position = skip_tagged(data, position + max(size, 0))
    return ClassicMetadata(session_timeout_ms, tuple(protocols))


def _read_partitions(value: bytes, position: int) -> tuple[Partitions, int]:
    topics, position = read_count(value, position, True, 18, nullable=True)
    found = []
    for _ in range(topics):
        topic_id, position = read_uuid(value, position)
        count, position = read_count(value, position, True, 4, nullable=True)
        for _ in range(count):
            found.append(TopicIdPartition(topic_id, INT32.unpack_from(value, position)[0]))
            position += 4
        position = skip_tagged(value, position)
    return tuple(sorted(found)), position


def _read_current(value: bytes) -> CurrentAssignment:
    epoch, previous_epoch = INT32.unpack_from(value, 2)[0], INT32.unpack_from(value, 6)[0]
    (number,) = INT8.unpack_from(value, 10)
    known = [state.value for state in MemberState]
    state = MemberState(number) if number in known else MemberState.UNKNOWN
    assigned, position = _read_partitions(value, 11)
    pending, _ = _read_partitions(value, position)
    return CurrentAssignment(epoch, previous_epoch, state, assigned, pending)
