"""The state of the cluster at one offset of the metadata log. The controller and every broker have their own copy.
Source: image/MetadataImage.java, metadata/PartitionRegistration.java, metadata/BrokerRegistration.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

from controller.access import Acls
from controller.metadata import (
    KRAFT_VERSION,
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
    VotersRecord,
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

FORMER_DIRECTORY = "former"
"""The id given to a broker's single log directory, which had none, once a new directory has replaced it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """The registration of one incarnation of a broker.

    If the same incarnation registers again, `registration_offset` changes, but the epoch does not.
    """

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
        """Return host and port of a listener, or None if the broker has no listener of this name.

        Args:
            listener: name of the listener; empty for the listener between brokers.

        Source: BrokerRegistration.node
        """
        if not listener:
            return self.host, self.port
        return next(
            ((endpoint.host, endpoint.port) for endpoint in self.endpoints or () if endpoint.name == listener), None
        )

    @property
    def is_active(self) -> bool:
        """True if the broker may be elected or join an ISR. Source: ClusterControlManager.isActive"""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """The state of one partition.

    Attributes:
        replicas: all replicas in order of preference.
        elr: eligible leader replicas (KIP-966), ascending; empty unless the ISR is below min.insync.replicas.
        last_known_elr: the last leader, while the partition has neither a leader nor an ISR.
        adding_replicas: replicas that the reassignment in progress adds; `replicas` includes them (KIP-455).
        removing_replicas: replicas that the reassignment removes; `replicas` still includes them.
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
        """Return the partition after a change.

        The partition epoch always rises; the leader epoch rises if the record has a leader.
        """
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
    """A topic with its settings and partitions.

    Attributes:
        config: the topic's own settings, as in the metadata log.
        log_config: all settings in effect, with the defaults of the node that has this image.
    """

    topic_id: UUID
    config: dict[str, str]
    log_config: TopicConfig
    partitions: dict[int, PartitionRegistration]

    @property
    def effective_min_isr(self) -> int:
        """The smaller of min.insync.replicas and the replication factor.

        Source: ReplicationControlManager.getTopicEffectiveMinIsr
        """
        return min(self.log_config.min_insync_replicas, len(self.partitions[0].replicas))


def metric_name(topic: str) -> str:
    """Return a topic's name in metrics, which no other topic may have. Source: Topic.unifyCollisionChars"""
    return topic.replace(".", "_")


_Whose = TypeVar("_Whose")


def _set(configs: dict[_Whose, dict[str, str]], whose: _Whose, key: str, value: str | None) -> None:
    """Set a dynamic setting of a broker or group, or remove it if `value` is None. Changed entries move to the end."""
    config = configs.pop(whose, {})
    config.pop(key, None)
    if value is not None:
        config[key] = value
    if config:
        configs[whose] = config


class MetadataImage:
    """All brokers, topics and settings of a cluster, as one node knows them.

    Attributes:
        offset: the last metadata record applied, -1 before the first.
        node_id: the node that has this image.
        settings_offset: offset of the last record about settings of brokers or features.
        new_topics_offset: offset of the last record that created a topic.
        acls: access rules.
        directories: the log directory of each replica that a broker has reported.
        broker_config: dynamic settings by broker.
        group_config: settings by group.
        client_quotas: quotas by entity and key.
        feature_levels: levels of the features whose level was changed.
        last_producer_ids: the block of producer ids that was allocated last.
        leaderless: partitions without a leader.
        imbalanced: partitions whose leader is not the preferred replica
            (ReplicationControlManager.imbalancedPartitions).
        metric_names: topics by their names in metrics, which have underscores for dots.
        scram: SCRAM credentials by user and mechanism.
        voters: voters of the quorum; None with kraft.version 0.
        topic_defaults: this node's defaults for settings that a topic does not set.
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
        "voters",
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
        self.voters: VotersRecord | None = None
        self.directories: dict[tuple[BrokerId, TopicPartition], str] = {}
        self.last_producer_ids: ProducerIdsRecord | None = None
        self.scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.acls = Acls()
        self.offset: Offset = -1

    @property
    def next_producer_id(self) -> int:
        """The first producer id that has not been allocated to a broker."""
        return 0 if self.last_producer_ids is None else self.last_producer_ids.next_producer_id

    @property
    def is_empty(self) -> bool:
        """True if no record about the cluster has been applied yet."""
        return not (self.brokers or self.topics or self.broker_config or self.scram)

    def empty(self) -> MetadataImage:
        """Return a new, empty image for the same node."""
        return MetadataImage(self._settings, self.node_id)

    def dynamic_config(self, broker_id: BrokerId) -> dict[str, str]:
        """Return the dynamic settings of a broker, which override those for all brokers."""
        return {**self.broker_config.get(EVERY_BROKER, {}), **self.broker_config.get(broker_id, {})}

    def apply(self, record: MetadataRecord, offset: Offset) -> None:
        """Apply the next record of the metadata log. No offset may be skipped or repeated."""
        assert offset == self.offset + 1, f"metadata record {offset} after {self.offset}"
        self.offset = offset
        self._replay(record, offset)

    def load_snapshot(self, records: Iterable[MetadataRecord], end_offset: Offset) -> None:
        """Load a snapshot of everything below `end_offset` into an empty image.

        As in Kafka, all records, including registrations, get the last offset below `end_offset`.
        Source: QuorumController.handleLoadSnapshot
        """
        assert self.offset < 0, "a snapshot is loaded first"
        self.offset = end_offset - 1
        for record in records:
            self._replay(record, self.offset)

    def _replay(self, record: MetadataRecord, offset: Offset) -> None:
        match record:
            case VotersRecord():
                self.voters = record
                self.settings_offset = self.offset
                self.feature_levels[KRAFT_VERSION] = 1
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
                    # As every change of a partition, this raises the partition epoch (TopicDelta.maybeClearElr).
                    self._change_partition(
                        PartitionChangeRecord(topic=topic, partition=number, elr=(), last_known_elr=())
                    )

    def with_elr(self, topic: str) -> list[TopicPartition]:
        """Return the topic's partitions that have an ELR or a last known leader."""
        found = sorted(self.topics[topic].partitions.items())
        return [TopicPartition(topic, number) for number, item in found if item.elr or item.last_known_elr]

    def add_topic(self, name: str, topic: TopicImage) -> None:
        """Add a topic, or replace the topic of this name if it had another id."""
        if name in self.topics:
            self.partition_count -= len(self.topics[name].partitions)
        self.partition_count += len(topic.partitions)
        self.topics[name] = topic
        self.topic_names[topic.topic_id] = name
        self.metric_names[metric_name(name)] = name

    def set_partitions(self, topic: TopicImage, partitions: Mapping[int, PartitionRegistration]) -> None:
        """Add or replace some partitions of a topic, as in an UpdateMetadata request of the ZooKeeper era."""
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
        if record.log_dirs is not None and len(record.log_dirs) == 1:
            # The broker's only directory is new. Its replicas count as in the former one until it reports otherwise.
            for name, partition in self.partitions():
                if record.broker_id in partition.replicas:
                    self.directories.setdefault((record.broker_id, name), FORMER_DIRECTORY)

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
        """Return False if the log directory of a replica has failed. Source: BrokerRegistration.hasOnlineDir"""
        directory = self.directories.get((broker_id, topic_partition))
        broker = self.brokers.get(broker_id)
        return directory is None or broker is None or broker.log_dirs is None or directory in broker.log_dirs

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        image = self.topics.get(topic)
        return None if image is None else image.partitions.get(partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
        """Yield every partition, sorted by topic name and number."""
        for name in sorted(self.topics):
            for number, registration in sorted(self.topics[name].partitions.items()):
                yield TopicPartition(name, number), registration
