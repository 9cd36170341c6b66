"""What clients of somebody else's do and are told, as facts: an observer of their connections.

Our own producers and consumers state what they send, learn and read; an unmodified client states nothing, so its
connection is read along, at the broker's end. It is the same story from the other side: a record counts as sent when
its request has arrived, and as acked when the answer leaves for a client that is still there. Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from cluster.live.record_names import NamedBatch, Names, RecordNames, is_believable
from cluster.node import Segment
from cluster.producer_sender import RETRIABLE
from cluster.wire.api_00_produce import ProducePartitionResponse, decode_produce_request, decode_produce_response
from cluster.wire.api_01_fetch import FetchedPartition, decode_fetch_request, decode_fetch_response
from cluster.wire.headers import RequestHeader, read_request_header
from cluster.wire.versions import FETCH, PRODUCE
from replica import trace
from replica.errors import INDEFINITE, ErrorCode, KafkaError, PeerViolation
from replica.file_slice import FileSlice
from replica.ids import NO_BROKER, Offset, TopicPartition
from replica.records import BATCH_HEADER_BYTES, BatchHeader, batches, check_crc, read_header
from replica.trace import TraceLog

Topic = str | UUID
SIZE_PREFIX_BYTES = 4
RECENT_BATCHES_MAX = 10_000


class SentBatch(NamedTuple):
    """One batch of a Produce request in progress."""

    batch: NamedBatch
    sent_seq: int
    sent_us: int
    acks: int
    attempt: int


@dataclass(slots=True)
class Position:
    """What one client has asked for of a partition, and read of it."""

    asked: Offset = -1
    read: Offset = -1
    error: str | None = None


class ClientTap:
    """Everything that the taps of single connections share.

    records_of: names of the records of a batch, by its CRC     is_taken: whether a record has a name already
    topic_name: of a topic id, None if it is unknown
    """

    def __init__(
        self,
        recorder: TraceLog,
        records_of: Callable[[int], Names],
        is_taken: Callable[[str], bool],
        topic_name: Callable[[Topic], str | None],
    ) -> None:
        self.recorder = recorder
        self.records_of = records_of
        self.topic_name = topic_name
        self.names = RecordNames(is_taken)
        self.positions: dict[tuple[str, TopicPartition], Position] = {}
        self._recent: dict[int, tuple[TopicPartition, Offset, Names]] = {}
        self._twins: dict[tuple[TopicPartition, Offset, int], Names] = {}

    def names_at(self, partition: TopicPartition, base_offset: Offset, crc: int) -> Names:
        """Of a batch in a log. A CRC says enough, unless a client has sent the same words twice in a millisecond."""
        return self._twins.get((partition, base_offset, crc)) or self.records_of(crc)

    def appended(self, partition: TopicPartition, base_offset: Offset, crc: int, names: Names) -> None:
        """A batch was acked at this offset."""
        recent = self._recent.pop(crc, None)
        if recent is not None and recent[2] != names:
            self._twins[recent[0], recent[1], crc] = recent[2]
            self._twins[partition, base_offset, crc] = names
        self._recent[crc] = (partition, base_offset, names)
        if len(self._recent) > RECENT_BATCHES_MAX:
            del self._recent[next(iter(self._recent))]

    def position(self, client: str, partition: TopicPartition) -> Position:
        return self.positions.setdefault((client, partition), Position())


@dataclass(slots=True)
class WireTap:
    """One connection of one client, which has one request in progress at a time."""

    shared: ClientTap
    client: str
    node: str
    _header: RequestHeader | None = None
    _produced: dict[TopicPartition, SentBatch] = field(default_factory=dict)

    def request(self, frame: bytearray, now_us: int) -> None:
        """A whole request has arrived."""
        try:
            header = read_request_header(frame)
            if header.api_key == PRODUCE:
                self._produce(header, frame, now_us)
            elif header.api_key == FETCH:
                self._ask(header, frame)
        except (PeerViolation, KafkaError):
            self._header = None  # The broker will say so, and close the connection or refuse.

    def response(self, segments: Sequence[Segment], now_us: int) -> None:
        """Its answer has left, as far as the kernel knows to a client that is there."""
        header, self._header = self._header, None
        if header is None:
            return
        if header.api_key == PRODUCE:
            self._told(header, segments, now_us)
        else:
            self._handed(header, segments)

    def ended(self, reason: str) -> None:
        """The connection is over; what was in progress stays without an answer."""
        produced, self._produced = self._produced, {}
        self._header = None
        for sent in produced.values():
            self._refused(sent, ErrorCode.NETWORK_EXCEPTION, f"{self.client} gets no answer: {reason}")

    # ------------------------------------------------------------------------------------------------------- produce

    def _produce(self, header: RequestHeader, frame: bytearray, now_us: int) -> None:
        request = decode_produce_request(header, frame)
        self._header = header if request.acks else None
        self._produced = {}
        for topic, partitions in request.topics:
            for number, records in partitions:
                batch = None if records is None else _single_batch(memoryview(records))
                if records is not None and batch is not None:
                    partition = TopicPartition(topic, number)
                    named = self.shared.names.of(self.client, partition, batch, memoryview(records))
                    self._produced[partition] = self._sent(named, batch, request.acks, now_us)
        if request.acks == 0:
            for sent in self._produced.values():
                self._handed_over(sent, now_us)
            self._produced = {}

    def _sent(self, named: NamedBatch, batch: BatchHeader, acks: int, now_us: int) -> SentBatch:
        recorder, (topic, partition) = self.shared.recorder, named.topic_partition
        causes = [
            recorder.emit(
                trace.RecordSent(client=self.client, topic=topic, partition=partition, record=name, acks=acks)
            )
            for name in named.new
        ]
        attempt = 1 if named.new else 2
        seq = recorder.emit(
            trace.BatchSent(
                client=self.client,
                peer=self.node,
                topic=topic,
                partition=partition,
                records=named.names,
                crc=batch.crc,
                attempt=attempt,
                acks=acks,
                producer_id=batch.producer_id,
                base_sequence=batch.base_sequence,
            ),
            *causes,
        )
        return SentBatch(named, seq, now_us, acks, attempt)

    def _handed_over(self, sent: SentBatch, now_us: int) -> None:
        topic, partition = sent.batch.topic_partition
        for name in sent.batch.names:
            self.shared.recorder.emit(
                trace.RecordHandedOver(
                    client=self.client,
                    peer=self.node,
                    topic=topic,
                    partition=partition,
                    record=name,
                    acks=sent.acks,
                    latency_us=now_us - sent.sent_us,
                ),
                sent.sent_seq,
            )
        self.shared.names.answered(sent.batch)

    def _told(self, header: RequestHeader, segments: Sequence[Segment], now_us: int) -> None:
        frame = b"".join(bytes(segment) for segment in segments if not isinstance(segment, FileSlice))
        answer = decode_produce_response(header.api_version, memoryview(frame)[SIZE_PREFIX_BYTES:])
        produced, self._produced = self._produced, {}
        for topic, parts in answer.topics:
            for part in parts:
                sent = produced.get(TopicPartition(topic, part.partition))
                if sent is None:
                    continue
                if part.error is ErrorCode.NONE:
                    self._acked(sent, part.base_offset, now_us)
                else:
                    self._failed(sent, part, now_us)

    def _acked(self, sent: SentBatch, base_offset: Offset, now_us: int) -> None:
        shared, named = self.shared, sent.batch
        topic, partition = named.topic_partition
        shared.appended(named.topic_partition, base_offset, named.crc, named.names)
        for place, name in enumerate(named.names):
            shared.recorder.emit(
                trace.RecordAcked(
                    client=self.client,
                    peer=self.node,
                    topic=topic,
                    partition=partition,
                    record=name,
                    offset=base_offset + place if base_offset >= 0 else base_offset,
                    acks=sent.acks,
                    latency_us=now_us - sent.sent_us,
                ),
                sent.sent_seq,
            )
        shared.names.answered(named)

    def _failed(self, sent: SentBatch, part: ProducePartitionResponse, now_us: int) -> None:
        """An error that a producer does not retry is the end of these records; what others lead to, is seen later."""
        reason = part.error_message or f"{self.node} refuses the batch: {part.error.name}"
        seq = self._refused(sent, part.error, reason)
        if part.error in RETRIABLE:
            return
        topic, partition = sent.batch.topic_partition
        for name in sent.batch.names:
            self.shared.recorder.emit(
                trace.RecordFailed(
                    client=self.client,
                    topic=topic,
                    partition=partition,
                    record=name,
                    acks=sent.acks,
                    error=part.error.name,
                    definite=sent.attempt == 1 and part.error not in INDEFINITE,
                    latency_us=now_us - sent.sent_us,
                    reason=reason,
                ),
                seq,
            )
        self.shared.names.answered(sent.batch)

    def _refused(self, sent: SentBatch, error: ErrorCode, reason: str) -> int:
        topic, partition = sent.batch.topic_partition
        return self.shared.recorder.emit(
            trace.BatchRefused(
                client=self.client,
                peer=self.node,
                topic=topic,
                partition=partition,
                records=sent.batch.names,
                crc=sent.batch.crc,
                attempt=sent.attempt,
                error=error.name,
                will_retry=error in RETRIABLE,
                reason=reason,
            ),
            sent.sent_seq,
        )

    # --------------------------------------------------------------------------------------------------------- fetch

    def _ask(self, header: RequestHeader, frame: bytearray) -> None:
        request = decode_fetch_request(header, frame)
        self._header = header if request.replica_id == NO_BROKER else None
        if self._header is None:
            return
        for topic, partitions in request.topics:
            name = topic if isinstance(topic, str) else self.shared.topic_name(topic)
            if name is not None:
                for entry in partitions:
                    self._moved(TopicPartition(name, entry.partition), entry.fetch_offset)

    def _moved(self, partition: TopicPartition, offset: Offset) -> None:
        """A fetch that does not go on where the last one ended: the client has started, sought, or was sent away."""
        position = self.shared.position(self.client, partition)
        asked, position.asked = position.asked, offset
        if asked < 0 or offset in (asked, position.read + 1):
            return
        error, position.error = position.error, None
        self.shared.recorder.emit(
            trace.PositionReset(
                client=self.client,
                peer=self.node,
                topic=partition.topic,
                partition=partition.partition,
                offset=offset,
                previous_offset=position.read + 1,
                error=error,
                reason=f"{self.client} goes on from {offset} of {partition}, not from {position.read + 1}",
            )
        )

    def _handed(self, header: RequestHeader, segments: Sequence[Segment]) -> None:
        """The frame is decoded with holes where its files are: what is in those is not read, but for batch headers."""
        answer = decode_fetch_response(header.api_version, memoryview(_with_holes(segments))[SIZE_PREFIX_BYTES:])
        slices = iter([part for part in segments if isinstance(part, FileSlice) and part.length])
        for topic, parts in answer.topics:
            name = topic if isinstance(topic, str) else self.shared.topic_name(topic)
            for part in parts:
                found = next(slices, None) if len(part.records) else None
                if name is not None:
                    self._partition_handed(TopicPartition(name, part.partition), part, found)

    def _partition_handed(self, partition: TopicPartition, part: FetchedPartition, found: FileSlice | None) -> None:
        position = self.shared.position(self.client, partition)
        if part.error is not ErrorCode.NONE:
            position.error = part.error.name
            self.shared.recorder.emit(
                trace.FetchFailed(
                    client=self.client,
                    peer=self.node,
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=max(position.asked, 0),
                    error=part.error.name,
                )
            )
        elif found is not None:
            for header in _headers_in(found):
                self._read(partition, position, header)

    def _read(self, partition: TopicPartition, position: Position, header: BatchHeader) -> None:
        """Whole batches are sent; a client drops what lies before the offset it has asked for."""
        if header.is_control:
            return
        names = self.shared.records_of(header.crc)
        for offset in range(max(header.base_offset, position.asked), header.last_offset + 1):
            place = offset - header.base_offset
            self.shared.recorder.emit(
                trace.RecordRead(
                    client=self.client,
                    peer=self.node,
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=offset,
                    record=names[place] if place < len(names) else f"?{offset}",
                    leader_epoch=header.leader_epoch,
                )
            )
        position.read = max(header.last_offset, position.asked - 1)


def _single_batch(records: memoryview) -> BatchHeader | None:
    """The header of a batch that the broker may take: one per partition, whole, as long and as full as it says."""
    found = list(batches(records))
    if len(found) != 1:
        return None
    header = found[0][1]
    whole = header.size_bytes == len(records) and check_crc(records, 0, header)
    return header if whole and is_believable(header) else None


def _with_holes(segments: Sequence[Segment]) -> bytearray:
    """The frame without the bytes of its files: memory that is never touched is never there."""
    frame = bytearray(sum(part.length if isinstance(part, FileSlice) else len(part) for part in segments))
    place = 0
    for part in segments:
        if isinstance(part, FileSlice):
            place += part.length
        else:
            frame[place : place + len(part)] = part
            place += len(part)
    return frame


def _headers_in(part: FileSlice) -> list[BatchHeader]:
    """Headers of the whole batches in a slice. raises: KafkaError where none can be"""
    headers, place = [], 0
    while part.length - place >= BATCH_HEADER_BYTES:
        data = os.pread(part.fd, BATCH_HEADER_BYTES, part.position + place)
        header = read_header(data)
        place += header.size_bytes
        if place > part.length:
            break
        headers.append(header)
    return headers
