"""What brokers of the ZooKeeper era tell each other and their controller: LeaderAndIsr (4), StopReplica (5),
UpdateMetadata (6), ControlledShutdown (7), AlterPartition (56).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.broker.replicas.changes import AssignedPartition
from cluster.messages.controller_requests import alter_partition_input, alter_partition_results, topics_asked_for
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.control_messages import live_brokers, stopped_partitions, topic_states
from cluster.protocol.versions import (
    ALTER_PARTITION,
    CONTROLLED_SHUTDOWN,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    RequestHeader,
)
from controller.image import BrokerRegistration, PartitionRegistration
from controller.inputs import AlterPartitionReply
from controller.zookeeper.control_requests import TopicState
from controller.zookeeper.controller_context import Process
from controller.zookeeper.kafka_controller import ControlledShutdownReply
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, UNDEFINED_EPOCH, TopicPartition


class LeaderAndIsrHandler:
    """LeaderAndIsr (4): the controller names leaders and followers.

         5  topic ids (KIP-516): the one version that is spoken here

    source: KafkaApis.handleLeaderAndIsrRequest, ReplicaManager.becomeLeaderOrFollower
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._broker_id = broker.base.identity.broker_id
        self._cache = broker.base.cache
        self._replicas = broker.replicas
        self._changes = broker.changes
        self._answer = broker.responder.answer
        self._epochs = zookeeper.epochs
        self._configs = zookeeper.configs

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        if self._epochs.refuses(connection, peer, header, request):
            return
        topics = topic_states(request)

        def configured(now_us: int) -> None:
            errors = self._become_leader_or_follower(topics, int(request.controller_epoch), now_us)
            self._answer(connection, header, error_code=ErrorCode.NONE, topics=errors)

        self._configs.ensure([topic.topic for topic in topics], configured, now_us)

    def _become_leader_or_follower(self, topics: list[TopicState], controller_epoch: int, now_us: int) -> list[Values]:
        """Only a newer leader epoch is news, and a leader that is not known to live is none to follow: then the replica
        exists and stays as it was, so that the same words can be news later. source: makeFollowers
        """
        assigned: list[AssignedPartition] = []
        answers: list[Values] = []
        for topic in topics:
            image = self._configs.image_of(topic.topic, topic.topic_id)
            errors = []
            for number, registration in topic.partitions.items():
                name = TopicPartition(topic.topic, number)
                error = self._partition_error(name, registration)
                leader = registration.leader
                leads_or_can_follow = leader == self._broker_id or leader in self._cache.image.brokers
                if error is ErrorCode.NONE and leads_or_can_follow:
                    self._epochs.note(name, controller_epoch)
                    assigned.append(AssignedPartition(name, image, registration))
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
        is_ours = self._broker_id in registration.replicas
        return ErrorCode.NONE if is_ours else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class StopReplicaHandler:
    """StopReplica (5): the controller takes replicas away from a broker, with or without their logs.

         3  leader epochs (KIP-570): the one version that is spoken here

    source: KafkaApis.handleStopReplicaRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._changes = broker.changes
        self._answer = broker.responder.answer
        self._epochs = zookeeper.epochs

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        if self._epochs.refuses(connection, peer, header, request):
            return
        self._changes.stop(stopped_partitions(request), now_us)
        self._answer(connection, header, error_code=ErrorCode.NONE, partition_errors=[])


class UpdateMetadataHandler:
    """UpdateMetadata (6): the controller sends brokers what they answer clients about brokers and partitions.

         7  topic ids (KIP-516): the one version that is spoken here

    source: KafkaApis.handleUpdateMetadataRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._cache = broker.base.cache
        self._answer = broker.responder.answer
        self._epochs = zookeeper.epochs
        self._configs = zookeeper.configs

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        """The brokers that live, all of them; and of the partitions those that have changed."""
        request = cold.decode_request(header, frame)
        if self._epochs.refuses(connection, peer, header, request):
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
            image.set_partitions(self._configs.image_of(topic.topic, topic.topic_id), topic.partitions)
        self._answer(connection, header, error_code=ErrorCode.NONE)


class ControlledShutdownHandler:
    """ControlledShutdown (7): a broker that wants to stop asks the controller to move its leaderships away.

         3  flexible, with the broker's epoch (KIP-380): the one version that is spoken here

    source: KafkaApis.handleControlledShutdownRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._runner = zookeeper.runner
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)

        def answer(reply: object) -> None:
            assert isinstance(reply, ControlledShutdownReply)
            remaining = [{"topic_name": name.topic, "partition_index": name.partition} for name in reply.remaining]
            self._answer(connection, header, error_code=reply.error, remaining_partitions=remaining)

        process = self._runner.controller.controlled_shutdown(int(request.broker_id), int(request.broker_epoch), answer)
        self._runner.post(process, now_us)


class AlterPartitionHandler:
    """AlterPartition (56): a leader proposes an ISR to the controller (KIP-497).

         3  the epochs of the brokers in the ISR (KIP-903): the one version that is spoken here

    With KRaft it is asked of the controllers, not of brokers. source: KafkaApis.handleAlterPartitionRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._runner = zookeeper.runner
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        controller = self._runner.controller
        request = cold.decode_request(header, frame)

        def process() -> Process:
            # Names by id as they are at its turn: a controller that takes over reads its topics before.
            names = {topic_id: topic for topic, topic_id in controller.topic_ids.items()}
            asked = topics_asked_for(request, names)

            def answer(reply: object) -> None:
                assert isinstance(reply, AlterPartitionReply)
                results = alter_partition_results(reply, asked)
                self._answer(connection, header, error_code=reply.error, topics=results)

            yield from controller.alter_partition(alter_partition_input(request, names, now_us), answer)

        self._runner.post(process(), now_us)


APIS: Final[Mapping[int, Serve]] = {
    LEADER_AND_ISR: in_zookeeper_era(LeaderAndIsrHandler),
    STOP_REPLICA: in_zookeeper_era(StopReplicaHandler),
    UPDATE_METADATA: in_zookeeper_era(UpdateMetadataHandler),
    CONTROLLED_SHUTDOWN: in_zookeeper_era(ControlledShutdownHandler),
    ALTER_PARTITION: in_zookeeper_era(AlterPartitionHandler),
}
