"""Relays the connections between JVMs, and from clients to JVMs, through this process to apply network faults.

This process holds two sockets for each connection from S to D: one is connected to S's process and represents D, the
other is connected to D's process and represents S. A frame that S sends leaves through the socket that represents S.
As in other runs, the simulated link from S to D may delay, drop or hold it, and likewise the end of the connection.

Known limit: the kernel accepts a connection for D while the link is cut. The connection then stalls instead of losing
the SYN.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from cluster.kafka.clients.sight import ConnectionSight
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
"""A placeholder for the connection number, which relayed frames do not have."""


class NearEnd(TcpConnection):
    """The client's end of a connection from a Python client in this process to a JVM.

    Between this end and the relay there is no simulated network.
    """

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
    """One end of a relay: a socket that is connected to a node's process.

    It works on while that process is stopped, because the kernel still receives and sends.
    """

    onward: RelayEnd | None = None
    """The other end of the relay, which sends what was read here."""

    def _may_run(self, then: Callable[[], None]) -> bool:
        return True

    async def _running(self) -> bool:
        return self._sock_open

    async def _ended(self, how: ConnectionEnd, message: str | None = None) -> None:
        """End the connection. The kernel still sends queued data after a FIN, and drops it after a RST.

        Source: Linux tcp_close, tcp_disconnect
        """
        if how is RESET and self.onward is not None:
            self.onward.sender_has_reset()
        await super()._ended(how, message)

    def sender_has_reset(self) -> None:
        if self._link.is_cut:
            self._drop_waiting(DropCause.CONNECTION_RESET)


class StandIn(RelayEnd):
    """The end that represents the relay's target and is connected to the process of its source. Each relay has one."""


class Relay:
    """One connection of `source` to `target`, once both ends exist."""

    def __init__(
        self,
        time: LiveTime,
        near: RelayEnd,
        far: RelayEnd,
        before_answer: Callable[[], None] | None = None,
        sight: ConnectionSight | None = None,
        exchanges: Exchanges | None = None,
    ) -> None:
        """Create a relay.

        Args:
            near: end that is connected to the source's process.
            far: end that is connected to the target's process.
            before_answer: called before each response is sent on.
            sight: observes the requests and responses.
            exchanges: matches responses to requests; None for Kafka's protocol.
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
        """Stop reading from an end whose node has lost power."""
        self._reading[end].cancel()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._carry, self._near, self._far, self._request)
            nursery.start_soon(self._carry, self._far, self._near, self._response)
        if self._sight is not None:
            self._time.enter()
            self._sight.ended("the connection has ended")

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
    """A listener through which one process reaches one node.

    `source` is None for the JVM of all Java clients; the client.id of the first request then names the client.
    """

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
    """Return the client.id of the first request, None if it cannot be read. The bytes stay in the socket."""
    while True:
        await trio.lowlevel.wait_readable(sock)
        try:
            seen = sock.recv(PEEKED_BYTES, socket.MSG_PEEK)
        except OSError:
            return None
        name = client_id(seen[SIZE_BYTES:])
        if name is not None or not seen or len(seen) == PEEKED_BYTES:
            return name
        await trio.sleep(0.001)  # The rest of the header has not arrived yet.


def client_pair() -> tuple[socket.socket, socket.socket]:
    item, two = socket.socketpair()
    item.setblocking(False)
    two.setblocking(False)
    return item, two


def refuse(sock: socket.socket) -> None:
    """Reset an accepted connection. Once the kernel has accepted it, it cannot be refused in another way."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


# ------------------------------------------------------------------------------------------------------------ exchanges
#
# Finds the API of each frame on a connection, from the headers alone, and the request that a response answers.


CLIENT_ID_AT = 8
UNKNOWN_API = -1


class Exchanges:
    """Matches the responses on one connection to its requests.

    A broker responds in order; requests without a response (acks=0) are skipped.
    """

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque()

    def request(self, frame: bytes | bytearray) -> int:
        """Record a request, and return its API key, which is at the start in every version. Source: RequestHeader"""
        api_key = int.from_bytes(frame[0:2], "big", signed=True)
        self._open.append((int.from_bytes(frame[4:8], "big"), api_key))
        return api_key

    def response(self, frame: bytes | bytearray) -> int:
        """Remove the request that a response answers, and return its API key; UNKNOWN_API if there is no request."""
        correlation = int.from_bytes(frame[0:4], "big")
        while self._open:
            asked, api_key = self._open.popleft()
            if asked == correlation:
                return api_key
        return UNKNOWN_API


def client_id(frame: bytes | bytearray) -> str | None:
    """Return the client.id in the first bytes of a request; None if the request has none or more bytes are needed."""
    if len(frame) < CLIENT_ID_AT + 2:
        return None
    length = int.from_bytes(frame[CLIENT_ID_AT : CLIENT_ID_AT + 2], "big", signed=True)
    text = frame[CLIENT_ID_AT + 2 : CLIENT_ID_AT + 2 + max(0, length)]
    return text.decode("utf-8", "replace") if length > 0 and len(text) == length else None
