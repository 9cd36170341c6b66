"""Snapshots of the metadata: records that rebuild an image without the whole log (KIP-630).
Source: SnapshotGenerator, SnapshotFileWriter, the image classes' `write`; RecordsSnapshotReader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from controller.features import ELR_VERSION
from controller.image import BrokerRegistration, MetadataImage, PartitionRegistration
from controller.metadata import (
    BrokerConfigRecord,
    ClientQuotaRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    ReplicaDirectoryRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
)
from controller.quorum.messages import OffsetAndEpoch
from replica.errors import PeerViolation
from replica.ids import TopicPartition


class Snapshot(NamedTuple):
    """The metadata of all records below `end.offset`. `end.epoch` is the epoch of the last of these records."""

    end: OffsetAndEpoch
    records: Sequence[MetadataRecord]

    def image(self, image: MetadataImage | None = None) -> MetadataImage:
        """Load the snapshot into `image`, which must be empty, or into a new image, and return the image."""
        image = image or MetadataImage()
        image.load_snapshot(self.records, self.end.offset)
        return image


def snapshot_of(image: MetadataImage, end: OffsetAndEpoch, last_timestamp_ms: int) -> Snapshot:
    """Return the snapshot of an image.

    Args:
        last_timestamp_ms: time at which the last record in `image` was written.
    """
    assert image.offset == end.offset - 1, "a snapshot ends where its image does"
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    return Snapshot(end, (header, *_records_of(image), SnapshotFooterRecord()))


def check_complete(records: Sequence[MetadataRecord]) -> None:
    """Check that a snapshot has a header and a footer.

    Raises:
        PeerViolation: if the header or the footer is missing.
    """
    ends = (records[0], records[-1]) if records else ()
    if [type(record) for record in ends] != [SnapshotHeaderRecord, SnapshotFooterRecord]:
        raise PeerViolation("a metadata snapshot has no header or no footer")


def changed_partitions(before: MetadataImage, after: MetadataImage) -> list[TopicPartition]:
    """Return the partitions that are changed, removed or new, in the order of `before`, then of `after`.

    If a topic was created again, all partitions of both topics are returned. Source: MetadataDelta.finishSnapshot
    """
    names = [
        TopicPartition(name, number)
        for image in (before, after)
        for name, topic in image.topics.items()
        for number in topic.partitions
    ]
    return [name for name in dict.fromkeys(names) if _state(before, name) != _state(after, name)]


def changed_configs(before: MetadataImage, after: MetadataImage) -> list[str]:
    """Return the topics that exist in both images with different settings."""
    return [
        name
        for name, topic in after.topics.items()
        if name in before.topics
        and (before.topics[name].config, before.topics[name].log_config) != (topic.config, topic.log_config)
    ]


def _state(image: MetadataImage, name: TopicPartition) -> tuple[UUID, PartitionRegistration] | None:
    registration = image.partition(name.topic, name.partition)
    return None if registration is None else (image.topics[name.topic].topic_id, registration)


def _records_of(image: MetadataImage) -> Iterator[MetadataRecord]:
    # If the ELR was switched off, remaining ELRs are not written (ImageWriterOptions).
    has_elr = image.feature_levels.get(ELR_VERSION) != 0
    if image.voters is not None:
        yield image.voters
    # Everything is in the order in which it was added to the image, so that a node that loads the snapshot has the same
    # order as a node that has read the whole log.
    for broker in image.brokers.values():
        yield _registered(broker)
    for name, topic in image.topics.items():
        yield TopicRecord(name=name, topic_id=topic.topic_id, config=topic.config)
        for number, partition in topic.partitions.items():
            yield _created(name, number, partition, has_elr=has_elr)
    for broker_id, config in image.broker_config.items():
        for key, value in config.items():
            yield BrokerConfigRecord(broker_id=broker_id, key=key, value=value)
    for group, config in image.group_config.items():
        for key, value in config.items():
            yield GroupConfigRecord(group=group, key=key, value=value)
    for feature, level in image.feature_levels.items():
        yield FeatureLevelRecord(name=feature, feature_level=level)
    for entity, quotas in image.client_quotas.items():
        for key, quota in quotas.items():
            yield ClientQuotaRecord(entity=entity, key=key, value=quota)
    if image.last_producer_ids is not None:
        yield image.last_producer_ids
    for (broker_id, (topic_name, number)), log_dir in image.directories.items():
        yield ReplicaDirectoryRecord(broker_id=broker_id, topic=topic_name, partition=number, log_dir=log_dir)
    yield from image.scram.values()
    yield from image.acls.records()


def _registered(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        rack=broker.rack,
        host=broker.host,
        port=broker.port,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        endpoints=broker.endpoints,
    )


def _created(topic: str, number: int, partition: PartitionRegistration, *, has_elr: bool) -> PartitionRecord:
    return PartitionRecord(
        topic=topic,
        partition=number,
        replicas=partition.replicas,
        in_sync_replicas=partition.in_sync_replicas,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        recovering=partition.recovering,
        elr=partition.elr or None if has_elr else None,
        last_known_elr=partition.last_known_elr or None if has_elr else None,
        adding_replicas=partition.adding_replicas or None,
        removing_replicas=partition.removing_replicas or None,
    )
