"""TCP sockets as the live world wants them: never blocking, without Nagle's delay, ports that are not lost."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import resource
import socket
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104  # Only where `serve --host` says so.
SEND_BUFFER_BYTES = 1 << 20
DESCRIPTORS_MAX = 65_536
BACKLOG = 50
"""socket.listen.backlog.size"""


class PortTaken(Exception):
    """A port that was asked for cannot be listened on. is_foreign: the address is none of this machine's"""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        in_use = error.errno == errno.EADDRINUSE
        why = "another program listens there" if in_use else error.strerror or str(error)
        super().__init__(f"{host}:{port} cannot be listened on: {why}")
        self.host = host
        self.port = port
        self.is_foreign = error.errno == errno.EADDRNOTAVAIL


def raise_descriptor_limit() -> None:
    """As many connections as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def can_be_dialed(address: tuple[str, int]) -> bool:
    """An IPv4 address and a port. Names are never looked up: all nodes have addresses (`serve --host` wants one), and a
    client that registers as a broker may claim to be anywhere.
    """
    host, port = address
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return 0 < port < 1 << 16


def tcp_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    prepare(sock)
    return sock


def prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)


class ServerPort:
    """A port that stays reserved without a listener: connections are refused then, and no other process gets it.

    host: to listen on; EVERYWHERE: all addresses of this machine     port: 0 for any free one
    address: where nodes of the cluster reach it     raises: PortTaken
    """

    def __init__(self, host: str, port: int) -> None:
        self._reserved = _bound(host, port)
        self.host = host
        self.address: tuple[str, int] = (LOOPBACK if host == EVERYWHERE else host, self._reserved.getsockname()[1])
        if port:  # Bound besides a listener it can be, as a server that restarts; listening shows whether it is free.
            try:
                self.listen().close()
            except PortTaken:
                self._reserved.close()
                raise

    def listen(self) -> socket.socket:
        """raises: PortTaken"""
        # Differs from Kafka: there a port that the system chooses (0) is open before the broker is unfenced (Acceptor).
        server = _bound(self.host, self.address[1])
        try:
            server.listen(BACKLOG)
        except OSError as error:
            server.close()
            raise PortTaken(self.host, self.address[1], error) from None
        return server

    def close(self) -> None:
        self._reserved.close()


def ports_in_a_row(count: int, candidates: Iterable[int]) -> int | None:
    """The first candidate that begins `count` free consecutive ports of the loopback; None: there is none."""
    for first in candidates:
        with contextlib.ExitStack() as bound:
            try:
                for port in range(first, first + count):
                    bound.enter_context(socket.socket()).bind((LOOPBACK, port))
            except OSError:
                continue
            return first
    return None


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise PortTaken(host, port, error) from None
    return sock
