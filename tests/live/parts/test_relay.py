"""A connection of a JVM whose process closes it while the network is cut: what it had sent, and whether it arrives."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest
import trio

from cluster.kafka.relay import Relay, RelayEnd, StandIn
from cluster.live.fabric import TcpFabric
from cluster.live.time import LiveTime
from cluster.network.links import Latency, Network
from replica.trace.events import ConnectionLost, MessageDropped, TraceLog, TraceRow

pytestmark = pytest.mark.live

HEARTBEAT = b"\0\x3f" + b"\0\0" + (7).to_bytes(4, "big")
SENT = len(HEARTBEAT).to_bytes(4, "big") + HEARTBEAT


class CutOff(TcpFabric):
    def hides_end(self, node: str, peer: str) -> bool:
        """As KafkaFabric's."""
        return self.network.link(peer, node).is_cut


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        two, _ = server.accept()
    for end in (one, two):
        end.setblocking(False)
    return one, two


async def arrived(sock: socket.socket) -> bytes:
    """Until the end of the connection."""
    found = b""
    while True:
        await trio.lowlevel.wait_readable(sock)
        part = sock.recv(1000)
        if not part:
            return found
        found += part


@pytest.mark.parametrize(
    ("resets", "arrives", "dropped"),
    [
        pytest.param(False, SENT, 0, id="FIN: sent on"),
        pytest.param(True, b"", 1, id="RST: forgotten"),
    ],
)
def test_what_a_closed_connection_had_sent_into_a_cut(resets: bool, arrives: bytes, dropped: int) -> None:
    rows: list[TraceRow] = []
    trace = TraceLog([rows.append])
    time = LiveTime(trace)
    network = Network(1, Latency("constant", 0), {})
    fabric = CutOff(time, network, trace)
    hosts: Any = {name: fabric.add_host(name) for name in ("b1", "k1")}

    def seen(kind: type) -> int:
        return sum(isinstance(row.event, kind) for row in rows)

    async def play() -> bytes:
        async with trio.open_nursery() as nursery:
            fabric.open(nursery)
            nursery.start_soon(time.drive, 60_000_000, bool, trio.lowlevel.checkpoint)
            broker, at_broker = pair()
            at_controller, controller = pair()
            near = StandIn(fabric, hosts["k1"], "b1", at_broker, accepted=False)
            far = RelayEnd(fabric, hosts["b1"], "k1", at_controller, accepted=False)
            fabric._ends |= {near: None, far: None}
            nursery.start_soon(Relay(time, near, far).run)
            link = network.link("b1", "k1")
            with trio.fail_after(30):
                link.cuts.append("cut")
                broker.send(SENT)
                while not far.stopped:
                    await trio.sleep(0.005)
                if resets:
                    broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                broker.close()
                while seen(MessageDropped) < dropped:
                    await trio.sleep(0.005)
                assert not seen(ConnectionLost)  # Nor does k1 learn of the end.
                link.cuts.clear()
                fabric.move_on()
                for end in (near, far):
                    end.look_again()
                found = await arrived(controller)
            fabric.close()
            nursery.cancel_scope.cancel()
        return found

    assert trio.run(play) == arrives
    assert seen(MessageDropped) == dropped
