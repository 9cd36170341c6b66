"""AssignReplicasToDirs (KIP-858) between its message and the input of the controller."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from cluster.protocol.entities import Entity
from controller.inputs import AssignReplicas


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
