"""Requests of brokers to the controller, as events of its state, and its replies, as responses."""

from __future__ import annotations

from cluster.messages.alter_partition import alter_partition_event, alter_partition_results
from cluster.messages.assign_replicas import assign_replicas_event
from cluster.protocol import cold
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import (
    ALLOCATE_PRODUCER_IDS,
    ALTER_PARTITION,
    ASSIGN_REPLICAS_TO_DIRS,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
)
from controller.events import (
    AllocateProducerIds,
    AlterPartitionReply,
    AssignReplicasReply,
    Event,
    Heartbeat,
    HeartbeatReply,
    ProducerIdsReply,
    RegisterBroker,
    RegistrationReply,
    Reply,
)
from controller.image import MetadataImage
from replica.errors import ErrorCode, PeerViolation

_SERVED = (BROKER_REGISTRATION, BROKER_HEARTBEAT, ALTER_PARTITION, ASSIGN_REPLICAS_TO_DIRS, ALLOCATE_PRODUCER_IDS)


def is_request_of_brokers(header: RequestHeader) -> bool:
    return header.api_key in _SERVED


def event_of(header: RequestHeader, frame: bytearray, image: MetadataImage, now_us: int) -> Event:
    """raises: PeerViolation"""
    request = cold.decode_request(header, frame)
    if header.api_key == BROKER_HEARTBEAT:
        return Heartbeat(
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
        listener = request.listeners[0]
        return RegisterBroker(
            now_us=now_us,
            broker_id=int(request.broker_id),
            incarnation_id=str(request.incarnation_id),
            host=str(listener.host),
            port=int(listener.port),
            rack=request.rack,
            previous_broker_epoch=int(request.previous_broker_epoch),
            log_dirs=tuple(str(directory) for directory in request.log_dirs) or None,
        )
    if header.api_key == ASSIGN_REPLICAS_TO_DIRS:
        return assign_replicas_event(request, image.topic_names, now_us)
    if header.api_key == ALLOCATE_PRODUCER_IDS:
        return AllocateProducerIds(
            now_us=now_us, broker_id=int(request.broker_id), broker_epoch=int(request.broker_epoch)
        )
    return alter_partition_event(request, image.topic_names, now_us)


def response_of(header: RequestHeader, reply: Reply, image: MetadataImage) -> bytes:
    """A whole frame, size prefix included."""
    match reply:
        case HeartbeatReply():
            values: dict[str, object] = {
                "error_code": reply.error,
                "is_caught_up": reply.is_caught_up,
                "is_fenced": reply.is_fenced,
                "should_shut_down": reply.should_shut_down,
            }
        case RegistrationReply():
            values = {"error_code": reply.error, "broker_epoch": reply.broker_epoch}
        case AssignReplicasReply():
            values = {"error_code": reply.error}
        case ProducerIdsReply():
            values = {
                "error_code": reply.error,
                "producer_id_start": reply.first,
                "producer_id_len": reply.length,
            }
        case AlterPartitionReply():
            topic_ids = {name: topic.topic_id for name, topic in image.topics.items()}
            values = {"error_code": reply.error, "topics": alter_partition_results(reply, topic_ids)}
        case _:
            raise AssertionError(f"{type(reply).__name__} answers no request of a broker")
    return encoded(header, values)


def error_response(header: RequestHeader, error: ErrorCode) -> bytes:
    """Refuses the whole request; a whole frame, size prefix included."""
    return encoded(header, {"error_code": error})


def encoded(header: RequestHeader, values: dict[str, object]) -> bytes:
    entity = cold.response(header.api_key, header.api_version, **values)
    return cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)
