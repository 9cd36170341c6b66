"""The events that a client from outside can cause are bounded, the omitted ones are counted, and all are true."""

from __future__ import annotations

import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from live_cluster import live_cluster

from cluster.live.client_tap import ClientTap
from cluster.live.observations import FetchArrived, FetchResponseSeen
from cluster.protocol.cold import encode_request, request
from cluster.protocol.versions import METADATA
from cluster.server import accepted_connections, request_log
from cluster.server.accepted_connections import STATED_EVERY_US, EventLimit
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.batches.records import BatchHeader, build_batch, read_header
from replica.trace.events import (
    ConnectionClosed,
    ConnectionLost,
    EventsLeftOut,
    FetchFailed,
    PositionReset,
    RecordRead,
    RequestCompleted,
    TraceLog,
    TraceRow,
)
from scenarios.observe.mirror import LogMirror

T0 = TopicPartition("t", 0)


def test_so_much_at_once_and_then_so_much_a_second_for_each_and_for_all() -> None:
    limit = EventLimit(10, 2, clients=2)
    assert [limit.allows("x", 0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert limit.to_state("x", 0) == 2
    assert not limit.allows("x", 400_000) and limit.to_state("x", 400_000) == 0
    assert limit.allows("x", 500_000) and not limit.allows("x", 500_000)
    assert all(limit.allows("y", 500_000) for _ in range(10)), "another client has its own"
    assert not limit.allows("z", 500_000, 3), "but not all have"
    assert limit.allows("x", STATED_EVERY_US, 3) and not limit.allows("x", STATED_EVERY_US, 18)
    assert limit.to_state("x", STATED_EVERY_US) == 20


@pytest.mark.live
def test_requests_without_end_are_counted_and_those_of_others_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "REQUESTS_AT_ONCE", 20)
    monkeypatch.setattr(request_log, "REQUESTS_PER_SECOND", 0)
    with live_cluster(tmp_path, "t:1:1", brokers=1) as cluster:
        for client, count in (("flood", 200), ("calm", 5)):
            with socket.create_connection(cluster.address("b1")) as sock, sock.makefile("rb") as answers:
                for number in range(count):
                    sock.sendall(encode_request(METADATA, 9, number, client, request(METADATA, 9, topics=[])))
                    (size,) = struct.unpack(">i", answers.read(4))
                    assert len(answers.read(size)) == size
    told = [event.peer for event in cluster.events(RequestCompleted)]
    left_out = cluster.events(EventsLeftOut)
    assert (told.count("client/flood"), told.count("client/calm")) == (20, 5)
    assert [(event.node, event.peer) for event in left_out] == [("b1", "client/flood")]


@pytest.mark.live
def test_connections_without_end_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are closed for nonsense and those that say nothing at all; each may have carried a request."""
    monkeypatch.setattr(accepted_connections, "CONNECTIONS_AT_ONCE", 5)
    monkeypatch.setattr(accepted_connections, "CONNECTIONS_PER_SECOND", 0)
    with live_cluster(tmp_path, "t:1:1", brokers=1) as cluster:
        for _ in range(25):
            with socket.create_connection(cluster.address("b1")) as nonsense:
                nonsense.sendall(struct.pack(">ihhih", 10, 999, 0, 1, -1))
                assert nonsense.recv(1) == b""
            socket.create_connection(cluster.address("b1")).close()
        with socket.create_connection(cluster.address("b1")) as sock:
            sock.sendall(encode_request(METADATA, 9, 1, "calm", request(METADATA, 9, topics=[])))
            assert sock.recv(4)
    silent = [event for event in cluster.events(ConnectionLost) if event.peer != "client/calm"]
    assert len(silent) == 5, "they are one client"
    assert len(cluster.events(ConnectionClosed)) == 20, "each is another, by its address: all together"
    assert "client/-" in [event.peer for event in cluster.events(EventsLeftOut)]
    assert len([event for event in cluster.events(ConnectionLost) if event.peer == "client/calm"]) == 1


class Reader:
    """One client, and the events about it."""

    def __init__(self, at_once: int) -> None:
        self.rows: list[TraceRow] = []
        log, sent = TraceLog([self.rows.append]), LogMirror().sent
        tap = ClientTap(log, sent, lambda partition, node, offset: ("a", "b", "c"), lambda name: False, str)
        tap.limit = EventLimit(at_once, 0)
        self._observe = tap.open("client/x", "b1")

    def reads(self, offset: int, *headers: BatchHeader, error: ErrorCode = ErrorCode.NONE) -> list[tuple[str, int]]:
        del self.rows[:]
        self._observe(FetchArrived(((T0, offset),)), 0)
        self._observe(FetchResponseSeen(((T0, error, headers),)), 0)
        return [(type(row.event).__name__, getattr(row.event, "offset", -1)) for row in self.rows]


def batch_at(offset: int) -> BatchHeader:
    header = read_header(build_batch([(None, b"v")] * 3, timestamp_ms=0))
    return replace(header, base_offset=offset)


def test_reading_the_same_again_and_again_is_told_up_to_a_limit_and_new_records_always_are() -> None:
    read, reset, left_out = RecordRead.__name__, PositionReset.__name__, EventsLeftOut.__name__
    reader = Reader(at_once=5)
    assert reader.reads(0, batch_at(0)) == [(read, 0), (read, 1), (read, 2)]
    assert reader.reads(1, batch_at(0)) == [(reset, 1), (read, 1), (read, 2)]
    assert reader.reads(0, batch_at(0)) == [(reset, 0), (left_out, -1)]
    assert reader.reads(0, batch_at(0)) == [] == reader.reads(1, batch_at(0))
    assert reader.reads(3, batch_at(3)) == [(reset, 3), (read, 3), (read, 4), (read, 5)], "not skipped, but sought"
    assert reader.reads(6, batch_at(6)) == [(read, 6), (read, 7), (read, 8)]


def test_refusals_without_end_are_counted() -> None:
    reader = Reader(at_once=2)
    told = [reader.reads(0, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for _ in range(5)]
    assert told == [[(FetchFailed.__name__, 0)]] * 2 + [[(EventsLeftOut.__name__, -1)], [], []]
