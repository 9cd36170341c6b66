"""Runs each node in an operating system process of its own.

`ProcessFabric` has the machines of the main process, which runs the cluster and the scenario's clients. For each node
it has a `RemoteHost`, which starts, stops and ends the real process, and a `RemoteCore`, which forwards an operator's
requests to the node.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from cluster.live.control import PACKET_BYTES, DiskState, LinkState, NodeState, Reset
from cluster.live.fabric import ServerDoors
from cluster.live.gathering import GatheringTime
from cluster.live.neighbours import NeighbourFabric, source_of
from cluster.live.node_life import OwnProcess
from cluster.live.peers import Address, RunSecret
from cluster.live.remote_core import RemoteCore
from cluster.live.remote_host import RemoteHost
from cluster.live.time import Started
from cluster.network.host import Host
from cluster.network.links import Network
from cluster.network.world import SETTLE_S
from cluster.security import ListenerSecurity
from replica.trace.events import TraceLog


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """Everything that a node's process needs when it starts."""

    name: str
    incarnation: int
    started: Started
    bind_host: str
    servers: Mapping[str, Address]
    sources: Mapping[str, str]
    reads_along: bool
    measures_requests: bool
    security: ListenerSecurity
    secret: RunSecret = field(repr=False)
    state: NodeState


Launch = Callable[[NodeOrder, socket.socket], OwnProcess]
"""Starts a process that runs a node. The node uses the socket to communicate with this process."""


class ProcessFabric(NeighbourFabric):
    """The machines and connections of the main process, where each node has its own process.

    Args:
        nodes: names of the machines with a process of their own.
        reads_along: True if the nodes report the traffic of outside clients to `tap`.
    """

    time: GatheringTime

    def __init__(
        self,
        time: GatheringTime,
        network: Network,
        trace: TraceLog,
        api_name: Callable[[int], str],
        doors: ServerDoors,
        *,
        nodes: Sequence[str],
        launch: Launch,
        reads_along: bool = False,
    ) -> None:
        self._addresses: dict[str, Address] = {}
        self._origins: dict[str, str] = {}
        super().__init__(time, network, trace, api_name, doors, servers=self._addresses, sources=self._origins)
        self.launch = launch
        self.packet = memoryview(bytearray(PACKET_BYTES))
        self._nodes = nodes
        self._reads_along = reads_along
        self._settling = 0
        self._settled = trio.Event()

    def add_host(self, name: str) -> Host:
        self._origins[name] = source_of(len(self._origins))
        if name not in self._nodes:
            return super().add_host(name)
        host = self.hosts[name] = RemoteHost(self, name)
        return host

    def address(self, name: str, port: int) -> Address:
        address = self._addresses[name] = super().address(name, port)
        return address

    def order_for(self, name: str, incarnation: int, state: NodeState) -> NodeOrder:
        return NodeOrder(
            name=name,
            incarnation=incarnation,
            started=self.time.started,
            bind_host=self._ports[name].host,
            servers=dict(self._addresses),
            sources=dict(self._origins),
            reads_along=self._reads_along,
            measures_requests=self.time.measures_requests,
            security=self.security,
            secret=self.secret,
            state=state,
        )

    def close(self) -> None:
        for host in self._remote():
            host.end_at_once()
        super().close()

    def _remote(self) -> list[RemoteHost]:
        return [host for host in self.hosts.values() if isinstance(host, RemoteHost)]

    # --------------------------------------------------------------------------------------------------------- faults

    def darkened(self, name: str) -> None:
        self.dark = (*self.dark, name)

    def lit(self, name: str) -> None:
        self.dark = tuple(other for other in self.dark if other != name)

    def state_around(self, name: str, core: RemoteCore) -> NodeState:
        return NodeState(
            links=tuple(LinkState.of(link) for link in self.network.links() if name in (link.source, link.target)),
            holds=tuple(self.network.holds),
            request_faults=tuple(self.network.request_faults.rules),
            dark=self.dark,
            disks={log_dir: DiskState.of(disk) for log_dir, disk in core.disks.items()},
            clock_offset_us=core.clock.offset_us,
        )

    async def settle(self) -> None:
        remote = self._remote()
        self._settling += 1
        for host in remote:
            host.bring_up_to_date(self._settling)
        await self._all_settled(remote)
        self.move_on()

    async def _all_settled(self, remote: Sequence[RemoteHost]) -> None:
        with trio.move_on_after(SETTLE_S):
            while not all(host.has_settled for host in remote):
                self._settled = trio.Event()
                await self._settled.wait()

    def settled_some(self) -> None:
        self._settled.set()

    async def stand_still(self) -> None:
        """Wait until the nodes have reported all events that their clients may have seen, then stop them."""
        remote = self._remote()
        self._settling += 1
        for host in remote:
            host.ask_to_settle(self._settling)
        await self._all_settled(remote)
        for host in remote:
            await host.seize()

    async def reset(self, item: str, two: str) -> int:
        for host in self._remote():
            if host.name in (item, two):
                host.order(Reset(two if host.name == item else item))
        return await super().reset(item, two)
