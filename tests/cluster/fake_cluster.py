"""Brokers made of real wire frames and a clock, to drive one client core without sockets.

A `FakeBroker` keeps one list of batches per partition and knows just enough rules to be believed: sequence checks,
fetches, offsets, epochs. Its handling of a request can be scripted: `broker.next(PRODUCE, refuse(...), hold())`.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from segments import joined

from cluster.client.node import ClientBase
from cluster.node import Close, Connect, EndProcess, Send
from cluster.protocol.api_00_produce import ProducePartitionResponse, decode_produce_request, encode_produce_response
from cluster.protocol.api_01_fetch import FetchPartitionResponse
from cluster.protocol.api_18_api_versions import encode_api_versions_response
from cluster.protocol.cold import decode_request, encode_response, response
from cluster.protocol.fetch_request_codec import decode_fetch_request
from cluster.protocol.fetch_response_codec import fetch_response_segments
from cluster.protocol.leaders import LeaderIdAndEpoch
from cluster.protocol.versions import (
    API_VERSIONS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    VERSIONS,
    RequestHeader,
    read_request_header,
)
from replica.errors import ErrorCode
from replica.ids import Names
from replica.log.batches.records import batches, read_header, read_records, stamp
from replica.trace.events import TraceLog, TraceRow

MS = 1000
SECOND = 1_000_000
LATENCY_US = 1 * MS
TOPIC = "t"
NAMES = Names({number: f"b{number}" for number in range(1, 10)})


def client_base(name: str, trace: Any, seed: int = 1, **fields: Any) -> ClientBase:
    """Of a client that finds the cluster by b1, unless `fields` say otherwise."""
    fields = {"bootstrap": [("b1", 9092)], "names": NAMES, "rng": random.Random(seed), **fields}
    return ClientBase(name=name, recorder=trace, **fields)


@dataclass
class Verdict:
    """A scripted broker's handling of one request."""

    error: ErrorCode = ErrorCode.NONE
    handles: bool = True
    answers: bool = True
    delay_us: int = 0
    resets: bool = False
    garbage: bool = False
    hint: LeaderIdAndEpoch | None = None


def refuse(error: ErrorCode, delay_ms: int = 0, hint: LeaderIdAndEpoch | None = None) -> Verdict:
    """Answer with an error and do nothing."""
    return Verdict(error=error, handles=False, delay_us=delay_ms * MS, hint=hint)


def handle(delay_ms: int = 0) -> Verdict:
    """Do what is asked; answer late."""
    return Verdict(delay_us=delay_ms * MS)


def never_answer(handles: bool = True) -> Verdict:
    return Verdict(handles=handles, answers=False)


def reset(handles: bool = True) -> Verdict:
    """Perhaps do what is asked, then break the connection instead of answering."""
    return Verdict(handles=handles, resets=True)


@dataclass
class FakeCluster:
    """State that the brokers agree on."""

    leaders: dict[int, tuple[int, int]]
    """partition -> (leader id, leader epoch)"""
    brokers: dict[int, FakeBroker] = field(default_factory=dict)
    topic_exists: bool = True
    next_producer_id: int = 1000

    def broker(self, node_id: int) -> FakeBroker:
        return self.brokers.setdefault(node_id, FakeBroker(node_id, self))


@dataclass
class FakeBroker:
    node_id: int
    cluster: FakeCluster
    is_up: bool = True
    swallows_connections: bool = False
    prefers: int | None = None
    """The replica that it names as the leader, without records."""
    serves: bool = False
    """Whether it answers fetches as a follower."""
    offers: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(VERSIONS))
    log: dict[int, list[bytes]] = field(default_factory=dict)
    log_end: dict[int, int] = field(default_factory=dict)
    high_watermark: dict[int, int] = field(default_factory=dict)
    log_start: dict[int, int] = field(default_factory=dict)
    epoch_ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    script: dict[int, deque[Verdict]] = field(default_factory=dict)
    requests: list[tuple[int, int, Any]] = field(default_factory=list)
    sequences: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    stored: dict[tuple[int, int, int, int, int], int] = field(default_factory=dict)

    def next(self, api: int, *verdicts: Verdict) -> None:
        self.script.setdefault(api, deque()).extend(verdicts)

    def names(self, partition: int = 0) -> list[str]:
        """Names of the records in the log, in order."""
        return [
            (record.value or b"?").split(b" ")[0].decode()
            for batch in self.log.get(partition, [])
            for record in read_records(batch)
        ]

    def append(self, partition: int, batch: bytes | bytearray, epoch: int | None = None) -> int:
        """Append a batch as a leader would; returns its base offset."""
        copy = bytearray(batch)
        base = self.log_end.get(partition, 0)
        header = read_header(copy)
        stamp(copy, 0, base, self.cluster.leaders[partition][1] if epoch is None else epoch)
        self.log.setdefault(partition, []).append(bytes(copy))
        self.log_end[partition] = self.high_watermark[partition] = base + header.last_offset_delta + 1
        return base

    # ----------------------------------------------------------------------------------------------------- requests

    def answer(self, frame: bytearray, now_us: int) -> tuple[bytes | None, Verdict]:
        """The answer to one request (None: there is none), and what the script says about it."""
        header = read_request_header(frame)
        if header.api_key == API_VERSIONS:
            return encode_api_versions_response(header.api_version, header.correlation_id, self.offers), Verdict()
        script = self.script.get(header.api_key)
        verdict = script.popleft() if script else Verdict()
        handler: Callable[[RequestHeader, bytearray, Verdict, int], tuple[bytes | None, int]] = {
            PRODUCE: self._produce,
            FETCH: self._fetch,
            METADATA: self._metadata,
            INIT_PRODUCER_ID: self._init_producer_id,
            LIST_OFFSETS: self._list_offsets,
            OFFSET_FOR_LEADER_EPOCH: self._offset_for_leader_epoch,
        }[header.api_key]
        answer, wait_us = handler(header, frame, verdict, now_us)
        if verdict.garbage:
            answer = b"\0\0\0\5" + b"\x7f" * 5
        return (answer if verdict.answers else None), Verdict(
            **{**vars(verdict), "delay_us": verdict.delay_us + wait_us}
        )

    def _leads(self, partition: int) -> bool:
        return self.cluster.leaders[partition][0] == self.node_id

    def _produce(
        self, header: RequestHeader, frame: bytearray, verdict: Verdict, now_us: int
    ) -> tuple[bytes | None, int]:
        request = decode_produce_request(header, frame)
        self.requests.append((now_us, PRODUCE, request))
        topics = []
        for topic, partitions in request.topics:
            results = []
            for partition, records in partitions:
                assert records is not None
                if not self._leads(partition) and verdict.error is ErrorCode.NONE:
                    result = ProducePartitionResponse(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    verdict.resets = request.acks == 0
                elif verdict.handles:
                    result = self._store(partition, bytearray(records))
                else:
                    result = ProducePartitionResponse(partition, verdict.error, current_leader=verdict.hint)
                results.append(result)
            topics.append((topic, results))
        if request.acks == 0:
            return None, 0
        return encode_produce_response(header.api_version, header.correlation_id, topics), 0

    def _store(self, partition: int, batch: bytearray) -> ProducePartitionResponse:
        """ProducerAppendInfo.checkSequence, with a memory that never forgets."""
        header = read_header(batch)
        if header.producer_id < 0:
            return ProducePartitionResponse(
                partition, ErrorCode.NONE, self.append(partition, batch), log_start_offset=0
            )
        exact = (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count)
        if (partition, *exact) in self.stored:
            return ProducePartitionResponse(
                partition, ErrorCode.NONE, self.stored[(partition, *exact)], log_start_offset=0
            )
        epoch, last = self.sequences.get((partition, header.producer_id), (-1, -1))
        if header.producer_epoch < epoch:
            return ProducePartitionResponse(partition, ErrorCode.INVALID_PRODUCER_EPOCH, log_start_offset=0)
        expected = last + 1 if header.producer_epoch == epoch else 0
        if header.base_sequence != expected and epoch >= 0:
            return ProducePartitionResponse(partition, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, log_start_offset=0)
        self.sequences[(partition, header.producer_id)] = (header.producer_epoch, header.last_sequence)
        base = self.stored[(partition, *exact)] = self.append(partition, batch)
        return ProducePartitionResponse(partition, ErrorCode.NONE, base, log_start_offset=0)

    def _fetch(self, header: RequestHeader, frame: bytearray, verdict: Verdict, now_us: int) -> tuple[bytes, int]:
        request = decode_fetch_request(header, frame)
        self.requests.append((now_us, FETCH, request))
        topics, has_data = [], False
        for topic, partitions in request.topics:
            results = []
            for part in partitions:
                result = self._read(part.partition, part.fetch_offset, part.current_leader_epoch, verdict)
                is_named = result.preferred_read_replica >= 0
                has_data |= is_named or result.error is not ErrorCode.NONE or len(result.slice) > 0  # type: ignore[arg-type]
                results.append(result)
            topics.append((topic, results))
        segments = fetch_response_segments(header.api_version, header.correlation_id, topics)
        return joined(segments), 0 if has_data else request.max_wait_ms * MS

    def _read(self, partition: int, offset: int, leader_epoch: int, verdict: Verdict) -> FetchPartitionResponse:
        leader, epoch = self.cluster.leaders[partition]
        error = verdict.error
        if error is ErrorCode.NONE and leader != self.node_id and not self.serves:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif error is ErrorCode.NONE and leader == self.node_id and self.prefers is not None:
            return FetchPartitionResponse(partition, error, slice=b"", preferred_read_replica=self.prefers)
        elif error is ErrorCode.NONE and leader_epoch != epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif error is ErrorCode.NONE and not self.log_start.get(partition, 0) <= offset <= self.log_end.get(
            partition, 0
        ):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is not ErrorCode.NONE:
            return FetchPartitionResponse(partition, error, slice=b"")
        limit = self.high_watermark.get(partition, 0)
        data = bytearray()
        for batch in self.log.get(partition, []):
            last = next(batches(batch))[1].last_offset
            if offset <= last < limit:
                data += batch
        return FetchPartitionResponse(
            partition, error, limit, limit, self.log_start.get(partition, 0), slice=bytes(data)
        )

    def _metadata(self, header: RequestHeader, frame: bytearray, verdict: Verdict, now_us: int) -> tuple[bytes, int]:
        request = decode_request(header, frame)
        self.requests.append((now_us, METADATA, request))
        cluster = self.cluster
        partitions = [
            {
                "error_code": ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                "partition_index": partition,
                "leader_id": leader,
                "leader_epoch": epoch,
                "replica_nodes": [broker.node_id for broker in cluster.brokers.values()],
            }
            for partition, (leader, epoch) in cluster.leaders.items()
        ]
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        entity = response(
            METADATA,
            header.api_version,
            brokers=[
                {"node_id": broker.node_id, "host": f"b{broker.node_id}", "port": 9092}
                for broker in cluster.brokers.values()
                if broker.is_up
            ],
            topics=[
                {"error_code": ErrorCode.NONE, "name": topic.name, "partitions": partitions}
                if cluster.topic_exists
                else {"error_code": missing, "name": topic.name, "partitions": []}
                for topic in request.topics
            ],
        )
        return encode_response(METADATA, header.api_version, header.correlation_id, entity), 0

    def _init_producer_id(
        self, header: RequestHeader, frame: bytearray, verdict: Verdict, now_us: int
    ) -> tuple[bytes, int]:
        self.requests.append((now_us, INIT_PRODUCER_ID, decode_request(header, frame)))
        self.cluster.next_producer_id += 1
        entity = response(
            INIT_PRODUCER_ID,
            header.api_version,
            error_code=verdict.error,
            producer_id=self.cluster.next_producer_id,
            producer_epoch=0,
        )
        return encode_response(INIT_PRODUCER_ID, header.api_version, header.correlation_id, entity), 0

    def _list_offsets(
        self, header: RequestHeader, frame: bytearray, verdict: Verdict, now_us: int
    ) -> tuple[bytes, int]:
        request = decode_request(header, frame)
        self.requests.append((now_us, LIST_OFFSETS, request))
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                index = int(part.partition_index)
                ends = self.high_watermark if int(part.timestamp) == -1 else self.log_start
                error = verdict.error if self._leads(index) else ErrorCode.NOT_LEADER_OR_FOLLOWER
                offset = ends.get(index, 0) if error is ErrorCode.NONE else -1
                parts.append({"partition_index": index, "error_code": error, "offset": offset, "leader_epoch": -1})
            topics.append({"name": topic.name, "partitions": parts})
        entity = response(LIST_OFFSETS, header.api_version, topics=topics)
        return encode_response(LIST_OFFSETS, header.api_version, header.correlation_id, entity), 0

    def _offset_for_leader_epoch(
        self, header: RequestHeader, frame: bytearray, verdict: Verdict, now_us: int
    ) -> tuple[bytes, int]:
        request = decode_request(header, frame)
        self.requests.append((now_us, OFFSET_FOR_LEADER_EPOCH, request))
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                epoch, end = self.epoch_ends.get(int(part.partition), (-1, -1))
                parts.append(
                    {
                        "partition": int(part.partition),
                        "error_code": verdict.error,
                        "leader_epoch": epoch,
                        "end_offset": end,
                    }
                )
            topics.append({"topic": topic.topic, "partitions": parts})
        entity = response(OFFSET_FOR_LEADER_EPOCH, header.api_version, topics=topics)
        return encode_response(OFFSET_FOR_LEADER_EPOCH, header.api_version, header.correlation_id, entity), 0


@dataclass
class _Link:
    broker: FakeBroker
    queue: deque[bytearray] = field(default_factory=deque)
    busy: bool = False


class Harness:
    """One client core, the fake brokers, and virtual time between them: 1 ms each way."""

    def __init__(self, make_core: Callable[[TraceLog], Any], cluster: FakeCluster) -> None:
        self.rows: list[TraceRow] = []
        self.trace = TraceLog([self.rows.append])
        self.core = make_core(self.trace)
        self.cluster = cluster
        self.now_us = 0
        self.exited = False
        self.actions: list[tuple[int, Any]] = []
        self.links: dict[int, _Link] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.call(self.core.start)

    def events(self, *names: str) -> list[Any]:
        """Events by class name, in order."""
        return [row.event for row in self.rows if type(row.event).__name__ in names]

    def call(self, method: Callable[..., list[Any]], *args: Any, **kwargs: Any) -> None:
        self.trace.cause = None
        self.call_within_step(method, *args, **kwargs)

    def call_within_step(self, method: Callable[..., list[Any]], *args: Any, **kwargs: Any) -> None:
        """As `call`, while the shell still holds the latest event for the cause of what comes."""
        self.trace.at_us = self.now_us
        for action in method(*args, self.now_us, **kwargs):
            self._perform(action)

    def at(self, delay_us: int, callback: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_us + delay_us, self._count, callback))
        self._count += 1

    def run_until(self, until_us: int) -> None:
        for _ in range(100_000):
            deadline = self.core.next_deadline_us
            queued = self._queue[0][0] if self._queue else None
            times = [at for at in (deadline, queued) if at is not None]
            if not times or min(times) > until_us:
                self.now_us = until_us
                return
            self.now_us = max(self.now_us, min(times))
            if queued is not None and queued <= self.now_us:
                heapq.heappop(self._queue)[2]()
            else:
                self.call(self.core.tick)
        raise AssertionError("the client spins")

    def reset_connections(self, broker: FakeBroker) -> None:
        """Both ends lose their connection at once."""
        for connection in [number for number, link in self.links.items() if link.broker is broker]:
            self._reset(connection)

    def _reset(self, connection: int) -> None:
        if self.links.pop(connection, None) is not None:
            self.call(self.core.disconnected, connection, "connection reset by peer")

    def _perform(self, action: Any) -> None:
        self.actions.append((self.now_us, action))
        match action:
            case Connect():
                self._connect(action)
            case Send():
                link = self.links.get(action.connection)
                frame = bytearray(joined(action.segments)[4:])
                self.at(LATENCY_US, lambda: self._arrive(action.connection, link, frame))
            case Close():
                self.links.pop(action.connection, None)
            case EndProcess():
                self.exited = True

    def _connect(self, action: Connect) -> None:
        broker = self.cluster.broker(int(action.host[1:]))
        if broker.swallows_connections:
            return
        if broker.is_up:
            self.links[action.connection] = link = _Link(broker)
            self.at(LATENCY_US, lambda: self._connected(action.connection, link))
        else:
            self.at(LATENCY_US, lambda: self.call(self.core.disconnected, action.connection, "connection refused"))

    def _connected(self, connection: int, link: _Link) -> None:
        if self.links.get(connection) is link:
            self.call(self.core.connected, connection)

    def _arrive(self, connection: int, link: _Link | None, frame: bytearray) -> None:
        if link is None or self.links.get(connection) is not link or not link.broker.is_up:
            return
        link.queue.append(frame)
        self._serve(connection, link)

    def _serve(self, connection: int, link: _Link) -> None:
        """One request at a time per connection, as a broker does."""
        if link.busy or not link.queue or self.links.get(connection) is not link:
            return
        answer, verdict = link.broker.answer(link.queue.popleft(), self.now_us)
        if verdict.resets:
            self._reset(connection)
        elif answer is None and verdict.answers:  # acks=0
            self._serve(connection, link)
        elif answer is not None:
            link.busy = True
            self.at(verdict.delay_us + LATENCY_US, lambda: self._answered(connection, link, answer))
        else:
            link.busy = True

    def _answered(self, connection: int, link: _Link, answer: bytes) -> None:
        link.busy = False
        if self.links.get(connection) is link:
            self.call(self.core.received, connection, bytearray(answer[4:]))
            self._serve(connection, link)
