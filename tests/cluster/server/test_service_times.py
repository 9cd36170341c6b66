"""Handlers and the network thread take the time a scenario gives them, and nothing overtakes in their queues."""

from __future__ import annotations

from cluster.config import BrokerConfig
from cluster.node import Action, Outbox, Send
from cluster.protocol.versions import METADATA, RequestHeader
from cluster.sampled_rate import Rate
from cluster.server.request_handlers import CpuTimes, HandlerTime, RequestHandlers
from cluster.server.socket_server import RequestTimes, SocketServer
from cluster.slices import Slices
from replica.trace.events import TraceLog

MS, S = 1000, 1_000_000


def _answer(outbox: Outbox, connection: int) -> None:
    outbox.respond(connection, (b"",), 0)


def _to(actions: list[Action]) -> list[int]:
    return [action.connection for action in actions if isinstance(action, Send)]


def _batch(records: int) -> memoryview:
    return memoryview(bytes(57) + records.to_bytes(4, "big"))


def test_a_handler_is_taken_until_its_work_is_done_and_then_answers() -> None:
    outbox, handlers = Outbox(), RequestHandlers(1)
    times = HandlerTime(CpuTimes(produced_us=10 * MS), handlers, outbox)
    handled: list[tuple[int, int]] = []

    def work(connection: int, records: int, now_us: int) -> None:
        handled.append((connection, now_us))
        times.produced([_batch(records)])
        _answer(outbox, connection)

    for connection, records in ((-1, 5), (-2, 1), (-3, 0)):
        handlers.submit(times.taken_by(lambda now_us, c=connection, r=records: work(c, r, now_us)), 0)
    assert handled == [(-1, 0)]
    assert _to(outbox.take()) == []
    outbox.timers.run_due(50 * MS)
    assert handled == [(-1, 0), (-2, 50 * MS)]
    assert _to(outbox.take()) == [-1]
    outbox.timers.run_due(60 * MS)
    assert handled[2:] == [(-3, 60 * MS)]
    assert _to(outbox.take()) == [-2, -3]  # what costs nothing is answered in its instant


def test_without_times_nothing_is_wrapped() -> None:
    def work(now_us: int) -> None:
        raise AssertionError("only handed through")

    assert HandlerTime(CpuTimes(), RequestHandlers(1), Outbox()).taken_by(work) is work


def _server(outbox: Outbox, per_poll: int | None, came: list[tuple[int, int]], **config: str) -> SocketServer:
    """One network thread, which needs 10 ms for a new connection."""

    def handle(connection: int, peer: str, frame: bytearray, now_us: int) -> RequestHeader:
        came.append((connection, now_us))
        return RequestHeader(METADATA, 9, 0, None, 0)

    keys = {"num.network.threads": "1", **{name.replace("_", "."): value for name, value in config.items()}}
    server = SocketServer(
        node="b1",
        config=BrokerConfig.from_mapping(keys),
        outbox=outbox,
        recorder=TraceLog(),
        listens_early=True,
        times=RequestTimes(
            cpu=CpuTimes(connection_us=10 * MS, connections_per_poll=per_poll),
            slices=Slices(now=lambda: 0, clock=None, at=outbox.timers.at),
            log=None,
            clock=lambda: 0,
        ),
    )
    server.handle = handle
    server.open(0)
    return server


def _run(outbox: Outbox, until_us: int) -> None:
    while (due_us := outbox.timers.next_deadline_us) is not None and due_us <= until_us:
        outbox.timers.run_due(due_us)


def test_new_connections_hold_up_the_others_for_one_poll() -> None:
    for per_poll, waits_us in ((None, 100 * MS), (2, 20 * MS)):
        outbox, came = Outbox(), list[tuple[int, int]]()
        server = _server(outbox, per_poll, came)
        server.accepted(-1, "x", "", 0)
        _run(outbox, 10 * MS)
        for connection in range(-12, -1):
            server.accepted(connection, "x", "", 10 * MS)  # the first of them is polled at once, alone
        _run(outbox, 20 * MS)
        server.received(-1, bytearray(), 21 * MS)
        _answer(outbox, -1)
        assert _to(server.outgoing(outbox.take(), 0)) == []
        _run(outbox, 200 * MS)
        assert came == [(-1, 20 * MS + waits_us)]
        assert _to(server.outgoing(outbox.take(), 0)) == [-1]


def test_a_request_of_a_connection_that_is_not_set_up_waits_for_its_turn() -> None:
    outbox, came = Outbox(), list[tuple[int, int]]()
    server = _server(outbox, 1, came)
    for connection in (-1, -2, -3):
        server.accepted(connection, "x", "", 0)
    server.received(-3, bytearray(), 1 * MS)
    _run(outbox, 25 * MS)
    assert came == []
    _run(outbox, 30 * MS)
    assert came == [(-3, 30 * MS)]


def test_the_creation_rate_lets_ten_seconds_of_it_pass_at_once_and_then_brakes() -> None:
    outbox, came = Outbox(), list[tuple[int, int]]()
    server = _server(outbox, None, came, max_connection_creation_rate="2")
    for connection in range(-40, 0):
        server.accepted(connection, "x", "", 0)
        server.received(connection, bytearray(), 0)
    _run(outbox, 3 * S)
    at_once = [connection for connection, now_us in came if now_us < 1 * S]
    assert 18 <= len(at_once) <= 22
    _run(outbox, 60 * S)
    assert len(came) == 40
    assert came[-1][1] > 5 * S


def test_a_burst_is_no_high_rate_for_kafkas_rate() -> None:
    rate = Rate()
    rate.record(20, 0)
    assert rate.per_second(0) == 2
    assert rate.per_second(5 * S) < 2.1
