"""LeaderAndIsr (4): the controller names leaders and followers.

     5  topic ids (KIP-516): the one version that is spoken here

source: KafkaApis.handleLeaderAndIsrRequest, ReplicaManager.becomeLeaderOrFollower
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts, Values, in_zookeeper_era
from cluster.broker.control_planes.plane import ZooKeeperParts
from cluster.broker.replicas.changes import AssignedPartition
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.control_messages import topic_states
from cluster.protocol.versions import RequestHeader
from controller.image import PartitionRegistration
from controller.zookeeper.control_requests import TopicState
from replica.errors import ErrorCode
from replica.ids import UNDEFINED_EPOCH, TopicPartition


class LeaderAndIsrHandler:
    def __init__(self, broker: BrokerParts, zookeeper: ZooKeeperParts) -> None:
        self._broker_id = broker.identity.broker_id
        self._cache = broker.cache
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


API = in_zookeeper_era(LeaderAndIsrHandler)
