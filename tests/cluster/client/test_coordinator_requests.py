"""A client's requests to coordinators: found first, one at a time, and as seldom as a quota says."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from fake_cluster import MS, client_base
from segments import joined

from cluster.client.connections import ClientConnections
from cluster.client.coordinators import GROUP, TRANSACTION, Coordinator, CoordinatorRequests
from cluster.client.metadata_cache import ClientMetadata
from cluster.config import ProducerConfig
from cluster.node import Connect, ConnectionId, Outbox, Send
from cluster.protocol.cold import encode_response, response
from cluster.protocol.versions import END_TXN, FIND_COORDINATOR, HEARTBEAT, METADATA, read_request_header
from replica.config import NEVER
from replica.errors import ErrorCode
from replica.trace.events import TraceLog

WAIT = timedelta(milliseconds=700)


class Client:
    """Requests to the coordinator of one key, through connections to two brokers that are answered by hand."""

    request: tuple[int, dict[str, object]] = HEARTBEAT, {"group_id": "k", "generation_id": 1, "member_id": "m"}

    def __init__(self, key_type: Any) -> None:
        config = ProducerConfig()
        rng = random.Random(1)
        metadata = ClientMetadata(
            [("b1", 9092)], max_age_ms=300_000, retry_backoff_ms=100, retry_backoff_max_ms=1000, rng=rng
        )
        self.outbox = Outbox()
        base = client_base("m1", TraceLog(), discovers_versions=False, outbox=self.outbox)
        self.connections = ClientConnections(base, config, metadata, max_in_flight=5)
        brokers = [{"node_id": number, "host": f"b{number}", "port": number} for number in (1, 2)]
        metadata.update(response(METADATA, 12, brokers=brokers, topics=[]), 0)
        self.refused: list[ErrorCode] = []
        self.requests = CoordinatorRequests(self.connections, 100, lambda _, error: self.refused.append(error))
        self.coordinator = Coordinator("k", key_type)
        self.node_of: dict[ConnectionId, int] = {}
        self.answers: list[ErrorCode] = []
        self.now_us = 0

    def ask(self, node_id: int, now_us: int) -> None:
        key, values = self.request
        self.requests.ask(node_id, key, values, lambda _, error, __: self.answers.append(error), now_us)

    def run(self, after_ms: int = 0) -> int | None:
        """The API of the request that was sent then, if one was."""
        self.now_us += after_ms * MS
        self.requests.next_deadline_us = NEVER
        sent = self.requests.run_once(self.coordinator, self.ask, self.now_us)
        for action in self.outbox.take():
            if isinstance(action, Connect):
                self.node_of[action.connection] = action.port
                self.connections.connected(action.connection, self.now_us)
                return self.run()
            if isinstance(action, Send):
                header = read_request_header(bytearray(joined(action.segments)[4:]))
                self.last = action.connection, header.correlation_id, header.api_key, header.api_version
                assert sent
                return header.api_key
        assert not sent
        return None

    def answer(self, **values: object) -> None:
        connection, correlation_id, key, version = self.last
        frame = encode_response(key, version, correlation_id, response(key, version, **values))
        self.connections.received(connection, bytearray(frame[4:]), self.now_us)

    def found(self, node_id: int = 1, **values: object) -> None:
        self.answer(
            **{"error_code": ErrorCode.NONE, "node_id": node_id, "host": f"b{node_id}", "port": node_id, **values}
        )


@pytest.mark.parametrize(
    ("key_type", "request_"),
    [
        (GROUP, Client.request),
        (
            TRANSACTION,
            (END_TXN, {"transactional_id": "k", "producer_id": 1, "producer_epoch": 0, "committed": True}),
        ),
    ],
)
def test_whatever_the_answer_its_throttle_time_is_kept_to(key_type, request_):
    client = Client(key_type)
    client.request = request_
    assert client.run() == FIND_COORDINATOR
    client.found()
    assert client.run() == request_[0]
    client.answer(error_code=ErrorCode.NONE, throttle_time=WAIT)
    assert client.answers == [ErrorCode.NONE]
    assert client.run() is None
    assert client.requests.next_deadline_us == client.now_us + 700 * MS
    assert client.run(699) is None
    assert client.run(1) == request_[0]


def test_the_broker_that_said_where_the_coordinator_is_does_not_speak_for_it():
    client = Client(GROUP)
    client.run()
    asked = client.node_of[client.last[0]]
    client.found(node_id=3 - asked, throttle_time=WAIT)
    assert client.run() == HEARTBEAT
    assert client.node_of[client.last[0]] == 3 - asked


def test_one_request_at_a_time():
    client = Client(GROUP)
    client.run()
    assert client.run() is None
    client.found()
    assert client.run() == HEARTBEAT
    assert client.run() is None


def test_a_coordinator_that_is_not_there_is_looked_for_again():
    client = Client(GROUP)
    client.run()
    client.found(node_id=-1, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert client.refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert client.run(99) is None
    assert client.run(1) == FIND_COORDINATOR


def test_one_with_a_connection_of_its_own_is_looked_for_again_when_it_cannot_be_reached():
    client = Client(GROUP)
    client.coordinator = Coordinator("k", GROUP, is_apart=True)
    client.run()
    asked = client.last[0]
    client.found(node_id=client.node_of[asked])
    assert client.run() == HEARTBEAT
    apart = client.last[0]
    assert apart != asked and client.node_of[apart] == client.node_of[asked], "the same broker by another connection"
    client.connections.disconnected(apart, "it died", client.now_us)
    assert client.run() is None
    assert client.requests.next_deadline_us == client.now_us + 100 * MS
    assert client.coordinator.node_id is None
