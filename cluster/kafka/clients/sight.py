"""Observes one connection of a Java client: requests when they leave, responses when they arrive.

It decodes only what the client does not report itself: the client's batches, the errors in responses, and the
responding broker.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, NamedTuple
from uuid import UUID

from cluster.protocol import versions
from cluster.protocol.api_00_produce import decode_produce_request, decode_produce_response
from cluster.protocol.cold import decode_response
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import RequestHeader, read_request_header, response_correlation_id
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import TopicPartition
from replica.log.batches.records import BatchHeader, Record, read_header, read_records


class BatchSeen(NamedTuple):
    """One batch in a Produce request."""

    topic_partition: TopicPartition
    header: BatchHeader
    records: tuple[Record, ...]


class AnswerSeen(NamedTuple):
    """The response for one partition. `has_records` is used for Fetch only."""

    topic_partition: TopicPartition
    error: ErrorCode
    message: str | None = None
    has_records: bool = False


class ObservedClient:
    """A base class that receives what is observed on a client's connections. Subclasses override what they need."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        """Create a client that uses these topics, by name."""
        self.topics = topics
        self._names: dict[UUID, str] = {}

    def learn_topic(self, topic_id: UUID, name: str) -> None:
        """Store the name of a topic id, as found in a Metadata response to the client."""
        self._names[topic_id] = name

    def name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic id (KIP-516), as found in an earlier Metadata response to the client.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID.
        """
        if len(self.topics) == 1:
            return self.topics[0]
        if topic_id not in self._names:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self._names[topic_id]

    def batch_left(self, peer: str, batch: BatchSeen, acks: int) -> object:
        """Handle a sent batch. Return an object that identifies this attempt when its response arrives."""
        return None

    def batch_answered(self, peer: str, sending: object, answer: AnswerSeen) -> None: ...

    def batch_unanswered(self, peer: str, sending: object, reason: str) -> None: ...

    def fetch_answered(self, peer: str, answer: AnswerSeen) -> None: ...

    def offset_answered(self, peer: str, answer: AnswerSeen) -> None: ...


class ConnectionSight:
    """Observes the requests and responses on one connection. `peer` is the node at the other end."""

    def __init__(self, client: ObservedClient, peer: str) -> None:
        self._client = client
        self._peer = peer
        self._open: deque[tuple[RequestHeader, dict[TopicPartition, object]]] = deque()

    def request(self, frame: bytes | bytearray) -> None:
        """Observe a request. An unreadable request is ignored, since the broker refuses it."""
        with contextlib.suppress(PeerViolation, KafkaError):
            header = read_request_header(frame)
            sendings, awaits_answer = self._produce(header, frame) if header.api_key == versions.PRODUCE else ({}, True)
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
        """Handle the end of the connection: report each unanswered batch, with this reason."""
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
        if header.api_key == versions.PRODUCE:
            self._produce_answered(header, sendings, frame)
        elif header.api_key == versions.FETCH:
            for topic, fetched in decode_fetch_response(header.api_version, frame).topics:
                for item in fetched:
                    name = self._topic_partition(topic, item.partition)
                    self._client.fetch_answered(
                        self._peer, AnswerSeen(name, item.error, has_records=bool(item.records))
                    )
        elif header.api_key == versions.METADATA:
            self._metadata_answered(header, frame)
        elif header.api_key == versions.LIST_OFFSETS:
            answer: Any = decode_response(versions.LIST_OFFSETS, header.api_version, frame)
            for entry in answer.topics:
                for part in entry.partitions:
                    name = TopicPartition(entry.name, part.partition_index)
                    self._client.offset_answered(self._peer, AnswerSeen(name, part.error_code))

    def _metadata_answered(self, header: RequestHeader, frame: bytes | bytearray) -> None:
        answer: Any = decode_response(versions.METADATA, header.api_version, frame)
        for topic in answer.topics:
            topic_id = getattr(topic, "topic_id", None)
            if topic_id is not None and topic.name is not None:
                self._client.learn_topic(topic_id, str(topic.name))

    def _produce_answered(
        self, header: RequestHeader, sendings: dict[TopicPartition, object], frame: bytes | bytearray
    ) -> None:
        for topic, parts in decode_produce_response(header.api_version, frame).topics:
            for part in parts:
                name = self._topic_partition(topic, part.partition)
                if name in sendings:
                    answer = AnswerSeen(name, part.error, part.error_message)
                    self._client.batch_answered(self._peer, sendings[name], answer)
