"""Accepts connections on the server sockets of one machine.

A connection from another machine of the cluster begins with a proof (peers.py). Any other client is identified by the
client.id of its first request.

Source: SocketServer.Acceptor
"""

from __future__ import annotations

import errno
import socket
import time
from typing import TYPE_CHECKING

import trio

from cluster.live.peers import Address, RunSecret
from cluster.live.sockets import prepare
from cluster.live.tcp_connection import TcpConnection
from replica.causes import CloseCause
from replica.trace.events import ConnectionClosed

if TYPE_CHECKING:
    from cluster.live.fabric import TcpFabric
    from cluster.network.host import Host
    from cluster.security import ServerListener

ACCEPTED_PER_TURN = 20
"""The number of connections that are accepted before other tasks get their turn (Processor.ConnectionQueueSize)."""
PROVES_WITHIN_S = 5.0
"""The seconds within which a node must send its proof after it has connected."""
UNPROVEN_MAX = 64
"""The maximum number of connections that wait for a node's proof. One more closes the oldest."""
PAUSE_S = 0.1
"""The pause in seconds when the process has no free file descriptor or has reached its connection limit."""


class SocketAcceptor:
    """Accepts connections for one process of a machine. While the process is paused, the kernel still accepts them.

    Args:
        listener: listener of the socket; None for the first listener, which all nodes use.
    """

    def __init__(self, fabric: TcpFabric, host: Host, server: socket.socket, listener: ServerListener | None) -> None:
        self._fabric = fabric
        self._host = host
        self._process = host.process
        self._server = server
        self._listener = listener
        self._open = True
        self._since_ns = time.monotonic_ns()
        self._unproven: dict[socket.socket, trio.CancelScope] = {}

    async def run(self) -> None:
        accepted = 0
        while self._open:
            if accepted == ACCEPTED_PER_TURN:
                accepted = 0
                await trio.lowlevel.checkpoint()
            while not self._has_room():
                await trio.sleep(PAUSE_S)
            try:
                sock, caller = self._server.accept()
            except BlockingIOError:
                if not await self._readable():
                    return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ENOBUFS, errno.ENOMEM):
                    raise
                await trio.sleep(PAUSE_S)
            else:
                accepted += 1
                self._take(sock, caller[:2])

    def _has_room(self) -> bool:
        if self._host.process is not self._process or not self._host.running:
            return True
        return self._host.shell.core.accepts

    async def _readable(self) -> bool:
        try:
            await trio.lowlevel.wait_readable(self._server)
        except (trio.ClosedResourceError, OSError, ValueError):
            if self._open:
                raise
        return self._open and self._host.process is self._process

    def _take(self, sock: socket.socket, caller: Address) -> None:
        if self._host.process is not self._process:
            sock.close()
            return
        prepare(sock)
        server: Address = sock.getsockname()[:2]
        # Clients use other listeners.
        node = self._fabric.expected(caller, server) if self._listener is None else None
        if node is None:
            self._admit(sock, caller, None)
        else:
            self._fabric.nursery.start_soon(self._meet, sock, caller, server, node)

    async def _meet(self, sock: socket.socket, caller: Address, server: Address, node: str) -> None:
        """Admit a node if it proves that it belongs to this run; otherwise close its connection."""
        if len(self._unproven) == UNPROVEN_MAX:
            next(iter(self._unproven.values())).cancel()
        proof, secret = b"", self._fabric.secret
        with trio.move_on_after(PROVES_WITHIN_S) as scope:
            self._unproven[sock] = scope
            proof = await _first_bytes(sock)
        del self._unproven[sock]
        if secret.holds(proof, caller, server, self._since_ns) and _send(sock, secret.answer(proof)):
            self._admit(sock, caller, node)
            return
        sock.close()
        if proof and self._open:
            self._fabric.time.enter()
            peer = f"{caller[0]}:{caller[1]}"
            self._fabric.events.closed(ConnectionClosed(node=self._host.name, peer=peer, cause=CloseCause.NO_SECRET))

    def _admit(self, sock: socket.socket, caller: Address, node: str | None) -> None:
        if self._host.process is not self._process:
            sock.close()
            return
        self._fabric.time.enter()
        try:
            end = self._fabric.accepted(self._host, sock, caller, node, self._listener)
        except OSError:  # The connection ended before TLS could begin.
            sock.close()
            return
        self._offer(end)

    def _offer(self, end: TcpConnection) -> None:
        if self._host.process is self._process and self._host.listener is not None:
            self._host.listener.offer(end)

    def close(self) -> None:
        if self._open:
            self._open = False
            for scope in self._unproven.values():
                scope.cancel()
            trio.lowlevel.notify_closing(self._server)
            self._server.close()


async def _first_bytes(sock: socket.socket) -> bytes:
    """Read the bytes of a node's proof. Return fewer bytes if the connection ends or they cannot be a proof."""
    data = b""
    while len(data) < RunSecret.PROOF_BYTES and RunSecret.BEGINNING.startswith(data[: len(RunSecret.BEGINNING)]):
        try:
            chunk = sock.recv(RunSecret.PROOF_BYTES - len(data))
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)
        except OSError:
            break
        else:
            if not chunk:
                break
            data += chunk
    return data


def _send(sock: socket.socket, data: bytes) -> bool:
    """Send a few bytes. They fit into a new socket's buffer. Return False if the connection has ended."""
    try:
        return sock.send(data) == len(data)
    except OSError:
        return False
