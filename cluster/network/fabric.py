"""The simulated world: machines, and connections between them over links that a scenario can damage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from cluster.network.host import Host
from cluster.network.links import Link, Network
from cluster.network.passage import RESET, NetworkEvents
from cluster.network.simulated_connection import SimulatedConnection
from cluster.network.virtual_time import VirtualTime
from cluster.network.world import ConnectionGone, Parking, ProcessExit
from cluster.security import OPEN
from replica.trace.events import TraceLog


class SimulatedFabric:
    """All machines and connections of one simulated cluster."""

    is_live = False
    security = OPEN
    outsiders = ()

    def __init__(
        self, time: VirtualTime, network: Network, trace: TraceLog, api_name: Callable[[int], str] = str
    ) -> None:
        self.time = time
        self.network = network
        self.events = NetworkEvents(trace, api_name)
        self.hosts: dict[str, Host] = {}
        self.exits: list[ProcessExit] = []
        self._ends: dict[SimulatedConnection, None] = {}
        self._dials: list[Dial] = []

    def add_host(self, name: str) -> Host:
        assert name not in self.hosts, f"two nodes are called {name}"
        host = self.hosts[name] = Host(self, name)
        return host

    def address(self, name: str, port: int) -> tuple[str, int]:
        return name, port

    def open(self, nursery: trio.Nursery) -> None:
        """Nothing here is without a process: messages in flight are in the queue of time."""

    def listening(self, host: Host) -> None:
        """A dial looks at `host.listener` itself."""

    async def apart(self, job: Callable[[], None]) -> None:
        job()  # In no time at all, as all else here.

    def contains(self, node: str, peer: str, failure: Exception) -> bool:
        """A bug ends the run: it can be played again."""
        return False

    def deaf(self, host: Host) -> None:
        """As above."""

    # ----------------------------------------------------------------------------------------------- connections

    async def connect(self, source: Host, target: str, port: int) -> SimulatedConnection:
        dial = Dial(self, source, self.hosts.get(target), target)
        dial.begin()
        await self.time.park(dial.parking)
        if dial.end is None:
            raise ConnectionGone(dial.refused or "refused")
        return dial.end

    def join(self, source: Host, target: Host) -> tuple[SimulatedConnection, SimulatedConnection]:
        near, far = SimulatedConnection.pair(self, source, target)
        self._ends[near] = self._ends[far] = None
        return near, far

    def ends_of(self, host: Host) -> list[SimulatedConnection]:
        return [end for end in self._ends if end.host is host and (end.open or end.stopped)]

    def forget(self, closed: SimulatedConnection) -> None:
        """Close the sockets once neither end is in use and nothing waits on the way."""
        if not any(end.open or end.stopped for end in (closed, closed.other)):
            for end in (closed, closed.other):
                self._ends.pop(end, None)
                end.close_sockets()

    def close(self) -> None:
        for end in list(self._ends):
            end.close_sockets()
        self._ends.clear()

    # --------------------------------------------------------------------------------------------------- faults

    def move_on(self) -> None:
        """The network changed for the better: messages that need not wait any longer go on."""
        for end in list(self._ends):
            end.move_on()
        for dial in list(self._dials):
            dial.move_on()

    def waiting(self, dial: Dial) -> None:
        self._dials.append(dial)

    def arrived(self, dial: Dial) -> None:
        if dial in self._dials:
            self._dials.remove(dial)

    async def settle(self) -> None:
        pass  # Everything is here.

    async def stand_still(self) -> None:
        pass  # Nothing happens while the driver of time does nothing.

    async def reset(self, one: str, two: str) -> int:
        """RST on every connection between two nodes. Data in flight is lost; received data can still be read, as on
        Linux (tcp_reset leaves the receive queue alone). Returns how many.
        """
        ends = [end for end in self._ends if end.open and {end.host.name, end.peer} == {one, two}]
        for end in ends:
            # A callback each: ending a connection may wake a task.
            self.time.at(self.time.now_us, partial(end.end, RESET))
        return len(ends) // 2


class Dial:
    """One attempt to connect: the request travels, then the answer; a silent network or machine keeps it waiting."""

    def __init__(self, fabric: SimulatedFabric, source: Host, target: Host | None, name: str) -> None:
        self.parking = Parking()
        self.end: SimulatedConnection | None = None
        self.refused: str | None = None
        self._fabric = fabric
        self._source = source
        self._process = source.process
        self._target = target
        self._name = name

    def begin(self) -> None:
        time = self._fabric.time
        link = self._link()
        time.at(link.arrival_us(time.now_us, 60), self._arrive)

    def _link(self) -> Link:
        return self._fabric.network.link(self._source.name, self._name)

    def _arrive(self) -> None:
        if self.parking.gone:
            return
        target = self._target
        if target is None:
            self.refused = f"no such host: {self._name}"
            self._answer()
        elif self._link().is_cut or not target.powered:
            self._fabric.waiting(self)
        elif target.listener is None:
            self.refused = "refused"
            self._answer()
        else:
            self.end, far = self._fabric.join(self._source, target)
            target.listener.offer(far)
            self._answer()

    def move_on(self) -> None:
        if self.parking.gone or (self._target is not None and self._target.powered and not self._link().is_cut):
            self._fabric.arrived(self)
            if not self.parking.gone:
                # Simplified: TCP would repeat the connection request with growing pauses; here it goes on at once.
                self.begin()

    def _answer(self) -> None:
        time = self._fabric.time
        back = self._fabric.network.link(self._name, self._source.name)
        # Simplified: an answer on a one-way cut link is not retried; the attempt times out.
        if not back.is_cut:
            time.at(back.arrival_us(time.now_us, 60), self._finish)

    def _finish(self) -> None:
        if self.parking.gone:  # Given up meanwhile.
            if self.end is not None:
                self.end.close()
        elif self._process is self._source.process and self._source.may_run(self._finish):
            self._fabric.time.resume(self.parking)
