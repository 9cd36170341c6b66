"""What brokers answer, as plain values: bounded, and with names that Kafka allows only.

A broker that is watched is a stranger: a name that no topic can have, or more partitions than are looked at, are left
out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from cluster.protocol.entities import Entity
from replica.errors import ErrorCode
from replica.ids import BrokerId, LeaderEpoch, Offset, TopicPartition

PARTITIONS_MAX = 20_000
BROKERS_MAX = 1_000
REPLICAS_MAX = 32
"""Of a partition; Kafka sets no limit, and no cluster comes near this one."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ListedBroker(NamedTuple):
    """Where a broker wants to be reached."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None


class PartitionAnswer(NamedTuple):
    """One partition in the metadata of a broker. leader -1: none. elr, topic_id None: the broker does not say."""

    name: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] | None = None
    topic_id: UUID | None = None


class ClusterAnswer(NamedTuple):
    """The cluster as one broker knows it. left_out: partitions above PARTITIONS_MAX, names that no topic can have."""

    brokers: tuple[ListedBroker, ...]
    partitions: tuple[PartitionAnswer, ...]
    left_out: int = 0


class ReplicaAnswer(NamedTuple):
    """One replica as its own broker states it; None: it did not. error: why not"""

    name: TopicPartition
    log_end_offset: Offset | None = None
    high_watermark: Offset | None = None
    error: ErrorCode = ErrorCode.NONE


def brokers_of(entities: Iterable[Entity]) -> tuple[ListedBroker, ...]:
    found = {
        int(one.node_id): ListedBroker(int(one.node_id), str(one.host), int(one.port), one.rack)
        for one in entities
        if int(one.node_id) >= 0 and one.host and 0 < int(one.port) < 65_536
    }
    return tuple(found[broker_id] for broker_id in sorted(found)[:BROKERS_MAX])


def partitions_of(
    topics: Iterable[Entity], wanted: re.Pattern[str] | None, room: int
) -> tuple[list[PartitionAnswer], int]:
    """Those of the wanted topics, at most `room`, and how many were left out."""
    found: list[PartitionAnswer] = []
    left_out = 0
    for topic in topics:
        name = str(topic.name)
        if topic.error_code is not ErrorCode.NONE:
            continue  # Such as a topic that is being deleted; one we may not describe is not listed at all.
        if _TOPIC.fullmatch(name) is None:
            left_out += 1
        elif wanted is None or wanted.search(name):
            taken = topic.partitions[: max(0, room - len(found))]
            left_out += len(topic.partitions) - len(taken)
            topic_id = getattr(topic, "topic_id", None)
            found += (_partition(name, topic_id, one) for one in taken)
    return found, left_out


def _partition(topic: str, topic_id: UUID | None, one: Entity) -> PartitionAnswer:
    elr = getattr(one, "eligible_leader_replicas", None)
    return PartitionAnswer(
        TopicPartition(topic, int(one.partition_index)),
        int(one.leader_id),
        int(getattr(one, "leader_epoch", -1)),
        _ids(one.replica_nodes),
        _ids(one.isr_nodes),
        None if elr is None else _ids(elr),
        topic_id,
    )


def _ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(dict.fromkeys(int(number) for number in numbers if int(number) >= 0))[:REPLICAS_MAX]
