"""The records of committed offsets and classic groups in the offsets topic, in Kafka's formats.

A key of version 0 or 1 is that of a committed offset, a key of version 2 that of a classic group. A null value is a
tombstone. The version of a value depends on the release.

Source: GroupMetadataManager.scala (offsetCommitValue, groupMetadataValue),
GroupCoordinatorRecordHelpers.offsetCommitValueVersion, OffsetCommitKey.json, OffsetCommitValue.json,
GroupMetadataKey.json, GroupMetadataValue.json
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.groups.state.group import Group, Member, State
from cluster.groups.state.offsets import NO_EXPIRY, OffsetAndMetadata
from cluster.protocol.primitives import (
    INT16,
    INT32,
    INT64,
    decodes,
    read_count,
    read_length,
    read_string,
    read_tagged,
    read_text,
    read_uuid,
    string,
    tagged,
)
from replica.errors import PeerViolation
from replica.ids import UNDEFINED_EPOCH, TopicPartition
from replica.rules import KafkaRelease, as_of

OFFSET_KEY_VERSIONS, GROUP_KEY_VERSION = (0, 1), 2
OFFSET_WITH_EXPIRY, OFFSET_WITH_LEADER_EPOCH, FLEXIBLE_OFFSET = 1, 3, 4
"""Versions of a committed offset's value."""
_TOPIC_ID_TAG = 0
GROUP_WITH_REBALANCE_TIMEOUT, GROUP_WITH_TIMESTAMP, GROUP_WITH_INSTANCE_ID = 1, 2, 3
NO_TIMESTAMP = -1
_LEAST_MEMBER_BYTES = 18
"""The minimum size of a member, in version 0: three lengths of two bytes, two of four bytes, and an int32."""


class ValueVersions(NamedTuple):
    """The versions in which a broker writes the values of committed offsets and groups."""

    offset: int
    group: int

    @property
    def each_offset_expires(self) -> bool:
        """True before KIP-211 (2.1): each commit expires separately, even if its group has members."""
        return self.offset <= OFFSET_WITH_EXPIRY


_OLDEST_VALUES, NEWEST_VALUES = ValueVersions(1, 0), ValueVersions(4, 3)
_VALUES_SINCE: Final = {
    KafkaRelease(0, 10): ValueVersions(1, 1),
    KafkaRelease(2, 1): ValueVersions(3, 2),
    KafkaRelease(2, 7): ValueVersions(3, 3),
    KafkaRelease(4, 1): NEWEST_VALUES,
}
"""Versions of values by the first release that writes them, if inter.broker.protocol.version is that of the release.

The changes came with 0.10.1-IV0, 2.1-IV0, 2.1-IV1 and 2.3-IV0, and that of 4.1 with every metadata.version.
"""


def value_versions(release: KafkaRelease) -> ValueVersions:
    return as_of(_VALUES_SINCE, release, _OLDEST_VALUES)


class OffsetKey(NamedTuple):
    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    group_id: str


class UnknownKey(NamedTuple):
    """A key of another version: that of a group in another format, or of a later release."""

    version: int


Key = OffsetKey | GroupKey | UnknownKey

# ------------------------------------------------------------------------------------------------------------- writing


def offset_key(group_id: str, name: TopicPartition) -> bytes:
    return INT16.pack(1) + _text(group_id) + _text(name.topic) + INT32.pack(name.partition)


def offset_value(value: OffsetAndMetadata, version: int) -> bytes:
    """Encode a committed offset in this version; in version 1 if it has an expiry time, which later versions lack."""
    if value.expires_ms != NO_EXPIRY:
        version = OFFSET_WITH_EXPIRY
    flexible = version >= FLEXIBLE_OFFSET
    parts = [INT16.pack(version), INT64.pack(value.offset)]
    if version >= OFFSET_WITH_LEADER_EPOCH:
        parts.append(INT32.pack(value.leader_epoch))
    parts += [string(value.metadata, flexible), INT64.pack(value.committed_ms)]
    if version == OFFSET_WITH_EXPIRY:
        parts.append(INT64.pack(value.expires_ms))
    if flexible:
        parts.append(tagged({} if value.topic_id is None else {_TOPIC_ID_TAG: value.topic_id.bytes}))
    return b"".join(parts)


def group_key(group_id: str) -> bytes:
    return INT16.pack(GROUP_KEY_VERSION) + _text(group_id)


def group_value(group: Group, assignments: Mapping[str, bytes], version: int) -> bytes:
    """Encode a classic group; `assignments` has every member's assignment, by member id."""
    parts = [
        INT16.pack(version),
        _text(group.protocol_type or ""),
        INT32.pack(group.generation),
        _text(group.protocol),
        _text(group.leader_id),
    ]
    if version >= GROUP_WITH_TIMESTAMP:
        parts.append(INT64.pack(NO_TIMESTAMP if group.since_ms is None else group.since_ms))
    parts.append(INT32.pack(len(group.members)))
    for member in group.members.values():
        assert group.protocol is not None, "a group with members has no protocol"
        parts.append(_text(member.member_id))
        if version >= GROUP_WITH_INSTANCE_ID:
            parts.append(_text(member.instance_id))
        parts += [_text(member.client_id), _text(member.client_host)]
        if version >= GROUP_WITH_REBALANCE_TIMEOUT:
            parts.append(INT32.pack(member.rebalance_timeout_ms))
        parts.append(INT32.pack(member.session_timeout_ms))
        parts += [_blob(member.metadata(group.protocol)), _blob(assignments[member.member_id])]
    return b"".join(parts)


def _text(text: str | None) -> bytes:
    return string(text, False)


def _blob(data: bytes) -> bytes:
    return INT32.pack(len(data)) + data


# ------------------------------------------------------------------------------------------------------------- reading


@decodes("the key of a group's record")
def read_key(key: bytes) -> Key:
    """Decode the key of a record in the offsets topic.

    Raises:
        PeerViolation: if the key is malformed.
    """
    (version,) = INT16.unpack_from(key, 0)
    if version in OFFSET_KEY_VERSIONS:
        group_id, position = read_text(key, 2, False)
        topic, position = read_text(key, position, False)
        return OffsetKey(group_id, TopicPartition(topic, INT32.unpack_from(key, position)[0]))
    if version == GROUP_KEY_VERSION:
        return GroupKey(read_text(key, 2, False)[0])
    return UnknownKey(version)


@decodes("a committed offset")
def read_offset_value(value: bytes) -> OffsetAndMetadata:
    """Decode a committed offset.

    Raises:
        PeerViolation: if the value is malformed.
    """
    (version,) = INT16.unpack_from(value, 0)
    if not 0 <= version <= FLEXIBLE_OFFSET:
        raise PeerViolation(f"version {version} of a committed offset record is not supported")
    (offset,) = INT64.unpack_from(value, 2)
    position, leader_epoch, expires_ms = 10, UNDEFINED_EPOCH, NO_EXPIRY
    if version >= OFFSET_WITH_LEADER_EPOCH:
        (leader_epoch,) = INT32.unpack_from(value, position)
        position += 4
    metadata, position = read_text(value, position, version >= FLEXIBLE_OFFSET)
    (committed_ms,) = INT64.unpack_from(value, position)
    if version == OFFSET_WITH_EXPIRY:
        (expires_ms,) = INT64.unpack_from(value, position + 8)
    tags = read_tagged(value, position + 8)[0] if version >= FLEXIBLE_OFFSET else {}
    topic_id = read_uuid(tags[_TOPIC_ID_TAG], 0)[0] if _TOPIC_ID_TAG in tags else None
    return OffsetAndMetadata(offset, leader_epoch, metadata, committed_ms, expires_ms, topic_id)


@decodes("a group")
def read_group_value(group_id: str, value: bytes) -> Group:
    """Decode a classic group, which is stable, or empty if it has no members.

    Raises:
        PeerViolation: if the value is malformed.
    """
    (version,) = INT16.unpack_from(value, 0)
    if not 0 <= version <= GROUP_WITH_INSTANCE_ID:
        raise PeerViolation(f"version {version} of a group record is not supported")
    protocol_type, position = read_text(value, 2, False)
    (generation,) = INT32.unpack_from(value, position)
    protocol, position = read_string(value, position + 4, False)
    leader_id, position = read_string(value, position, False)
    since_ms = NO_TIMESTAMP
    if version >= GROUP_WITH_TIMESTAMP:
        (since_ms,) = INT64.unpack_from(value, position)
        position += 8
    count, position = read_count(value, position, False, _LEAST_MEMBER_BYTES)
    if count and protocol is None:
        raise PeerViolation(f"the record of group {group_id} has members but no protocol")
    group = Group(group_id, State.STABLE if count else State.EMPTY, now_ms=None if since_ms < 0 else since_ms)
    group.leader_id = leader_id
    for _ in range(count):
        member, position = _read_member(value, position, version, protocol_type, str(protocol))
        if member.member_id in group.members or member.instance_id in group.static_members:
            raise PeerViolation(f"the record of group {group_id} lists a member twice")
        group.add(member)
    if group.leader_id is not None and group.leader_id not in group.members:
        raise PeerViolation(f"the record of group {group_id} names a leader that is not a member")
    group.protocol_type, group.protocol, group.generation = protocol_type or None, protocol, generation
    group.restore_subscribed()
    return group


def _read_member(value: bytes, position: int, version: int, protocol_type: str, protocol: str) -> tuple[Member, int]:
    member_id, position = read_text(value, position, False)
    instance_id: str | None = None
    if version >= GROUP_WITH_INSTANCE_ID:
        instance_id, position = read_string(value, position, False)
    client_id, position = read_text(value, position, False)
    client_host, position = read_text(value, position, False)
    rebalance_timeout_ms: int | None = None
    if version >= GROUP_WITH_REBALANCE_TIMEOUT:
        (rebalance_timeout_ms,) = INT32.unpack_from(value, position)
        position += 4
    (session_timeout_ms,) = INT32.unpack_from(value, position)
    metadata, position = _read_blob(value, position + 4)
    assignment, position = _read_blob(value, position)
    member = Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        protocol_type=protocol_type,
        protocols=((protocol, metadata),),
        assignment=assignment,
    )
    return member, position


def _read_blob(value: bytes, position: int) -> tuple[bytes, int]:
    size, position = read_length(value, position, False)
    size = max(size, 0)
    return value[position : position + size], position + size
