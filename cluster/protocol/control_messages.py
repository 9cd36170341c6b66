"""Encodes and decodes a ZooKeeper-era controller's requests to brokers, with the classes of `zookeeper_era`."""

from __future__ import annotations

from typing import Any

from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, VERSIONS
from controller.image import PartitionRegistration
from controller.zookeeper.control_requests import ControlRequest, LeaderAndIsr, StopReplica, TopicState, UpdateMetadata
from controller.zookeeper.znodes import LiveBroker
from replica.ids import NO_BROKER_EPOCH, TopicPartition


def version_of(api: int) -> int:
    """Return the only supported version of a control request."""
    return VERSIONS[api][1]


def api_of(request: ControlRequest) -> int:
    match request:
        case LeaderAndIsr():
            return LEADER_AND_ISR
        case UpdateMetadata():
            return UPDATE_METADATA
        case _:
            return STOP_REPLICA


def encode_control_request(request: ControlRequest, correlation_id: int, client_id: str) -> bytes:
    """Return a whole request frame with its size prefix."""
    api = api_of(request)
    entity = cold.request(
        api,
        version_of(api),
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        **_body(request),
    )
    return cold.encode_request(api, version_of(api), correlation_id, client_id, entity)


def _body(request: ControlRequest) -> dict[str, Any]:
    match request:
        case LeaderAndIsr():
            leaders = [
                {"broker_id": broker.broker_id, "host_name": broker.host, "port": broker.port}
                for broker in request.live_leaders
            ]
            return {"topic_states": _topics(request, "partition_epoch"), "live_leaders": leaders}
        case UpdateMetadata():
            brokers = [_broker(broker) for broker in request.live_brokers]
            return {"topic_states": _topics(request, "zk_version"), "live_brokers": brokers}
        case StopReplica():
            topics: dict[str, list[dict[str, Any]]] = {}
            for name in request.partitions:
                # Simplified: no leader epoch in StopReplica (KIP-570, 2.6).
                state = {"partition_index": name.partition, "leader_epoch": -1, "delete_partition": request.delete}
                topics.setdefault(name.topic, []).append(state)
            return {"topic_states": [{"topic_name": name, "partition_states": of} for name, of in topics.items()]}
    raise AssertionError(f"{type(request).__name__} is not a request of a controller")


def _topics(request: LeaderAndIsr | UpdateMetadata, version_field: str) -> list[dict[str, object]]:
    return [
        {
            "topic_name": topic.topic,
            "topic_id": topic.topic_id,
            "partition_states": [
                {
                    "partition_index": number,
                    "controller_epoch": request.controller_epoch,
                    "leader": registration.leader,
                    "leader_epoch": registration.leader_epoch,
                    "isr": list(registration.in_sync_replicas),
                    version_field: registration.partition_epoch,
                    "replicas": list(registration.replicas),
                }
                for number, registration in topic.partitions.items()
            ],
        }
        for topic in request.topics
    ]


def _broker(broker: LiveBroker) -> dict[str, object]:
    endpoint = {"port": broker.port, "host": broker.host, "listener": "PLAINTEXT", "security_protocol": 0}
    return {"id": broker.broker_id, "endpoints": [endpoint], "rack": broker.rack}


# ------------------------------------------------------------------------------------------------------------- reading


def topic_states(request: Entity) -> list[TopicState]:
    """Return the topics of a LeaderAndIsr or UpdateMetadata request."""
    return [
        TopicState(
            topic=str(topic.topic_name),
            topic_id=topic.topic_id,
            partitions={
                int(state.partition_index): PartitionRegistration(
                    replicas=tuple(map(int, state.replicas)),
                    in_sync_replicas=tuple(map(int, state.isr)),
                    leader=int(state.leader),
                    leader_epoch=int(state.leader_epoch),
                    partition_epoch=int(getattr(state, "partition_epoch", getattr(state, "zk_version", 0))),
                )
                for state in topic.partition_states
            },
        )
        for topic in request.topic_states
    ]


def live_brokers(request: Entity) -> list[LiveBroker]:
    """Return the brokers in an UpdateMetadata request.

    Their broker epochs are unknown, because the request has none.
    """
    return [
        LiveBroker(
            broker_id=int(broker.id),
            broker_epoch=NO_BROKER_EPOCH,
            host=str(broker.endpoints[0].host),
            port=int(broker.endpoints[0].port),
            rack=broker.rack,
        )
        for broker in request.live_brokers
        if broker.endpoints
    ]


def stopped_partitions(request: Entity) -> list[tuple[TopicPartition, bool]]:
    """Return the partitions that a StopReplica request stops, each with True if its log is to be deleted."""
    return [
        (TopicPartition(str(topic.topic_name), int(state.partition_index)), bool(state.delete_partition))
        for topic in request.topic_states
        for state in topic.partition_states
    ]
