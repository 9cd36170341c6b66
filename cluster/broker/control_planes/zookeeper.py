"""A broker's control plane in the ZooKeeper era: its session with the registry, its handling of the controller's
requests, and a controller of its own, which may become the active one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cluster.broker.control_planes.controller_epochs import ControllerEpochs
from cluster.broker.control_planes.controller_runner import ControllerRunner
from cluster.broker.control_planes.forwarding import WantedTopic
from cluster.broker.control_planes.isr_updates import FOR_EVER_US, IsrUpdates
from cluster.broker.control_planes.isr_writes import IsrWrites
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.broker.control_planes.producer_ids import IdsOfRegistration
from cluster.broker.control_planes.registry_client import RegistryClient
from cluster.broker.control_planes.registry_topics import RegistryTopics
from cluster.broker.control_planes.topic_configs import TopicConfigs
from cluster.broker.control_planes.zookeeper_lifecycle import ZooKeeperLifecycle
from cluster.broker.metadata.lifecycle import BrokerBase, BrokerEvents
from cluster.broker.replicas.changes import ReplicaChanges
from cluster.channel import Channel, OnAnswer
from cluster.node import Outbox
from cluster.protocol.versions import CREATE_TOPICS
from cluster.server.responder import Handler, Responder
from controller.inputs import ElectLeader, OnReply
from controller.zookeeper.kafka_controller import KafkaController
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId


class ActiveControllerChannel(Channel):
    """A channel to the active controller. Its address is looked up for each attempt to send a request."""

    def __init__(self, outbox: Outbox, where: Callable[[], tuple[str, int]]) -> None:
        host, port = where()
        super().__init__(outbox, host, port, retry_us=FOR_EVER_US)
        self._where = where

    def _connect(self, now_us: int) -> None:
        self.host, self.port = self._where()
        super()._connect(now_us)

    def request(
        self, api: int, encode: Callable[[int], bytes], on_answer: OnAnswer, timeout_us: int, now_us: int
    ) -> None:
        if (self.host, self.port) != self._where():
            self.close()
        super().request(api, encode, on_answer, timeout_us, now_us)


class ZooKeeperPlane:
    """The `ControlPlane` of the ZooKeeper era."""

    metadata_log_dir = None
    """None because this era has no metadata log."""

    def __init__(
        self,
        base: BrokerBase,
        events: BrokerEvents,
        *,
        registry: tuple[str, int],
        responder: Responder,
        changes: ReplicaChanges,
    ) -> None:
        self._base = base
        self._changes = changes
        host, port = registry
        client = RegistryClient(
            outbox=base.outbox,
            host=host,
            port=port,
            timeout_us=base.config.zookeeper_session_timeout_ms * 1000,
            events=self,
        )
        self._controller = KafkaController(broker_id=base.broker_id, names=base.names, rules=base.rules)
        runner = ControllerRunner(base, client=client, controller=self._controller)
        self.lifecycle = ZooKeeperLifecycle(base, events, client=client, runner=runner)
        epochs = ControllerEpochs(base, responder=responder, broker_epoch=lambda: self.lifecycle.broker_epoch)
        configs = TopicConfigs(client, base.cache, self._topic_config_changed)
        self.zookeeper = ZooKeeperParts(epochs, configs, runner)
        self._topics = RegistryTopics(base, client=client, controller=self._controller, responder=responder)
        self.producer_ids = IdsOfRegistration(lambda: self.lifecycle.broker_epoch)
        if base.rules.isr_update == "alter-partition":
            channel = ActiveControllerChannel(base.outbox, self._where_the_controller_is)
            self.propose_isr = IsrUpdates(
                base, channel=channel, broker_epoch=lambda: self.lifecycle.broker_epoch
            ).propose
        else:
            self.propose_isr = IsrWrites(base, client=client, controller_epoch=epochs.of).propose

    def start(self, now_us: int) -> None:
        self.lifecycle.start(now_us)

    def begin_controlled_shutdown(self, now_us: int) -> None:
        self.lifecycle.begin_controlled_shutdown(now_us)

    def create_topics(self, wanted: Sequence[WantedTopic], now_us: int) -> None:
        for topic in wanted:
            self._topics.create(topic, now_us)

    def for_controller(self, key: int) -> Handler | None:
        """Return the handler of CreateTopics, None for other APIs.

        Simplified: the controller answers no other requests of clients.
        """
        return self._topics.create_topics if key == CREATE_TOPICS else None

    def controller_id(self) -> BrokerId | None:
        return self._controller.active_controller

    def fetch_epoch(self) -> BrokerEpoch:
        """Return NO_BROKER_EPOCH, because followers of this era send no broker epoch."""
        return NO_BROKER_EPOCH

    def elect_leader(self, wanted: ElectLeader, answer: OnReply, now_us: int) -> None:
        self.zookeeper.runner.post(self._controller.elect_leader(wanted, answer), now_us)

    def _topic_config_changed(self, topic: str, now_us: int) -> None:
        self._changes.apply([], [topic], now_us)

    def _where_the_controller_is(self) -> tuple[str, int]:
        """Return the active controller's (host, port).

        If it is unknown, return those of this broker, which answers NOT_CONTROLLER.
        """
        known = self._base.cache.image.brokers.get(self._controller.active_controller)
        own = self._base.identity
        return (own.host, own.port) if known is None else (known.host, known.port)

    # ------------------------------------------------------------------------------------------------- SessionEvents

    def session_began(self, now_us: int) -> None:
        self.lifecycle.session_began(now_us)

    def session_expired(self, now_us: int) -> None:
        self.zookeeper.runner.session_expired(now_us)

    def watch_fired(self, kind: str, path: str, now_us: int) -> None:
        self.zookeeper.configs.watch_fired(path)
        self.zookeeper.runner.watch_fired(path, now_us)
