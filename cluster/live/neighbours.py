"""The live world of one process among several that are one cluster together.

Each machine of the cluster connects from a loopback address of its own, which says who claims to be at the other end,
and proves it (peers.py); the kernel's word that a connection has ended is not believed while the network between the
two is cut or the other machine has no power, for then it would not have come.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

from cluster.live.fabric import ServerDoors, TcpFabric
from cluster.live.peers import Address
from cluster.live.time import LiveTime
from cluster.network.links import Network
from replica.trace.events import TraceLog

SOURCE_NETWORK = "127.77"
"""All of 127.0.0.0/8 is this machine, on Linux."""


def source_of(place: int) -> str:
    """The address that the machine with this number (from 0) connects from."""
    return f"{SOURCE_NETWORK}.{place // 250}.{place % 250 + 1}"


class NeighbourFabric(TcpFabric):
    """servers: where each server of the cluster is reached     sources: which address each machine connects from"""

    def __init__(
        self,
        time: LiveTime,
        network: Network,
        trace: TraceLog,
        api_name: Callable[[int], str],
        doors: ServerDoors,
        *,
        servers: Mapping[str, Address],
        sources: Mapping[str, str],
    ) -> None:
        super().__init__(time, network, trace, api_name, doors)
        self._servers = servers
        self._sources = sources
        self.dark: tuple[str, ...] = ()

    def name_of(self, address: Address) -> str:
        for name, known in self._servers.items():
            if known == address:
                return name
        return super().name_of(address)

    def expected(self, caller: Address, server: Address) -> str | None:
        return next((name for name, source in self._sources.items() if source == caller[0]), None)

    def proves_itself(self, name: str) -> bool:
        return name in self._servers

    def is_here(self, name: str) -> bool:
        return False

    def is_dark(self, name: str) -> bool:
        return name in self.dark

    def hides_end(self, node: str, peer: str) -> bool:
        if peer in self._sources:
            return peer in self.dark or self.network.link(peer, node).is_cut
        return super().hides_end(node, peer)

    def bind(self, sock: socket.socket, source: str) -> None:
        sock.bind((self._sources[source], 0))

    def move_on(self) -> None:
        super().move_on()
        for end in list(self._ends):
            end.look_again()
