"""What a ZooKeeper-era broker does when a controller tells it something, and what it asks of the controller it may be.

source: KafkaApis.handleLeaderAndIsrRequest, handleUpdateMetadataRequest, handleStopReplicaRequest,
handleControlledShutdown, handleAlterPartitionRequest; ReplicaManager.becomeLeaderOrFollower
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from cluster.broker.control_planes.zookeeper_lifecycle import ZooKeeperLifecycle
from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.metadata.lifecycle import BrokerIdentity
from cluster.broker.replicas.changes import Assignment, ReplicaChanges
from cluster.broker.replicas.manager import ReplicaManager
from cluster.messages.alter_partition import alter_partition_event, alter_partition_results, topics_asked_for
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.control_messages import live_brokers, stopped_partitions, topic_states
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import (
    ALTER_PARTITION,
    CONTROLLED_SHUTDOWN,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    api_name,
)
from cluster.server.responder import Handler, Responder
from controller.events import AlterPartitionReply
from controller.image import BrokerRegistration, PartitionRegistration, TopicImage
from controller.zookeeper.control_requests import TopicState
from controller.zookeeper.controller_context import Process
from controller.zookeeper.kafka_controller import ControlledShutdownReply
from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, UNDEFINED_EPOCH, Names, TopicPartition
from replica.passive_topic_keys import active
from replica.rules import Rules
from replica.trace.events import ControlRequestRefused, Recorder


class ControlApis:
    """`handlers` by API key. controller_epoch: the highest that any request has carried."""

    def __init__(
        self,
        *,
        identity: BrokerIdentity,
        rules: Rules,
        names: Names,
        responder: Responder,
        cache: MetadataCache,
        replicas: ReplicaManager,
        changes: ReplicaChanges,
        lifecycle: ZooKeeperLifecycle,
        recorder: Recorder,
    ) -> None:
        self.controller_epoch = 0
        self._identity = identity
        self._rules = rules
        self._names = names
        self._answer = responder.answer
        self._cache = cache
        self._replicas = replicas
        self._changes = changes
        self._lifecycle = lifecycle
        self._recorder = recorder
        self._epochs_of: dict[TopicPartition, int] = {}
        self.handlers: Mapping[int, Handler] = {
            LEADER_AND_ISR: self._leader_and_isr,
            UPDATE_METADATA: self._update_metadata,
            STOP_REPLICA: self._stop_replica,
            CONTROLLED_SHUTDOWN: self._controlled_shutdown,
            ALTER_PARTITION: self._alter_partition,
        }

    def controller_epoch_of(self, name: TopicPartition) -> int:
        """Of the controller that last told us of the partition: a leader writes it beside its ISR."""
        return self._epochs_of.get(name, self.controller_epoch)

    # ------------------------------------------------------------------------------------------- from the controller

    def _leader_and_isr(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        if self._refuses(connection, peer, header, request):
            return
        topics = topic_states(request)

        def configured(now_us: int) -> None:
            errors = self._become_leader_or_follower(topics, int(request.controller_epoch), now_us)
            self._answer(connection, header, error_code=ErrorCode.NONE, topics=errors)

        self._lifecycle.configs.ensure([topic.topic for topic in topics], configured, now_us)

    def _become_leader_or_follower(
        self, topics: list[TopicState], controller_epoch: int, now_us: int
    ) -> list[dict[str, object]]:
        """Only a newer leader epoch is news, and a leader that is not known to live is none to follow: then the replica
        exists and stays as it was, so that the same words can be news later. source: makeFollowers
        """
        assigned: list[Assignment] = []
        answers: list[dict[str, object]] = []
        for topic in topics:
            image = self._topic_image(topic.topic, topic.topic_id)
            errors = []
            for number, registration in topic.partitions.items():
                name = TopicPartition(topic.topic, number)
                error = self._partition_error(name, registration)
                leads_or_can_follow = registration.leader in (self._identity.broker_id, *self._cache.image.brokers)
                if error is ErrorCode.NONE and leads_or_can_follow:
                    self._epochs_of[name] = controller_epoch
                    assigned.append(Assignment(name, image, registration))
                elif error is ErrorCode.NONE:
                    self._changes.keep(name, image, now_us)
                errors.append({"partition_index": number, "error_code": error})
            answers.append({"topic_id": topic.topic_id, "partition_errors": errors})
        self._changes.assign(assigned, now_us)
        return answers

    def _partition_error(self, name: TopicPartition, registration: PartitionRegistration) -> ErrorCode:
        partition = self._replicas.partitions.get(name)
        known = UNDEFINED_EPOCH if partition is None else partition.leader_epoch
        if registration.leader_epoch <= known:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        is_ours = self._identity.broker_id in registration.replicas
        return ErrorCode.NONE if is_ours else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _topic_image(self, topic: str, topic_id: UUID) -> TopicImage:
        """The cache's entry of a topic; a new one has no partitions until UpdateMetadata tells of them."""
        image = self._cache.image
        known = image.topics.get(topic)
        config = self._lifecycle.configs.known.get(topic, {})
        if known is None or known.topic_id != topic_id:
            known = TopicImage(topic_id=topic_id, config={}, log_config=TopicConfig(), partitions={})
            image.add_topic(topic, known)
        known.config, known.log_config = dict(config), active(config)
        return known

    def topic_config_changed(self, topic: str, now_us: int) -> None:
        known = self._cache.image.topics.get(topic)
        if known is not None:
            self._topic_image(topic, known.topic_id)
            self._changes.apply([], [topic], now_us)

    def _update_metadata(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        """The brokers that live, all of them; and of the partitions those that have changed."""
        request = cold.decode_request(header, frame)
        if self._refuses(connection, peer, header, request):
            return
        image = self._cache.image
        image.brokers = {
            broker.broker_id: BrokerRegistration(
                broker_id=broker.broker_id,
                incarnation_id="",
                broker_epoch=NO_BROKER_EPOCH,
                registration_offset=-1,
                rack=broker.rack,
                host=broker.host,
                port=broker.port,
                fenced=False,
                in_controlled_shutdown=False,
            )
            for broker in live_brokers(request)
        }
        for topic in topic_states(request):
            image.set_partitions(self._topic_image(topic.topic, topic.topic_id), topic.partitions)
        self._answer(connection, header, error_code=ErrorCode.NONE)

    def _stop_replica(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        if self._refuses(connection, peer, header, request):
            return
        self._changes.stop(stopped_partitions(request), now_us)
        self._answer(connection, header, error_code=ErrorCode.NONE, partition_errors=[])

    def _refuses(self, connection: ConnectionId, peer: str, header: RequestHeader, request: Entity) -> bool:
        """By `control-fencing`: a controller that is not the latest, and what was meant for an earlier life of ours.

        source: KafkaApis.isBrokerEpochStale, ReplicaManager.becomeLeaderOrFollower
        """
        epoch, broker_epoch = int(request.controller_epoch), int(request.broker_epoch)
        fencing = self._rules.control_fencing
        if fencing == "broker-epoch" and NO_BROKER_EPOCH != broker_epoch < self._lifecycle.broker_epoch:
            error = ErrorCode.STALE_BROKER_EPOCH
            why = f"it is meant for broker epoch {broker_epoch}, this one is {self._lifecycle.broker_epoch}"
        elif fencing != "none" and epoch < self.controller_epoch:
            error = ErrorCode.STALE_CONTROLLER_EPOCH
            why = f"it comes from controller epoch {epoch}, the latest known is {self.controller_epoch}"
        else:
            self.controller_epoch = epoch
            return False
        api = api_name(header.api_key)
        reason = f"{self._identity.name} refuses {api} of {peer}: {why}"
        refused = ControlRequestRefused(node=self._identity.name, peer=peer, api=api, error=error.name, reason=reason)
        self._recorder.emit(refused)
        self._answer(connection, header, error_code=error)
        return True

    # --------------------------------------------------------------------------------------------- to the controller

    def _controlled_shutdown(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def answer(reply: object) -> None:
            assert isinstance(reply, ControlledShutdownReply)
            remaining = [{"topic_name": name.topic, "partition_index": name.partition} for name in reply.remaining]
            self._answer(connection, header, error_code=reply.error, remaining_partitions=remaining)

        runner = self._lifecycle.runner
        process = runner.controller.controlled_shutdown(int(request.broker_id), int(request.broker_epoch), answer)
        runner.post(process, now_us)

    def _alter_partition(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        controller = self._lifecycle.runner.controller
        request = cold.decode_request(header, frame)

        def process() -> Process:
            # Names by id as they are at its turn: a controller that takes over reads its topics before.
            names = {topic_id: topic for topic, topic_id in controller.topic_ids.items()}
            asked = topics_asked_for(request, names)

            def answer(reply: object) -> None:
                assert isinstance(reply, AlterPartitionReply)
                results = alter_partition_results(reply, asked)
                self._answer(connection, header, error_code=reply.error, topics=results)

            yield from controller.alter_partition(alter_partition_event(request, names, now_us), answer)

        self._lifecycle.runner.post(process(), now_us)
