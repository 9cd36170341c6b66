"""Topic creation in the ZooKeeper era: brokers write new topics to the registry.

Source: KafkaApis.handleCreateTopicsRequest, ZkAdminManager.createTopics, KafkaApis.createInternalTopic
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid5

from cluster.broker.control_planes.forwarding import WantedTopic
from cluster.broker.control_planes.registry_client import RegistryClient
from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.messages.admin import topic_requests
from cluster.messages.admin.requests import AdminRequest
from cluster.messages.refusals import refusal
from cluster.messages.topic_files import creation
from cluster.server.responder import Call, Responder
from controller.inputs import CreateTopic, CreateTopicReply
from controller.zookeeper import znodes
from controller.zookeeper.kafka_controller import KafkaController
from controller.zookeeper.registry import Create, Multi, RegistryError, Result
from replica.errors import ErrorCode, KafkaError


class RegistryTopics:
    """Creates topics in the registry, for CreateTopics requests and for the broker itself."""

    def __init__(
        self,
        base: BrokerBase,
        *,
        client: RegistryClient,
        controller: KafkaController,
        responder: Responder,
    ) -> None:
        self._identity = base.identity
        self._config = base.config
        self._names = base.names
        self._cache = base.cache
        self._client = client
        self._controller = controller
        self._responder = responder
        self._created = 0
        self._under_way: dict[str, int] = {}
        """Partition counts of the topics that this broker has written, but that are not in its metadata yet."""

    def create(self, wanted: WantedTopic, now_us: int) -> None:
        """Assign replicas and write the topic, unless it already exists.

        Errors are ignored: with too few brokers, for example, the topic is missing and the client asks again.
        """
        event = CreateTopic(
            now_us=now_us,
            name=wanted.name,
            partitions=wanted.partitions,
            replication_factor=wanted.replication_factor,
            config=wanted.config,
        )
        self._create(event, lambda reply: None)

    def _new_id(self) -> UUID:
        self._created += 1
        return uuid5(self._identity.incarnation_id, f"topic {self._created}")

    def create_topics(self, call: Call) -> None:
        """Handle a CreateTopics request, or refuse it with NOT_CONTROLLER."""
        # Simplified: answered when the topic is written; Kafka waits until the metadata of this broker has the topic.
        request = call.decoded()
        if not self._controller.is_active:
            self._responder.pass_on(call, refusal(call.header, call.frame, ErrorCode.NOT_CONTROLLER))
            return
        asked = topic_requests.create_topics(
            AdminRequest(call.header, request, self._cache.image, self._config, call.now_us)
        )
        wanted = [entry.what for entry in asked.entries if isinstance(entry.what, CreateTopic)]
        replies: list[CreateTopicReply | None] = [None] * len(wanted)

        def replied(index: int, reply: CreateTopicReply) -> None:
            replies[index] = reply
            done = [reply for reply in replies if reply is not None]
            if len(done) == len(replies):
                self._responder.answer(call, **asked.answer(done))

        if not wanted:
            self._responder.answer(call, **asked.answer(()))
        for index, event in enumerate(wanted):
            self._create(event, partial(replied, index))

    def _create(self, event: CreateTopic, reply: Callable[[CreateTopicReply], None]) -> None:
        known = self._cache.image.topics
        self._under_way = {name: count for name, count in self._under_way.items() if name not in known}
        try:
            files = creation(
                self._cache.image,
                replace(event, config={name: str(value) for name, value in event.config.items()}),
                topic_id=self._new_id(),
                broker_config=self._config,
                names=self._names,
                under_way=sum(self._under_way.values()),
            )
        except KafkaError as error:
            reply(CreateTopicReply(error=error.code, message=error.message))
            return
        created = _created(files)
        if event.validate_only:
            reply(created)
            return
        self._under_way[event.name] = created.partitions

        def written(results: Sequence[Result], now_us: int) -> None:
            error = results[0].error
            if error is None:
                reply(created)
                return
            self._under_way.pop(event.name, None)
            if error is RegistryError.NODE_EXISTS:
                message = f"topic {event.name} already exists"
                reply(CreateTopicReply(error=ErrorCode.TOPIC_ALREADY_EXISTS, message=message))
            else:
                reply(
                    CreateTopicReply(
                        error=ErrorCode.NOT_CONTROLLER, message="the controller's session with ZooKeeper has ended"
                    )
                )

        self._client.execute(files, written)


def _created(files: Multi) -> CreateTopicReply:
    settings, topic = files.ops
    assert isinstance(settings, Create)
    assert isinstance(topic, Create)
    topic_id, replicas = znodes.topic_of(topic.data)
    return CreateTopicReply(
        error=ErrorCode.NONE,
        topic_id=topic_id,
        partitions=len(replicas),
        replication_factor=len(replicas[0]),
        config=znodes.config_of(settings.data),
    )
