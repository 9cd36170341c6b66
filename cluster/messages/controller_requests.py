"""Converts brokers' requests to controller inputs, and the controller's replies to responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from uuid import UUID

from cluster.protocol import cold, versions
from cluster.protocol.entities import Entity
from cluster.protocol.versions import RequestHeader
from cluster.security import PROTOCOL_OF
from controller.image import MetadataImage
from controller.inputs import (
    AllocateProducerIds,
    AlterPartition,
    AlterPartitionReply,
    AssignReplicas,
    BrokerHeartbeat,
    ControllerInput,
    HeartbeatReply,
    IsrProposal,
    PlainReply,
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
# Converts AlterPartition (KIP-497), for controllers with ZooKeeper or KRaft.


def alter_partition_input(request: Entity, names: Mapping[UUID, str], now_us: int) -> AlterPartition:
    """Return the input for an AlterPartition request.

    Args:
        names: topic names by id; an unknown topic is named by its id.
    """
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
    """Return the topic ids in an AlterPartition request, by the names that `alter_partition_input` uses.

    The response uses these ids, because a topic may be deleted between request and response.
    """
    return {names.get(topic.topic_id, str(topic.topic_id)): topic.topic_id for topic in request.topics}


def alter_partition_results(reply: AlterPartitionReply, topic_ids: Mapping[str, UUID]) -> list[dict[str, object]]:
    """Return the `topics` field of an AlterPartition response. `topic_ids` comes from topics_asked_for."""
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
# Converts AssignReplicasToDirs (KIP-858).


def assign_replicas_input(request: Entity, names: Mapping[UUID, str], now_us: int) -> AssignReplicas:
    """Return the input for an AssignReplicasToDirs request.

    Args:
        names: topic names by id; topics that were deleted since are left out.
    """
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


_SERVED = (
    versions.BROKER_REGISTRATION,
    versions.BROKER_HEARTBEAT,
    versions.ALTER_PARTITION,
    versions.ASSIGN_REPLICAS_TO_DIRS,
    versions.ALLOCATE_PRODUCER_IDS,
)


def is_request_of_brokers(header: RequestHeader) -> bool:
    return header.api_key in _SERVED


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A broker's request as a controller input, and what is needed to encode the response.

    `topic_ids` comes from topics_asked_for.
    """

    header: RequestHeader
    input: ControllerInput
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)

    def response(self, reply: Reply) -> bytes:
        """Return a whole response frame with its size prefix."""
        return encoded(self.header, _values(reply, self.topic_ids))


def broker_request(header: RequestHeader, frame: bytearray, image: MetadataImage, now_us: int) -> BrokerRequest:
    """Decode a broker's request.

    Raises:
        PeerViolation: if the request is malformed.
    """
    request = cold.decode_request(header, frame)
    if header.api_key == versions.ALTER_PARTITION:
        proposal = alter_partition_input(request, image.topic_names, now_us)
        return BrokerRequest(header, proposal, topics_asked_for(request, image.topic_names))
    return BrokerRequest(header, _input(header, request, image, now_us))


def _input(header: RequestHeader, request: Entity, image: MetadataImage, now_us: int) -> ControllerInput:
    if header.api_key == versions.BROKER_HEARTBEAT:
        return BrokerHeartbeat(
            now_us=now_us,
            broker_id=int(request.broker_id),
            broker_epoch=int(request.broker_epoch),
            metadata_offset=int(request.current_metadata_offset),
            want_fence=bool(request.want_fence),
            want_shut_down=bool(request.want_shut_down),
            offline_log_dirs=tuple(str(directory) for directory in request.offline_log_dirs),
        )
    if header.api_key == versions.BROKER_REGISTRATION:
        if not request.listeners:
            raise PeerViolation("a broker registered without a listener")
        if request.broker_id < 0:
            # Differs from Kafka, which does not check this. As a leader, -1 means that there is none.
            raise PeerViolation(f"a broker registered with the invalid id {request.broker_id}")
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
            endpoints=tuple(_endpoint(other) for other in others) or None,
        )
    if header.api_key == versions.ASSIGN_REPLICAS_TO_DIRS:
        return assign_replicas_input(request, image.topic_names, now_us)
    assert header.api_key == versions.ALLOCATE_PRODUCER_IDS, f"API key {header.api_key} is not a request of a broker"
    return AllocateProducerIds(now_us=now_us, broker_id=int(request.broker_id), broker_epoch=int(request.broker_epoch))


def _endpoint(listener: Entity) -> Endpoint:
    """Return the endpoint that a broker registers.

    Raises:
        PeerViolation: if its security protocol is unknown.
    """
    protocol = PROTOCOL_OF.get(int(listener.security_protocol))
    if protocol is None:
        raise PeerViolation(
            f"a broker registered a listener with the unsupported security protocol {listener.security_protocol}"
        )
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
        case PlainReply():
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
            raise AssertionError(f"{type(reply).__name__} is not a reply to a broker's request")


def error_response(header: RequestHeader, error: ErrorCode) -> bytes:
    """Return a whole response frame that refuses a broker's request with this error."""
    return encoded(header, {"error_code": error})


def encoded(header: RequestHeader, values: dict[str, object]) -> bytes:
    return cold.encode_answer(header.api_key, header.api_version, header.correlation_id, values)
