"""The coordinators of one broker for groups, transactions and share groups, and their internal topics.

Source: BrokerServer.startup, KafkaApis.getCoordinator, AutoTopicCreationManager, GroupCoordinator.offsetsTopicConfigs,
TransactionStateManager.transactionTopicConfigs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cluster.broker.control_planes.forwarding import WantedTopic
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.config import BrokerConfig
from cluster.node import ConnectionId
from cluster.protocol.versions import DELETE_SHARE_GROUP_STATE, INITIALIZE_SHARE_GROUP_STATE
from controller.image import BrokerRegistration
from replica.errors import ErrorCode
from replica.ids import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, LeaderEpoch, TopicPartition, partition_of

if TYPE_CHECKING:
    from cluster.broker.control_planes.plane import ControlPlane
    from cluster.broker.replicas.manager import ReplicaManager
    from cluster.broker.replicas.transaction_checks import TransactionQuestion
    from cluster.groups.inputs import ShareAction, ShareRefusal
    from cluster.groups.service import GroupService
    from cluster.groups.state.assignors import TopicIdPartition
    from cluster.groups.state.topology import MissingTopic
    from cluster.share.manager import ShareManager
    from cluster.share.persister import Persister
    from cluster.share.service import ShareService
    from cluster.transactions.service import TransactionService
    from cluster.transactions.verification import TransactionVerifier

CreateTopic = Callable[[WantedTopic, int], None]
"""Asks the controller to create a topic, unless a request to create it is pending: (topic, now_us)."""


def wanted_topic(name: str, config: BrokerConfig) -> WantedTopic:
    """Return the settings with which a topic is created automatically, internal topics included.

    Source: AutoTopicCreationManager.creatableTopic
    """
    if name == OFFSETS_TOPIC:
        return WantedTopic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return WantedTopic(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
    if name == SHARE_STATE_TOPIC:
        return WantedTopic(
            name,
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
            },
        )
    return WantedTopic(name, config.num_partitions, config.default_replication_factor)


class CoordinatorTopic:
    """The internal topic of a coordinator, created when the first client looks for that coordinator."""

    def __init__(self, name: str, config: BrokerConfig, cache: MetadataCache, create: CreateTopic) -> None:
        self._name = name
        self._wanted = wanted_topic(name, config)
        self._cache = cache
        self._create = create

    def partition_of(self, key: str) -> int:
        """Return the number of the partition with the state of a key, such as a group id.

        Without the topic's metadata the configured partition count is used: in the ZooKeeper era, a broker may lead a
        partition before it has that metadata.
        """
        topic = self._cache.image.topics.get(self._name)
        known = 0 if topic is None else len(topic.partitions)
        return partition_of(key, known or self._wanted.partitions)

    def coordinator(self, key: str, now_us: int) -> BrokerRegistration | None:
        """Return the live broker that coordinates a key, or None.

        If the topic does not exist yet, request its creation.
        """
        if self._name not in self._cache.image.topics:
            # Clients retry until the topic exists. With too few brokers for its replicas the controller refuses.
            self._create(self._wanted, now_us)
            return None
        registration = self._cache.image.partition(self._name, self.partition_of(key))
        broker = None if registration is None else self._cache.image.brokers.get(registration.leader)
        return None if broker is None or broker.fenced else broker


@dataclass(kw_only=True, eq=False)
class Coordinators:
    """The coordinators of one broker, each created when it is first used.

    Attributes:
        plane: returns the broker's control plane, which does not exist yet when this object is created.
    """

    base: BrokerBase
    replicas: ReplicaManager
    plane: Callable[[], ControlPlane]

    def __post_init__(self) -> None:
        self.offsets_topic = CoordinatorTopic(OFFSETS_TOPIC, self.base.config, self.base.cache, self._create)
        self.transactions_topic = CoordinatorTopic(TRANSACTIONS_TOPIC, self.base.config, self.base.cache, self._create)
        self.share_state_topic = CoordinatorTopic(SHARE_STATE_TOPIC, self.base.config, self.base.cache, self._create)
        self.replicas.transaction_checks.ask = self._verify
        self._groups: GroupService | None = None
        self._transactions: TransactionService | None = None
        self._share_states: ShareService | None = None
        self._shares: ShareManager | None = None
        self._transaction_version: int | None = None

    def _create(self, wanted: WantedTopic, now_us: int) -> None:
        self.plane().create_topics([wanted], now_us)

    def _create_internal(self, topics: Sequence[MissingTopic], now_us: int) -> None:
        """Ask the controller to create internal topics of a Kafka Streams application."""
        self.plane().create_topics([WantedTopic(*topic) for topic in topics], now_us)

    @property
    def groups(self) -> GroupService:
        if self._groups is None:
            from cluster.groups.service import GroupService

            self._groups = GroupService(
                self.base,
                replicas=self.replicas,
                partition_of=self.offsets_topic.partition_of,
                change_shares=self._change_shares,
                create_topics=self._create_internal,
            )
        return self._groups

    @property
    def share_states(self) -> ShareService:
        """The share coordinator of this broker."""
        if self._share_states is None:
            from cluster.share.service import ShareService

            topic = self.share_state_topic
            self._share_states = ShareService(self.base, replicas=self.replicas, partition_of=topic.partition_of)
        return self._share_states

    @property
    def shares(self) -> ShareManager:
        """The manager of the share partitions that this broker leads."""
        if self._shares is None:
            from cluster.share.manager import ShareManager

            self._shares = ShareManager(self.base, replicas=self.replicas, persister=self.persister)
        return self._shares

    @cached_property
    def persister(self) -> Persister:
        """The client through which this broker reads and writes share states at share coordinators."""
        from cluster.share.persister import Persister

        return Persister(
            node=self.base.node,
            outbox=self.base.outbox,
            find=self.share_state_topic.coordinator,
            request_timeout_us=self.base.config.request_timeout_ms * 1000,
        )

    def _change_shares(
        self, wanted: ShareAction, done: Callable[[Mapping[TopicIdPartition, ShareRefusal], int], None], now_us: int
    ) -> None:
        """Initialize or delete states of share partitions, then call `done(refused partitions, now_us)`."""
        from cluster.groups.inputs import AlterShares, InitializeShares, ShareRefusal
        from cluster.share.persister import change_states
        from cluster.share.state import UNINITIALIZED

        api = INITIALIZE_SHARE_GROUP_STATE
        partitions: dict[TopicIdPartition, Mapping[str, object]] = {}
        match wanted:
            case InitializeShares(_, epoch, uninitialized):
                fields = {"state_epoch": epoch, "start_offset": UNINITIALIZED}
                partitions.update(dict.fromkeys(uninitialized, fields))
            case AlterShares(_, _, epoch, offsets):
                for item, offset in offsets.items():
                    partitions[item] = {"state_epoch": epoch, "start_offset": offset}
            case _:
                api = DELETE_SHARE_GROUP_STATE
                partitions.update({partition: {} for partition in wanted.partitions})

        def changed(refused: Mapping[TopicIdPartition, tuple[ErrorCode, str | None]], at_us: int) -> None:
            done({item: ShareRefusal(*refusal) for item, refusal in refused.items()}, at_us)

        change_states(self.persister, api, (wanted.group_id, partitions), changed, now_us)

    @property
    def transactions(self) -> TransactionService:
        if self._transactions is None:
            from cluster.transactions.service import TransactionService

            self._transactions = TransactionService(
                self.base,
                replicas=self.replicas,
                partition_of=self.transactions_topic.partition_of,
                new_producer_id=lambda give, now_us: self.plane().producer_ids.next(give, now_us),
            )
            if self._transaction_version is not None:
                self._transactions.coordinator.set_version(self._transaction_version)
        return self._transactions

    @cached_property
    def _verifier(self) -> TransactionVerifier:
        from cluster.transactions.verification import TransactionVerifier

        return TransactionVerifier(
            node=self.base.node,
            outbox=self.base.outbox,
            find=self.transactions_topic.coordinator,
            request_timeout_us=self.base.config.request_timeout_ms * 1000,
        )

    def _verify(self, asked: TransactionQuestion, now_us: int) -> None:
        self._verifier.ask(asked, now_us)

    def set_transaction_version(self, level: int) -> None:
        self._transaction_version = level
        if self._transactions is not None:
            self._transactions.coordinator.set_version(level)

    # ------------------------------------------------------------------------------ Roles, and the steps of the broker

    def led(self, name: TopicPartition, leader_epoch: LeaderEpoch, now_us: int) -> None:
        if name.topic == OFFSETS_TOPIC:
            self.groups.led(name, leader_epoch, now_us)
        elif name.topic == TRANSACTIONS_TOPIC:
            self.transactions.led(name, leader_epoch, now_us)
        elif name.topic == SHARE_STATE_TOPIC:
            self.share_states.led(name, leader_epoch, now_us)

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        if name.topic == OFFSETS_TOPIC:
            self.groups.not_led(name, leader_epoch, now_us)
        elif name.topic == TRANSACTIONS_TOPIC:
            self.transactions.not_led(name, leader_epoch, now_us)
        elif name.topic == SHARE_STATE_TOPIC:
            self.share_states.not_led(name, leader_epoch, now_us)
        elif self._shares is not None:
            self._shares.not_led(name, now_us)

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None:
        """Delete the offsets and share states of deleted partitions.

        Pending transaction markers are dropped later, when the transaction coordinator finds no leader for them.
        """
        if self._groups is not None:
            self._groups.deleted(names, now_us)
        if names and self._share_states is not None:
            self._share_states.deleted(now_us)

    def gone(self, connection: ConnectionId, now_us: int) -> None:
        if self._groups is not None:
            self._groups.gone(connection)
        if self._transactions is not None:
            self._transactions.gone(connection)
        if self._share_states is not None:
            self._share_states.gone(connection)
        if self._shares is not None:
            self._shares.gone(connection, now_us)

    def settle(self, now_us: int) -> None:
        """Apply the results of finished log operations; called at the end of each step of the broker."""
        if self._groups is not None:
            self._groups.settle(now_us)
        if self._transactions is not None:
            self._transactions.settle(now_us)
        if self._share_states is not None:
            self._share_states.settle(now_us)
