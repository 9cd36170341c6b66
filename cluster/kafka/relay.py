"""Connections between JVMs, and of clients to them: they pass through this process, where the network's faults act.

A connection of S to D is two ends here: one speaks to the process of S and stands for D, one speaks to the process of D
and stands for S. So a frame of S leaves through the end that stands for S, over the link from S to D, and is delayed,
cut or held there as in the other worlds; and so is the end of the connection.

Known limit: the kernel accepts a connection for D while the link is cut. It is stalled then instead of losing the SYN.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from cluster.kafka.clients.sight import ConnectionSight
from cluster.kafka.exchanges import Exchanges, client_id
from cluster.live.sockets import BACKLOG, prepare
from cluster.live.tcp_connection import TcpConnection
from cluster.live.time import LiveTime
from cluster.network.passage import RESET, Message
from cluster.network.world import ConnectionGone
from cluster.node import Segment, Send
from replica.causes import ConnectionEnd, DropCause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.kafka.fabric import KafkaFabric

PEEKED_BYTES = 512
SIZE_BYTES = 4
RELAYED = 0
"""Instead of the number of a connection: no core has one."""


class NearEnd(TcpConnection):
    """A client's own end, in this process: no network is between it and the relay, and the relay states its end."""

    def _depart(self, message: Message[Sequence[Segment]], cause: int | None = None) -> None:
        self._deliver(message)

    def _must_wait(self, message: Message[Sequence[Segment]]) -> bool:
        return False

    def end(self, how: ConnectionEnd, message: str | None = None) -> None:
        if self.open and self.gone is None:
            self.gone = how
            self._let_go()
            self._end_known()


class RelayEnd(TcpConnection):
    """It goes on while the process it stands for is frozen: the kernel of a JVM that is stopped takes in and sends."""

    onward: RelayEnd | None = None
    """Sends on what is read here."""

    def _may_run(self, then: Callable[[], None]) -> bool:
        return True

    async def _running(self) -> bool:
        return self._sock_open

    async def _ended(self, how: ConnectionEnd, message: str | None = None) -> None:
        """What the process had sent before a FIN its kernel goes on sending; a RST empties the kernel's queue.

        source: Linux tcp_close, tcp_disconnect
        """
        if how is RESET and self.onward is not None:
            self.onward.sender_has_reset()
        await super()._ended(how, message)

    def sender_has_reset(self) -> None:
        if self._link.is_cut:
            self._drop_waiting(DropCause.CONNECTION_RESET)


class StandIn(RelayEnd):
    """The end that stands for a node and speaks to the process of its peer; each relay has one."""


class Relay:
    """One connection of `source` to `target`, from the time that both ends are there."""

    def __init__(
        self,
        time: LiveTime,
        near: RelayEnd,
        far: RelayEnd,
        before_answer: Callable[[], None] | None = None,
        sight: ConnectionSight | None = None,
        exchanges: Exchanges | None = None,
    ) -> None:
        """near: speaks to the source     far: speaks to the target     before_answer: called before each is sent on
        sight: reads along     exchanges: which answer is to which request, unless the target speaks Kafka's protocol
        """
        self._near = near
        self._far = far
        near.onward, far.onward = far, near
        self._exchanges = exchanges or Exchanges()
        self._before_answer = before_answer
        self._sight = sight
        self._time = time
        self._reading: dict[TcpConnection, trio.CancelScope] = {near: trio.CancelScope(), far: trio.CancelScope()}

    def stop_reading(self, end: TcpConnection) -> None:
        """Its machine has lost power: what comes now is not for this connection."""
        self._reading[end].cancel()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._carry, self._near, self._far, self._request)
            nursery.start_soon(self._carry, self._far, self._near, self._response)
        if self._sight is not None:
            self._time.enter()
            self._sight.ended("the connection is gone")

    async def _carry(self, source: TcpConnection, target: TcpConnection, take: Callable[[bytearray], None]) -> None:
        try:
            with self._reading[source]:
                await source.read(take)
        except ConnectionGone:
            target.close()

    def _request(self, frame: bytearray) -> None:
        api = self._exchanges.request(frame)
        if self._sight is not None:
            self._sight.request(frame)
        self._far.send(Send(RELAYED, (len(frame).to_bytes(SIZE_BYTES, "big"), frame), api, "request"))

    def _response(self, frame: bytearray) -> None:
        api = self._exchanges.response(frame)
        if self._before_answer is not None:
            self._before_answer()
        sight = self._sight
        on_sent = None if sight is None else lambda _: sight.response(frame)
        self._near.send(
            Send(RELAYED, (len(frame).to_bytes(SIZE_BYTES, "big"), frame), api, "response", on_sent=on_sent)
        )


class RelayListener:
    """Where one process reaches one node. source: None for the JVM of all clients, which say who they are"""

    def __init__(self, fabric: KafkaFabric, source: str | None, target: str) -> None:
        self._fabric = fabric
        self._source = source
        self._target = target
        self._server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._server.setblocking(False)
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.bind(fabric.addresses.seen_from(source, target))
        self._server.listen(BACKLOG)
        self._open = True

    async def run(self, nursery: trio.Nursery) -> None:
        while self._open:
            try:
                sock, _ = self._server.accept()
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_readable(self._server)
                except trio.ClosedResourceError:
                    return
                continue
            prepare(sock)
            nursery.start_soon(self._accept, sock)

    async def _accept(self, sock: socket.socket) -> None:
        source = self._source or await _named(sock)
        host = self._fabric.hosts.get(source or "")
        if host is None:
            sock.close()
            return
        await self._fabric.join(host, self._target, sock)

    def close(self) -> None:
        if self._open:
            self._open = False
            trio.lowlevel.notify_closing(self._server)
            self._server.close()


async def _named(sock: socket.socket) -> str | None:
    """The client.id of the first request; the bytes stay where they are."""
    while True:
        await trio.lowlevel.wait_readable(sock)
        try:
            seen = sock.recv(PEEKED_BYTES, socket.MSG_PEEK)
        except OSError:
            return None
        name = client_id(seen[SIZE_BYTES:])
        if name is not None or not seen or len(seen) == PEEKED_BYTES:
            return name
        await trio.sleep(0.001)  # The rest of the header is on its way.


def client_pair() -> tuple[socket.socket, socket.socket]:
    one, two = socket.socketpair()
    one.setblocking(False)
    two.setblocking(False)
    return one, two


def refuse(sock: socket.socket) -> None:
    """As a port that nothing listens on does, as far as that can be once the kernel has accepted."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
