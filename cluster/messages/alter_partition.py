"""AlterPartition (KIP-497) between its messages and what a controller of either era decides about."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from cluster.protocol.entities import Entity
from controller.inputs import AlterPartition, AlterPartitionReply, IsrProposal


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
