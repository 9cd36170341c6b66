"""One connection of a client that is a JVM's, read along: requests when they set out, answers when they arrive.

Only what a client does not say itself is looked for: its batches, the errors of answers, and who answers.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, NamedTuple
from uuid import UUID

from cluster.protocol.api_00_produce import decode_produce_request, decode_produce_response
from cluster.protocol.cold import decode_response
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    RequestHeader,
    read_request_header,
    response_correlation_id,
)
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import TopicPartition
from replica.log.batches.records import BatchHeader, Record, read_header, read_records


class BatchSeen(NamedTuple):
    """One batch of a Produce request."""

    topic_partition: TopicPartition
    header: BatchHeader
    records: tuple[Record, ...]


class AnswerSeen(NamedTuple):
    """The answer for one partition. has_records: of a Fetch"""

    topic_partition: TopicPartition
    error: ErrorCode
    message: str | None = None
    has_records: bool = False


class ObservedClient:
    """A client as its connections show it; it overrides what it wants to know."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        """topics: all that it uses"""
        self.topics = topics
        self._names: dict[UUID, str] = {}

    def topic_told(self, topic_id: UUID, name: str) -> None:
        """The metadata that it gets have it."""
        self._names[topic_id] = name

    def name_of(self, topic_id: UUID) -> str:
        """Answers name topics by their ids (KIP-516), of which the client has had metadata before it asks.

        raises: KafkaError UNKNOWN_TOPIC_ID
        """
        if len(self.topics) == 1:
            return self.topics[0]
        if topic_id not in self._names:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self._names[topic_id]

    def batch_left(self, peer: str, batch: BatchSeen, acks: int) -> object:
        """returns: what stands for this sending when it is answered"""
        return None

    def batch_answered(self, peer: str, sending: object, answer: AnswerSeen) -> None: ...

    def batch_unanswered(self, peer: str, sending: object, reason: str) -> None: ...

    def fetch_answered(self, peer: str, answer: AnswerSeen) -> None: ...

    def offset_answered(self, peer: str, answer: AnswerSeen) -> None: ...


class ConnectionSight:
    """peer: the node at the other end"""

    def __init__(self, client: ObservedClient, peer: str) -> None:
        self._client = client
        self._peer = peer
        self._open: deque[tuple[RequestHeader, dict[TopicPartition, object]]] = deque()

    def request(self, frame: bytes | bytearray) -> None:
        """What cannot be read is left to the broker, which refuses it."""
        with contextlib.suppress(PeerViolation, KafkaError):
            header = read_request_header(frame)
            sendings, awaits_answer = self._produce(header, frame) if header.api_key == PRODUCE else ({}, True)
            if awaits_answer:
                self._open.append((header, sendings))

    def response(self, frame: bytes | bytearray) -> None:
        with contextlib.suppress(PeerViolation, KafkaError):
            correlation_id = response_correlation_id(frame)
            while self._open:
                header, sendings = self._open.popleft()
                if header.correlation_id == correlation_id:
                    self._answered(header, sendings, frame)
                    return

    def ended(self, reason: str) -> None:
        """What was sent and not answered never will be."""
        unanswered, self._open = self._open, deque()
        for _, sendings in unanswered:
            for sending in sendings.values():
                self._client.batch_unanswered(self._peer, sending, reason)

    def _topic_partition(self, topic: str | UUID, partition: int) -> TopicPartition:
        return TopicPartition(topic if isinstance(topic, str) else self._client.name_of(topic), partition)

    def _produce(self, header: RequestHeader, frame: bytes | bytearray) -> tuple[dict[TopicPartition, object], bool]:
        request = decode_produce_request(header, frame)
        sendings: dict[TopicPartition, object] = {}
        for topic, partitions in request.topics:
            for number, data in partitions:
                if data is None:
                    continue
                # A producer puts one batch into a request for each partition.
                seen = BatchSeen(
                    self._topic_partition(topic, number), read_header(data), tuple(read_records(memoryview(data)))
                )
                sendings[seen.topic_partition] = self._client.batch_left(self._peer, seen, request.acks)
        return sendings, request.acks != 0

    def _answered(
        self, header: RequestHeader, sendings: dict[TopicPartition, object], frame: bytes | bytearray
    ) -> None:
        if header.api_key == PRODUCE:
            self._produce_answered(header, sendings, frame)
        elif header.api_key == FETCH:
            for topic, fetched in decode_fetch_response(header.api_version, frame).topics:
                for one in fetched:
                    name = self._topic_partition(topic, one.partition)
                    self._client.fetch_answered(self._peer, AnswerSeen(name, one.error, has_records=bool(one.records)))
        elif header.api_key == METADATA:
            self._metadata_answered(header, frame)
        elif header.api_key == LIST_OFFSETS:
            answer: Any = decode_response(LIST_OFFSETS, header.api_version, frame)
            for entry in answer.topics:
                for part in entry.partitions:
                    name = TopicPartition(entry.name, part.partition_index)
                    self._client.offset_answered(self._peer, AnswerSeen(name, part.error_code))

    def _metadata_answered(self, header: RequestHeader, frame: bytes | bytearray) -> None:
        answer: Any = decode_response(METADATA, header.api_version, frame)
        for topic in answer.topics:
            topic_id = getattr(topic, "topic_id", None)
            if topic_id is not None and topic.name is not None:
                self._client.topic_told(topic_id, str(topic.name))

    def _produce_answered(
        self, header: RequestHeader, sendings: dict[TopicPartition, object], frame: bytes | bytearray
    ) -> None:
        for topic, parts in decode_produce_response(header.api_version, frame).topics:
            for part in parts:
                name = self._topic_partition(topic, part.partition)
                if name in sendings:
                    answer = AnswerSeen(name, part.error, part.error_message)
                    self._client.batch_answered(self._peer, sendings[name], answer)
