"""The consumer's fetches: at most one request in flight to each broker, and the handling of each response.

A request has only what has changed since the last request to the same broker (KIP-227: fetch sessions).
Simplified: max.poll.records matters only if deserializers or the application take time; otherwise the application
polls all the time and takes every record immediately.

Source: AbstractFetch.java, Fetcher.java, FetchSessionHandler.java, FetchCollector.java, CompletedFetch.java
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from cluster.client.connection_states import ClientRequest, ClientResponse
from cluster.client.connections import ClientConnections
from cluster.client.consumer.positions import PartitionPosition, PositionMove, PositionState, ReadReplicas
from cluster.client.events import ClientEvents, record_name
from cluster.client.node import ExponentialBackoff
from cluster.config import ConsumerConfig
from cluster.protocol.api_01_fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
)
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.fetch_session_handler import FetchSessionHandler, SessionFetch, Wanted
from cluster.protocol.leaders import NodeEndpoint
from cluster.protocol.versions import FETCH
from replica.causes import ReadReplicaCause, ResetCause
from replica.config import NEVER
from replica.errors import ErrorCode, KafkaError
from replica.frozen import dataclass
from replica.ids import NO_BROKER, Offset, TopicPartition
from replica.log.batches.control_records import ControlRecordType, read_end_transaction_marker
from replica.log.batches.records import BatchHeader, Bytes, Record, batches, check_crc, read_records
from replica.trace.events import FetchFailed, RecordRead

if TYPE_CHECKING:
    from cluster.client.consumer.pipeline import ConsumerPipeline

# -------------------------------------------------------------------------------------------------------------- aborted
#
# A fetch response lists the aborted transactions among its records, each by producer and first offset. Each ends at its
# ABORT marker. source: CompletedFetch.nextFetchedRecord, consumeAbortedTransactionsUpTo, isBatchAborted


class AbortedFilter:
    """A filter for the aborted batches in one partition's response; call `drops` for each batch in order."""

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Sequence[tuple[int, Offset]]) -> None:
        """Create a filter from (producer id, first offset) of each aborted transaction."""
        self._coming = sorted(((offset, producer_id) for producer_id, offset in aborted), reverse=True)
        self._open: dict[int, None] = {}

    def drops(self, header: BatchHeader, batch: Bytes) -> bool:
        """Return True if the next batch belongs to an aborted transaction.

        Raises:
            KafkaError: CORRUPT_MESSAGE if a control batch has no control record.
        """
        if not header.has_producer_id:
            return False
        while self._coming and self._coming[-1][0] <= header.last_offset:
            self._open[self._coming.pop()[1]] = None
        if header.is_control:
            marker = read_end_transaction_marker(batch)
            if marker is not None and marker.control_type is ControlRecordType.ABORT:
                self._open.pop(header.producer_id, None)
            return False
        return header.is_transactional and header.producer_id in self._open


TakeRecord = Callable[[TopicPartition, Record], None]


@dataclass(frozen=True, slots=True)
class CompletedFetch:
    """One Fetch response, or the part of it whose records the application has not taken yet.

    Attributes:
        asked: fetch offset of each partition; the partition is dropped if its position has moved since.
        entries: partitions in the response.
    """

    node_id: int
    asked: Mapping[TopicPartition, int]
    entries: Mapping[TopicPartition, FetchedPartition]
    endpoints: Sequence[NodeEndpoint]


class ConsumerFetcher:
    """The part of a consumer that fetches every partition with a valid position."""

    def __init__(
        self,
        config: ConsumerConfig,
        positions: Mapping[TopicPartition, PartitionPosition],
        connections: ClientConnections,
        events: ClientEvents,
        backoff: ExponentialBackoff,
        take: TakeRecord | None = None,
        pipeline: ConsumerPipeline | None = None,
        process_us: int = 0,
    ) -> None:
        """Create a fetcher.

        Args:
            take: called with each record that the application reads.
            pipeline: deserializers and interceptors that get each record first.
            process_us: how long the application processes each record before it polls again. If not 0 and `take` is
                set, the application must call `polled` instead.
        """
        self._take_record = take
        self._pipeline = pipeline
        self._record_us = 0 if pipeline is None else pipeline.record_us
        self._process_us = process_us
        self._held: deque[CompletedFetch] = deque()
        """Responses with records that no poll has returned yet; used if deserializers or the application take time."""
        self._in_poll: int | None = None
        """The number of records that the current poll will return after deserializing them; None between polls."""
        self._busy_until_us = 0
        """The time until which the application's thread is busy; NEVER if it is busy until it calls `polled`."""
        self.unreadable: PartitionPosition | None = None
        """The position at a record that cannot be deserialized; every poll raises an error until a seek past it."""
        self._config = config
        self._read_committed = config.isolation_level == "read_committed"
        self._positions = positions
        self._connections = connections
        self._metadata = connections.metadata
        self._events = events
        self._backoff = backoff
        self.read_replicas = ReadReplicas(positions, connections, events, config.metadata_max_age_ms)
        self._pending_nodes: dict[int, bool] = {}
        self._sessions: defaultdict[int, FetchSessionHandler] = defaultdict(FetchSessionHandler)
        self.is_closing = False
        self._to_close: dict[int, SessionFetch] = {}
        """Requests that close fetch sessions and are not sent yet, by broker."""
        self._last_requests = 0
        """The number of requests in flight that close fetch sessions."""
        self.next_deadline_us = NEVER
        """The time at which to call `run_once` if no other event comes first."""

    def run_once(self, now_us: int) -> bool:
        """Advance a poll, or send a fetch to each broker with partitions to read and no fetch in flight.

        Return True if anything was done.
        """
        self.next_deadline_us = NEVER
        self._wake_at(self._busy_until_us if self._busy_until_us > now_us else None)
        if self._held and now_us >= self._busy_until_us:
            self._take_held(now_us)
            return True
        if self.unreadable is not None and self._is_stuck(self.unreadable):
            return False
        wanted: dict[int, list[PartitionPosition]] = {}
        for position in self._positions.values():
            if position.state is not PositionState.FETCHING:
                continue
            if now_us < position.retry_at_us:
                self._wake_at(position.retry_at_us)
                continue
            node_id = self.read_replicas.node_of(position, now_us)
            if node_id not in self._metadata.nodes:
                self._metadata.request_update()
            elif node_id not in self._pending_nodes:
                wanted.setdefault(node_id, []).append(position)
        is_busy = False
        for node_id, positions in wanted.items():
            if self._connections.ready(node_id, now_us):
                self._fetch(node_id, positions, now_us)
                is_busy = True
            elif self.read_replicas.await_connection(node_id, now_us):
                self._wake_at(self._connections.retry_at_us(node_id, now_us))
            else:
                is_busy = True  # The next call fetches from the leaders instead.
        return is_busy

    def _wake_at(self, at_us: int | None) -> None:
        if at_us is not None and at_us < self.next_deadline_us:
            self.next_deadline_us = at_us

    def _fetch(self, node_id: int, positions: Sequence[PartitionPosition], now_us: int) -> None:
        session = self._sessions[node_id]
        before = session.partitions
        wanted: dict[TopicPartition, Wanted] = {}
        for position in positions:
            known = before.get(position.topic_partition)
            if (
                known is None
                or known.entry.fetch_offset != position.offset
                or known.entry.current_leader_epoch != position.leader.epoch
            ):
                known = self._wanted(position)
            wanted[position.topic_partition] = known
        fetch = session.build(wanted, [name for name, known in before.items() if wanted.get(name) is not known])
        assert fetch is not None, "there is no partition to fetch"
        asked = {position.topic_partition: position.offset for position in positions}
        self._pending_nodes[node_id] = True
        self.read_replicas.sent(node_id)
        answered = partial(self._answered, node_id, asked)
        self._connections.send(node_id, ClientRequest(FETCH, self._encoder(fetch), answered), now_us)

    def _wanted(self, position: PartitionPosition) -> Wanted:
        name = position.topic_partition
        # The last fetched epoch stays -1: consumers detect truncation by validating positions, not by diverging_epoch.
        entry = FetchPartition(
            name.partition,
            current_leader_epoch=position.leader.epoch,
            fetch_offset=position.offset,
            max_bytes=self._config.max_partition_fetch_bytes,
        )
        return Wanted(name.topic, entry)

    def _encoder(self, fetch: SessionFetch) -> Callable[[int, int], bytes]:
        request = FetchRequest(
            replica_id=NO_BROKER,
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            isolation=READ_COMMITTED if self._read_committed else READ_UNCOMMITTED,
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=fetch.topics,
            forgotten=fetch.forgotten,
            rack=self._config.client_rack,
        )
        return lambda version, correlation_id: encode_fetch_request(
            version, correlation_id, self._connections.client_id, request
        )

    # ------------------------------------------------------------------------------------------------------ closing

    def begin_closing(self, now_us: int) -> None:
        """Stop reading, and prepare to close the sessions at all reachable leaders.

        Source: Fetcher.maybeCloseFetchSessions, AbstractFetch.prepareCloseFetchSessionRequests
        """
        self.is_closing = True
        self._to_close = {
            node_id: session.close()
            for node_id, session in self._sessions.items()
            if node_id in self._metadata.nodes and not self._connections.is_unavailable(node_id, now_us)
        }

    def close_once(self, now_us: int) -> bool:
        """Send the closing requests that can be sent now, and return True if any was sent."""
        self.next_deadline_us = NEVER
        sent = False
        for node_id, fetch in list(self._to_close.items()):
            if self._connections.ready(node_id, now_us):
                del self._to_close[node_id]
                self._last_requests += 1
                self._connections.send(node_id, ClientRequest(FETCH, self._encoder(fetch), self._closed), now_us)
                sent = True
            elif self._connections.is_unavailable(node_id, now_us):
                del self._to_close[node_id]
            else:
                self._wake_at(self._connections.retry_at_us(node_id, now_us))
        return sent

    def _closed(self, answer: ClientResponse, now_us: int) -> None:
        """Note that a closing request has ended, whether by a response or by an error."""
        self._last_requests -= 1

    @property
    def has_closed(self) -> bool:
        return self.is_closing and not self._to_close and not self._last_requests

    # ------------------------------------------------------------------------------------------------------ answers

    def _answered(self, node_id: int, asked: Mapping[TopicPartition, int], answer: ClientResponse, now_us: int) -> None:
        if self.is_closing:
            return
        session = self._sessions[node_id]
        if answer.frame is None:  # The loss of the connection has requested new metadata already.
            del self._pending_nodes[node_id]
            session.failed()
            self.read_replicas.lost(node_id)
            return
        response = decode_fetch_response(answer.version, answer.frame)
        if response.throttle_time_ms:
            self._connections.throttled(FETCH, answer.version, response.throttle_time_ms, now_us)
        entries = session.answered(response)
        if entries is None:  # The next request has all partitions again.
            del self._pending_nodes[node_id]
            return
        fetched = CompletedFetch(node_id, asked, entries, response.node_endpoints)
        if self._record_us or self._process_us:
            self._held.append(fetched)
        else:
            self._taken(fetched, NEVER, now_us)

    def is_busy(self, now_us: int) -> bool:
        """Return True if the application's thread is deserializing or processing records and so does not poll."""
        return self._in_poll is not None or self._busy_until_us > now_us

    def polled(self, now_us: int) -> None:
        """Note that the application has finished processing and polls again."""
        if self._busy_until_us == NEVER:
            self._busy_until_us = now_us

    def _take_held(self, now_us: int) -> None:
        """Begin a poll or, when its records are deserialized, return at most max.poll.records of one response.

        As in Kafka, the partitions of a response are not fetched again until all its records are taken.
        """
        if self._in_poll is None:
            self._in_poll = min(self._config.max_poll_records, self._records_left(self._held[0]))
            self._busy_until_us = now_us + self._in_poll * self._record_us
            return
        count = self._taken(self._held.popleft(), self._in_poll, now_us)
        self._in_poll = None
        works_us = NEVER if self._take_record is not None else now_us + count * self._process_us
        self._busy_until_us = works_us if count else now_us

    def _records_left(self, fetched: CompletedFetch) -> int:
        """Return the number of records in a response's whole batches, without those below the positions."""
        found = 0
        for name, part in fetched.entries.items():
            position = self._positions.get(name)
            if position is None:
                continue
            with suppress(KafkaError):  # The error is reported when the application reads the batch.
                for _, header in batches(part.records):
                    if not header.is_control:
                        found += max(0, min(header.record_count, header.last_offset + 1 - position.offset))
        return found

    def _is_stuck(self, position: PartitionPosition) -> bool:
        """Return True if the consumer is still stopped at the unreadable record at `position`; otherwise clear it.

        Simplified: while it is stopped, responses of other leaders are dropped and fetched again later.
        """
        if position.state is PositionState.STOPPED and self._positions.get(position.topic_partition) is position:
            return True
        self.unreadable = None
        return False

    def _taken(self, fetched: CompletedFetch, limit: int, now_us: int) -> int:
        """Pass at most `limit` records to the application and return their number; keep the rest for the next poll."""
        peer, count = self._connections.name(fetched.node_id), 0
        left: dict[TopicPartition, FetchedPartition] = {}
        for name, part in fetched.entries.items():
            position = self._positions.get(name)
            # A response to a request at another position is dropped (FetchCollector.fetchRecords).
            if (
                position is not None
                and position.state is PositionState.FETCHING
                and position.offset == fetched.asked.get(name)
                and self.unreadable is None
            ):
                if count >= limit > 0:
                    left[name] = part
                    continue
                count += self._take(position, part, peer, limit - count, now_us)
                if count >= limit > 0 and position.state is PositionState.FETCHING:
                    left[name] = part
            if part.current_leader is not None:
                self._metadata.update_leader(name, part.current_leader, fetched.endpoints)
        if left and self._records_left(replace(fetched, entries=left)):
            asked = {name: self._positions[name].offset for name in left}
            self._held.appendleft(replace(fetched, asked=asked, entries=left))
        else:
            del self._pending_nodes[fetched.node_id]
        return count

    def _take(self, position: PartitionPosition, part: FetchedPartition, peer: str, limit: int, now_us: int) -> int:
        if part.error is not ErrorCode.NONE:
            self._failed(position, part.error, peer, now_us)
            return 0
        if part.preferred_read_replica != NO_BROKER:
            rack = self._config.client_rack
            self.read_replicas.prefer(position, part.preferred_read_replica, peer, rack, now_us)
        try:
            aborted = AbortedFilter(part.aborted_transactions or ()) if self._read_committed else None
            count = self._read(position, part.records, peer, aborted, limit)
            position.failures = 0
        except KafkaError as error:
            self._failed(position, error.code, peer, now_us)
            return 0
        return count

    def _read(
        self, position: PartitionPosition, data: memoryview, peer: str, aborted: AbortedFilter | None, limit: int
    ) -> int:
        """Pass the records of whole batches, at most `limit`, to the application; return their number.

        The first batch may begin below the position. Markers and aborted records only move the position.

        Raises:
            KafkaError: CORRUPT_MESSAGE if a batch is damaged; MESSAGE_TOO_LARGE if there is no whole batch.
        """
        tp, pipeline, first = position.topic_partition, self._pipeline, position.offset
        count, has_whole = 0, False
        for start, header in batches(data):
            has_whole = True
            if header.last_offset < position.offset and aborted is None:
                continue
            if not check_crc(data, start, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} fails its CRC")
            is_aborted = aborted is not None and aborted.drops(header, data[start : start + header.size_bytes])
            if header.last_offset < position.offset:
                continue
            if not header.is_control and not is_aborted:
                for record in read_records(data[start : start + header.size_bytes], header=header):
                    if record.offset >= position.offset:
                        if count == limit:
                            position.offset, position.offset_epoch = record.offset, header.leader_epoch
                            return self._returned(tp, first, position.offset, count)
                        if pipeline is not None and not pipeline.reads(tp, record, peer):
                            self._stop_at(position, record.offset)
                            break
                        count += 1
                        read = RecordRead(
                            self._events.client,
                            *tp,
                            peer=peer,
                            offset=record.offset,
                            record=record_name(record),
                            leader_epoch=header.leader_epoch,
                        )
                        self._events.emit(read)
                        if self._take_record is not None:
                            self._take_record(tp, record)
            if self.unreadable is not None:
                break
            position.offset = header.last_offset + 1
            position.offset_epoch = header.leader_epoch
        count = self._returned(tp, first, position.offset, count)
        if len(data) and not has_whole:
            # Before KIP-74 a batch that is larger than the fetch is cut (RecordTooLargeException in Fetcher of 0.10.0).
            what = f"the batch at offset {position.offset} is larger than max.partition.fetch.bytes"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, what)
        return count

    def _returned(self, tp: TopicPartition, first: int, end: int, count: int) -> int:
        if self._pipeline is not None and count:
            self._pipeline.on_consume(tp, first, end)
        return count

    def _stop_at(self, position: PartitionPosition, offset: int) -> None:
        """Stop a partition at an unreadable record: later polls raise an error until the application seeks."""
        position.offset = offset
        position.stop()
        self.unreadable = position

    def _failed(self, position: PartitionPosition, error: ErrorCode, peer: str, now_us: int) -> None:
        """Handle a partition's error: reset or stop the position, or retry later.

        Source: FetchCollector.handleInitializeErrors
        """
        tp = position.topic_partition
        failed = FetchFailed(self._events.client, *tp, peer=peer, offset=position.offset, error=error.name)
        cause = self._events.emit(failed)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self.read_replicas.leave(position, ReadReplicaCause.OUT_OF_RANGE):
                return
            policy = self._config.auto_offset_reset
            if policy == "none":
                position.stop()
                return
            position.await_reset(policy, error.name, PositionMove(ResetCause.OUT_OF_RANGE, policy, peer), cause)
            return
        # Differs from Kafka: the Java consumer retries immediately, this one after retry.backoff.ms. There a corrupt
        # batch raises an exception in the application, which would poll again. No record is ever skipped.
        position.retry_at_us = now_us + self._backoff.after_us(position.failures)
        position.failures += 1
        if error not in PASSING_ERRORS:
            self._metadata.request_update()
            self.read_replicas.leave(position, ReadReplicaCause.REFUSED, error.name)


PASSING_ERRORS = (
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors that do not indicate another leader, so no new metadata is needed."""
