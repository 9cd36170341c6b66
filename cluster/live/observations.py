"""Decodes the traffic of one outside client's connection at the broker's end, without changing it.

The results are small enough to be sent to another process: for each record they have only a possible name and a digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from cluster.live.record_names import RecordSeen, is_believable, word_of
from cluster.node import Segment
from cluster.protocol.api_00_produce import decode_produce_request, decode_produce_response
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.versions import FETCH, PRODUCE, RequestHeader, read_request_header
from cluster.slices import paced
from replica.errors import ErrorCode, KafkaError, PeerViolation
from replica.ids import NO_BROKER, Offset, TopicPartition
from replica.log.batches.records import (
    BATCH_HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    Record,
    as_sent,
    batches,
    check_crc,
    read_header,
    read_records,
)
from replica.log.files.open_files import FileSlice

Topic = str | UUID
SIZE_PREFIX_BYTES = 4
IDENTITY_BYTES = 16
SEEN_RECORDS_MAX, SEEN_BYTES_MAX, SEEN_HEADERS_MAX = 10_000, 2 << 20, 10_000
"""The limits for one batch. The records of a larger batch are only counted and named by numbers."""


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """A batch in a Produce request. `records` is () if the records cannot be read."""

    topic_partition: TopicPartition
    header: BatchHeader
    records: tuple[RecordSeen, ...]


@dataclass(frozen=True, slots=True)
class ProduceArrived:
    acks: int
    batches: tuple[BatchArrived, ...]


@dataclass(frozen=True, slots=True)
class PartitionAnswered:
    topic_partition: TopicPartition
    error: ErrorCode
    base_offset: Offset
    message: str | None


@dataclass(frozen=True, slots=True)
class ProduceAnswered:
    """A Produce response. `left_us` is the time at which all its bytes were in the kernel's send buffer."""

    partitions: tuple[PartitionAnswered, ...]
    left_us: int


@dataclass(frozen=True, slots=True)
class FetchArrived:
    """A Fetch request, with the requested offset of each partition."""

    offsets: tuple[tuple[TopicPartition, Offset], ...]


@dataclass(frozen=True, slots=True)
class FetchResponseSeen:
    """A Fetch response, with the error and the headers of complete batches for each partition."""

    partitions: tuple[tuple[TopicPartition, ErrorCode, tuple[BatchHeader, ...]], ...]


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    reason: str


Observation = ProduceArrived | ProduceAnswered | FetchArrived | FetchResponseSeen | ConnectionEnded


class InProgress(NamedTuple):
    """An unanswered request.

    Attributes:
        names: topic names of a Produce request, stored because a topic may be deleted before the response.
    """

    header: RequestHeader
    is_read: bool = False
    names: Mapping[Topic, str | None] = MappingProxyType({})


class ConnectionTap:
    """Observes one connection at the broker's end.

    A broker answers the requests of a connection in order, although faults may hold responses.

    Args:
        tell: called with each observation.
        topic_name: returns the name of a topic id, None if it is unknown.
        clock_us: returns the time of the run, which advances even within a step.
    """

    __slots__ = ("_clock_us", "_in_progress", "_tell", "_topic_name")

    def __init__(
        self,
        tell: Callable[[Observation], None],
        topic_name: Callable[[Topic], str | None],
        clock_us: Callable[[], int],
    ) -> None:
        self._tell = tell
        self._topic_name = topic_name
        self._clock_us = clock_us
        self._in_progress: deque[InProgress] = deque()

    def request(self, frame: bytearray) -> None:
        """Observe a complete request."""
        try:
            header = read_request_header(frame)
        except PeerViolation:
            return  # The broker will report this and close the connection.
        waiting: InProgress | None = InProgress(header)
        # The broker will close the connection or refuse the request.
        with contextlib.suppress(PeerViolation, KafkaError):
            if header.api_key == PRODUCE:
                waiting = self._produce(header, frame)
            elif header.api_key == FETCH:
                waiting = self._fetch(header, frame)
        if waiting is not None:
            self._in_progress.append(waiting)

    def response(self, segments: Sequence[Segment]) -> None:
        """Observe the next response; the kernel has sent it to a client that is still connected."""
        if not self._in_progress:
            return
        request = self._in_progress.popleft()
        if not request.is_read:
            return
        if request.header.api_key == PRODUCE:
            self._produced(request, segments, self._clock_us())
        else:
            self._fetched(request.header, segments)

    def ended(self, reason: str) -> None:
        """Observe the end of the connection. Requests in progress get no response."""
        self._in_progress.clear()
        self._tell(ConnectionEnded(reason))

    def _produce(self, header: RequestHeader, frame: bytearray) -> InProgress | None:
        """Observe a Produce request. Return None if it will not be answered."""
        request = decode_produce_request(header, frame)
        arrived = []
        names = {topic: self._topic_name(topic) for topic, _ in paced(request.topics)}
        for topic, partitions in request.topics:
            name = names[topic]
            if name is None:
                continue  # The broker refuses an unknown topic id.
            for number, records in paced(partitions):
                batch = None if records is None else _single_batch(memoryview(records))
                if records is not None and batch is not None:
                    seen = records_seen(memoryview(records), batch.record_count)
                    arrived.append(BatchArrived(TopicPartition(name, number), batch, seen))
        self._tell(ProduceArrived(request.acks, tuple(arrived)))
        return InProgress(header, True, names) if request.acks else None

    def _produced(self, request: InProgress, segments: Sequence[Segment], left_us: int) -> None:
        frame = b"".join(bytes(segment) for segment in segments if not isinstance(segment, FileSlice))
        answer = decode_produce_response(request.header.api_version, memoryview(frame)[SIZE_PREFIX_BYTES:])
        answered = [
            PartitionAnswered(TopicPartition(name, part.partition), part.error, part.base_offset, part.error_message)
            for topic, parts in answer.topics
            if (name := request.names.get(topic)) is not None
            for part in parts
        ]
        self._tell(ProduceAnswered(tuple(answered), left_us))

    def _fetch(self, header: RequestHeader, frame: bytearray) -> InProgress:
        request = decode_fetch_request(header, frame)
        if request.replica_id != NO_BROKER:
            return InProgress(header)
        offsets = []
        for topic, partitions in paced(request.topics):
            name = topic if isinstance(topic, str) else self._topic_name(topic)
            if name is not None:
                offsets += [(TopicPartition(name, entry.partition), entry.fetch_offset) for entry in partitions]
        if offsets:
            self._tell(FetchArrived(tuple(offsets)))
        return InProgress(header, True)

    def _fetched(self, header: RequestHeader, segments: Sequence[Segment]) -> None:
        """Observe a Fetch response. Of its file slices only the batch headers are read."""
        answer = decode_fetch_response(header.api_version, memoryview(_with_holes(segments))[SIZE_PREFIX_BYTES:])
        slices = iter([part for part in segments if isinstance(part, FileSlice) and part.length])
        answered = []
        for topic, parts in answer.topics:
            name = topic if isinstance(topic, str) else self._topic_name(topic)
            for part in paced(parts):
                found = next(slices, None) if len(part.records) else None
                if name is not None and (part.error is not ErrorCode.NONE or found is not None):
                    headers = () if found is None else tuple(_headers_in(found))
                    answered.append((TopicPartition(name, part.partition), part.error, headers))
        if answered:
            self._tell(FetchResponseSeen(tuple(answered)))


def _seen(record: Record) -> RecordSeen:
    digest = hashlib.blake2b(digest_size=IDENTITY_BYTES)
    for part in (record.key, record.value):
        digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    digest.update(b"%d" % record.timestamp_ms)
    return RecordSeen(word_of(record.value) or word_of(record.key), digest.digest())


def records_seen(batch: memoryview, count: int) -> tuple[RecordSeen, ...]:
    """Return the records of a batch, or () if they cannot be read or reading them would take too long."""
    if count > SEEN_RECORDS_MAX:
        return ()
    try:
        records = read_records(batch, SEEN_BYTES_MAX, limit_headers=SEEN_HEADERS_MAX)
    except KafkaError:
        return ()
    return tuple(map(_seen, paced(records))) if len(records) == count else ()


def _single_batch(records: memoryview) -> BatchHeader | None:
    """Return the header of the only batch; None if the broker would refuse the data (CRC, record count)."""
    found = list(islice(batches(records), 2))
    if len(found) != 1:
        return None
    header = found[0][1]
    return header if check_crc(records, 0, header) and is_believable(header) else None


def _with_holes(segments: Sequence[Segment]) -> bytearray:
    """Return the frame as bytes, with zeros for its file slices."""
    frame = bytearray(sum(part.length if isinstance(part, FileSlice) else len(part) for part in segments))
    position = 0
    for part in segments:
        if isinstance(part, FileSlice):
            position += part.length
        else:
            frame[position : position + len(part)] = part
            position += len(part)
    return frame


def _headers_in(part: FileSlice) -> list[BatchHeader]:
    """Return the headers of the complete batches in a slice.

    Raises:
        KafkaError: if the bytes are not a batch header.
    """
    headers, position = [], 0
    while part.length - position >= BATCH_HEADER_BYTES:
        data = os.pread(part.fd, BATCH_HEADER_BYTES, part.position + position)
        header = read_header(data)
        position += header.size_bytes
        if position > part.length:
            break
        if header.attributes & LOG_APPEND_TIME:
            batch = os.pread(part.fd, header.size_bytes, part.position + position - header.size_bytes)
            header = as_sent(batch, header, SEEN_BYTES_MAX)
        headers.append(header)
    return headers
