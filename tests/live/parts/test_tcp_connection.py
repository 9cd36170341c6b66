"""TCP connections of the live world: their promises hold for all behaviour of the socket, the network and the log."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from cluster import slices
from cluster.live.fabric import TcpFabric
from cluster.live.observations import ConnectionEnded, Observation, ProduceAnswered, ProduceArrived, Topic
from cluster.live.peers import UNNAMED, RunSecret
from cluster.live.request_memory import RequestMemory
from cluster.live.tcp_connection import TcpConnection
from cluster.live.time import LiveTime
from cluster.live.writer import FrameWriter
from cluster.network.host import Process
from cluster.network.links import HoldRule, Latency, Link, Network
from cluster.network.passage import CLOSED, RESET, ByteCounts
from cluster.network.world import ConnectionGone
from cluster.node import Segment, Send
from cluster.protocol.api_00_produce import ProduceRequest, encode_produce_request, encode_produce_response
from replica.causes import ConnectionEnd
from replica.log.files.open_files import FileSlice, OpenFile
from replica.trace.events import (
    ConnectionClosed,
    MessageDropped,
    MessageHeld,
    MessageReleased,
    TraceLog,
    TraceRow,
)

pytestmark = pytest.mark.live

PRODUCE, FETCH = 0, 1
FIRST, SECOND = b"\0\1 a Fetch", b"\0\0 a Produce"
MIB = 1 << 20


class Bench:
    """Two machines a and b, b listening, and one connection between them: `near` at a, `far` at b."""

    def __init__(self) -> None:
        self.rows: list[TraceRow] = []
        trace = TraceLog([self.rows.append])
        self.time = LiveTime(trace)
        self.network = Network(1, Latency("constant", 0), {})
        self.fabric = TcpFabric(self.time, self.network, trace)
        self.a, self.b = self.fabric.add_host("a"), self.fabric.add_host("b")
        self.received: list[bytes] = []
        self.ended: list[str] = []
        self.driver_saw = 0
        """So many ends."""
        self.near: TcpConnection
        self.far: TcpConnection

    def run(self, test: Callable[[Bench], Awaitable[None]]) -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                self.fabric.open(nursery)
                # Machines whose process is up, without a shell that would take the connections itself.
                for host in (self.a, self.b):
                    shell: Any = SimpleNamespace(core=SimpleNamespace(accepts=True), end=int)
                    host.process = Process(shell=shell)
                self.b.listen()
                nursery.start_soon(self.time.drive, 60_000_000, self._between, trio.lowlevel.checkpoint)
                self.near, self.far = await self.connected()
                self.far.allow(100 * MIB)
                with trio.fail_after(30):
                    await test(self)
                self.fabric.close()
                nursery.cancel_scope.cancel()

        trio.run(main)

    def _between(self) -> bool:
        self.driver_saw = len(self.ended)
        return False

    async def connected(self) -> tuple[TcpConnection, TcpConnection]:
        """A connection whose ends know each other: until then the near one sends nothing."""
        near = await self.fabric.connect(self.a, *self.fabric.address("b", 0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.read, near)
            far = await self.accept()
            await self.wait_for(lambda: not near._writing)
            nursery.cancel_scope.cancel()
        return near, far

    async def accept(self) -> TcpConnection:
        assert self.b.listener is not None
        end = await self.b.listener.accept()
        assert isinstance(end, TcpConnection)
        return end

    async def read(self, end: TcpConnection, take: Callable[[bytearray], None] | None = None) -> None:
        try:
            await end.read(take or (lambda frame: self.received.append(bytes(frame))))
        except ConnectionGone as gone:
            self.ended.append(str(gone))

    async def dial(self) -> None:
        try:
            await self.fabric.connect(self.a, *self.fabric.address("b", 0))
        except ConnectionGone as gone:
            self.ended.append(str(gone))

    async def wait_for(self, condition: Callable[[], object]) -> None:
        while not condition():
            await trio.sleep(0.005)

    def events(self, kind: type) -> list[TraceRow]:
        return [row for row in self.rows if isinstance(row.event, kind)]


def frame(*parts: Segment) -> list[Segment]:
    size = sum(part.length if isinstance(part, FileSlice) else len(part) for part in parts)
    return [size.to_bytes(4, "big"), *parts]


def test_a_full_socket_holds_nobody_up_and_a_file_that_goes_away_is_sent_all_the_same(tmp_path: Path) -> None:
    data = os.urandom(24 * MIB)
    (tmp_path / "segment").write_bytes(data)

    async def test(bench: Bench) -> None:
        file = OpenFile(os.open(tmp_path / "segment", os.O_RDONLY))
        bench.far.send(
            Send(0, frame(b"head", FileSlice(file.fd, 0, len(data), file), b"tail"), FETCH, "response", None)
        )
        bench.far.send(Send(0, frame(b"second"), FETCH, "response", None))
        del file  # the log is closed while most of it has yet to be sent
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            await bench.wait_for(lambda: len(bench.received) == 2)
            bench.far.close()
        assert bench.received[0] == b"head" + data + b"tail" and bench.received[1] == b"second"
        assert bench.ended == [CLOSED.meaning]
        assert bench.b.bytes.sendfile == len(data) and bench.b.bytes.fetch_payload_through_python == 0

    Bench().run(test)


def test_an_answer_of_one_piece_that_the_socket_does_not_take_whole_is_sent_to_its_end() -> None:
    data = os.urandom(24 * MIB)

    async def test(bench: Bench) -> None:
        bench.far.send(Send(0, [len(data).to_bytes(4, "big") + data], PRODUCE, "response", None))
        assert bench.b.bytes.protocol == 0, "most of it is still to be sent"
        bench.far.send(Send(0, [b"\0\0\0\6second"], PRODUCE, "response", None))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            await bench.wait_for(lambda: len(bench.received) == 2)
            nursery.cancel_scope.cancel()
        assert bench.received == [data, b"second"]
        assert bench.b.bytes.protocol == len(data) + len(b"second") + 2 * 4

    Bench().run(test)


@pytest.mark.parametrize("segments", [[b"\0\0\0\4body"], [b"\0\0\0\4", b"body"]])
def test_what_a_broken_connection_did_not_take_waits_whatever_its_pieces(segments: list[Segment]) -> None:
    """Behind a cut its end may not be known, and the next request is not looked at before this answer has left."""
    near, far = socket.socketpair()
    far.close()
    with near:
        writer = FrameWriter(near, ByteCounts(), int)
        with pytest.raises(BrokenPipeError):
            writer.write(segments)
        assert writer.pending


def test_several_answers_may_wait_for_a_full_socket_and_each_is_known_to_have_left(tmp_path: Path) -> None:
    """Those that a fault has held are released at once."""
    data = os.urandom(24 * MIB)
    (tmp_path / "segment").write_bytes(data)

    async def test(bench: Bench) -> None:
        file = OpenFile(os.open(tmp_path / "segment", os.O_RDONLY))
        sent: list[tuple[str, int]] = []
        head = frame(b"head", FileSlice(file.fd, 0, len(data), file))
        bench.far.send(Send(0, head, FETCH, "response", None, lambda told: sent.append(("first", told.sendfile_bytes))))
        bench.far.send(
            Send(0, frame(b"two"), FETCH, "response", None, lambda told: sent.append(("second", told.sendfile_bytes)))
        )
        assert sent == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            await bench.wait_for(lambda: len(sent) == 2)
            nursery.cancel_scope.cancel()
        assert sent == [("first", len(data)), ("second", 0)]

    Bench().run(test)


@pytest.mark.parametrize("address", [("no-such-name.invalid", 9092), ("", 1), ("10.0.0.1\0", 1), ("127.0.0.1", 0)])
def test_where_no_machine_can_be_is_refused_without_looking_it_up(address: tuple[str, int]) -> None:
    """A client may register as a broker with any host: looking up its name ended the cluster."""

    async def test(bench: Bench) -> None:
        with pytest.raises(ConnectionGone, match="refused"):
            await bench.fabric.connect(bench.a, *address)

    Bench().run(test)


def test_a_proof_is_for_one_connection_of_one_run() -> None:
    caller, server = ("127.77.0.1", 40_000), ("127.0.0.1", 9092)
    secret, began_ns = RunSecret(), time.monotonic_ns()
    proof = secret.proof(caller, server)
    assert len(proof) == RunSecret.PROOF_BYTES and RunSecret(secret.key).holds(proof, caller, server, began_ns)
    assert not RunSecret().holds(proof, caller, server, began_ns), "of another run"
    assert not secret.holds(proof, ("127.77.0.1", 40_001), server, began_ns)
    assert not secret.holds(proof, caller, ("127.0.0.1", 9093), began_ns)
    assert not secret.holds(proof, caller, server, time.monotonic_ns()), "made before the server listened"
    for place in range(len(proof)):
        assert not secret.holds(proof[:place], caller, server, 0)
        assert not secret.holds(proof[:place] + bytes([proof[place] ^ 1]) + proof[place + 1 :], caller, server, 0)
    assert secret.answer(proof) not in (RunSecret().answer(proof), proof[-32:])


def test_what_has_the_addresses_of_a_connection_of_ours_is_no_node_without_a_proof() -> None:
    """Our end may be gone before it was accepted; the kernel may give its port to another program then."""

    async def test(bench: Bench) -> None:
        server = bench.fabric.address("b", 0)
        for words in (b"", b"\0\0\0\1", RunSecret().proof(("127.0.0.1", 1), server)):
            with trio.socket.socket() as stranger:
                await stranger.bind(("127.0.0.1", 0))
                bench.fabric._callers[stranger.getsockname(), server] = bench.near
                await stranger.connect(server)
                await stranger.send(words)
                if not words:
                    stranger.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    assert await stranger.recv(1) == b""
        bench.near.send(Send(0, frame(b"still there"), FETCH, "request", None))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.far)
            await bench.wait_for(lambda: bench.received)
            nursery.cancel_scope.cancel()
        told = [row.event for row in bench.events(ConnectionClosed)]
        assert len(told) == 2 and all("does not know the secret" in event.sentence() for event in told)

    Bench().run(test)


def test_what_listens_in_the_place_of_a_node_is_sent_nothing_and_believed_nothing() -> None:
    async def test(bench: Bench) -> None:
        server = bench.fabric.address("b", 0)
        bench.b.process = None
        bench.fabric.deaf(bench.b)
        with socket.socket() as squatter:
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            squatter.bind(server)
            squatter.listen()
            near = await bench.fabric.connect(bench.a, *server)
            near.send(Send(0, frame(b"a secret"), FETCH, "request", None))
            sock, _ = squatter.accept()
            with sock:
                assert len(sock.recv(1000)) == RunSecret.PROOF_BYTES
                sock.sendall(b"\0\0\0\x26an answer that is as long as the proof")
                await bench.read(near)
                with contextlib.suppress(ConnectionError):
                    assert sock.recv(1000) == b""
        assert bench.received == [] and bench.ended == [ConnectionEnd.GIVEN_UP.meaning]
        (closed,) = bench.events(ConnectionClosed)
        assert "does not know the secret" in closed.event.sentence()

    Bench().run(test)


def test_one_request_at_a_time_is_taken_from_a_connection() -> None:
    async def test(bench: Bench) -> None:
        for name in (b"one", b"two"):
            bench.near.send(Send(0, frame(name), FETCH, "request", None))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.far)
            await bench.wait_for(lambda: bench.received)
            await trio.sleep(0.05)
            assert bench.received == [b"one"]
            bench.far.send(Send(0, frame(b"answer"), FETCH, "response", None))
            bench.far.unmute()
            await bench.wait_for(lambda: len(bench.received) == 2)
            nursery.cancel_scope.cancel()

    Bench().run(test)


def test_what_a_dead_process_has_behind_a_cut_is_noticed_only_when_it_heals() -> None:
    async def test(bench: Bench) -> None:
        link = bench.network.link("a", "b")
        async with trio.open_nursery() as nursery:

            def take(received: bytearray) -> None:
                bench.received.append(bytes(received))
                bench.far.unmute()

            nursery.start_soon(bench.read, bench.far, take)
            link.cuts.append("cut")
            bench.near.send(Send(0, frame(b"never arrives"), FETCH, "request", None))
            bench.near.close()
            await trio.sleep(0.1)
            assert bench.ended == []
            link.remove("cut")
            bench.fabric.move_on()
            await bench.wait_for(lambda: bench.ended)
        assert bench.ended == [CLOSED.meaning] and bench.received == []
        assert len(bench.events(MessageDropped)) == 1

    Bench().run(test)


def test_what_is_held_is_lost_with_the_power_of_its_sender() -> None:
    async def test(bench: Bench) -> None:
        hold = HoldRule("freeze", ["a"], ["b"], FETCH, "request")
        bench.network.holds.append(hold)
        bench.near.send(Send(0, frame(b"held"), FETCH, "request", None))
        await trio.sleep(0.05)
        bench.near.vanish()
        bench.network.holds.remove(hold)
        bench.fabric.move_on()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.far)
            await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        assert bench.received == []
        (lost,) = bench.events(MessageDropped)
        assert isinstance(lost.event, MessageDropped)
        assert lost.event.sentence() == "the 1 request from a to b was lost on its way: a lost power"

    Bench().run(test)


def test_a_hold_keeps_the_file_bytes_in_the_file_until_it_is_released(tmp_path: Path) -> None:
    segment = tmp_path / "segment"
    segment.write_bytes(b"old records")

    async def test(bench: Bench) -> None:
        hold = HoldRule("freeze", ["b"], ["a"], FETCH, "body")
        bench.network.holds.append(hold)
        fd = os.open(segment, os.O_RDONLY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            bench.far.send(Send(0, frame(FileSlice(fd, 0, 11)), FETCH, "response", None))
            await trio.sleep(0.05)
            assert bench.received == [] and len(bench.events(MessageHeld)) == 1
            segment.write_bytes(b"new records")
            bench.network.holds.remove(hold)
            bench.fabric.move_on()
            await bench.wait_for(lambda: bench.received)
            nursery.cancel_scope.cancel()
        os.close(fd)
        assert bench.received == [b"new records"] and bench.events(MessageReleased)

    Bench().run(test)


def test_slow_frames_have_left_their_file_and_keep_their_order(tmp_path: Path) -> None:
    segment = tmp_path / "segment"
    segment.write_bytes(b"old records")

    async def test(bench: Bench) -> None:
        link = bench.network.link("b", "a")
        link.added["slow"] = Latency("constant", 150_000)
        fd = os.open(segment, os.O_RDONLY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            bench.far.send(Send(0, frame(FileSlice(fd, 0, 11)), FETCH, "response", None))
            segment.write_bytes(b"new records")
            link.remove("slow")
            bench.far.send(Send(0, frame(b"quick"), FETCH, "response", None))
            await bench.wait_for(lambda: len(bench.received) == 2)
            nursery.cancel_scope.cancel()
        os.close(fd)
        assert bench.received == [b"old records", b"quick"]

    Bench().run(test)


def test_a_machine_without_power_is_silent_and_resets_what_speaks_to_it_when_it_is_back() -> None:
    async def test(bench: Bench) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            bench.b.powered, bench.b.process, bench.b.listener = False, None, None
            bench.fabric.deaf(bench.b)
            bench.far.vanish()
            bench.near.send(Send(0, frame(b"into the dark"), FETCH, "request", None))
            nursery.start_soon(bench.dial)
            await trio.sleep(0.1)
            assert bench.ended == []  # nothing is heard, and no client is refused
            bench.b.powered = True
            bench.fabric.move_on()
            await bench.wait_for(lambda: bench.ended)
            assert bench.ended == ["refused"]  # the machine is back, its server is not; the old connection lies there
            bench.near.send(Send(0, frame(b"anybody?"), FETCH, "request", None))
            await bench.wait_for(lambda: len(bench.ended) == 2)
            nursery.cancel_scope.cancel()

    Bench().run(test)


@pytest.mark.parametrize("answers", [False, True])
def test_what_has_come_in_before_a_reset_is_read_until_an_answer_fails(answers: bool) -> None:
    async def test(bench: Bench) -> None:
        def take(request: bytearray) -> None:
            bench.received.append(bytes(request))
            if answers:
                bench.far.send(Send(0, frame(b"an answer"), FETCH, "response", None))
            bench.far.unmute()

        for text in (b"first", b"second"):
            bench.near.send(Send(0, frame(text), FETCH, "request", None))
        assert await bench.fabric.reset("a", "b") == 1
        await bench.wait_for(lambda: not bench.far.open)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.near)
            nursery.start_soon(bench.read, bench.far, take)
        assert bench.received == ([b"first"] if answers else [b"first", b"second"])
        assert bench.ended == [RESET.meaning] * 2
        await bench.wait_for(lambda: bench.driver_saw == 2)

    Bench().run(test)


def test_a_reset_by_the_kernel_leaves_what_has_come_in() -> None:
    """The simulated network and our own resets behave as this machine's TCP does."""

    async def test(bench: Bench) -> None:
        for text in (b"first", b"second"):
            bench.near.send(Send(0, frame(text), FETCH, "request", None))
        near = bench.near._sock
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        bench.near.hang_up()

        def take(request: bytearray) -> None:
            bench.received.append(bytes(request))
            bench.far.unmute()

        await bench.read(bench.far, take)
        assert bench.received == [b"first", b"second"] and bench.ended == [RESET.meaning]

    Bench().run(test)


def test_very_many_frames_of_one_connection_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read found thousands of requests of thirty bytes, which were all handled before anybody else's. Each takes a
    millisecond here, by a clock that nothing else moves on."""
    taken: list[str] = []
    monkeypatch.setattr(LiveTime, "clock_us", lambda time: len(taken) * 1_000)

    async def test(bench: Bench) -> None:
        client = socket.create_connection(bench.fabric.address("b", 0))
        end = await bench.accept()
        client.sendall(500 * (len(FIRST).to_bytes(4, "big") + FIRST))
        bench.near.send(Send(0, frame(b"honest"), FETCH, "request", None))

        def take(one: bytearray) -> None:
            taken.append("flood")
            end.unmute()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, end, take)
            nursery.start_soon(bench.read, bench.far, lambda one: taken.append("honest"))
            await bench.wait_for(lambda: len(taken) == 501)
            nursery.cancel_scope.cancel()
        client.close()
        assert taken.index("honest") < 20

    Bench().run(test)


class Outsider:
    """A client from outside that has sent requests to b."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.end: TcpConnection

    async def sends(self, *requests: bytes) -> None:
        sock = socket.create_connection(self.bench.fabric.address("b", 0))
        self.end = await self.bench.accept()
        self.end.identify(bytearray())
        for request in requests:
            sock.sendall(len(request).to_bytes(4, "big") + request)
        sock.close()

    @property
    def link(self) -> Link:
        return self.bench.network.link(self.end.peer, "b")

    async def is_reset(self) -> None:
        assert await self.bench.fabric.reset(self.end.peer, "b") == 1
        await self.bench.wait_for(lambda: not self.end.open)

    def heal(self) -> None:
        self.bench.network.holds.clear()
        self.link.remove("cut")
        self.bench.fabric.move_on()

    async def is_read(self) -> None:
        def take(request: bytearray) -> None:
            self.bench.received.append(bytes(request))
            self.end.unmute()

        await self.bench.read(self.end, take)


@pytest.mark.parametrize(("fault", "come_in"), [("none", [FIRST, SECOND]), ("cut", []), ("hold", [FIRST])])
def test_a_reset_loses_of_an_outside_client_what_a_fault_keeps_on_its_way(fault: str, come_in: list[bytes]) -> None:
    async def test(bench: Bench) -> None:
        client = Outsider(bench)
        await client.sends(FIRST, SECOND)
        if fault == "cut":
            client.link.cuts.append("cut")
        elif fault == "hold":
            bench.network.holds.append(HoldRule("hold", [client.end.peer], ["b"], PRODUCE, "request"))
        await client.is_reset()
        client.heal()
        await client.is_read()
        assert bench.received == come_in and bench.ended == [RESET.meaning]

    Bench().run(test)


def test_a_hold_with_a_count_keeps_one_request_of_one_outside_client_and_none_after_it() -> None:
    async def test(bench: Bench) -> None:
        client, other = Outsider(bench), Outsider(bench)
        await client.sends(SECOND)
        await other.sends(SECOND)
        clients = (client.end.peer, other.end.peer)
        bench.network.holds.append(HoldRule("hold", clients, ("b",), PRODUCE, "request", count=1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.is_read)
            await bench.wait_for(lambda: bench.events(MessageHeld))
            nursery.start_soon(other.is_read)
            await bench.wait_for(lambda: bench.received)
            assert bench.received == [SECOND]
            client.heal()
            await bench.wait_for(lambda: bench.received == [SECOND, SECOND])
            nursery.cancel_scope.cancel()
        assert len(bench.events(MessageHeld)) == 1

    Bench().run(test)


@pytest.mark.parametrize("is_through", [True, False])
def test_a_request_is_on_its_way_until_the_network_lets_it_through_and_not_until_the_process_runs(
    is_through: bool,
) -> None:
    async def test(bench: Bench) -> None:
        client = Outsider(bench)
        await client.sends(FIRST, SECOND)
        client.link.cuts.append("cut")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.is_read)
            await trio.testing.wait_all_tasks_blocked()
            bench.b.pause()
            if is_through:
                client.heal()
                await trio.testing.wait_all_tasks_blocked()
            await client.is_reset()
            client.heal()
            bench.b.resume()
        assert bench.received == ([FIRST, SECOND] if is_through else []) and bench.ended == [RESET.meaning]

    Bench().run(test)


class Observer:
    """The Tap of a fabric: all that passes, in order."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def topic_name(self, topic: Topic) -> str | None:
        return None

    def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
        return lambda observation, now_us: self.seen.append(observation)


def test_a_request_that_is_read_after_a_reset_is_observed_and_so_is_that_it_gets_no_answer() -> None:
    request = encode_produce_request(9, 1, "x", ProduceRequest(None, 1, 1000, []))

    async def test(bench: Bench) -> None:
        observer = bench.fabric.tap = Observer()
        client = Outsider(bench)
        await client.sends(request[4:])
        await client.is_reset()
        observer.seen.clear()
        await client.is_read()
        assert observer.seen == [ProduceArrived(acks=1, batches=()), ConnectionEnded(RESET.meaning)]

    Bench().run(test)


def test_what_is_read_along_pauses_and_is_complete_before_the_request_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others are served meanwhile; the next request and the end wait for what is read of the answer."""
    monkeypatch.setattr(slices, "SLICE_US", 0)
    request = encode_produce_request(9, 1, "x", ProduceRequest(None, 1, 1000, []))[4:]
    story: list[str] = []

    class Slow(Observer):
        def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
            def tell(observation: Observation, now_us: int) -> None:
                for _ in slices.paced(range(10_000)):
                    if "other" in story:
                        break
                story.append(type(observation).__name__)

            return tell

    async def test(bench: Bench) -> None:
        bench.fabric.tap = Slow()
        client = socket.create_connection(bench.fabric.address("b", 0))
        end = await bench.accept()

        def take(frame: bytearray) -> None:
            story.append("taken")
            end.send(Send(0, [encode_produce_response(9, 1, [])], PRODUCE, "response", None))
            end.unmute()

        client.sendall(2 * (len(request).to_bytes(4, "big") + request))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, end, take)
            await bench.wait_for(lambda: end.peer != UNNAMED)
            nursery.start_soon(bench.read, bench.far, lambda frame: story.append("other"))
            bench.near.send(Send(0, frame(b"honest"), FETCH, "request", None))
            await bench.wait_for(lambda: story.count("taken") == 2)
            client.close()
            await bench.wait_for(lambda: "ConnectionEnded" in story)
            nursery.cancel_scope.cancel()
        answered = ["ProduceArrived", "taken", "ProduceAnswered"]
        assert story == ["other", *answered, *answered, "ConnectionEnded"]

    Bench().run(test)


@pytest.mark.parametrize("may_be_killed", [True, False])
def test_an_ack_is_told_of_before_the_client_can_have_it_where_a_kill_may_come_in_between(may_be_killed: bool) -> None:
    request = encode_produce_request(9, 1, "x", ProduceRequest(None, 1, 1000, []))[4:]

    async def test(bench: Bench) -> None:
        bench.fabric.tells_acks_first = may_be_killed
        had_it: list[bool] = []

        class Client(Observer):
            def open(self, client: str, node: str) -> Callable[[Observation, int], None]:
                def tell(observation: Observation, now_us: int) -> None:
                    if isinstance(observation, ProduceAnswered):
                        had_it.append(_has_come(sock))

                return tell

        bench.fabric.tap = Client()
        sock = socket.create_connection(bench.fabric.address("b", 0))
        end = await bench.accept()
        end.identify(bytearray())
        sock.sendall(len(request).to_bytes(4, "big") + request)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, end)
            await bench.wait_for(lambda: bench.received)
            end.send(Send(0, [encode_produce_response(9, 1, [])], PRODUCE, "response", None))
            assert had_it == [not may_be_killed]
            nursery.cancel_scope.cancel()
        sock.close()

    Bench().run(test)


def _has_come(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])


def test_large_requests_that_wait_for_a_handler_are_counted_until_nobody_needs_them() -> None:
    """Handlers that are blocked leave requests waiting, also those of connections that have gone meanwhile."""
    queue: list[bytearray] = []

    async def test(bench: Bench) -> None:
        memory = bench.fabric.request_memory = RequestMemory(8 * MIB)

        async def send_one(nursery: trio.Nursery) -> TcpConnection:
            near, far = await bench.connected()
            far.allow(100 * MIB)
            nursery.start_soon(bench.read, far, queue.append)
            near.send(Send(0, frame(bytes(3 * MIB)), FETCH, "request", None))
            return far

        async with trio.open_nursery() as nursery:
            ends = [await send_one(nursery) for _ in range(2)]
            await bench.wait_for(lambda: len(queue) == 2)
            assert memory.in_progress_bytes == memory.total_bytes == 6 * MIB
            for end in ends:
                end.close()
            await bench.wait_for(lambda: len(bench.ended) == 2)
            assert memory.total_bytes == 6 * MIB, "the requests still wait"
            await send_one(nursery)
            await bench.wait_for(lambda: len(bench.ended) == 3)
            (closed,) = bench.events(ConnectionClosed)
            assert "had stalled for the longest time" in closed.event.sentence() and memory.total_bytes == 6 * MIB
            del queue[0]  # a handler has done it, and no longer reads it
            assert memory.total_bytes == 3 * MIB
            await send_one(nursery)
            await bench.wait_for(lambda: len(queue) == 2)
            queue.clear()
            assert memory.total_bytes == 0
            nursery.cancel_scope.cancel()

    Bench().run(test)


def test_a_frame_that_promises_too_much_ends_the_connection() -> None:
    async def test(bench: Bench) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.read, bench.far)
            bench.near.send(Send(0, [(1 << 30).to_bytes(4, "big")], FETCH, "request", None))
            await bench.wait_for(lambda: bench.ended)
            nursery.cancel_scope.cancel()
        (closed,) = bench.events(ConnectionClosed)
        assert "1073741824 bytes" in closed.event.sentence()
        assert "socket.request.max.bytes" in closed.event.sentence()

    Bench().run(test)
