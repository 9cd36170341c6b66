"""A broker's server: connections up to the limits, network threads in turn, a request channel that can be full."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest

from cluster.config import BrokerConfig
from cluster.node import Close, Listen, Outbox, Send, Sent
from cluster.protocol.versions import METADATA, RequestHeader
from cluster.server.accepted_connections import ANONYMOUS
from cluster.server.request_handlers import CpuTimes, RequestHandlers
from cluster.server.request_log import RequestLog
from cluster.server.socket_server import RequestTimes, SocketServer
from cluster.slices import Slices
from replica.config import ConfigError
from replica.errors import PeerViolation
from replica.trace.events import ConnectionClosed, RequestCompleted, TraceLog, TraceRow

CORRELATION_ID = 7


class ServerWorld:
    """Handlers block until `finish` is called, as if every request waited for the disk."""

    def __init__(
        self, *, is_watched: bool = False, is_open: bool = True, listens_early: bool = True, **config: str
    ) -> None:
        self.now_us = 0
        self.rows: list[TraceRow] = []
        self.trace = TraceLog([self.rows.append])
        self.outbox = Outbox()
        self.handled: list[int] = []
        self.closed: list[int] = []
        self.answered: list[int] = []
        self.listens = 0
        self.blocked: dict[int, Callable[[int], None]] = {}
        self.server = SocketServer(
            node="b1",
            config=BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in config.items()}),
            outbox=self.outbox,
            recorder=self.trace,
            listens_early=listens_early,
            times=RequestTimes(
                cpu=CpuTimes(),
                slices=Slices(now=lambda: self.now_us, clock=None, at=self.outbox.timers.at),
                log=RequestLog("b1", self.trace, lambda: self.now_us) if is_watched else None,
                clock=lambda: self.now_us,
            ),
        )
        self.server.handle = self._handle
        if is_open:
            self.server.open(0)

    def accept(self, connection: int, address: str = "10.0.0.1") -> None:
        self.server.accepted(connection, f"{address}:{5000 - connection}", "", self.now_us)
        self.server.connections.identified(connection, f"client{connection}")
        self._perform()

    def send(self, connection: int, frame: bytes = b"request") -> None:
        self.server.received(connection, bytearray(frame), self.now_us)
        self._perform()

    def hang_up(self, connection: int) -> None:
        self.server.connections.gone(connection)
        self._perform()

    def finish(self, connection: int) -> None:
        self.blocked.pop(connection)(self.now_us)
        self._perform()

    def reasons(self) -> list[str]:
        return [row.event.sentence() for row in self.rows if isinstance(row.event, ConnectionClosed)]

    def _handle(self, connection: int, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        if frame == b"nonsense":
            raise PeerViolation("this is nonsense")
        self.handled.append(connection)
        self.blocked[connection] = self.server.handlers.block(
            lambda now_us: self.outbox.respond(connection, (b"ok",), METADATA)
        )
        return RequestHeader(METADATA, 9, CORRELATION_ID, None, 0)

    def _perform(self) -> None:
        self.server.settle(self.now_us)
        for action in self.server.outgoing(self.outbox.take(), self.now_us):
            if isinstance(action, Close):
                self.closed.append(action.connection)
            elif isinstance(action, Send):
                self.answered.append(action.connection)
            elif isinstance(action, Listen):
                self.listens += 1


@pytest.mark.parametrize("listens_early", [True, False])
def test_the_port_opens_once_before_or_together_with_request_processing(listens_early: bool) -> None:
    world = ServerWorld(is_open=False, listens_early=listens_early)
    world.server.start()
    world._perform()
    assert world.listens == listens_early
    world.server.open(0)
    world._perform()
    assert world.listens == 1


def test_requests_that_came_early_wait_for_request_processing() -> None:
    world = ServerWorld(is_open=False)
    world.accept(-1)
    world.send(-1)
    assert world.handled == []
    world.server.open(0)
    assert world.handled == [-1]


def test_a_full_request_channel_stops_the_network_threads_that_stand_before_it_and_loses_nothing() -> None:
    world = ServerWorld(num_io_threads="1", queued_max_requests="1", num_network_threads="2")
    for connection in range(-6, 0):
        world.accept(connection)
    for connection in range(-6, 0):
        world.send(connection)
    assert world.handled == [-6]  # -5 waits in the channel, -4 and -3 block the two threads, the others wait behind
    order = [-6]
    while world.blocked:
        world.finish(order[-1])
        order = list(world.handled)
    assert order == [-6, -5, -4, -3, -2, -1]
    assert sorted(world.answered) == order


def test_a_blocked_network_thread_sends_no_answers_either() -> None:
    world = ServerWorld(num_io_threads="2", queued_max_requests="1", num_network_threads="1")
    for connection in range(-4, 0):
        world.accept(connection)
        world.send(connection)
    assert world.handled == [-4, -3]
    world.server.handlers.queued_max_requests = 0  # the channel stays full even when a handler takes the next one
    world.finish(-4)
    assert (world.handled, world.answered) == ([-4, -3, -2], [])


def test_connections_beyond_the_limit_wait_until_one_is_over() -> None:
    world = ServerWorld(max_connections="2")
    for connection in (-1, -2, -3):
        world.accept(connection)
        world.send(connection)
    assert (world.handled, world.closed) == ([-1, -2], [])
    world.hang_up(-1)
    assert world.handled == [-1, -2, -3]


def test_too_many_connections_from_one_address_are_closed_and_others_are_not() -> None:
    world = ServerWorld(max_connections_per_ip="2", max_connections_per_ip_overrides="10.0.0.9:0, ::1:3")
    for connection in (-1, -2, -3):
        world.accept(connection)
    world.accept(-4, "10.0.0.2")
    world.accept(-5, "10.0.0.9")
    for connection in range(-9, -5):
        world.accept(connection, "::1")
    assert world.closed == [-3, -5, -6]
    assert world.reasons()[0].endswith("10.0.0.1 already has 2 connections, as many as max.connections.per.ip allows")
    world.hang_up(-2)
    world.accept(-10)
    assert -10 not in world.closed


def test_the_principal_belongs_to_its_connection_and_goes_with_it() -> None:
    world = ServerWorld()
    connections = world.server.connections
    world.accept(-1)
    assert connections.principal(-1) == ANONYMOUS
    connections.authenticated(-1, "User:alice")
    assert connections.principal(-1) == "User:alice"
    world.hang_up(-1)
    connections.authenticated(-1, "User:alice")
    assert connections.principal(-1) == ANONYMOUS


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:x", ":3", "a:1,,b:2"])
def test_overrides_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        BrokerConfig.from_mapping({"max.connections.per.ip.overrides": text})


def test_a_request_above_the_limit_closes_its_connection() -> None:
    world = ServerWorld(socket_request_max_bytes="1024")
    world.accept(-1)
    world.send(-1, bytes(1025))
    assert (world.closed, world.handled) == ([-1], [])
    assert "a request has 1025 bytes, but socket.request.max.bytes allows 1024" in world.reasons()[0]


def test_a_violation_closes_its_connection_with_a_reason_and_frees_its_handler() -> None:
    world = ServerWorld(num_io_threads="1")
    world.accept(-1)
    world.accept(-2)
    world.send(-1, b"nonsense")
    assert (world.closed, world.reasons()) == ([-1], ["b1 closed a connection from client-1: this is nonsense"])
    world.send(-2)
    world.finish(-2)
    assert world.answered == [-2]


def test_a_bug_in_a_handler_leaves_it_free() -> None:
    handlers, handled = RequestHandlers(1), list[int]()

    def crash(now_us: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handlers.submit(crash, 0)
    handlers.submit(handled.append, 7)
    assert handled == [7]


def test_the_times_of_a_request_add_up() -> None:
    world = ServerWorld(is_watched=True, num_io_threads="1")
    world.accept(-1)
    world.accept(-2)
    world.now_us = 100
    world.send(-1)
    world.send(-2)
    sends: list[Send] = []
    world.server.outgoing, outgoing = (
        lambda actions, now_us: sends.extend(outgoing(actions, now_us)) or [],
        (world.server.outgoing),
    )
    world.now_us = 350
    world.finish(-1)
    world.now_us = 400
    world.finish(-2)
    for action in sends:
        assert action.on_sent is not None
        action.on_sent(Sent(500, 520, 0, 0))
    one, two = [row.event for row in world.rows if isinstance(row.event, RequestCompleted)]
    assert (one.request_queue_time_us, one.local_time_us, one.response_queue_time_us) == (0, 250, 150)
    assert (two.request_queue_time_us, two.local_time_us, two.response_queue_time_us) == (250, 50, 100)
    for request in (one, two):
        assert (request.api, request.correlation_id, request.remote_time_us) == ("Metadata", CORRELATION_ID, 0)
        assert (
            request.total_time_us
            == 420
            == sum(
                (
                    request.request_queue_time_us,
                    request.local_time_us,
                    request.remote_time_us,
                    request.response_queue_time_us,
                    request.response_send_time_us,
                )
            )
        )


class Frame(bytearray):
    """A frame with weak references, to see whether it is still in use."""


@pytest.mark.parametrize("is_open", [False, True])
def test_what_waits_for_its_turn_is_not_kept_for_who_is_gone(is_open: bool) -> None:
    """Else a client that repeatedly connects, sends and leaves fills memory: at a start, or while a disk is slow."""
    world = ServerWorld(is_open=is_open, num_network_threads="1")
    world.server.handlers.queued_max_requests = 0 if is_open else 1  # 0: the network thread stands before it
    world.accept(-2)
    frame = Frame(b"request")
    kept = weakref.ref(frame)
    world.server.received(-2, frame, world.now_us)
    del frame
    assert kept() is not None
    world.hang_up(-2)
    assert kept() is None
