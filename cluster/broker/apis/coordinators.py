"""The coordinators of one broker, of groups and of transactions, and the topics in which they keep what they know.

source: BrokerServer.startup, KafkaApis.getCoordinator, AutoTopicCreationManager,
GroupCoordinator.offsetsTopicConfigs, TransactionStateManager.transactionTopicConfigs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cluster.broker.control_planes.forwarding import WantedTopic
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.config import BrokerConfig
from cluster.node import ConnectionId
from controller.image import BrokerRegistration
from replica.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, LeaderEpoch, TopicPartition, partition_of

if TYPE_CHECKING:
    from cluster.broker.control_planes.plane import ControlPlane
    from cluster.broker.replicas.manager import ReplicaManager
    from cluster.broker.replicas.transaction_checks import TransactionQuestion
    from cluster.groups.service import GroupService
    from cluster.transactions.service import TransactionService
    from cluster.transactions.verification import TransactionVerifier

CreateTopic = Callable[[WantedTopic, int], None]
"""Asks the controller, if that has not been done: (topic, now_us)"""


def wanted_topic(name: str, config: BrokerConfig) -> WantedTopic:
    """Settings of a topic that a client's request creates. source: AutoTopicCreationManager.creatableTopic"""
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
    return WantedTopic(name, config.num_partitions, config.default_replication_factor)


class CoordinatorTopic:
    """create: how the topic comes to be, when the first client looks for a coordinator"""

    def __init__(self, name: str, config: BrokerConfig, cache: MetadataCache, create: CreateTopic) -> None:
        self._name = name
        self._wanted = wanted_topic(name, config)
        self._cache = cache
        self._create = create

    def partition_of(self, key: str) -> int:
        """A broker of the ZooKeeper era may have heard that it leads a partition, and nothing of the topic yet."""
        topic = self._cache.image.topics.get(self._name)
        known = 0 if topic is None else len(topic.partitions)
        return partition_of(key, known or self._wanted.partitions)

    def coordinator(self, key: str, now_us: int) -> BrokerRegistration | None:
        """The broker that coordinates it; None: there is none yet, or it is not alive."""
        if self._name not in self._cache.image.topics:
            # Clients come again until it is there. With too few brokers for its replicas the controller refuses.
            self._create(self._wanted, now_us)
            return None
        registration = self._cache.image.partition(self._name, self.partition_of(key))
        broker = None if registration is None else self._cache.image.brokers.get(registration.leader)
        return None if broker is None or broker.fenced else broker


@dataclass(kw_only=True, eq=False)
class Coordinators:
    """Each is made when the first partition of its topic comes to this broker, or the first client asks for it.

    plane: of the broker, which is made after them
    """

    base: BrokerBase
    replicas: ReplicaManager
    plane: Callable[[], ControlPlane]

    def __post_init__(self) -> None:
        self.offsets_topic = CoordinatorTopic(OFFSETS_TOPIC, self.base.config, self.base.cache, self._create)
        self.transactions_topic = CoordinatorTopic(TRANSACTIONS_TOPIC, self.base.config, self.base.cache, self._create)
        self.replicas.transaction_checks.ask = self._verify
        self._groups: GroupService | None = None
        self._transactions: TransactionService | None = None
        self._transaction_version: int | None = None

    def _create(self, wanted: WantedTopic, now_us: int) -> None:
        self.plane().create_topics([wanted], now_us)

    @property
    def groups(self) -> GroupService:
        if self._groups is None:
            from cluster.groups.service import GroupService

            self._groups = GroupService(self.base, replicas=self.replicas, partition_of=self.offsets_topic.partition_of)
        return self._groups

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

    def not_led(self, name: TopicPartition, leader_epoch: LeaderEpoch | None, now_us: int) -> None:
        if name.topic == OFFSETS_TOPIC:
            self.groups.not_led(name, leader_epoch, now_us)
        elif name.topic == TRANSACTIONS_TOPIC:
            self.transactions.not_led(name, leader_epoch, now_us)

    def deleted(self, names: Sequence[TopicPartition], now_us: int) -> None:
        """A partition that is deleted gets no marker: its transactions' coordinator sees it when it looks for the
        leader."""
        if self._groups is not None:
            self._groups.deleted(names, now_us)

    def gone(self, connection: ConnectionId) -> None:
        if self._groups is not None:
            self._groups.gone(connection)
        if self._transactions is not None:
            self._transactions.gone(connection)

    def settle(self, now_us: int) -> None:
        """At the end of each step of the broker."""
        if self._groups is not None:
            self._groups.settle(now_us)
        if self._transactions is not None:
            self._transactions.settle(now_us)
