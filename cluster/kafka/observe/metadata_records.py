"""Kafka's own metadata records, read from their bytes into the records that our controller knows.

Every record is a frame (version 1), the number of its kind, its version, and flexible fields. Kinds that say nothing
about brokers, topics or partitions are passed over, as are fields that nothing here needs.

Source: MetadataRecordSerde, metadata/src/main/resources/common/metadata/*.json, ControlRecordType
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from cluster.protocol.config_resources import BROKER, GROUP, TOPIC
from cluster.protocol.primitives import (
    INT8,
    INT16,
    INT32,
    INT64,
    decodes,
    read_count,
    read_string,
    read_tagged,
    read_text,
    read_uuid,
    read_uvarint,
    skip_tagged,
)
from controller.metadata import (
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    LeaderChangeMessage,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from replica.errors import PeerViolation
from replica.ids import EVERY_BROKER, BrokerId
from replica.log.batches.records import BatchHeader, Record

FRAME_VERSION = 1
SEGMENT_BYTES, INTERNAL_SEGMENT_BYTES = "segment.bytes", "internal.segment.bytes"
"""Kafka 4.1 has a key of its own for the small segments of tests. source: LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG"""
LEADER_CHANGE = 2
"""ControlRecordType"""

TopicNames = Mapping[UUID, str]
"""Topics that exist, by their ids: records name a topic by its id alone."""


@decodes("a metadata record")
def decode_record(data: bytes, topics: TopicNames) -> MetadataRecord | None:
    """None for a kind that is not of interest. raises: PeerViolation if the bytes are no metadata record"""
    frame_version, place = read_uvarint(data, 0)
    if frame_version != FRAME_VERSION:
        raise PeerViolation(f"a metadata record has frame version {frame_version}")
    kind, place = read_uvarint(data, place)
    version, place = read_uvarint(data, place)
    read = _READERS.get(kind)
    return None if read is None else read(data, place, version, topics)


@decodes("a control record")
def decode_leader_change(header: BatchHeader, record: Record) -> LeaderChangeMessage | None:
    """None for another kind of control record."""
    key, value = record.key or b"", record.value or b""
    if INT16.unpack_from(key, 2)[0] != LEADER_CHANGE:
        return None
    return LeaderChangeMessage(leader_id=INT32.unpack_from(value, 2)[0], controller_epoch=header.leader_epoch)


def _broker_ids(data: bytes, place: int) -> tuple[tuple[BrokerId, ...], int]:
    count, place = read_count(data, place, flexible=True, item_bytes=4)
    end = place + 4 * count
    return tuple(INT32.unpack_from(data, at)[0] for at in range(place, end, 4)), end


def _tagged_ids(fields: Mapping[int, bytes], tag: int) -> tuple[BrokerId, ...] | None:
    """None: not there, or null."""
    if tag not in fields or fields[tag] == b"\0":
        return None
    return _broker_ids(fields[tag], 0)[0]


def _tagged_int8(fields: Mapping[int, bytes], tag: int, default: int) -> int:
    return int(INT8.unpack_from(fields[tag])[0]) if tag in fields else default


def _name(topics: TopicNames, topic_id: UUID) -> str:
    name = topics.get(topic_id)
    if name is None:
        raise PeerViolation(f"a metadata record is about topic {topic_id}, which no record has created")
    return name


def _topic(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    name, place = read_text(data, place, flexible=True)
    topic_id, _ = read_uuid(data, place)
    return TopicRecord(name=name, topic_id=topic_id, config={})


def _remove_topic(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    topic_id, _ = read_uuid(data, place)
    return RemoveTopicRecord(name=_name(topics, topic_id), topic_id=topic_id)


def _partition(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    (number,) = INT32.unpack_from(data, place)
    topic_id, place = read_uuid(data, place + 4)
    replicas, place = _broker_ids(data, place)
    isr, place = _broker_ids(data, place)
    removing, place = _broker_ids(data, place)
    adding, place = _broker_ids(data, place)
    leader, leader_epoch, partition_epoch = (INT32.unpack_from(data, place + 4 * index)[0] for index in range(3))
    place += 12
    if version >= 1:  # KIP-858: the directory of each replica
        count, place = read_count(data, place, flexible=True, item_bytes=16)
        place += 16 * count
    fields, _ = read_tagged(data, place)
    return PartitionRecord(
        topic=_name(topics, topic_id),
        partition=number,
        replicas=replicas,
        in_sync_replicas=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        recovering=_tagged_int8(fields, 0, 0) == 1,
        elr=_tagged_ids(fields, 1),
        last_known_elr=_tagged_ids(fields, 2),
        adding_replicas=adding,
        removing_replicas=removing,
    )


def _partition_change(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    (number,) = INT32.unpack_from(data, place)
    topic_id, place = read_uuid(data, place + 4)
    fields, _ = read_tagged(data, place)
    recovering = _tagged_int8(fields, 5, -1)
    return PartitionChangeRecord(
        topic=_name(topics, topic_id),
        partition=number,
        in_sync_replicas=_tagged_ids(fields, 0),
        leader=INT32.unpack_from(fields[1])[0] if 1 in fields else None,
        replicas=_tagged_ids(fields, 2),
        removing_replicas=_tagged_ids(fields, 3),
        adding_replicas=_tagged_ids(fields, 4),
        recovering=None if recovering < 0 else recovering == 1,
        elr=_tagged_ids(fields, 6),
        last_known_elr=_tagged_ids(fields, 7),
    )


def _config(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord | None:
    (resource,) = INT8.unpack_from(data, place)
    name, place = read_text(data, place + 1, flexible=True)
    key, place = read_text(data, place, flexible=True)
    value, _ = read_string(data, place, flexible=True)
    if resource == TOPIC:
        known = SEGMENT_BYTES if key == INTERNAL_SEGMENT_BYTES else key
        return ConfigRecord(topic=name, key=known, value=value)
    if resource == BROKER:
        return BrokerConfigRecord(broker_id=int(name) if name.isdecimal() else EVERY_BROKER, key=key, value=value)
    if resource == GROUP:
        return GroupConfigRecord(group=name, key=key, value=value)
    return None


def _feature_level(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    name, place = read_text(data, place, flexible=True)
    return FeatureLevelRecord(name=name, feature_level=INT16.unpack_from(data, place)[0])


def _register(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    (broker_id,) = INT32.unpack_from(data, place)
    place += 4 + (version >= 2)  # whether it migrates from ZooKeeper
    incarnation_id, place = read_uuid(data, place)
    (broker_epoch,) = INT64.unpack_from(data, place)
    count, place = read_count(data, place + 8, flexible=True, item_bytes=7)
    host, port = "", 0
    for _ in range(count):
        _, place = read_text(data, place, flexible=True)
        host, place = read_text(data, place, flexible=True)
        port = int.from_bytes(data[place : place + 2])
        place = skip_tagged(data, place + 4)
    count, place = read_count(data, place, flexible=True, item_bytes=6)
    for _ in range(count):
        _, place = read_text(data, place, flexible=True)
        place = skip_tagged(data, place + 4)
    rack, place = read_string(data, place, flexible=True)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=str(incarnation_id),
        broker_epoch=broker_epoch,
        rack=rack,
        host=host,
        port=port,
        fenced=bool(data[place]),
        in_controlled_shutdown=version >= 1 and bool(data[place + 1]),
    )


def _registration_change(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    (broker_id,) = INT32.unpack_from(data, place)
    (broker_epoch,) = INT64.unpack_from(data, place + 4)
    fields, _ = read_tagged(data, place + 12)
    fenced = _tagged_int8(fields, 0, 0)
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        fenced=None if fenced == 0 else fenced == 1,
        in_controlled_shutdown=True if _tagged_int8(fields, 1, 0) == 1 else None,
    )


def _fence(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    """Of 3.2 and older, where these two were kinds of their own."""
    return _fencing(data, place, fenced=True)


def _unfence(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord:
    return _fencing(data, place, fenced=False)


def _fencing(data: bytes, place: int, *, fenced: bool) -> MetadataRecord:
    (broker_id,) = INT32.unpack_from(data, place)
    (broker_epoch,) = INT64.unpack_from(data, place + 4)
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=fenced)


def _clear_elr(data: bytes, place: int, version: int, topics: TopicNames) -> MetadataRecord | None:
    """Without a name: of all topics."""
    name, _ = read_text(data, place, flexible=True)
    return ClearElrRecord(topic=name)


Reader = Callable[[bytes, int, int, TopicNames], MetadataRecord | None]

_READERS: Mapping[int, Reader] = {
    0: _register,
    2: _topic,
    3: _partition,
    4: _config,
    5: _partition_change,
    7: _fence,
    8: _unfence,
    9: _remove_topic,
    12: _feature_level,
    17: _registration_change,
    28: _clear_elr,
}
"""By the number of the kind of record."""
