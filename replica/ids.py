"""The words every package shares for naming things: brokers, offsets, epochs, partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from replica.frozen import dataclass
from replica.wording import set_of, shown

BrokerId = int
Offset = int
LeaderEpoch = int
PartitionEpoch = int
BrokerEpoch = int

NO_BROKER: BrokerId = -1
"""Leader of a partition that has none; replica id of a consumer."""

DEBUGGING_CONSUMER: BrokerId = -2
"""Replica id of tools that compare replicas: followers answer it, too, and ListOffsets with the end of their logs."""

EVERY_BROKER: BrokerId = -1
"""Whose settings are those of all brokers at once (Kafka: the empty resource name)."""

UNKNOWN_OFFSET: Offset = -1
UNDEFINED_EPOCH: LeaderEpoch = -1
"""Kafka's UNDEFINED_EPOCH: a batch from a client, or an epoch the cache does not know."""

NO_BROKER_EPOCH: BrokerEpoch = -1

ACKS_ALL = -1
"""acks=all: a produce is answered once every in-sync replica has its records."""

CLUSTER_ID = "aGlnaHdhdGVyY2x1c3Rlcg"
"""`highwatercluster` as Kafka spells 16 bytes: up to 3.8 its StorageTool takes no other kind of cluster id."""

METADATA_TOPIC = "__cluster_metadata"
"""The controller's log; brokers follow its partition 0."""

OFFSETS_TOPIC = "__consumer_offsets"
"""Where group coordinators keep groups and the offsets that these commit; Kafka's brokers call it internal."""

TRANSACTIONS_TOPIC = "__transaction_state"
"""Where transaction coordinators keep the state of each transactional.id."""

INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state")
"""Topics that brokers use internally. source: Topic.INTERNAL_TOPICS"""

OUTSIDE = "client/"
"""How the name of a client begins that is none of the run's own; no node has a stroke in its name."""


LONGEST_TOPIC_NAME = 249


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka does, `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        # A client may ask for a topic of any name; none that exists is longer or not printable.
        legal = self.topic.isprintable() and len(self.topic) <= LONGEST_TOPIC_NAME
        return f"{self.topic if legal else shown(self.topic)}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of nodes by their numeric id, for traces and sentences (`1` -> `alpha`)."""

    by_id: Mapping[int, str]

    def __call__(self, node_id: int) -> str:
        """An id that no node has (an admin client may send any) reads `node 7`, which is the name of none."""
        if node_id == NO_BROKER:
            return "nobody"
        known = self.by_id.get(node_id)
        return f"node {node_id}" if known is None else known

    def set_of(self, node_ids: object) -> str:
        """`{b1, b2}` in the given order (an ISR keeps its order)."""
        assert isinstance(node_ids, (list, tuple)), "an unordered set would print differently in every process"
        return set_of(map(self, node_ids))


Named = TypeVar("Named", BrokerId, str)


def without(replicas: Iterable[Named], leaving: Collection[Named]) -> tuple[Named, ...]:
    """Those replicas, by id or by name, that are not among the leaving ones."""
    return tuple(one for one in replicas if one not in leaving)


# -------------------------------------------------------------------------------------------------------------- kept in
#
# Which partition of its topic keeps a group or a transactional id.

_SIGN_BIT, _WORD = 1 << 31, 1 << 32


def java_hash(text: str) -> int:
    """String.hashCode of Java: a signed 32-bit number over UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for position in range(0, len(data), 2):
        result = (31 * result + (data[position] << 8 | data[position + 1])) % _WORD
    return result - _WORD if result & _SIGN_BIT else result


def partition_of(key: str, partitions: int) -> int:
    """source: GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor, Utils.abs (of the smallest
    integer: 0)"""
    number = java_hash(key)
    return 0 if number == -_SIGN_BIT else abs(number) % partitions


SAME_CLIENT_MARK = "#"
"""No client.id brings one: it is quoted (peers.py)."""


def client_of(producer: str) -> str:
    """The client's name, without the number of the producer."""
    return producer.partition(SAME_CLIENT_MARK)[0] if producer.startswith(OUTSIDE) else producer
