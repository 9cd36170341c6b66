"""The read-only requests of a watch, and the decoding of their responses.

    speaks = Speaks(ask(versions()))           # API versions that both sides know
    ask(every_topic(speaks, None))             # -> Page: DescribeTopicPartitions if it is offered
    ask(log_ends(speaks, names))               # -> ListOffsets as a debugging consumer: any replica's LEO
    ask(high_watermarks(speaks, {name: LEO}))  # -> Fetch at the end of the log: the replica's HW, no records

A debugging consumer (replica id -2), as in Kafka's kafka-replica-verification, also gets answers from followers. It is
in no group and changes nothing. Source: ReplicaManager.fetchOffset, FetchParams.fetchOnlyLeader
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from cluster.broker.apis.offered import HIGHEST
from cluster.protocol.api_01_fetch import FetchPartition, FetchRequest
from cluster.protocol.cold import decode_response, encode_request, request
from cluster.protocol.entities import Entity
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.primitives import Frame
from cluster.protocol.versions import (
    API_VERSIONS,
    DESCRIBE_CONFIGS,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    VERSIONS,
    api_name,
)
from replica.errors import ErrorCode, PeerViolation
from replica.ids import DEBUGGING_CONSUMER, BrokerId, LeaderEpoch, Offset, TopicPartition
from replica.wording import shown

CLIENT_ID = "highwater-watch"
LATEST = -1
TOPIC_RESOURCE = 2
MIN_ISR = "min.insync.replicas"
PARTITIONS_PER_PAGE = 2_000
"""Partitions per page of DescribeTopicPartitions. The default of max.request.partition.size.limit is also 2000."""

_HIGHEST = {
    # Later versions identify topics by id, and a topic's id may change between two responses.
    FETCH: 12,
    METADATA: 12,
}

T = TypeVar("T")
Ranges = Mapping[int, tuple[int, int]]


class NotSpoken(Exception):
    """Raised if a broker offers no version of an API that this client knows."""


@dataclass(frozen=True, slots=True)
class WireQuestion(Generic[T]):
    """A request, and the decoder of its response.

    Attributes:
        frame: function that encodes the request with a correlation id, including the size prefix.
        read: function that decodes the response. Raises PeerViolation.
    """

    name: str
    frame: Callable[[int], bytes]
    read: Callable[[Frame], T]


class Page(NamedTuple):
    """A page of partitions.

    Attributes:
        left_out: number of invalid topics, and of partitions above the limit.
        cursor: topic and partition at which the next page begins, None on the last page.
    """

    partitions: list[PartitionAnswer]
    left_out: int
    cursor: tuple[str, int] | None


class Speaks:
    """The API versions that a broker offers."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges

    def version(self, api_key: int) -> int:
        """Return the highest version of an API that both sides know. Raises NotSpoken."""
        low, high = VERSIONS[api_key]
        theirs = self.ranges.get(api_key)
        if theirs is not None:
            found = min(high, theirs[1], _HIGHEST.get(api_key, high))
            if found >= max(low, theirs[0]):
                return found
        raise NotSpoken(f"the broker offers no version of {api_name(api_key)} that Highwater knows")

    @property
    def era(self) -> str:
        """The broker's era, estimated from its highest version of Fetch, since brokers do not return their release."""
        highest = self.ranges.get(FETCH, (0, 0))[1]
        fitting = [release for release, version in HIGHEST[FETCH].items() if version <= highest]
        return (fitting[-1] if fitting else next(iter(HIGHEST[FETCH]))).era

    def has(self, api_key: int) -> bool:
        return api_key in self.ranges


def _cold(api_key: int, version: int, read: Callable[[Entity], T], **fields: object) -> WireQuestion[T]:
    body = request(api_key, version, **fields)
    return WireQuestion(
        api_name(api_key),
        lambda correlation_id: encode_request(api_key, version, correlation_id, CLIENT_ID, body),
        lambda frame: read(decode_response(api_key, version, frame)),
    )


# ------------------------------------------------------------------------------------------------- before all others


def versions() -> WireQuestion[Ranges]:
    """Return a request for the API versions, in version 0, which every broker since 0.10 answers."""

    def read(answer: Entity) -> Ranges:
        if answer.error_code is not ErrorCode.NONE:
            raise PeerViolation(f"ApiVersions was refused with {answer.error_code.name}")
        return {
            int(api_key.api_key): (int(api_key.min_version), int(api_key.max_version)) for api_key in answer.api_keys
        }

    return _cold(API_VERSIONS, 0, read)


def sasl_handshake(mechanism: str) -> WireQuestion[tuple[ErrorCode, tuple[str, ...]]]:
    """Return a SaslHandshake request. Its decoded response is (error, mechanisms of the broker)."""
    return _cold(
        SASL_HANDSHAKE, 1, lambda found: (found.error_code, tuple(map(str, found.mechanisms))), mechanism=mechanism
    )


def sasl_authenticate(message: bytes) -> WireQuestion[tuple[ErrorCode, str, bytes]]:
    """Return a SaslAuthenticate request. Its decoded response is (error, error message, SASL message)."""
    return _cold(
        SASL_AUTHENTICATE,
        0,
        lambda found: (found.error_code, found.error_message or "", bytes(found.auth_bytes)),
        auth_bytes=message,
    )


# ------------------------------------------------------------------------------------------------------- the cluster


def brokers(speaks: Speaks) -> WireQuestion[tuple[ListedBroker, ...]]:
    """Return a request for the live brokers: Metadata without topics."""
    version = speaks.version(METADATA)
    return _cold(METADATA, version, lambda found: brokers_of(found.brokers), topics=[], allow_auto_topic_creation=False)


def cluster_id(speaks: Speaks) -> WireQuestion[str | None]:
    """Return a request for the cluster id. Its decoded response is None if the broker does not return one."""

    def read(answer: Entity) -> str | None:
        found = getattr(answer, "cluster_id", None)
        return None if not found else shown(str(found))

    return _cold(METADATA, speaks.version(METADATA), read, topics=[], allow_auto_topic_creation=False)


def every_topic(
    speaks: Speaks, wanted: re.Pattern[str] | None, room: int, cursor: tuple[str, int] | None = None
) -> WireQuestion[Page]:
    """Return a request for a page of partitions, with their ELR if the broker offers DescribeTopicPartitions.

    Without DescribeTopicPartitions, Metadata returns all partitions in one page.

    Args:
        wanted: pattern of topics to decode, None for all.
        room: largest number of partitions to decode.
        cursor: topic and partition at which the page begins.
    """
    if speaks.has(DESCRIBE_TOPIC_PARTITIONS):
        return _cold(
            DESCRIBE_TOPIC_PARTITIONS,
            speaks.version(DESCRIBE_TOPIC_PARTITIONS),
            lambda found: Page(*partitions_of(found.topics, wanted, room), _cursor(found.next_cursor)),
            topics=[],
            response_partition_limit=PARTITIONS_PER_PAGE,
            cursor=None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
        )
    return _cold(
        METADATA,
        speaks.version(METADATA),
        lambda found: Page(*partitions_of(found.topics, wanted, room), None),
        topics=None,
        allow_auto_topic_creation=False,
    )


def _cursor(found: Entity | None) -> tuple[str, int] | None:
    return None if found is None else (str(found.topic_name), int(found.partition_index))


def min_isrs(speaks: Speaks, topics: Sequence[str]) -> WireQuestion[dict[str, int]]:
    """Return a request for the effective min.insync.replicas by topic. The response lacks unauthorized topics."""

    def read(answer: Entity) -> dict[str, int]:
        found = {}
        for result in answer.results:
            for config in result.configs or ():
                if result.error_code is ErrorCode.NONE and config.name == MIN_ISR and (config.value or "").isdecimal():
                    found[str(result.resource_name)] = int(config.value[:9])
        return found

    return _cold(
        DESCRIBE_CONFIGS,
        speaks.version(DESCRIBE_CONFIGS),
        read,
        resources=[
            {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": [MIN_ISR]}
            for topic in topics
        ],
        include_synonyms=False,
    )


# ------------------------------------------------------------------------------------------------------ one replica


def log_ends(speaks: Speaks, names: Sequence[TopicPartition]) -> WireQuestion[list[ReplicaAnswer]]:
    """Return a request for the log end offsets of a broker's own replicas."""

    def read(answer: Entity) -> list[ReplicaAnswer]:
        return [
            ReplicaAnswer(
                TopicPartition(str(topic.name), int(partition.partition_index)),
                int(partition.offset)
                if partition.error_code is ErrorCode.NONE and int(partition.offset) >= 0
                else None,
                error=partition.error_code,
            )
            for topic in answer.topics
            for partition in topic.partitions
        ]

    return _cold(
        LIST_OFFSETS,
        speaks.version(LIST_OFFSETS),
        read,
        replica_id=DEBUGGING_CONSUMER,
        topics=[
            {"name": topic, "partitions": [{"partition_index": number, "timestamp": LATEST} for number in numbers]}
            for topic, numbers in _by_topic(names).items()
        ],
    )


def high_watermarks(speaks: Speaks, log_ends: Mapping[TopicPartition, Offset]) -> WireQuestion[list[ReplicaAnswer]]:
    """Return a request for the high watermarks of a broker's own replicas.

    A fetch at the end of a log returns the high watermark and no records.
    """
    version = speaks.version(FETCH)
    asked = FetchRequest(
        replica_id=DEBUGGING_CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        topics=[
            (topic, [FetchPartition(n, fetch_offset=log_ends[TopicPartition(topic, n)], max_bytes=1) for n in numbers])
            for topic, numbers in _by_topic(log_ends).items()
        ],
    )

    def read(frame: Frame) -> list[ReplicaAnswer]:
        answer = decode_fetch_response(version, frame)
        if answer.error is not ErrorCode.NONE:
            return [ReplicaAnswer(name, error=answer.error) for name in log_ends]
        return [
            ReplicaAnswer(
                TopicPartition(str(topic), part.partition),
                high_watermark=part.high_watermark
                if part.error is ErrorCode.NONE and part.high_watermark >= 0
                else None,
                error=part.error,
            )
            for topic, parts in answer.topics
            for part in parts
        ]

    return WireQuestion(
        api_name(FETCH), lambda correlation_id: encode_fetch_request(version, correlation_id, CLIENT_ID, asked), read
    )


def _by_topic(names: Sequence[TopicPartition] | Mapping[TopicPartition, Offset]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in names:
        found.setdefault(topic, []).append(number)
    return found


# -------------------------------------------------------------------------------------------------------------- answers
#
# The decoded responses. A watched broker is not trusted: invalid topic names and partitions above the limit are left
# out and counted.

PARTITIONS_MAX = 20_000
BROKERS_MAX = 1_000
REPLICAS_MAX = 32
"""Largest number of replicas that are decoded per partition. Kafka has no limit, but no cluster has as many."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class ListedBroker(NamedTuple):
    """A broker and its advertised address."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None = None


class PartitionAnswer(NamedTuple):
    """One partition in a broker's metadata.

    Attributes:
        leader: -1 if there is none.
        elr, topic_id: None if the broker does not return them.
    """

    name: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] | None = None
    topic_id: UUID | None = None


class ClusterAnswer(NamedTuple):
    """The metadata of a cluster that one broker has returned.

    Attributes:
        left_out: number of invalid topic names, and of partitions above PARTITIONS_MAX.
    """

    brokers: tuple[ListedBroker, ...]
    partitions: tuple[PartitionAnswer, ...]
    left_out: int = 0


class ReplicaAnswer(NamedTuple):
    """The offsets of one replica that its broker has returned. An offset is None if unknown; `error` is the reason."""

    name: TopicPartition
    log_end_offset: Offset | None = None
    high_watermark: Offset | None = None
    error: ErrorCode = ErrorCode.NONE


def brokers_of(entities: Iterable[Entity]) -> tuple[ListedBroker, ...]:
    found = {
        int(entity.node_id): ListedBroker(int(entity.node_id), str(entity.host), int(entity.port), entity.rack)
        for entity in entities
        if int(entity.node_id) >= 0 and entity.host and 0 < int(entity.port) < 65_536
    }
    return tuple(found[broker_id] for broker_id in sorted(found)[:BROKERS_MAX])


def partitions_of(
    topics: Iterable[Entity], wanted: re.Pattern[str] | None, room: int
) -> tuple[list[PartitionAnswer], int]:
    """Decode topics of a response. Return at most `room` partitions, and the number of topics and partitions left out.

    Args:
        wanted: pattern of topics, None for all.
    """
    found: list[PartitionAnswer] = []
    left_out = 0
    for topic in topics:
        name = str(topic.name)
        if topic.error_code is not ErrorCode.NONE:
            continue  # For example, the topic is being deleted. The response does not contain unauthorized topics.
        if _TOPIC.fullmatch(name) is None:
            left_out += 1
        elif wanted is None or wanted.search(name):
            taken = topic.partitions[: max(0, room - len(found))]
            left_out += len(topic.partitions) - len(taken)
            topic_id = getattr(topic, "topic_id", None)
            found += (_partition(name, topic_id, item) for item in taken)
    return found, left_out


def _partition(topic: str, topic_id: UUID | None, entity: Entity) -> PartitionAnswer:
    elr = getattr(entity, "eligible_leader_replicas", None)
    return PartitionAnswer(
        TopicPartition(topic, int(entity.partition_index)),
        int(entity.leader_id),
        int(getattr(entity, "leader_epoch", -1)),
        _ids(entity.replica_nodes),
        _ids(entity.isr_nodes),
        None if elr is None else _ids(elr),
        topic_id,
    )


def _ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    return tuple(dict.fromkeys(int(number) for number in numbers if int(number) >= 0))[:REPLICAS_MAX]
