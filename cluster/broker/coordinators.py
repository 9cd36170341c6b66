"""The coordinators of one broker, of groups and of transactions, each with the topic that keeps what it knows.

source: BrokerServer.startup
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.broker.apis.internal_topics import CoordinatorTopic
from cluster.broker.control_planes.auto_topics import WantedTopic
from cluster.broker.control_planes.plane import ControlPlane
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.manager import ReplicaManager
from cluster.channel import Channels
from cluster.config import BrokerConfig
from cluster.groups.service import GroupService
from cluster.groups.topic_directory import TopicDirectory
from cluster.outbox import Outbox
from cluster.transactions.marker_channel import MarkerChannels
from cluster.transactions.service import TransactionService
from cluster.transactions.verification import TransactionVerifier
from cluster.wall_clock import WallClock
from replica.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from replica.rules import Rules
from replica.trace.events import Recorder


class Coordinators:
    """plane: of the broker, which is made after them"""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: BrokerConfig,
        rules: Rules,
        outbox: Outbox,
        channels: Channels,
        cache: MetadataCache,
        replicas: ReplicaManager,
        clock: WallClock,
        recorder: Recorder,
        plane: Callable[[], ControlPlane],
    ) -> None:
        def create(wanted: WantedTopic, now_us: int) -> None:
            plane().create_topics([wanted], now_us)

        request_timeout_us = config.request_timeout_ms * 1000
        self.offsets_topic = CoordinatorTopic(OFFSETS_TOPIC, config, cache, create)
        self.transactions_topic = CoordinatorTopic(TRANSACTIONS_TOPIC, config, cache, create)
        self.groups = GroupService(
            node=identity.name,
            life=identity.incarnation_id,
            config=config,
            release=rules.release,
            outbox=outbox,
            replicas=replicas,
            clock=clock,
            recorder=recorder,
            partition_of=self.offsets_topic.partition_of,
            topics=TopicDirectory(cache),
        )
        self.transactions = TransactionService(
            node=identity.name,
            config=config,
            rules=rules,
            outbox=outbox,
            replicas=replicas,
            markers=MarkerChannels(
                node=identity.name,
                outbox=outbox,
                channels=channels,
                cache=cache,
                request_timeout_us=request_timeout_us,
            ),
            clock=clock,
            recorder=recorder,
            partition_of=self.transactions_topic.partition_of,
            new_producer_id=lambda give, now_us: plane().producer_ids.next(give, now_us),
        )
        replicas.transaction_checks.ask = TransactionVerifier(
            node=identity.name,
            outbox=outbox,
            channels=channels,
            find=self.transactions_topic.coordinator,
            request_timeout_us=request_timeout_us,
        ).ask
