"""The addresses of a cluster of JVMs, with a separate address for each pair of nodes.

The node with index D listens at 127.NET.0.D. The node with index S reaches it through 127.NET.S.D, where Highwater's
process listens and relays the frames to D. Each JVM has its own hosts file, so every JVM uses the same host names (b1,
b2, c1). Linux assigns all of 127.0.0.0/8 to the loopback interface, so no privileges are needed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Address = tuple[str, int]

FIRST_NET, LAST_NET = 128, 250
CLIENTS = 250
"""The index of the JVM that runs all Java clients, in place of a node's index."""
LOCK_HOST, LOCK_PORT = 254, 9094
PORTS = {"broker": (9092, 19092, 29092), "controller": (9093, 19093, 29093)}


class NoNet(OSError):
    """No range of loopback addresses, or no choice of ports, is free for another cluster."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of one cluster.

    Attributes:
        net: second byte of all addresses (127.NET.x.y).
        nodes: port of each node, by name. A node's index is its position in this mapping, counted from 1.
    """

    net: int
    nodes: Mapping[str, int]

    def place(self, node: str) -> int:
        return list(self.nodes).index(node) + 1

    def own(self, node: str) -> Address:
        """Return the address on which the node's process listens."""
        return f"127.{self.net}.0.{self.place(node)}", self.nodes[node]

    def seen_from(self, source: str | None, target: str) -> Address:
        """Return the address at which `source` (None for the JVM of all clients) reaches `target`."""
        sender = CLIENTS if source is None else self.place(source)
        return f"127.{self.net}.{sender}.{self.place(target)}", self.nodes[target]

    def hosts_file(self, source: str | None) -> str:
        """Return the contents of a node's hosts file (-Djdk.net.hosts.file), which replaces all other lookups."""
        lines = [f"127.0.0.1 localhost {os.uname().nodename}"]
        for node in self.nodes:
            host, _ = self.own(node) if node == source else self.seen_from(source, node)
            lines.append(f"{host} {node}")
        return "\n".join(lines) + "\n"

    def named(self, address: Address) -> str | None:
        """Return the name of the node with this address or host name, None if there is none."""
        if address[0] in self.nodes:
            return address[0]
        return next((node for node in self.nodes if self.own(node) == address), None)


class Net:
    """A range of loopback addresses (127.NET.0.0/16) that is reserved for one cluster until it is closed."""

    def __init__(self, number: int, lock: socket.socket) -> None:
        self.number = number
        self._lock = lock

    def close(self) -> None:
        self._lock.close()


def free_net() -> Net:
    """Reserve a range of loopback addresses for one cluster.

    Raises:
        NoNet: if all ranges are reserved.
    """
    for number in range(FIRST_NET, LAST_NET + 1):
        lock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            lock.bind((f"127.{number}.0.{LOCK_HOST}", LOCK_PORT))
        except OSError:
            lock.close()
            continue
        return Net(number, lock)
    raise NoNet("no loopback network is free for another cluster: stop some of the running clusters")


def choose_ports(net: int, brokers: Sequence[str], controllers: Sequence[str]) -> Addresses:
    """Return addresses with Kafka's usual ports, or with other ports if another program listens on those.

    Raises:
        NoNet: if no choice of ports is free.
    """
    nodes = {**dict.fromkeys(controllers, "controller"), **dict.fromkeys(brokers, "broker")}
    for choice in range(len(PORTS["broker"])):
        addresses = Addresses(net, {name: PORTS[role][choice] for name, role in nodes.items()})
        if all(_is_free(addresses.own(name)) for name in nodes):
            return addresses
    raise NoNet(
        f"no choice of broker ports ({', '.join(map(str, PORTS['broker']))}) is free: stop a program that uses them"
    )


def _is_free(address: Address) -> bool:
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True
