"""The state of the cluster as of one offset of the metadata log: the controller's own, and every broker's copy of it.

Source: image/MetadataImage.java, metadata/PartitionRegistration.java, metadata/BrokerRegistration.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from controller.access import Acls
from controller.metadata import (
    AccessControlEntryRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    GroupConfigRecord,
    LeaderChangeMessage,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ReplicaDirectoryRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from replica.config import KAFKAS_OWN, NodeSettings, TopicConfig
from replica.ids import (
    EVERY_BROKER,
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicPartition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One incarnation of a broker. Amending it moves `registration_offset` but not the epoch."""

    broker_id: BrokerId
    incarnation_id: str
    broker_epoch: BrokerEpoch
    registration_offset: Offset
    rack: str | None
    host: str
    port: int
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[str, ...] | None = None
    endpoints: tuple[Endpoint, ...] | None = None

    def address_by(self, listener: str) -> tuple[str, int] | None:
        """Host and port for clients of a listener, None where this broker has none of that name.

        listener: its name, "" for the first, by which brokers speak to each other     source: BrokerRegistration.node
        """
        if not listener:
            return self.host, self.port
        return next(((one.host, one.port) for one in self.endpoints or () if one.name == listener), None)

    @property
    def is_active(self) -> bool:
        """Only an active broker may be elected or join an ISR (ClusterControlManager.isActive)."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """One partition: replicas in preference order, and the ISR in the order the controller wrote it.

    elr: eligible leader replicas (KIP-966), ascending; empty unless the ISR is below min.insync.replicas
    last_known_elr: the last leader, while the partition has neither leader nor ISR
    adding_replicas, removing_replicas: of the reassignment in progress; `replicas` holds both (KIP-455)
    """

    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    recovering: bool = False
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_BROKER

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.replicas[0]

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """The partition after one change: partition epoch + 1 always, leader epoch + 1 iff the leader field is set."""
        return PartitionRegistration(
            replicas=self.replicas if change.replicas is None else change.replicas,
            in_sync_replicas=self.in_sync_replicas if change.in_sync_replicas is None else change.in_sync_replicas,
            leader=self.leader if change.leader is None else change.leader,
            leader_epoch=self.leader_epoch if change.leader is None else self.leader_epoch + 1,
            partition_epoch=self.partition_epoch + 1,
            recovering=self.recovering if change.recovering is None else change.recovering,
            elr=self.elr if change.elr is None else change.elr,
            last_known_elr=self.last_known_elr if change.last_known_elr is None else change.last_known_elr,
            adding_replicas=self.adding_replicas if change.adding_replicas is None else change.adding_replicas,
            removing_replicas=self.removing_replicas if change.removing_replicas is None else change.removing_replicas,
        )


@dataclass(slots=True, kw_only=True)
class TopicImage:
    """`config` as in the metadata log (its own settings); `log_config` what is acted upon, typed: with the defaults of
    the node whose image it is."""

    topic_id: UUID
    config: dict[str, str]
    log_config: TopicConfig
    partitions: dict[int, PartitionRegistration]

    @property
    def effective_min_isr(self) -> int:
        """min(min.insync.replicas, replication factor). Source: ReplicationControlManager.getTopicEffectiveMinIsr"""
        return min(self.log_config.min_insync_replicas, len(self.partitions[0].replicas))


def metric_name(topic: str) -> str:
    """Two topics may not share it. source: Topic.unifyCollisionChars"""
    return topic.replace(".", "_")


_Whose = TypeVar("_Whose")


def _set(configs: dict[_Whose, dict[str, str]], whose: _Whose, key: str, value: str | None) -> None:
    """One key of one that has settings of its own, None takes it back; in the order of the latest changes."""
    config = configs.pop(whose, {})
    config.pop(key, None)
    if value is not None:
        config[key] = value
    if config:
        configs[whose] = config


class MetadataImage:
    """All brokers and topics, as one node sees them; `offset` is the last record applied, -1 before the first.

    settings, node_id: of that node     settings_offset: of the last record about settings of brokers or features
    new_topics_offset: of the last record that made a topic
    acls: who may do what
    directories: of each replica that its broker has told of
    broker_config: dynamic settings, by broker (BROKER ConfigRecords)
    group_config: settings of each group that has some (GROUP ConfigRecords)
    client_quotas: quotas by key, of each user and client that has one
    feature_levels: of features whose level was set     last_producer_ids: the latest block that was given to a broker
    leaderless, imbalanced: partitions without a leader, and without their preferred one
        (ReplicationControlManager.imbalancedPartitions)
    metric_names: of each topic, as names of metrics have it, with underscores for dots
    scram: by user and mechanism
    topic_defaults: settings of topics that have none of their own, at this node
    """

    __slots__ = (
        "_settings",
        "acls",
        "broker_config",
        "brokers",
        "client_quotas",
        "directories",
        "feature_levels",
        "group_config",
        "imbalanced",
        "last_producer_ids",
        "leaderless",
        "metric_names",
        "new_topics_offset",
        "node_id",
        "offset",
        "partition_count",
        "scram",
        "settings_offset",
        "topic_defaults",
        "topic_names",
        "topics",
    )

    def __init__(self, settings: NodeSettings = KAFKAS_OWN, node_id: BrokerId = NO_BROKER) -> None:
        self._settings = settings
        self.node_id = node_id
        self.topic_defaults = settings.topic_defaults({})
        self.settings_offset: Offset = -1
        self.new_topics_offset: Offset = -1
        self.brokers: dict[BrokerId, BrokerRegistration] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topic_names: dict[UUID, str] = {}
        self.metric_names: dict[str, str] = {}
        self.partition_count = 0
        self.leaderless: dict[TopicPartition, None] = {}
        self.imbalanced: dict[TopicPartition, None] = {}
        self.broker_config: dict[BrokerId, dict[str, str]] = {}
        self.group_config: dict[str, dict[str, str]] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.feature_levels: dict[str, int] = {}
        self.directories: dict[tuple[BrokerId, TopicPartition], str] = {}
        self.last_producer_ids: ProducerIdsRecord | None = None
        self.scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.acls = Acls()
        self.offset: Offset = -1

    @property
    def next_producer_id(self) -> int:
        """First of all that no broker has been given yet."""
        return 0 if self.last_producer_ids is None else self.last_producer_ids.next_producer_id

    @property
    def is_empty(self) -> bool:
        """Nothing has been said of a cluster yet."""
        return not (self.brokers or self.topics or self.broker_config or self.scram)

    def empty(self) -> MetadataImage:
        """An image of the same node, in which nothing has been said yet."""
        return MetadataImage(self._settings, self.node_id)

    def dynamic_config(self, broker_id: BrokerId) -> dict[str, str]:
        """Settings of a broker that were made while it runs: its own before those of all."""
        return {**self.broker_config.get(EVERY_BROKER, {}), **self.broker_config.get(broker_id, {})}

    def apply(self, record: MetadataRecord, offset: Offset) -> None:
        """Take over the next record of the log. Records are applied in order, each once."""
        assert offset == self.offset + 1, f"metadata record {offset} after {self.offset}"
        self.offset = offset
        self._replay(record, offset)

    def load_snapshot(self, records: Iterable[MetadataRecord], end_offset: Offset) -> None:
        """Become what a snapshot of everything below `end_offset` says; the image was empty.

        As in Kafka, all of it counts as said by the last record below (QuorumController.handleLoadSnapshot), so
        that registrations have that offset.
        """
        assert self.offset < 0, "a snapshot is loaded first"
        self.offset = end_offset - 1
        for record in records:
            self._replay(record, self.offset)

    def _replay(self, record: MetadataRecord, offset: Offset) -> None:
        match record:
            case LeaderChangeMessage() | SnapshotHeaderRecord() | SnapshotFooterRecord():
                pass
            case RegisterBrokerRecord():
                self._register(record, offset)
            case BrokerRegistrationChangeRecord():
                self._change_broker(record)
            case UnregisterBrokerRecord():
                del self.brokers[record.broker_id]
            case ReplicaDirectoryRecord():
                self.directories[record.broker_id, TopicPartition(record.topic, record.partition)] = record.log_dir
            case TopicRecord():
                config = dict(record.config)
                topic_id = record.topic_id
                self.new_topics_offset = self.offset
                log_config = self.topic_defaults.with_own(config)
                self.add_topic(
                    record.name, TopicImage(topic_id=topic_id, config=config, log_config=log_config, partitions={})
                )
            case RemoveTopicRecord():
                self._delete_topic(record)
            case ConfigRecord():
                self._change_config(record)
            case BrokerConfigRecord():
                self._configure_broker(record)
            case GroupConfigRecord():
                _set(self.group_config, record.group, record.key, record.value)
            case FeatureLevelRecord():
                self.settings_offset = self.offset
                self.feature_levels[record.name] = record.feature_level
            case ClientQuotaRecord():
                self._change_quota(record)
            case ProducerIdsRecord():
                self.last_producer_ids = record
            case UserScramCredentialRecord():
                self.scram[record.name, record.mechanism] = record
            case RemoveUserScramCredentialRecord():
                del self.scram[record.name, record.mechanism]
            case AccessControlEntryRecord():
                self.acls.add(record)
            case RemoveAccessControlEntryRecord():
                self.acls.remove(record.id)
            case PartitionRecord():
                self._create_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case ClearElrRecord():
                for topic, number in self.with_elr(record.topic):
                    # A change like any other: it raises the partition epoch (TopicDelta.maybeClearElr).
                    self._change_partition(
                        PartitionChangeRecord(topic=topic, partition=number, elr=(), last_known_elr=())
                    )

    def with_elr(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions that have an ELR, or a last known one."""
        found = sorted(self.topics[topic].partitions.items())
        return [TopicPartition(topic, number) for number, one in found if one.elr or one.last_known_elr]

    def add_topic(self, name: str, topic: TopicImage) -> None:
        """A topic of that name with another id goes."""
        if name in self.topics:
            self.partition_count -= len(self.topics[name].partitions)
        self.partition_count += len(topic.partitions)
        self.topics[name] = topic
        self.topic_names[topic.topic_id] = name
        self.metric_names[metric_name(name)] = name

    def set_partitions(self, topic: TopicImage, partitions: Mapping[int, PartitionRegistration]) -> None:
        """Apply an UpdateMetadata of the ZooKeeper era; partitions it does not name have not changed."""
        self.partition_count -= len(topic.partitions)
        topic.partitions.update(partitions)
        self.partition_count += len(topic.partitions)

    def _register(self, record: RegisterBrokerRecord, offset: Offset) -> None:
        self.brokers[record.broker_id] = BrokerRegistration(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            broker_epoch=record.broker_epoch,
            registration_offset=offset,
            rack=record.rack,
            host=record.host,
            port=record.port,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            endpoints=record.endpoints,
        )

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self.brokers[record.broker_id]
        assert broker.broker_epoch == record.broker_epoch, "a change of an earlier registration"
        self.brokers[record.broker_id] = replace(
            broker,
            fenced=broker.fenced if record.fenced is None else record.fenced,
            in_controlled_shutdown=(
                broker.in_controlled_shutdown
                if record.in_controlled_shutdown is None
                else record.in_controlled_shutdown
            ),
            log_dirs=broker.log_dirs if record.log_dirs is None else record.log_dirs,
        )

    def _configure_broker(self, record: BrokerConfigRecord) -> None:
        self.settings_offset = self.offset
        _set(self.broker_config, record.broker_id, record.key, record.value)
        if record.broker_id in (EVERY_BROKER, self.node_id):
            self._set_defaults(self._settings.topic_defaults(self.dynamic_config(self.node_id)))

    def _set_defaults(self, defaults: TopicConfig) -> None:
        if defaults != self.topic_defaults:
            self.topic_defaults = defaults
            for topic in self.topics.values():
                topic.log_config = defaults.with_own(topic.config)

    def _change_quota(self, record: ClientQuotaRecord) -> None:
        quotas = self.client_quotas.setdefault(record.entity, {})
        if record.value is not None:
            quotas[record.key] = record.value
            return
        quotas.pop(record.key, None)
        if not quotas:
            del self.client_quotas[record.entity]

    def _create_partition(self, record: PartitionRecord) -> None:
        registration = PartitionRegistration(
            replicas=record.replicas,
            in_sync_replicas=record.in_sync_replicas,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovering=record.recovering,
            elr=record.elr or (),
            last_known_elr=record.last_known_elr or (),
            adding_replicas=record.adding_replicas or (),
            removing_replicas=record.removing_replicas or (),
        )
        partitions = self.topics[record.topic].partitions
        self.partition_count += record.partition not in partitions
        partitions[record.partition] = registration
        self._note_leader(TopicPartition(record.topic, record.partition), registration)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self.topics[record.topic].partitions
        registration = partitions[record.partition] = partitions[record.partition].merge(record)
        self._note_leader(TopicPartition(record.topic, record.partition), registration)

    def _note_leader(self, name: TopicPartition, registration: PartitionRegistration) -> None:
        if registration.has_preferred_leader:
            self.leaderless.pop(name, None)
            self.imbalanced.pop(name, None)
            return
        self.imbalanced[name] = None
        if registration.has_leader:
            self.leaderless.pop(name, None)
        else:
            self.leaderless[name] = None

    def _delete_topic(self, record: RemoveTopicRecord) -> None:
        numbers = self.topics.pop(record.name).partitions
        del self.topic_names[record.topic_id], self.metric_names[metric_name(record.name)]
        self.partition_count -= len(numbers)
        for number in numbers:
            name = TopicPartition(record.name, number)
            self.leaderless.pop(name, None)
            self.imbalanced.pop(name, None)
            for broker_id in self.brokers if self.directories else ():
                self.directories.pop((broker_id, name), None)

    def _change_config(self, record: ConfigRecord) -> None:
        topic = self.topics[record.topic]
        topic.config.pop(record.key, None)
        if record.value is not None:
            topic.config[record.key] = record.value
        topic.log_config = self.topic_defaults.with_own(topic.config)

    def is_active(self, broker_id: BrokerId) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def has_online_dir(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        """False if the replica lies in a directory that has failed. source: BrokerRegistration.hasOnlineDir"""
        directory = self.directories.get((broker_id, topic_partition))
        broker = self.brokers.get(broker_id)
        return directory is None or broker is None or broker.log_dirs is None or directory in broker.log_dirs

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        image = self.topics.get(topic)
        return None if image is None else image.partitions.get(partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
        """Every partition, by topic name and number."""
        for name in sorted(self.topics):
            for number, registration in sorted(self.topics[name].partitions.items()):
                yield TopicPartition(name, number), registration
