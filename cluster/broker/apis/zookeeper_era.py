"""Requests between brokers of the ZooKeeper era and their controller: LeaderAndIsr (4), StopReplica (5),
UpdateMetadata (6), ControlledShutdown (7), AlterPartition (56).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.broker.apis.api import ApiHandler, BrokerParts, Serve, Values, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.broker.replicas.changes import AssignedPartition
from cluster.messages.controller_requests import alter_partition_input, alter_partition_results, topics_asked_for
from cluster.protocol import versions
from cluster.protocol.control_messages import live_brokers, stopped_partitions, topic_states
from cluster.server.responder import Call
from controller.image import BrokerRegistration, PartitionRegistration
from controller.inputs import AlterPartitionReply
from controller.zookeeper.control_requests import TopicState
from controller.zookeeper.controller_context import Process
from controller.zookeeper.kafka_controller import ControlledShutdownReply
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, UNDEFINED_EPOCH, TopicPartition


class LeaderAndIsrHandler(ApiHandler):
    """LeaderAndIsr (4): apply the leaders and followers that the controller has chosen.

         5  topic ids (KIP-516): the only version supported here

    Source: KafkaApis.handleLeaderAndIsrRequest, ReplicaManager.becomeLeaderOrFollower
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        super().__init__(broker)
        self._broker_id = broker.base.identity.broker_id
        self._epochs = zookeeper.epochs
        self._configs = zookeeper.configs

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        if self._epochs.refuses(call, request):
            return
        topics = topic_states(request)

        def configured(now_us: int) -> None:
            errors = self._become_leader_or_follower(topics, int(request.controller_epoch), now_us)
            self._answer(call, error_code=ErrorCode.NONE, topics=errors)

        self._configs.ensure([topic.topic for topic in topics], configured, call.now_us)

    def _become_leader_or_follower(self, topics: list[TopicState], controller_epoch: int, now_us: int) -> list[Values]:
        """Make this broker's replicas leaders or followers, and return the response's entries of topics.

        A partition's error is STALE_CONTROLLER_EPOCH if its leader epoch is not newer. If its leader is not known to be
        alive, the replica is created if necessary but keeps its role and epoch, and a repeated request can take effect
        later. Source: makeFollowers
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
                    self._broker.changes.keep(name, image, now_us)
                errors.append({"partition_index": number, "error_code": error})
            answers.append({"topic_id": topic.topic_id, "partition_errors": errors})
        self._broker.changes.assign(assigned, now_us)
        return answers

    def _partition_error(self, name: TopicPartition, registration: PartitionRegistration) -> ErrorCode:
        partition = self._broker.replicas.partitions.get(name)
        known = UNDEFINED_EPOCH if partition is None else partition.leader_epoch
        if registration.leader_epoch <= known:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        is_ours = self._broker_id in registration.replicas
        return ErrorCode.NONE if is_ours else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class StopReplicaHandler(ApiHandler):
    """StopReplica (5): stop replicas for the controller, with or without deleting their logs.

         3  leader epochs (KIP-570): the only version supported here

    Source: KafkaApis.handleStopReplicaRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        super().__init__(broker)
        self._epochs = zookeeper.epochs

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        if self._epochs.refuses(call, request):
            return
        self._broker.changes.stop(stopped_partitions(request), call.now_us)
        self._answer(call, error_code=ErrorCode.NONE, partition_errors=[])


class UpdateMetadataHandler(ApiHandler):
    """UpdateMetadata (6): apply the controller's metadata of brokers and partitions, with which clients are answered.

         7  topic ids (KIP-516): the only version supported here

    Source: KafkaApis.handleUpdateMetadataRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        super().__init__(broker)
        self._epochs = zookeeper.epochs
        self._configs = zookeeper.configs

    def __call__(self, call: Call) -> None:
        """Replace the live brokers, and update the partitions in the request."""
        request = call.decoded()
        if self._epochs.refuses(call, request):
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
        self._answer(call, error_code=ErrorCode.NONE)


class ControlledShutdownHandler(ApiHandler):
    """ControlledShutdown (7): move the leaderships away from a broker that shuts down.

         3  flexible, with the broker's epoch (KIP-380): the only version supported here

    Source: KafkaApis.handleControlledShutdownRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        super().__init__(broker)
        self._runner = zookeeper.runner

    def __call__(self, call: Call) -> None:
        request = call.decoded()

        def answer(reply: object) -> None:
            assert isinstance(reply, ControlledShutdownReply)
            remaining = [{"topic_name": name.topic, "partition_index": name.partition} for name in reply.remaining]
            self._answer(call, error_code=reply.error, remaining_partitions=remaining)

        process = self._runner.controller.controlled_shutdown(int(request.broker_id), int(request.broker_epoch), answer)
        self._runner.post(process, call.now_us)


class AlterPartitionHandler(ApiHandler):
    """AlterPartition (56): accept or refuse the ISR that a leader proposes (KIP-497).

         3  the epochs of the brokers in the ISR (KIP-903): the only version supported here

    With KRaft, controllers answer this API. Source: KafkaApis.handleAlterPartitionRequest
    """

    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        super().__init__(broker)
        self._runner = zookeeper.runner

    def __call__(self, call: Call) -> None:
        controller = self._runner.controller
        request = call.decoded()

        def process() -> Process:
            # Topic names are read when this process runs, because a new controller loads its topics before that.
            names = {topic_id: topic for topic, topic_id in controller.topic_ids.items()}
            asked = topics_asked_for(request, names)

            def answer(reply: object) -> None:
                assert isinstance(reply, AlterPartitionReply)
                results = alter_partition_results(reply, asked)
                self._answer(call, error_code=reply.error, topics=results)

            yield from controller.alter_partition(alter_partition_input(request, names, call.now_us), answer)

        self._runner.post(process(), call.now_us)


APIS: Final[Mapping[int, Serve]] = {
    versions.LEADER_AND_ISR: in_zookeeper_era(LeaderAndIsrHandler),
    versions.STOP_REPLICA: in_zookeeper_era(StopReplicaHandler),
    versions.UPDATE_METADATA: in_zookeeper_era(UpdateMetadataHandler),
    versions.CONTROLLED_SHUTDOWN: in_zookeeper_era(ControlledShutdownHandler),
    versions.ALTER_PARTITION: in_zookeeper_era(AlterPartitionHandler),
}
