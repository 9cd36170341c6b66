"""Derives trace events of outside clients from the observed traffic on their connections.

Highwater's own producers and consumers emit events about what they send, learn and read. An outside client emits none,
so its connection is observed at the broker's end, without changing the traffic. A record counts as sent when its
request has arrived, and as acked when the response leaves for a client that is still connected.

The latency is the broker's, as TotalTimeMs in Kafka's RequestMetrics: from the arrival of the request until the kernel
has the response. With acks=0 it is unknown. Events have the times at which Highwater handles them; on a busy machine
their distance differs from the latency.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, Protocol

from cluster.live.observations import (
    ConnectionEnded,
    FetchArrived,
    FetchResponseSeen,
    Observation,
    PartitionAnswered,
    ProduceAnswered,
    ProduceArrived,
    Topic,
)
from cluster.live.record_names import NamedBatch, Names, RecordNames, SequencedBatches, is_believable
from cluster.server.accepted_connections import EventLimit
from cluster.slices import paced
from replica.causes import FailureCause, LeftOut, ResetCause
from replica.errors import INDEFINITE, RETRIABLE, ErrorCode
from replica.ids import SAME_CLIENT_MARK, Offset, TopicPartition
from replica.log.batches.records import BatchHeader
from replica.trace import events as trace
from replica.trace.events import TraceLog

POSITIONS_MAX = 100_000
"""The maximum number of positions over all clients and partitions. The least recently used position is dropped."""
REPEATED_AT_ONCE, REPEATED_PER_SECOND = 200_000, 500
"""The limits of events without new information about one client's reads: repeated records, errors, seeks."""
REFUSED_PER_ANSWER = 100
"""The maximum number of events about errors of partitions in one Fetch response."""
ANSWERS_IN_FLIGHT = 5
"""The default max.in.flight.requests.per.connection of most clients."""


class SentBatch(NamedTuple):
    """A batch of a Produce request that has no response yet."""

    batch: NamedBatch
    producer: str
    sent_seq: int
    sent_us: int
    acks: int
    attempt: int


@dataclass(slots=True)
class Position:
    """The offsets of one partition that one client has requested and read.

    Attributes:
        highest: highest offset ever read.
        is_left_out: True if further reads emit no events, because the client has repeated too many.
    """

    asked: Offset = -1
    read: Offset = -1
    highest: Offset = -1
    error: str | None = None
    is_left_out: bool = False


class SentRecords(Protocol):
    """An index of sent batches and of the batches in logs, built from the events that ClientTap emits."""

    def number(self, partition: TopicPartition, crc: int) -> int:
        """Return the number of the batch that was last sent with this CRC."""

    def records_of(self, number: int) -> Names: ...

    def records(self, partition: TopicPartition, base_offset: Offset, crc: int) -> Names:
        """Return the names of the records in the batch at this offset; () if the trace has no such sent batch."""

    def gone(self, partition: TopicPartition, base_offset: Offset, crc: int) -> frozenset[Offset]:
        """Return the offsets of those records of a batch that compaction has removed."""


class ClientTap:
    """The state shared by the observers of all client connections.

    Args:
        names_in: returns the names of the records in the batch that begins at an offset of a node's log, or ().
        is_taken: returns True if a record already has this name.
        topic_name: returns the name of a topic id, or None if it is unknown.
    """

    def __init__(
        self,
        recorder: TraceLog,
        sent: SentRecords,
        names_in: Callable[[TopicPartition, str, Offset], Names],
        is_taken: Callable[[str], bool],
        topic_name: Callable[[Topic], str | None],
    ) -> None:
        self.recorder = recorder
        self.sent = sent
        self.names_in = names_in
        self.topic_name = topic_name
        self.sequenced = SequencedBatches(sent.records_of)
        self.names = RecordNames(is_taken, self.sequenced)
        self.producers = ProducerNames()
        self.positions: OrderedDict[tuple[str, TopicPartition], Position] = OrderedDict()
        self.limit = EventLimit(REPEATED_AT_ONCE, REPEATED_PER_SECOND)

    def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
        return ClientStory(self, client, node).observe

    def topic_deleted(self, topic: str) -> None:
        """Forget a deleted topic. A new topic with its name begins at offset 0 and without producers."""
        self.sequenced.topic_deleted(topic)
        for key in [key for key in self.positions if key[1].topic == topic]:
            del self.positions[key]

    def position(self, client: str, partition: TopicPartition) -> Position:
        position = self.positions.setdefault((client, partition), Position())
        if len(self.positions) > POSITIONS_MAX:
            self.positions.popitem(last=False)
        return position


class Tap(Protocol):
    """An observer of client connections."""

    def topic_name(self, topic: Topic) -> str | None: ...

    def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
        """Observe a client's new connection to a node. Return a function that takes each observation and its time."""


class ClientStory:
    """Translates the observations on one connection into trace events."""

    __slots__ = ("_connection", "_latest", "_produced", "_producer", "client", "node", "shared")

    def __init__(self, shared: ClientTap, client: str, node: str) -> None:
        self.shared = shared
        self.client = client
        self.node = node
        self._connection = shared.names.connected(node)
        self._producer: tuple[int, int, str] | None = None
        """The latest producer on this connection: its id, its key in ProducerNames, and its name."""
        self._produced: deque[dict[TopicPartition, SentBatch]] = deque()
        """The batches of each unanswered request, in the order of the requests."""
        self._latest: deque[list[NamedBatch]] = deque(maxlen=ANSWERS_IN_FLIGHT)
        """The batches acked by each of the latest responses.

        The client may miss these responses if the connection ends.
        """

    def observe(self, observation: Observation, now_us: int) -> None:
        match observation:
            case ProduceArrived():
                self._produce(observation, now_us)
            case ProduceAnswered():
                self._produce_answered(observation)
            case FetchArrived():
                for partition, offset in paced(observation.offsets):
                    self._moved(partition, offset)
            case FetchResponseSeen():
                refused = 0
                for partition, error, headers in paced(observation.partitions):
                    refused += error is not ErrorCode.NONE
                    self._partition_handed(partition, error, headers, is_stated=refused <= REFUSED_PER_ANSWER)
            case ConnectionEnded():
                self._ended(observation.reason)

    def _ended(self, reason: str) -> None:
        produced, self._produced = self._produced, deque()
        for request in produced:
            for sent in paced(request.values()):
                self._refused(sent, ErrorCode.NETWORK_EXCEPTION, FailureCause.CONNECTION_LOST, reason)
        for acked in self._latest:
            for batch in paced(acked):
                self.shared.names.may_come_again(batch)
        self._latest.clear()
        if self._producer is not None:
            self.shared.producers.leave(self.client, self.node, self._producer[1])
            self._producer = None

    def _producer_name(self, producer_id: int) -> str:
        producers, now = self.shared.producers, self._producer
        if now is None or now[0] != producer_id:
            if now is not None:
                producers.leave(self.client, self.node, now[1])
            key = producers.enter(self.client, self.node, producer_id)
            self._producer = now = producer_id, key, producers.name(self.client, key)
        return now[2]

    # ------------------------------------------------------------------------------------------------------- produce

    def _produce(self, request: ProduceArrived, now_us: int) -> None:
        produced: dict[TopicPartition, SentBatch] = {}
        for batch in paced(request.batches):
            named = self.shared.names.of(
                self.client, self._connection, batch.topic_partition, batch.header, batch.records
            )
            produced[batch.topic_partition] = self._sent(named, request.acks, now_us)
        if request.acks == 0:
            for sent in paced(produced.values()):
                self._handed_over(sent)
        else:
            self._produced.append(produced)

    def _sent(self, named: NamedBatch, acks: int, now_us: int) -> SentBatch:
        shared, recorder, batch = self.shared, self.shared.recorder, named.header
        producer = self._producer_name(batch.producer_id)
        causes = [
            recorder.emit(trace.RecordSent(producer, *named.topic_partition, record=name, acks=acks))
            for name in paced(named.names)
            if name in named.new
        ]
        attempt = 1 if named.new else 2
        seq = recorder.emit(
            trace.BatchSent(
                producer,
                *named.topic_partition,
                peer=self.node,
                records=named.names,
                crc=batch.crc,
                attempt=attempt,
                acks=acks,
                producer_id=batch.producer_id,
                base_sequence=batch.base_sequence,
            ),
            *causes,
        )
        if batch.producer_id >= 0:
            shared.sequenced.add(named.topic_partition, batch, shared.sent.number(named.topic_partition, batch.crc))
        return SentBatch(named, producer, seq, now_us, acks, attempt)

    def _handed_over(self, sent: SentBatch) -> None:
        for name in paced(sent.batch.names):
            self.shared.recorder.emit(
                trace.RecordHandedOver(
                    sent.producer,
                    *sent.batch.topic_partition,
                    peer=self.node,
                    record=name,
                    acks=sent.acks,
                    latency_us=None,
                ),
                sent.sent_seq,
            )
        self.shared.names.answered(sent.batch)

    def _produce_answered(self, answer: ProduceAnswered) -> None:
        produced = self._produced.popleft()
        self._latest.append([])
        for part in paced(answer.partitions):
            sent = produced.get(part.topic_partition)
            if sent is None:
                continue
            if part.error is ErrorCode.NONE:
                self._acked(sent, part.base_offset, answer.left_us)
            else:
                self._failed(sent, part, answer.left_us)

    def _acked(self, sent: SentBatch, base_offset: Offset, left_us: int) -> None:
        shared, named = self.shared, sent.batch
        names = named.names
        if named.header.producer_id >= 0:
            # If a retry's first sending was forgotten, the answer shows which batch it is.
            names = shared.names_in(named.topic_partition, self.node, base_offset) or names
        for index, name in enumerate(paced(names)):
            shared.recorder.emit(
                trace.RecordAcked(
                    sent.producer,
                    *named.topic_partition,
                    peer=self.node,
                    record=name,
                    offset=base_offset + index if base_offset >= 0 else base_offset,
                    acks=sent.acks,
                    latency_us=left_us - sent.sent_us,
                ),
                sent.sent_seq,
            )
        shared.names.answered(named)
        self._latest[-1].append(named)

    def _failed(self, sent: SentBatch, part: PartitionAnswered, left_us: int) -> None:
        """Record that a batch failed, and forget the batch if producers do not retry after this error.

        The names of its records are kept, because a producer splits a batch that is too large and renumbers a batch
        that is out of order.
        """
        message = part.message or None
        seq = self._refused(sent, part.error, FailureCause.ERROR, message)
        if part.error in RETRIABLE:
            return
        self.shared.names.refused(sent.batch)
        topic, partition = sent.batch.topic_partition
        for name in paced(sent.batch.names):
            self.shared.recorder.emit(
                trace.RecordFailed(
                    client=sent.producer,
                    topic=topic,
                    partition=partition,
                    record=name,
                    acks=sent.acks,
                    error=part.error.name,
                    definite=name in sent.batch.new and part.error not in INDEFINITE,
                    latency_us=left_us - sent.sent_us,
                    cause=FailureCause.ERROR,
                    peer=self.node,
                    message=message,
                ),
                seq,
            )

    def _refused(self, sent: SentBatch, error: ErrorCode, cause: FailureCause, message: str | None) -> int:
        topic, partition = sent.batch.topic_partition
        return self.shared.recorder.emit(
            trace.BatchRefused(
                client=sent.producer,
                peer=self.node,
                topic=topic,
                partition=partition,
                records=sent.batch.names,
                crc=sent.batch.header.crc,
                attempt=sent.attempt,
                error=error.name,
                will_retry=error in RETRIABLE,
                cause=cause,
                message=message,
            ),
            sent.sent_seq,
        )

    # --------------------------------------------------------------------------------------------------------- fetch

    def _moved(self, partition: TopicPartition, offset: Offset) -> None:
        """Record that a client fetches from another offset than the next one: it started, sought or was redirected."""
        position = self.shared.position(self.client, partition)
        asked, position.asked = position.asked, offset
        if asked < 0 or offset in (asked, position.read + 1) or position.is_left_out:
            return
        error, position.error = position.error, None
        if not self._may_repeat(1):
            position.is_left_out = True
            return
        self._position_reset(partition, position, offset, ResetCause.FETCHES_ELSEWHERE, error)

    def _position_reset(
        self,
        partition: TopicPartition,
        position: Position,
        offset: Offset,
        cause: ResetCause,
        error: str | None = None,
        count: int | None = None,
    ) -> None:
        self.shared.recorder.emit(
            trace.PositionReset(
                self.client,
                *partition,
                peer=self.node,
                offset=offset,
                previous_offset=position.read + 1,
                error=error,
                cause=cause,
                count=count,
            )
        )

    def _may_repeat(self, count: int) -> bool:
        """Return True if this client may have `count` more events without new information."""
        recorder = self.shared.recorder
        return self.shared.limit.may_emit(recorder, self.node, self.client, recorder.at_us, LeftOut.READS, count)

    def _partition_handed(
        self, partition: TopicPartition, error: ErrorCode, headers: Sequence[BatchHeader], *, is_stated: bool
    ) -> None:
        """Record the contents of a Fetch response for one partition.

        Args:
            is_stated: True if an error may get an event.
        """
        position = self.shared.position(self.client, partition)
        if error is not ErrorCode.NONE:
            position.error = error.name
            if is_stated and self._may_repeat(1):
                self.shared.recorder.emit(
                    trace.FetchFailed(
                        self.client,
                        *partition,
                        peer=self.node,
                        offset=max(position.asked, 0),
                        error=error.name,
                    )
                )
        for header in paced(headers):
            self._read(partition, position, header)

    def _read(self, partition: TopicPartition, position: Position, header: BatchHeader) -> None:
        """Emit events for a batch's records at or above the requested offset.

        Brokers send whole batches; clients drop the records below that offset.
        """
        if header.is_control:
            return
        first = max(header.base_offset, position.asked)
        again = min(header.last_offset, position.highest) + 1 - first
        position.highest = max(position.highest, header.last_offset)
        if again > 0 and not self._may_repeat(again):
            position.is_left_out = True
        elif position.is_left_out:
            position.is_left_out = False
            self._position_reset(partition, position, first, ResetCause.STATED_AGAIN)
        if not position.is_left_out:
            self._tell_read(partition, position, header, first)
        position.read = max(header.last_offset, position.asked - 1)

    def _tell_read(self, partition: TopicPartition, position: Position, header: BatchHeader, first: Offset) -> None:
        names = self.shared.sent.records(partition, header.base_offset, header.crc)
        if not names and not is_believable(header):
            cause, end = ResetCause.UNREADABLE_BATCH, header.last_offset + 1
            self._position_reset(partition, position, end, cause, count=header.record_count)
            return
        gone = self.shared.sent.gone(partition, header.base_offset, header.crc)
        for offset in paced(range(first, header.base_offset + (len(names) or header.record_count))):
            if offset in gone:
                continue
            index = offset - header.base_offset
            self.shared.recorder.emit(
                trace.RecordRead(
                    self.client,
                    *partition,
                    peer=self.node,
                    offset=offset,
                    record=names[index] if names else f"?{offset}",
                    leader_epoch=header.leader_epoch,
                )
            )


# --------------------------------------------------------------------------------------------------- names of producers
#
# Many applications keep the default client.id of their library, so several producers may share one client.id.
#
# Each producer has its own name while it is connected: the first has the client's, the others add `#2`, `#3` and so on.
# An idempotent producer is known by its producer id. Producers without one are distinguished by their connections: two
# open connections to one broker that both carried records belong to two producers. The second producer at one broker
# is taken to be the second producer at every other broker.


class ProducerNames:
    """Names for connected producers. Several producers may have the same client id."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[int, int]] = {}
        """The number of each producer, by client and producer key.

        The key is its producer id, or -1, -2 and so on without one.
        """
        self._connections: dict[tuple[str, int], int] = {}
        self._anonymous: dict[tuple[str, str], set[int]] = {}
        """For each client and broker, the negative keys in use."""

    def enter(self, client: str, node: str, producer_id: int) -> int:
        """Count one more connection of a producer, and return the producer's key.

        A producer without idempotence (`producer_id` -1) gets a free negative key.
        """
        key = producer_id
        if key < 0:
            taken = self._anonymous.setdefault((client, node), set())
            key = next(item for item in count(-1, -1) if item not in taken)
            taken.add(key)
        numbers = self._numbers.setdefault(client, {})
        if key not in numbers:
            numbers[key] = next(number for number in count(1) if number not in numbers.values())
        self._connections[client, key] = self._connections.get((client, key), 0) + 1
        return key

    def name(self, client: str, key: int) -> str:
        number = self._numbers[client][key]
        return client if number == 1 else f"{client}{SAME_CLIENT_MARK}{number}"

    def leave(self, client: str, node: str, key: int) -> None:
        """Release a key, because the connection has ended or another producer now sends over it."""
        if key < 0:
            self._anonymous[client, node].discard(key)
            if not self._anonymous[client, node]:
                del self._anonymous[client, node]
        self._connections[client, key] -= 1
        if not self._connections[client, key]:
            del self._connections[client, key], self._numbers[client][key]
            if not self._numbers[client]:
                del self._numbers[client]
