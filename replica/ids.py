"""Types and constants for the identifiers of all packages: brokers, offsets, epochs, partitions."""

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
"""Leader id of a partition without a leader; replica id of a consumer."""

DEBUGGING_CONSUMER: BrokerId = -2
"""Replica id of tools that compare replicas. Followers serve their fetches, and ListOffsets returns the log end."""

EVERY_BROKER: BrokerId = -1
"""Resource name of settings that apply to all brokers (Kafka: the empty name)."""

UNKNOWN_OFFSET: Offset = -1
UNDEFINED_EPOCH: LeaderEpoch = -1
"""Leader epoch in a batch from a client, and the result for an epoch that the epoch cache does not know."""

NO_BROKER_EPOCH: BrokerEpoch = -1

ACKS_ALL = -1
"""acks=all: the leader responds to a produce request once every in-sync replica has the records."""

CLUSTER_ID = "aGlnaHdhdGVyY2x1c3Rlcg"
"""`highwatercluster` as a Kafka UUID of 16 bytes, since Kafka's StorageTool up to 3.8 requires a UUID."""

METADATA_TOPIC = "__cluster_metadata"
"""The controller's log; brokers follow its partition 0."""

OFFSETS_TOPIC = "__consumer_offsets"
"""Topic in which group coordinators store groups and committed offsets."""

TRANSACTIONS_TOPIC = "__transaction_state"
"""Topic in which transaction coordinators store the state of each transactional.id."""

SHARE_STATE_TOPIC = "__share_group_state"
"""Topic in which share coordinators store the state of share partitions."""

INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)
"""Topics that brokers use internally. Source: Topic.INTERNAL_TOPICS"""

OUTSIDE = "client/"
"""Prefix of the name of an external client, which connects to a live cluster. Names of nodes contain no slash."""


LONGEST_TOPIC_NAME = 249


class TopicPartition(NamedTuple):
    """One partition of one topic; `str` has Kafka's form, such as `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        # A client may send any text as a topic. Existing topics have printable names of at most this length.
        legal = self.topic.isprintable() and len(self.topic) <= LONGEST_TOPIC_NAME
        return f"{self.topic if legal else shown(self.topic)}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of nodes by id, for traces and messages (`1` -> `alpha`)."""

    by_id: Mapping[int, str]

    def __call__(self, node_id: int) -> str:
        """Return the name of a node, or `node 7` for an unknown id, which an admin client may send."""
        if node_id == NO_BROKER:
            return "nobody"
        known = self.by_id.get(node_id)
        return f"node {node_id}" if known is None else known

    def set_of(self, node_ids: object) -> str:
        """Return the names as text such as `{b1, b2}`, in the order of `node_ids`, as an ISR has an order."""
        assert isinstance(node_ids, (list, tuple)), "an unordered set would print differently in every process"
        return set_of(map(self, node_ids))


Named = TypeVar("Named", BrokerId, str)


def without(replicas: Iterable[Named], leaving: Collection[Named]) -> tuple[Named, ...]:
    """Return those replicas (ids or names) that are not in `leaving`."""
    return tuple(replica for replica in replicas if replica not in leaving)


# ------------------------------------------------------------------------------------------------ coordinator partition
#
# The partition of a coordinator's topic that stores a group or a transactional id.

_SIGN_BIT, _WORD = 1 << 31, 1 << 32


def java_hash(text: str) -> int:
    """Return Java's String.hashCode of a text, a signed 32-bit number."""
    data = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for position in range(0, len(data), 2):
        result = (31 * result + (data[position] << 8 | data[position + 1])) % _WORD
    return result - _WORD if result & _SIGN_BIT else result


def partition_of(key: str, partitions: int) -> int:
    """Return the partition of a coordinator topic that stores `key`.

    As in Kafka, the absolute value of the smallest integer is 0.

    Source: GroupMetadataManager.partitionFor, TransactionStateManager.partitionFor, Utils.abs
    """
    number = java_hash(key)
    return 0 if number == -_SIGN_BIT else abs(number) % partitions


SAME_CLIENT_MARK = "#"
"""Separator between a client.id and the number of one of its producers; escaped inside a client.id (peers.py)."""


def client_of(producer: str) -> str:
    return producer.partition(SAME_CLIENT_MARK)[0] if producer.startswith(OUTSIDE) else producer
