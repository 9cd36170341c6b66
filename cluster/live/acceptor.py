"""The acceptor of one machine's server socket.

A connection opened in this process has a known client; any other client is known by the client.id of its first request.
source: SocketServer.Acceptor
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import trio

from cluster.live.sockets import prepare
from cluster.live.tcp_connection import TcpConnection

if TYPE_CHECKING:
    from cluster.live.fabric import TcpFabric
    from cluster.network.host import Host
    from cluster.security import ServerListener

ACCEPTED_PER_TURN = 20
"""Then other tasks have their turn (Processor.ConnectionQueueSize)."""
PAUSE_S = 0.1
"""Pause in accepting when the process has no file descriptor left, or as many connections as it may."""


class SocketAcceptor:
    """Accepts for one incarnation of a machine's process; the kernel goes on accepting while that is paused.

    listener: None: the first, which all nodes use
    """

    def __init__(self, fabric: TcpFabric, host: Host, server: socket.socket, listener: ServerListener | None) -> None:
        self._fabric = fabric
        self._host = host
        self._process = host.process
        self._server = server
        self._listener = listener
        self._open = True

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

    def _take(self, sock: socket.socket, caller: tuple[str, int]) -> None:
        if self._host.process is not self._process:
            sock.close()
            return
        prepare(sock)
        self._fabric.time.enter()
        try:
            end = self._fabric.accepted(self._host, sock, caller, self._listener)
        except OSError:  # It was over before TLS could begin.
            sock.close()
            return
        self._offer(end)

    def _offer(self, end: TcpConnection) -> None:
        if self._host.process is self._process and self._host.listener is not None:
            self._host.listener.offer(end)

    def close(self) -> None:
        if self._open:
            self._open = False
            trio.lowlevel.notify_closing(self._server)
            self._server.close()
