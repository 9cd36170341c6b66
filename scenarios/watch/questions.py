"""The requests of a watch, and how their answers are read. All of them only read.

    speaks = Speaks(ask(versions()))                     # API versions that both sides know
    ask(every_topic(speaks, None))                       # -> Page: DescribeTopicPartitions where it is there
    ask(log_ends(speaks, names))                         # -> ListOffsets as a debugging consumer: any replica's LEO
    ask(high_watermarks(speaks, {name: LEO}))            # -> Fetch of nothing, at the end of the log: its HW

A debugging consumer (replica id -2) is what Kafka's own kafka-replica-verification is: followers answer it, it is in no
group, and it moves nothing. source: ReplicaManager.fetchOffset, FetchParams.fetchOnlyLeader
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

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
from replica.ids import DEBUGGING_CONSUMER, Offset, TopicPartition
from replica.wording import shown
from scenarios.watch.answers import (
    ListedBroker,
    PartitionAnswer,
    ReplicaAnswer,
    brokers_of,
    partitions_of,
)

CLIENT_ID = "highwater-watch"
LATEST = -1
TOPIC_RESOURCE = 2
MIN_ISR = "min.insync.replicas"
PARTITIONS_PER_PAGE = 2_000
"""Of DescribeTopicPartitions; brokers cut at max.request.partition.size.limit, 2000 by default."""

_HIGHEST = {
    # By name up to here; the id of a topic may change between two answers.
    FETCH: 12,
    METADATA: 12,
}

T = TypeVar("T")
Ranges = Mapping[int, tuple[int, int]]


class NotSpoken(Exception):
    """The broker has no version of an API that we speak."""


@dataclass(frozen=True, slots=True)
class WireQuestion(Generic[T]):
    """One request. frame: of a correlation id, size prefix included. read: of an answer; raises PeerViolation"""

    name: str
    frame: Callable[[int], bytes]
    read: Callable[[Frame], T]


class Page(NamedTuple):
    """Partitions, and where the next page begins, None after the last one."""

    partitions: list[PartitionAnswer]
    left_out: int
    cursor: tuple[str, int] | None


class Speaks:
    """The versions of a broker's APIs."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges

    def version(self, api_key: int) -> int:
        """The highest that both sides know. raises: NotSpoken"""
        low, high = VERSIONS[api_key]
        theirs = self.ranges.get(api_key)
        if theirs is not None:
            found = min(high, theirs[1], _HIGHEST.get(api_key, high))
            if found >= max(low, theirs[0]):
                return found
        raise NotSpoken(f"the broker offers no version of {api_name(api_key)} that is known here")

    @property
    def era(self) -> str:
        """The newest era whose Fetch is no newer: brokers do not tell their release."""
        highest = self.ranges.get(FETCH, (0, 0))[1]
        fitting = [era for era, version in HIGHEST[FETCH].items() if version <= highest]
        return f"kafka-{fitting[-1] if fitting else next(iter(HIGHEST[FETCH]))}"

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
    """Version 0 is answered by every broker since 0.10."""

    def read(answer: Entity) -> Ranges:
        if answer.error_code is not ErrorCode.NONE:
            raise PeerViolation(f"ApiVersions was refused with {answer.error_code.name}")
        return {int(one.api_key): (int(one.min_version), int(one.max_version)) for one in answer.api_keys}

    return _cold(API_VERSIONS, 0, read)


def sasl_handshake(mechanism: str) -> WireQuestion[tuple[ErrorCode, tuple[str, ...]]]:
    """(error, mechanisms of the broker)"""
    return _cold(
        SASL_HANDSHAKE, 1, lambda found: (found.error_code, tuple(map(str, found.mechanisms))), mechanism=mechanism
    )


def sasl_authenticate(message: bytes) -> WireQuestion[tuple[ErrorCode, str, bytes]]:
    """(error, what the broker says about it, its message)"""
    return _cold(
        SASL_AUTHENTICATE,
        0,
        lambda found: (found.error_code, found.error_message or "", bytes(found.auth_bytes)),
        auth_bytes=message,
    )


# ------------------------------------------------------------------------------------------------------- the cluster


def brokers(speaks: Speaks) -> WireQuestion[tuple[ListedBroker, ...]]:
    """The brokers alone: Metadata about no topic."""
    version = speaks.version(METADATA)
    return _cold(METADATA, version, lambda found: brokers_of(found.brokers), topics=[], allow_auto_topic_creation=False)


def cluster_id(speaks: Speaks) -> WireQuestion[str | None]:
    """None: the broker has none, or does not say."""

    def read(answer: Entity) -> str | None:
        found = getattr(answer, "cluster_id", None)
        return None if not found else shown(str(found))

    return _cold(METADATA, speaks.version(METADATA), read, topics=[], allow_auto_topic_creation=False)


def every_topic(
    speaks: Speaks, wanted: re.Pattern[str] | None, room: int, cursor: tuple[str, int] | None = None
) -> WireQuestion[Page]:
    """The partitions of the wanted topics: with their ELR where the broker has DescribeTopicPartitions.

    room: how many are taken at most     cursor: where the page begins
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
    """The effective min.insync.replicas of topics; those that we may not see are missing."""

    def read(answer: Entity) -> dict[str, int]:
        found = {}
        for one in answer.results:
            for config in one.configs or ():
                if one.error_code is ErrorCode.NONE and config.name == MIN_ISR and (config.value or "").isdecimal():
                    found[str(one.resource_name)] = int(config.value[:9])
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
    """The log end offset of a broker's own replicas."""

    def read(answer: Entity) -> list[ReplicaAnswer]:
        return [
            ReplicaAnswer(
                TopicPartition(str(topic.name), int(one.partition_index)),
                int(one.offset) if one.error_code is ErrorCode.NONE and int(one.offset) >= 0 else None,
                error=one.error_code,
            )
            for topic in answer.topics
            for one in topic.partitions
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
    """The high watermark of a broker's own replicas. A fetch at the end of a log answers it, and no records."""
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
                TopicPartition(str(topic), one.partition),
                high_watermark=one.high_watermark if one.error is ErrorCode.NONE and one.high_watermark >= 0 else None,
                error=one.error,
            )
            for topic, parts in answer.topics
            for one in parts
        ]

    return WireQuestion(
        api_name(FETCH), lambda correlation_id: encode_fetch_request(version, correlation_id, CLIENT_ID, asked), read
    )


def _by_topic(names: Sequence[TopicPartition] | Mapping[TopicPartition, Offset]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in names:
        found.setdefault(topic, []).append(number)
    return found
