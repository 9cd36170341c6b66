"""TCP sockets for live runs: non-blocking, without Nagle's algorithm, on ports that stay reserved."""

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
"""The default of socket.listen.backlog.size."""


class PortTaken(Exception):
    """The requested port cannot be used. `is_foreign` is True if the address does not belong to this machine."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        in_use = error.errno == errno.EADDRINUSE
        why = "another program uses this port" if in_use else error.strerror or str(error)
        super().__init__(f"cannot listen on {host}:{port}: {why}")
        self.host = host
        self.port = port
        self.is_foreign = error.errno == errno.EADDRNOTAVAIL


def raise_descriptor_limit() -> None:
    """Raise this process's limit of open file descriptors as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def can_be_dialed(address: tuple[str, int]) -> bool:
    """Return True if the address is an IPv4 address with a valid port.

    Host names are never looked up: all nodes have addresses (`serve --host` requires one), and a client that registers
    as a broker may claim any address.
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
    """A reserved port. While nothing listens on it, connections are refused and no other process gets it.

    Args:
        host: address to listen on; EVERYWHERE for all addresses of this machine.
        port: port to reserve, 0 for any free port.

    Attributes:
        address: address at which other nodes of the cluster reach the server.

    Raises:
        PortTaken: if the requested port is in use.
    """

    def __init__(self, host: str, port: int) -> None:
        self._reserved = _bound(host, port)
        self.host = host
        self.address: tuple[str, int] = (LOOPBACK if host == EVERYWHERE else host, self._reserved.getsockname()[1])
        if port:  # Binding succeeds even if another server listens on the port, so try to listen on it.
            try:
                self.listen().close()
            except PortTaken:
                self._reserved.close()
                raise

    def listen(self) -> socket.socket:
        """Return a listening socket.

        Raises:
            PortTaken: if the port is in use.
        """
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
    """Return the first candidate from which `count` consecutive loopback ports are free; None if there is none."""
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
