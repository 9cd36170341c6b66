"""Requests of brokers to the controller, as inputs of its state, and its replies, as responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    RequestHeader,
)
from cluster.security import PROTOCOL_OF
from controller.image import MetadataImage
from controller.inputs import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionReply,
    AssignReplicas,
    AssignReplicasReply,
    BrokerHeartbeat,
    ControllerInput,
    HeartbeatReply,
    IsrProposal,
    ProducerIdsReply,
    RegisterBroker,
    RegistrationReply,
    Reply,
)
from controller.metadata import Endpoint
from replica.errors import ErrorCode, PeerViolation
from replica.frozen import dataclass

# ------------------------------------------------------------------------------------------------------ alter partition
#
# AlterPartition (KIP-497) between its messages and what a controller of either era decides about.


def alter_partition_input(request: Entity, names: Mapping[UUID, str], now_us: int) -> AlterPartition:
    """names: of topics by their id; an unknown one is named by its id"""
    proposals = tuple(
        IsrProposal(
            topic=names.get(topic.topic_id, str(topic.topic_id)),
            partition=int(entry.partition_index),
            leader_epoch=int(entry.leader_epoch),
            partition_epoch=int(entry.partition_epoch),
            in_sync_replicas=tuple(int(member.broker_id) for member in entry.new_isr_with_epochs),
            broker_epochs=tuple(int(member.broker_epoch) for member in entry.new_isr_with_epochs),
            recovering=bool(entry.leader_recovery_state),
        )
        for topic in request.topics
        for entry in topic.partitions
    )
    return AlterPartition(
        now_us=now_us,
        broker_id=int(request.broker_id),
        broker_epoch=int(request.broker_epoch),
        partitions=proposals,
    )


def topics_asked_for(request: Entity, names: Mapping[UUID, str]) -> dict[str, UUID]:
    """The topic ids of a request, by the names that the controller's input has for them.

    The answer goes by these: a topic can be deleted between question and answer.
    """
    return {names.get(topic.topic_id, str(topic.topic_id)): topic.topic_id for topic in request.topics}


def alter_partition_results(reply: AlterPartitionReply, topic_ids: Mapping[str, UUID]) -> list[dict[str, object]]:
    """The `topics` of the response. topic_ids: see topics_asked_for"""
    topics: dict[str, list[dict[str, object]]] = {}
    for result in reply.partitions:
        topics.setdefault(result.topic, []).append(
            {
                "partition_index": result.partition,
                "error_code": result.error,
                "leader_id": result.leader,
                "leader_epoch": result.leader_epoch,
                "isr": list(result.in_sync_replicas),
                "leader_recovery_state": int(result.recovering),
                "partition_epoch": result.partition_epoch,
            }
        )
    return [{"topic_id": topic_ids[name], "partitions": results} for name, results in topics.items()]


# ------------------------------------------------------------------------------------------------------ assign replicas
#
# AssignReplicasToDirs (KIP-858) between its message and the input of the controller.


def assign_replicas_input(request: Entity, names: Mapping[UUID, str], now_us: int) -> AssignReplicas:
    """names: of topics by their id; a topic that has been deleted meanwhile is left out"""
    places = tuple(
        (names[topic.topic_id], int(partition.partition_index), str(directory.id_))
        for directory in request.directories
        for topic in directory.topics
        if topic.topic_id in names
        for partition in topic.partitions
    )
    return AssignReplicas(
        now_us=now_us,
        broker_id=int(request.broker_id),
        broker_epoch=int(request.broker_epoch),
        places=places,
    )


_SERVED = (BROKER_REGISTRATION, BROKER_HEARTBEAT, ALTER_PARTITION, ASSIGN_REPLICAS_TO_DIRS, ALLOCATE_PRODUCER_IDS)


def is_request_of_brokers(header: RequestHeader) -> bool:
    return header.api_key in _SERVED


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A broker's request, and how its answer is written. topic_ids: see topics_asked_for"""

    header: RequestHeader
    input: ControllerInput
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    def response(self, reply: Reply) -> bytes:
        """A whole frame, size prefix included."""
        return encoded(self.header, _values(reply, self.topic_ids))


def broker_request(header: RequestHeader, frame: bytearray, image: MetadataImage, now_us: int) -> BrokerRequest:
    """raises: PeerViolation"""
    request = cold.decode_request(header, frame)
    if header.api_key == ALTER_PARTITION:
        proposal = alter_partition_input(request, image.topic_names, now_us)
        return BrokerRequest(header, proposal, topics_asked_for(request, image.topic_names))
    return BrokerRequest(header, _input(header, request, image, now_us))


def _input(header: RequestHeader, request: Entity, image: MetadataImage, now_us: int) -> ControllerInput:
    if header.api_key == BROKER_HEARTBEAT:
        return BrokerHeartbeat(
            now_us=now_us,
            broker_id=int(request.broker_id),
            broker_epoch=int(request.broker_epoch),
            metadata_offset=int(request.current_metadata_offset),
            want_fence=bool(request.want_fence),
            want_shut_down=bool(request.want_shut_down),
            offline_log_dirs=tuple(str(directory) for directory in request.offline_log_dirs),
        )
    if header.api_key == BROKER_REGISTRATION:
        if not request.listeners:
            raise PeerViolation("a broker that cannot be reached registers")
        if request.broker_id < 0:
            # Differs from Kafka, which does not look: -1 is the leader of a partition that has none.
            raise PeerViolation(f"a broker registers with the id {request.broker_id}")
        listener, *others = request.listeners
        return RegisterBroker(
            now_us=now_us,
            broker_id=int(request.broker_id),
            incarnation_id=str(request.incarnation_id),
            host=str(listener.host),
            port=int(listener.port),
            rack=request.rack,
            previous_broker_epoch=int(request.previous_broker_epoch),
            log_dirs=tuple(str(directory) for directory in request.log_dirs) or None,
            endpoints=tuple(_endpoint(one) for one in others) or None,
        )
    if header.api_key == ASSIGN_REPLICAS_TO_DIRS:
        return assign_replicas_input(request, image.topic_names, now_us)
    assert header.api_key == ALLOCATE_PRODUCER_IDS, f"api {header.api_key} is no request of a broker"
    return AllocateProducerIds(now_us=now_us, broker_id=int(request.broker_id), broker_epoch=int(request.broker_epoch))


def _endpoint(listener: Entity) -> Endpoint:
    """raises: PeerViolation"""
    protocol = PROTOCOL_OF.get(int(listener.security_protocol))
    if protocol is None:
        raise PeerViolation(f"a listener registers with the security protocol {listener.security_protocol}")
    return Endpoint(str(listener.name), str(listener.host), int(listener.port), protocol)


def _values(reply: Reply, topic_ids: Mapping[str, UUID]) -> dict[str, object]:
    match reply:
        case HeartbeatReply():
            return {
                "error_code": reply.error,
                "is_caught_up": reply.is_caught_up,
                "is_fenced": reply.is_fenced,
                "should_shut_down": reply.should_shut_down,
            }
        case RegistrationReply():
            return {"error_code": reply.error, "broker_epoch": reply.broker_epoch}
        case AssignReplicasReply():
            return {"error_code": reply.error}
        case ProducerIdsReply():
            return {
                "error_code": reply.error,
                "producer_id_start": reply.first,
                "producer_id_len": reply.length,
            }
        case AlterPartitionReply():
            return {"error_code": reply.error, "topics": alter_partition_results(reply, topic_ids)}
        case _:
            raise AssertionError(f"{type(reply).__name__} answers no request of a broker")


def error_response(header: RequestHeader, error: ErrorCode) -> bytes:
    """Refuses the whole request; a whole frame, size prefix included."""
    return encoded(header, {"error_code": error})


def encoded(header: RequestHeader, values: dict[str, object]) -> bytes:
    return cold.encode_answer(header.api_key, header.api_version, header.correlation_id, values)
