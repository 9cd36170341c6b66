"""What clients of somebody else's do and are told, as facts: what their connections are observed to carry.

Our own producers and consumers state what they send, learn and read; an unmodified client states nothing, so its
connection is read along, at the broker's end. It is the same story from the other side: a record counts as sent when
its request has arrived, and as acked when the answer leaves for a client that is still there. Its latency is the
broker's: from the arrival of the request that was answered to its answer with the kernel; with acks=0 nobody can tell.
Nothing is changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cluster.client.producer.sender import RETRIABLE
from cluster.live.observations import (
    ConnectionEnded,
    FetchAnswered,
    FetchArrived,
    Observation,
    PartitionAnswered,
    ProduceAnswered,
    ProduceArrived,
    Topic,
)
from cluster.live.record_names import NamedBatch, Names, RecordNames
from cluster.telling_limit import TellingLimit
from replica.errors import INDEFINITE, ErrorCode
from replica.ids import Offset, TopicPartition
from replica.log.records import BatchHeader
from replica.trace import events as trace
from replica.trace.events import TraceLog

RECENT_BATCHES_MAX = 20_000
POSITIONS_MAX = 100_000
"""Of all clients in all partitions; a client that has not read one for longest begins anew there."""
REPEATED_AT_ONCE, REPEATED_PER_SECOND = 200_000, 500
"""Facts of one client's reading that tell of nothing new: records it has read before, refusals, moves."""
ANSWERS_IN_FLIGHT = 5
"""max.in.flight.requests.per.connection of most clients."""


class SentBatch(NamedTuple):
    """One batch of a Produce request in progress."""

    batch: NamedBatch
    sent_seq: int
    sent_us: int
    acks: int
    attempt: int


@dataclass(slots=True)
class Position:
    """What one client has asked for of a partition, and read of it.

    highest: ever read     is_left_out: what it reads is not told, for it has read so much before
    """

    asked: Offset = -1
    read: Offset = -1
    highest: Offset = -1
    error: str | None = None
    is_left_out: bool = False


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
        self.limit = TellingLimit(REPEATED_AT_ONCE, REPEATED_PER_SECOND)
        self._recent: dict[int, tuple[TopicPartition, Offset, Names]] = {}
        self._twins: dict[tuple[TopicPartition, Offset, int], Names] = {}
        self._ambiguous: dict[int, None] = {}

    def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
        return ClientStory(self, client, node).observe

    def names_at(self, partition: TopicPartition, base_offset: Offset, crc: int) -> Names:
        """Of a batch in a log. A CRC says enough, unless a client has sent the same words twice in a millisecond."""
        return self._twins.get((partition, base_offset, crc)) or self.records_of(crc)

    def sent(self, crc: int, names: Names) -> None:
        """A batch has come, perhaps a twin of another that was appended before."""
        recent = self._recent.get(crc)
        if recent is not None and recent[2] != names:
            self._twins[recent[0], recent[1], crc] = recent[2]
            self._ambiguous[crc] = None

    def appended(self, partition: TopicPartition, base_offset: Offset, crc: int) -> None:
        """A leader has appended the batch that was sent last with this CRC."""
        names = self.records_of(crc)
        if crc in self._ambiguous:
            self._twins[partition, base_offset, crc] = names
        self._recent[crc] = (partition, base_offset, names)
        if len(self._recent) > RECENT_BATCHES_MAX:
            del self._recent[next(iter(self._recent))]

    def position(self, client: str, partition: TopicPartition) -> Position:
        position = self.positions.setdefault((client, partition), Position())
        if len(self.positions) > POSITIONS_MAX:
            del self.positions[next(iter(self.positions))]
        return position


class Tap(Protocol):
    """What reads connections along."""

    def topic_name(self, topic: Topic) -> str | None: ...

    def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
        """A client has connected to a node. Returns what takes the observations, each with its time."""


class ClientStory:
    """What is told of one connection."""

    __slots__ = ("_latest", "_produced", "client", "node", "shared")

    def __init__(self, shared: ClientTap, client: str, node: str) -> None:
        self.shared = shared
        self.client = client
        self.node = node
        self._produced: dict[TopicPartition, SentBatch] = {}
        self._latest: deque[NamedBatch] = deque(maxlen=ANSWERS_IN_FLIGHT)
        """Answers that may still have been on their way when the connection ended."""

    def observe(self, observation: Observation, now_us: int) -> None:
        match observation:
            case ProduceArrived():
                self._produce(observation, now_us)
            case ProduceAnswered():
                self._told(observation)
            case FetchArrived():
                for partition, offset in observation.offsets:
                    self._moved(partition, offset)
            case FetchAnswered():
                for partition, error, headers in observation.partitions:
                    self._partition_handed(partition, error, headers)
            case ConnectionEnded():
                self._ended(observation.reason)

    def _ended(self, reason: str) -> None:
        produced, self._produced = self._produced, {}
        for sent in produced.values():
            self._refused(sent, ErrorCode.NETWORK_EXCEPTION, f"{self.client} gets no answer: {reason}")
        for batch in self._latest:
            self.shared.names.may_come_again(batch)
        self._latest.clear()

    # ------------------------------------------------------------------------------------------------------- produce

    def _produce(self, request: ProduceArrived, now_us: int) -> None:
        self._produced = {}
        for batch in request.batches:
            named = self.shared.names.of(
                self.client, batch.topic_partition, batch.header.crc, batch.header.record_count, batch.records
            )
            self._produced[batch.topic_partition] = self._sent(named, batch.header, request.acks, now_us)
        if request.acks == 0:
            for sent in self._produced.values():
                self._handed_over(sent)
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
        self.shared.sent(batch.crc, named.names)
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

    def _handed_over(self, sent: SentBatch) -> None:
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
                    latency_us=None,
                ),
                sent.sent_seq,
            )
        self.shared.names.answered(sent.batch)

    def _told(self, answer: ProduceAnswered) -> None:
        produced, self._produced = self._produced, {}
        for part in answer.partitions:
            sent = produced.get(part.topic_partition)
            if sent is None:
                continue
            if part.error is ErrorCode.NONE:
                self._acked(sent, part.base_offset, answer.left_us)
            else:
                self._failed(sent, part, answer.left_us)

    def _acked(self, sent: SentBatch, base_offset: Offset, left_us: int) -> None:
        shared, named = self.shared, sent.batch
        topic, partition = named.topic_partition
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
                    latency_us=left_us - sent.sent_us,
                ),
                sent.sent_seq,
            )
        shared.names.answered(named)
        self._latest.append(named)

    def _failed(self, sent: SentBatch, part: PartitionAnswered, left_us: int) -> None:
        """An error that a producer does not retry is the end of these records; what others lead to, is seen later."""
        reason = part.message or f"{self.node} refuses the batch: {part.error.name}"
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
                    latency_us=left_us - sent.sent_us,
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

    def _moved(self, partition: TopicPartition, offset: Offset) -> None:
        """A fetch that does not go on where the last one ended: the client has started, sought, or was sent away."""
        position = self.shared.position(self.client, partition)
        asked, position.asked = position.asked, offset
        if asked < 0 or offset in (asked, position.read + 1) or position.is_left_out:
            return
        error, position.error = position.error, None
        if not self._may_repeat(1):
            position.is_left_out = True
            return
        reason = f"{self.client} goes on from {offset} of {partition}, not from {position.read + 1}"
        self._position_reset(partition, position, offset, error, reason)

    def _position_reset(
        self, partition: TopicPartition, position: Position, offset: Offset, error: str | None, reason: str
    ) -> None:
        self.shared.recorder.emit(
            trace.PositionReset(
                client=self.client,
                peer=self.node,
                topic=partition.topic,
                partition=partition.partition,
                offset=offset,
                previous_offset=position.read + 1,
                error=error,
                reason=reason,
            )
        )

    def _may_repeat(self, count: int) -> bool:
        """Whether so many facts that tell of nothing new may be told of this client."""
        recorder = self.shared.recorder
        return self.shared.limit.may_tell(
            recorder,
            self.node,
            self.client,
            recorder.at_us,
            lambda left: f"{self.client} reads the same again and again: {left} facts of that were left out of late",
            count,
        )

    def _partition_handed(self, partition: TopicPartition, error: ErrorCode, headers: Sequence[BatchHeader]) -> None:
        position = self.shared.position(self.client, partition)
        if error is not ErrorCode.NONE:
            position.error = error.name
            if self._may_repeat(1):
                self.shared.recorder.emit(
                    trace.FetchFailed(
                        client=self.client,
                        peer=self.node,
                        topic=partition.topic,
                        partition=partition.partition,
                        offset=max(position.asked, 0),
                        error=error.name,
                    )
                )
        for header in headers:
            self._read(partition, position, header)

    def _read(self, partition: TopicPartition, position: Position, header: BatchHeader) -> None:
        """Whole batches are sent; a client drops what lies before the offset it has asked for."""
        if header.is_control:
            return
        first = max(header.base_offset, position.asked)
        again = min(header.last_offset, position.highest) + 1 - first
        position.highest = max(position.highest, header.last_offset)
        if again > 0 and not self._may_repeat(again):
            position.is_left_out = True
        elif position.is_left_out:
            position.is_left_out = False
            reason = f"what {self.client} reads of {partition} is told again from {first} on"
            self._position_reset(partition, position, first, None, reason)
        if not position.is_left_out:
            self._tell_read(partition, header, first)
        position.read = max(header.last_offset, position.asked - 1)

    def _tell_read(self, partition: TopicPartition, header: BatchHeader, first: Offset) -> None:
        names = self.shared.names_at(partition, header.base_offset, header.crc)
        for offset in range(first, header.last_offset + 1):
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
