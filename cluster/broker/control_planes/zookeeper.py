"""The control plane of the ZooKeeper era as one broker has it: a session with the registry, a controller that it may
become, and what it does with a controller's requests."""

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
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.changes import ReplicaChanges
from cluster.channel import Channel, Channels, OnAnswer
from cluster.config import BrokerConfig
from cluster.node import Outbox
from cluster.protocol.versions import CREATE_TOPICS
from cluster.server.responder import Handler, Responder
from controller.inputs import OnReply
from controller.zookeeper.kafka_controller import KafkaController
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Names, TopicPartition
from replica.rules import Rules
from replica.trace.events import Recorder


class ActiveControllerChannel(Channel):
    """To the controller of the moment when a request is made, or made again."""

    def __init__(self, outbox: Outbox, channels: Channels, where: Callable[[], tuple[str, int]]) -> None:
        host, port = where()
        super().__init__(outbox, channels, host, port, retry_us=FOR_EVER_US)
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
    """There is no metadata log."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        config: BrokerConfig,
        rules: Rules,
        names: Names,
        outbox: Outbox,
        channels: Channels,
        responder: Responder,
        cache: MetadataCache,
        changes: ReplicaChanges,
        recorder: Recorder,
        registry: tuple[str, int],
        on_running: Callable[[int], None],
        on_stop: Callable[[int], None],
    ) -> None:
        self._identity = identity
        self._cache = cache
        self._changes = changes
        host, port = registry
        client = RegistryClient(
            outbox=outbox,
            channels=channels,
            host=host,
            port=port,
            timeout_us=config.registry_session_timeout_us,
            events=self,
        )
        self._controller = KafkaController(broker_id=identity.broker_id, names=names, rules=rules)
        runner = ControllerRunner(
            identity=identity,
            config=config,
            outbox=outbox,
            channels=channels,
            client=client,
            controller=self._controller,
            recorder=recorder,
        )
        self.lifecycle = ZooKeeperLifecycle(
            identity=identity,
            config=config,
            outbox=outbox,
            channels=channels,
            cache=cache,
            client=client,
            runner=runner,
            on_running=on_running,
            on_stop=on_stop,
        )
        epochs = ControllerEpochs(
            identity=identity,
            rules=rules,
            responder=responder,
            recorder=recorder,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
        )
        configs = TopicConfigs(client, cache, self._topic_config_changed)
        self.zookeeper = ZooKeeperParts(epochs, configs, runner)
        self._topics = RegistryTopics(
            identity=identity,
            config=config,
            names=names,
            cache=cache,
            client=client,
            controller=self._controller,
            responder=responder,
        )
        self.producer_ids = IdsOfRegistration(lambda: self.lifecycle.broker_epoch)
        if rules.isr_update == "alter-partition":
            channel = ActiveControllerChannel(outbox, channels, self._where_the_controller_is)
            self.propose_isr = IsrUpdates(
                identity=identity,
                config=config,
                outbox=outbox,
                channel=channel,
                broker_epoch=lambda: self.lifecycle.broker_epoch,
            ).propose
        else:
            writes = IsrWrites(
                identity=identity,
                names=names,
                outbox=outbox,
                client=client,
                recorder=recorder,
                controller_epoch=epochs.of,
            )
            self.propose_isr = writes.propose

    def start(self, now_us: int) -> None:
        self.lifecycle.start(now_us)

    def begin_controlled_shutdown(self, now_us: int) -> None:
        self.lifecycle.begin_controlled_shutdown(now_us)

    def create_topics(self, wanted: Sequence[WantedTopic], now_us: int) -> None:
        for topic in wanted:
            self._topics.create(topic, now_us)

    def for_controller(self, key: int) -> Handler | None:
        """Simplified: of what clients ask of a controller, only that topics are created."""
        return self._topics.create_topics if key == CREATE_TOPICS else None

    def controller_id(self) -> BrokerId | None:
        return self._controller.active_controller

    def fetch_epoch(self) -> BrokerEpoch:
        """Followers of this era do not say in which life they fetch."""
        return NO_BROKER_EPOCH

    def elect_leader(
        self, name: TopicPartition, desired: BrokerId | None, unclean: bool, answer: OnReply, now_us: int
    ) -> None:
        process = self._controller.elect_leader(name, desired, unclean, answer)
        self.zookeeper.runner.post(process, now_us)

    def _topic_config_changed(self, topic: str, now_us: int) -> None:
        self._changes.apply([], [topic], now_us)

    def _where_the_controller_is(self) -> tuple[str, int]:
        """While no controller is known the broker sends the request to itself, and gets NOT_CONTROLLER."""
        known = self._cache.image.brokers.get(self._controller.active_controller)
        return (self._identity.host, self._identity.port) if known is None else (known.host, known.port)

    # ------------------------------------------------------------------------------------------------- SessionEvents

    def session_began(self, now_us: int) -> None:
        self.lifecycle.session_began(now_us)

    def session_expired(self, now_us: int) -> None:
        self.zookeeper.runner.session_expired(now_us)

    def watch_fired(self, kind: str, path: str, now_us: int) -> None:
        self.zookeeper.configs.watch_fired(path)
        self.zookeeper.runner.watch_fired(path, now_us)
