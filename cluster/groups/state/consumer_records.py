"""The records of consumer groups in the offsets topic: Kafka's own keys 3 to 8 and 16, so that other tools can read it.

3 group epoch, with a hash of the topics (KIP-1101); 5 member, 6 epoch of the target assignment, 7 a member's target,
8 what a member has, 16 the topics that a pattern describes. A null value is a tombstone. As Kafka 4.1 writes them:
until 4.0 there was no hash and the topics were in 4, and until 3.9 there was no 16.
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
    INT64,
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
from replica.ids import Offset

VALUE_VERSION = 0
EPOCH_KEY, TOPICS_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, PATTERN_KEY = 3, 4, 5, 6, 7, 8, 16
CONSUMER_KEYS = (EPOCH_KEY, TOPICS_KEY, MEMBER_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, PATTERN_KEY)
NO_TAGS = b"\0"
CLASSIC_METADATA_TAG = METADATA_HASH_TAG = 0
NO_HASH = 0


@dataclass(frozen=True, slots=True)
class GroupEpochRecord:
    """metadata_hash: of the topics that the group reads, as of this epoch"""

    epoch: int | None
    metadata_hash: int = NO_HASH


@dataclass(frozen=True, slots=True)
class GroupTopicsRecord:
    """topics: what a broker of Kafka 4.0 or older has kept; it is not looked at"""

    topics: bytes | None


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


class ResolvedPattern(NamedTuple):
    """topics: those that it describes, in ascending order     version: offset of the metadata that was looked at"""

    topics: tuple[str, ...]
    version: Offset
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class PatternRecord:
    pattern: str
    resolved: ResolvedPattern | None


ConsumerRecord = (
    GroupEpochRecord
    | GroupTopicsRecord
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentAssignmentRecord
    | PatternRecord
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
        case GroupEpochRecord(epoch, metadata_hash):
            return _key(EPOCH_KEY, group_id), None if epoch is None else _value(
                INT32.pack(epoch), tags=_metadata_hash(metadata_hash)
            )
        case GroupTopicsRecord(topics):
            return _key(TOPICS_KEY, group_id), topics
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
        case PatternRecord(pattern, resolved):
            return _key(PATTERN_KEY, group_id, pattern), None if resolved is None else _value(_resolved(resolved))


def _key(version: int, *texts: str) -> bytes:
    return INT16.pack(version) + b"".join(string(text, False) for text in texts)


def _value(*parts: bytes, tags: bytes = NO_TAGS) -> bytes:
    return b"".join((INT16.pack(VALUE_VERSION), *parts, tags))


def _array(values: Sequence[Any], write: Callable[[Any], bytes]) -> bytes:
    return length(len(values), True) + b"".join(write(value) for value in values)


def _metadata_hash(metadata_hash: int) -> bytes:
    """The tagged section of an epoch's value; what is not said is 0."""
    return NO_TAGS if metadata_hash == NO_HASH else tagged({METADATA_HASH_TAG: INT64.pack(metadata_hash)})


def _resolved(resolved: ResolvedPattern) -> bytes:
    names = _array(resolved.topics, lambda topic: string(topic, True))
    return names + INT64.pack(resolved.version) + INT64.pack(resolved.resolved_ms)


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
    """The tagged section of a member's value; Kafka says there, too, that there is none."""
    if classic is None:
        return tagged({CLASSIC_METADATA_TAG: INT8.pack(0)})

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
    """(version, group id, whose it is: a member id, a pattern or nothing).  raises: PeerViolation"""
    (version,) = INT16.unpack_from(key, 0)
    group_id, position = read_text(key, 2, False)
    of_one = version in (MEMBER_KEY, TARGET_KEY, CURRENT_KEY, PATTERN_KEY)
    return version, group_id, read_text(key, position, False)[0] if of_one else ""


@decodes("a consumer group's record")
def read_consumer_record(version: int, whose: str, value: bytes | None) -> ConsumerRecord:
    """version, whose: of the key.  raises: PeerViolation"""
    if value is not None and INT16.unpack_from(value, 0)[0] != VALUE_VERSION:
        raise PeerViolation(f"a record of a consumer group of version {INT16.unpack_from(value, 0)[0]}")
    match version:
        case 3:
            return GroupEpochRecord(None) if value is None else _read_epoch(value)
        case 4:
            return GroupTopicsRecord(value)
        case 5:
            return MemberRecord(whose, None if value is None else _read_member(whose, value))
        case 6:
            return TargetEpochRecord(None if value is None else INT32.unpack_from(value, 2)[0])
        case 7:
            return TargetRecord(whose, None if value is None else _read_partitions(value, 2)[0])
        case 8:
            return CurrentAssignmentRecord(whose, None if value is None else _read_current(value))
        case _:
            return PatternRecord(whose, None if value is None else _read_resolved(value))


def _read_epoch(value: bytes) -> GroupEpochRecord:
    (epoch,) = INT32.unpack_from(value, 2)
    tags, _ = read_tagged(value, 6)
    said = tags.get(METADATA_HASH_TAG)
    return GroupEpochRecord(epoch, NO_HASH if said is None else INT64.unpack_from(said, 0)[0])


def _read_resolved(value: bytes) -> ResolvedPattern:
    topics, position = _read_names(value, 2)
    (version,), (resolved_ms,) = INT64.unpack_from(value, position), INT64.unpack_from(value, position + 8)
    return ResolvedPattern(topics, version, resolved_ms)


def _read_names(value: bytes, position: int) -> tuple[tuple[str, ...], int]:
    count, position = read_count(value, position, True, 1, nullable=True)
    names = []
    for _ in range(count):
        name, position = read_text(value, position, True)
        names.append(name)
    return tuple(names), position


def _read_member(member_id: str, value: bytes) -> ConsumerMember:
    instance_id, position = read_string(value, 2, True)
    rack_id, position = read_string(value, position, True)
    client_id, position = read_text(value, position, True)
    client_host, position = read_text(value, position, True)
    topics, position = _read_names(value, position)
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
        topics=topics,
        topic_regex=regex,
        assignor=assignor,
        classic=_read_classic_metadata(tags.get(CLASSIC_METADATA_TAG)),
    )


def _read_classic_metadata(data: bytes | None) -> ClassicMetadata | None:
    if data is None or INT8.unpack_from(data, 0)[0] <= 0:
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
