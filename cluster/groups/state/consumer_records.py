"""The records of consumer groups in the offsets topic, in Kafka's formats, with key versions 3 to 8 and 16.

3: the group epoch, with a hash of the topics (KIP-1101).
4: the topics, up to Kafka 4.0.
5: a member.
6: the epoch of the target assignment.
7: a member's target assignment.
8: a member's current assignment.
16: the topics of a pattern, since 4.0.

A null value is a tombstone. The formats are those of Kafka 4.1; until 4.0 key 3 had no hash.

Source: ConsumerGroup*Key.json, ConsumerGroup*Value.json, GroupCoordinatorRecordHelpers.java
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from cluster.groups.state.assignors import Partitions, TopicIdPartition
from cluster.groups.state.consumer_member import ClassicMetadata, ConsumerMember, MemberState
from cluster.protocol.entities import Entity
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
NAMES_ONE = (MEMBER_KEY, TARGET_KEY, CURRENT_KEY, PATTERN_KEY, 10, 13, 14, 19, 21, 22)
"""Key versions with a member id or a pattern; 10 to 14 belong to share groups, 19 to 22 to streams groups."""
NO_TAGS = b"\0"
CLASSIC_METADATA_TAG = METADATA_HASH_TAG = ASSIGNMENT_EPOCHS_TAG = ASSIGNMENT_TIME_TAG = 0
NEVER_ASSIGNED = 0
NO_EPOCHS: Mapping[Any, int] = MappingProxyType({})
NO_HASH = 0


@dataclass(frozen=True, slots=True)
class GroupEpochRecord:
    """The group epoch, None for a tombstone, and the hash of the topics that the group reads."""

    epoch: int | None
    metadata_hash: int = NO_HASH


@dataclass(frozen=True, slots=True)
class GroupTopicsRecord:
    """The topics record that Kafka 4.0 and older write; its contents are ignored. None for a tombstone."""

    topics: bytes | None


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member's subscription, None for a tombstone. Epochs and assignments of the member are not written."""

    member_id: str
    subscription: ConsumerMember | None


@dataclass(frozen=True, slots=True)
class TargetEpochRecord:
    """The group epoch of the target assignments, None for a tombstone, and the time of their computation (KIP-1263)."""

    epoch: int | None
    assigned_ms: int = NEVER_ASSIGNED


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A member's target assignment: partitions, or tasks in a streams group; None for a tombstone."""

    member_id: str
    partitions: tuple[Any, ...] | None


class CurrentAssignment(NamedTuple):
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: tuple[Any, ...]
    pending_revocation: tuple[Any, ...]
    since: Mapping[Any, int] = NO_EPOCHS


@dataclass(frozen=True, slots=True)
class CurrentAssignmentRecord:
    member_id: str
    current: CurrentAssignment | None


class ResolvedPattern(NamedTuple):
    """The topics that match a pattern, in ascending order; `version` is the offset of the metadata searched."""

    topics: tuple[str, ...]
    version: Offset
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class PatternRecord:
    pattern: str
    resolved: ResolvedPattern | None


@dataclass(frozen=True, slots=True)
class ShareTopics:
    """The initialization of share state in a share group; without names it is a tombstone.

    Attributes:
        initializing: partitions whose share state is being initialized.
        initialized: partitions whose share state exists.
        names: names of these topics and of those in `deleting`, by id.
        deleting: ids of topics whose share state is being deleted.
    """

    initializing: Partitions = ()
    initialized: Partitions = ()
    names: dict[UUID, str] | None = None
    deleting: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class TopologyRecord:
    """The topology of a streams group, None for a tombstone; other groups have no such record."""

    topology: Entity | None


ConsumerRecord = (
    GroupEpochRecord
    | GroupTopicsRecord
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentAssignmentRecord
    | PatternRecord
    | ShareTopics
    | TopologyRecord
)


def current_record(member: ConsumerMember) -> CurrentAssignmentRecord:
    current = CurrentAssignment(
        member.epoch, member.previous_epoch, member.state, member.assigned, member.pending_revocation, member.since
    )
    return CurrentAssignmentRecord(member.member_id, current)


# ------------------------------------------------------------------------------------------------------------- writing


def encode(group_id: str, record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Encode a record of a consumer group as key and value."""
    match record:
        case GroupEpochRecord(epoch, metadata_hash):
            return encode_key(EPOCH_KEY, group_id), None if epoch is None else encode_value(
                INT32.pack(epoch), tags=number(METADATA_HASH_TAG, metadata_hash, absent=NO_HASH)
            )
        case GroupTopicsRecord(topics):
            return encode_key(TOPICS_KEY, group_id), topics
        case MemberRecord(member_id, subscription):
            return encode_key(MEMBER_KEY, group_id, member_id), None if subscription is None else encode_value(
                _member(subscription), tags=_classic_metadata(subscription.classic)
            )
        case TargetEpochRecord(epoch, assigned_ms):
            return encode_key(TARGET_EPOCH_KEY, group_id), None if epoch is None else encode_value(
                INT32.pack(epoch), tags=number(ASSIGNMENT_TIME_TAG, assigned_ms, absent=NEVER_ASSIGNED)
            )
        case TargetRecord(member_id, partitions):
            return encode_key(TARGET_KEY, group_id, member_id), None if partitions is None else encode_value(
                written_partitions(partitions)
            )
        case CurrentAssignmentRecord(member_id, current):
            return encode_key(CURRENT_KEY, group_id, member_id), None if current is None else encode_value(
                _current(current)
            )
        case PatternRecord(pattern, resolved):
            return encode_key(PATTERN_KEY, group_id, pattern), None if resolved is None else encode_value(
                _resolved(resolved)
            )
        case ShareTopics() | TopologyRecord():
            raise AssertionError(f"{type(record).__name__} is not a record of consumer groups")


def encode_key(version: int, *texts: str) -> bytes:
    return INT16.pack(version) + b"".join(string(text, False) for text in texts)


def encode_value(*parts: bytes, tags: bytes = NO_TAGS) -> bytes:
    return b"".join((INT16.pack(VALUE_VERSION), *parts, tags))


def array(values: Sequence[Any], write: Callable[[Any], bytes]) -> bytes:
    return length(len(values), True) + b"".join(write(value) for value in values)


def number(tag: int, value: int, *, absent: int) -> bytes:
    """Encode a section of tagged fields with one 64-bit number, or an empty section if it is `absent`, the default."""
    return NO_TAGS if value == absent else tagged({tag: INT64.pack(value)})


def _resolved(resolved: ResolvedPattern) -> bytes:
    names = array(resolved.topics, lambda topic: string(topic, True))
    return names + INT64.pack(resolved.version) + INT64.pack(resolved.resolved_ms)


def _member(member: ConsumerMember) -> bytes:
    parts = (
        string(member.instance_id, True),
        string(member.rack_id, True),
        string(member.client_id, True),
        string(member.client_host, True),
        array(member.topics, lambda topic: string(topic, True)),
        string(member.topic_regex, True),
        INT32.pack(member.rebalance_timeout_ms),
        string(member.assignor, True),
    )
    return b"".join(parts)


def _classic_metadata(classic: ClassicMetadata | None) -> bytes:
    """Encode a member's tagged fields. As in Kafka, the field is written even if there is no classic metadata."""
    if classic is None:
        return tagged({CLASSIC_METADATA_TAG: INT8.pack(0)})

    def write(protocol: tuple[str, bytes]) -> bytes:
        name, metadata = protocol
        return string(name, True) + length(len(metadata), True) + metadata + NO_TAGS

    is_there = INT8.pack(1)
    fields = INT32.pack(classic.session_timeout_ms) + array(classic.protocols, write) + NO_TAGS
    return tagged({CLASSIC_METADATA_TAG: is_there + fields})


def written_partitions(partitions: Partitions, since: Mapping[TopicIdPartition, int] = NO_EPOCHS) -> bytes:
    topics = [
        (topic, list(of_topic)) for topic, of_topic in groupby(partitions, key=lambda partition: partition.topic_id)
    ]

    def write(topic: tuple[UUID, list[TopicIdPartition]]) -> bytes:
        topic_id, of_topic = topic
        epochs = [since[item] for item in of_topic if item in since]
        noted = array(epochs, INT32.pack) if len(epochs) == len(of_topic) else b""
        tags = tagged({ASSIGNMENT_EPOCHS_TAG: noted}) if epochs and noted else NO_TAGS
        return topic_id.bytes + array(of_topic, lambda item: INT32.pack(item.partition)) + tags

    return array(topics, write)


def _current(current: CurrentAssignment) -> bytes:
    epochs = INT32.pack(current.epoch) + INT32.pack(current.previous_epoch) + INT8.pack(current.state.value)
    return (
        epochs
        + written_partitions(current.assigned, current.since)
        + written_partitions(current.pending_revocation, current.since)
    )


# ------------------------------------------------------------------------------------------------------------- reading


@decodes("the key of a group's record")
def read_consumer_key(key: bytes) -> tuple[int, str, str]:
    """Decode the key of a consumer, share or streams group's record.

    Returns:
        (key version, group id, and the member id, the pattern or "").

    Raises:
        PeerViolation: if the key is malformed.
    """
    (version,) = INT16.unpack_from(key, 0)
    group_id, position = read_text(key, 2, False)
    return version, group_id, read_text(key, position, False)[0] if version in NAMES_ONE else ""


@decodes("a consumer group's record")
def read_consumer_record(version: int, whose: str, value: bytes | None) -> ConsumerRecord:
    """Decode a record, whose key has `version` and the member id or pattern `whose`.

    Raises:
        PeerViolation: if the record is malformed.
    """
    check_version(value)
    match version:
        case 3:
            return GroupEpochRecord(None) if value is None else GroupEpochRecord(*read_epoch(value, METADATA_HASH_TAG))
        case 4:
            return GroupTopicsRecord(value)
        case 5:
            return MemberRecord(whose, None if value is None else _read_member(whose, value))
        case 6:
            return (
                TargetEpochRecord(None) if value is None else TargetEpochRecord(*read_epoch(value, ASSIGNMENT_TIME_TAG))
            )
        case 7:
            return TargetRecord(whose, None if value is None else read_partitions(value, 2)[0])
        case 8:
            return CurrentAssignmentRecord(whose, None if value is None else _read_current(value))
        case _:
            return PatternRecord(whose, None if value is None else _read_resolved(value))


def check_version(value: bytes | None) -> None:
    """Check that a value, if it is not a tombstone, has the only supported version.

    Raises:
        PeerViolation: if the value has another version.
    """
    if value is not None and INT16.unpack_from(value, 0)[0] != VALUE_VERSION:
        raise PeerViolation(f"version {INT16.unpack_from(value, 0)[0]} of a group record is not supported")


def read_epoch(value: bytes, tag: int) -> tuple[int, int]:
    """Decode an epoch and the number in the tagged field `tag`, 0 if the field is missing."""
    (epoch,) = INT32.unpack_from(value, 2)
    tags, _ = read_tagged(value, 6)
    return epoch, INT64.unpack_from(tags[tag], 0)[0] if tag in tags else 0


def _read_resolved(value: bytes) -> ResolvedPattern:
    topics, position = read_names(value, 2)
    (version,), (resolved_ms,) = INT64.unpack_from(value, position), INT64.unpack_from(value, position + 8)
    return ResolvedPattern(topics, version, resolved_ms)


def read_names(value: bytes, position: int) -> tuple[tuple[str, ...], int]:
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
    topics, position = read_names(value, position)
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


def read_partitions(
    value: bytes, position: int, since: dict[TopicIdPartition, int] | None = None
) -> tuple[Partitions, int]:
    """Decode partitions from `position` on, and put their assignment epochs, if there are any, into `since`.

    Return the partitions and the position after them.
    """
    topics, position = read_count(value, position, True, 18, nullable=True)
    found: list[TopicIdPartition] = []
    for _ in range(topics):
        topic_id, position = read_uuid(value, position)
        count, position = read_count(value, position, True, 4, nullable=True)
        first = len(found)
        for _ in range(count):
            found.append(TopicIdPartition(topic_id, INT32.unpack_from(value, position)[0]))
            position += 4
        tags, position = read_tagged(value, position)
        if since is not None and ASSIGNMENT_EPOCHS_TAG in tags:
            since.update(zip(found[first:], read_epochs(tags[ASSIGNMENT_EPOCHS_TAG], count), strict=True))
    return tuple(sorted(found)), position


def _read_current(value: bytes) -> CurrentAssignment:
    epoch, previous_epoch = INT32.unpack_from(value, 2)[0], INT32.unpack_from(value, 6)[0]
    (code,) = INT8.unpack_from(value, 10)
    known = [state.value for state in MemberState]
    state = MemberState(code) if code in known else MemberState.UNKNOWN
    since: dict[TopicIdPartition, int] = {}
    assigned, position = read_partitions(value, 11, since)
    pending, _ = read_partitions(value, position, since)
    return CurrentAssignment(epoch, previous_epoch, state, assigned, pending, since)


def read_epochs(data: bytes, partitions: int) -> list[int]:
    count, position = read_count(data, 0, True, 4, nullable=True)
    if count != partitions:
        raise PeerViolation(f"a group record has {count} assignment epochs for {partitions} partitions")
    return [INT32.unpack_from(data, position + 4 * index)[0] for index in range(count)]
