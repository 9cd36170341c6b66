"""Decodes Kafka's metadata records into the record types of Highwater's controller.

Each record consists of a frame version (1), the number of its kind, its version, and flexible fields. Unused fields are
skipped, and so are kinds that do not concern brokers, topics or partitions.

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
"""Kafka 4.1 has a separate key for small segments in tests. Source: LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG"""
LEADER_CHANGE = 2
"""The control record type of a leader change. Source: ControlRecordType"""

TopicNames = Mapping[UUID, str]
"""Names of existing topics by id, since records name topics by id only."""


@decodes("a metadata record")
def decode_record(data: bytes, topics: TopicNames) -> MetadataRecord | None:
    """Decode a record; return None for a kind that is not used here.

    Raises:
        PeerViolation: if the bytes are not a metadata record.
    """
    frame_version, position = read_uvarint(data, 0)
    if frame_version != FRAME_VERSION:
        raise PeerViolation(f"frame version {frame_version} of a metadata record is not supported")
    kind, position = read_uvarint(data, position)
    version, position = read_uvarint(data, position)
    read = _READERS.get(kind)
    return None if read is None else read(data, position, version, topics)


@decodes("a control record")
def decode_leader_change(header: BatchHeader, record: Record) -> LeaderChangeMessage | None:
    """Decode a leader change; return None for another kind of control record."""
    key, value = record.key or b"", record.value or b""
    if INT16.unpack_from(key, 2)[0] != LEADER_CHANGE:
        return None
    return LeaderChangeMessage(leader_id=INT32.unpack_from(value, 2)[0], controller_epoch=header.leader_epoch)


def _broker_ids(data: bytes, position: int) -> tuple[tuple[BrokerId, ...], int]:
    count, position = read_count(data, position, flexible=True, item_bytes=4)
    end = position + 4 * count
    return tuple(INT32.unpack_from(data, at)[0] for at in range(position, end, 4)), end


def _tagged_ids(fields: Mapping[int, bytes], tag: int) -> tuple[BrokerId, ...] | None:
    """Return the broker ids in a tagged field; None if the field is missing or null."""
    if tag not in fields or fields[tag] == b"\0":
        return None
    return _broker_ids(fields[tag], 0)[0]


def _tagged_int8(fields: Mapping[int, bytes], tag: int, default: int) -> int:
    return int(INT8.unpack_from(fields[tag])[0]) if tag in fields else default


def _name(topics: TopicNames, topic_id: UUID) -> str:
    name = topics.get(topic_id)
    if name is None:
        raise PeerViolation(f"a metadata record refers to topic {topic_id}, which no record has created")
    return name


def _topic(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    name, position = read_text(data, position, flexible=True)
    topic_id, _ = read_uuid(data, position)
    return TopicRecord(name=name, topic_id=topic_id, config={})


def _remove_topic(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    topic_id, _ = read_uuid(data, position)
    return RemoveTopicRecord(name=_name(topics, topic_id), topic_id=topic_id)


def _partition(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    (number,) = INT32.unpack_from(data, position)
    topic_id, position = read_uuid(data, position + 4)
    replicas, position = _broker_ids(data, position)
    isr, position = _broker_ids(data, position)
    removing, position = _broker_ids(data, position)
    adding, position = _broker_ids(data, position)
    leader, leader_epoch, partition_epoch = (INT32.unpack_from(data, position + 4 * index)[0] for index in range(3))
    position += 12
    if version >= 1:  # KIP-858: the directory of each replica
        count, position = read_count(data, position, flexible=True, item_bytes=16)
        position += 16 * count
    fields, _ = read_tagged(data, position)
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


def _partition_change(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    (number,) = INT32.unpack_from(data, position)
    topic_id, position = read_uuid(data, position + 4)
    fields, _ = read_tagged(data, position)
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


def _config(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord | None:
    (resource,) = INT8.unpack_from(data, position)
    name, position = read_text(data, position + 1, flexible=True)
    key, position = read_text(data, position, flexible=True)
    value, _ = read_string(data, position, flexible=True)
    if resource == TOPIC:
        known = SEGMENT_BYTES if key == INTERNAL_SEGMENT_BYTES else key
        return ConfigRecord(topic=name, key=known, value=value)
    if resource == BROKER:
        return BrokerConfigRecord(broker_id=int(name) if name.isdecimal() else EVERY_BROKER, key=key, value=value)
    if resource == GROUP:
        return GroupConfigRecord(group=name, key=key, value=value)
    return None


def _feature_level(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    name, position = read_text(data, position, flexible=True)
    return FeatureLevelRecord(name=name, feature_level=INT16.unpack_from(data, position)[0])


def _register(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    (broker_id,) = INT32.unpack_from(data, position)
    position += 4 + (version >= 2)  # whether it migrates from ZooKeeper
    incarnation_id, position = read_uuid(data, position)
    (broker_epoch,) = INT64.unpack_from(data, position)
    count, position = read_count(data, position + 8, flexible=True, item_bytes=7)
    host, port = "", 0
    for _ in range(count):
        _, position = read_text(data, position, flexible=True)
        host, position = read_text(data, position, flexible=True)
        port = int.from_bytes(data[position : position + 2])
        position = skip_tagged(data, position + 4)
    count, position = read_count(data, position, flexible=True, item_bytes=6)
    for _ in range(count):
        _, position = read_text(data, position, flexible=True)
        position = skip_tagged(data, position + 4)
    rack, position = read_string(data, position, flexible=True)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=str(incarnation_id),
        broker_epoch=broker_epoch,
        rack=rack,
        host=host,
        port=port,
        fenced=bool(data[position]),
        in_controlled_shutdown=version >= 1 and bool(data[position + 1]),
    )


def _registration_change(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    (broker_id,) = INT32.unpack_from(data, position)
    (broker_epoch,) = INT64.unpack_from(data, position + 4)
    fields, _ = read_tagged(data, position + 12)
    fenced = _tagged_int8(fields, 0, 0)
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        fenced=None if fenced == 0 else fenced == 1,
        in_controlled_shutdown=True if _tagged_int8(fields, 1, 0) == 1 else None,
    )


def _fence(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    """Decode a record that fences a broker. Kafka 3.2 and older have separate kinds for fencing and unfencing."""
    return _fencing(data, position, fenced=True)


def _unfence(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord:
    return _fencing(data, position, fenced=False)


def _fencing(data: bytes, position: int, *, fenced: bool) -> MetadataRecord:
    (broker_id,) = INT32.unpack_from(data, position)
    (broker_epoch,) = INT64.unpack_from(data, position + 4)
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=fenced)


def _clear_elr(data: bytes, position: int, version: int, topics: TopicNames) -> MetadataRecord | None:
    """Decode a record that clears the ELRs of a topic, or of all topics if it has no name."""
    name, _ = read_text(data, position, flexible=True)
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
"""Decoders by the number of the record's kind."""
