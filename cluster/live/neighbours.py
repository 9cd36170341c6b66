"""The machines and connections of one process among several that form one cluster.

Each machine of the cluster connects from its own loopback address, which states its identity, and then proves it
(peers.py). While a network cut or a power loss separates two machines, the kernel's report that a connection has ended
is ignored, because a real network would not have delivered it.
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
"""The first two bytes of the machines' addresses. Linux assigns all of 127.0.0.0/8 to the local machine."""


def source_of(index: int) -> str:
    """Return the address from which the machine with this index (from 0) connects."""
    return f"{SOURCE_NETWORK}.{index // 250}.{index % 250 + 1}"


class NeighbourFabric(TcpFabric):
    """The machines and connections of one process of a cluster with several processes.

    Args:
        servers: address of each server of the cluster.
        sources: address from which each machine connects.
    """

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
