"""A fabric with bare nodes on it: each writes down its inputs, and acts on a test's orders at given times."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from cluster.network.fabric import SimulatedFabric
from cluster.network.host import Host
from cluster.network.links import HoldRule, Latency, Network
from cluster.network.virtual_time import VirtualTime
from cluster.node import Action, Close, Connect, ConnectionId, EndProcess, Listen, ResumeReading, Send
from replica.trace.events import TraceLog, TraceRow

MS = 1000
PRODUCE, FETCH = 0, 1
Seen = tuple[float, str, object]


def frame(text: str | bytes, padding: int = 0) -> bytes:
    body = (text if isinstance(text, bytes) else text.encode()) + bytes(padding)
    return len(body).to_bytes(4, "big") + body


def milliseconds(at_us: int) -> float:
    """Scripts begin one microsecond after the nodes have come up; this removes it from the times."""
    return round(at_us / MS, 2)


class Node:
    """A NodeCore that decides nothing. `seen` holds (milliseconds, what, detail). listens: from its start on"""

    def __init__(self, *, answers: bool = False, listens: bool = True) -> None:
        self.seen: list[Seen] = []
        self.next_deadline_us: int | None = None
        self.max_request_bytes = 1 << 20
        self.accepts = True
        self._answers = answers
        self._listens = listens

    def _see(self, now_us: int, what: str, detail: object = None) -> None:
        self.seen.append((milliseconds(now_us), what, detail))

    def start(self, now_us: int) -> list[Action]:
        self._see(now_us, "started")
        return [Listen()] if self._listens else []

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        self._see(now_us, "accepted", peer)
        return []

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        self._see(now_us, "identified", peer)
        return []

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        self._see(now_us, "connected")
        return []

    def received(self, connection: ConnectionId, received: bytearray, now_us: int) -> list[Action]:
        self._see(now_us, "received", bytes(received).rstrip(b"\0").decode())
        if self._answers:
            return [Send(connection, [frame(b"re:" + bytes(received))], FETCH, "response")]
        # Ready for the next request at once, if this is one: nothing is answered.
        return [ResumeReading(connection)] if connection < 0 else []

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        self._see(now_us, "disconnected", reason)
        return []

    def tick(self, now_us: int) -> list[Action]:
        self._see(now_us, "tick")
        self.next_deadline_us = None
        return []

    def what(self, *kinds: str) -> list[Seen]:
        return [seen for seen in self.seen if seen[1] in kinds]

    @property
    def texts(self) -> list[tuple[float, object]]:
        return [(at, detail) for at, what, detail in self.seen if what == "received"]


class Lab:
    """Nodes a, b, ... that start at 0 and accept connections; the script has the millisecond of each event."""

    def __init__(
        self, names: str = "ab", latency: Latency | None = None, links: dict[tuple[str, str], Latency] | None = None
    ) -> None:
        self.rows: list[TraceRow] = []
        trace = TraceLog([self.rows.append])
        self.time = VirtualTime(trace)
        self.network = Network(1, latency or Latency("constant", 1 * MS), links or {})
        self.fabric = SimulatedFabric(self.time, self.network, trace)
        self.nodes = {name: Node() for name in names}
        self._due: deque[Callable[[], Awaitable[None] | None]] = deque()
        self._nursery: trio.Nursery
        for name in names:
            self.fabric.add_host(name)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def host(self, name: str) -> Host:
        return self.fabric.hosts[name]

    # ---------------------------------------------------------------------------------------------------- the script

    def at(self, at_ms: float, action: Callable[[], Awaitable[None] | None]) -> None:
        """Do something between two events, as a step of a timeline is done."""
        self.time.at(round(at_ms * MS) + 1, lambda: self._due.append(action))

    def does(self, at_ms: float, name: str, *actions: Action) -> None:
        """A node performs actions, as if its core had decided so."""
        self.at(at_ms, lambda: self.host(name).shell.call(lambda now_us: list(actions)))

    def connects(self, at_ms: float, name: str, target: str, connection: int = 1) -> None:
        self.does(at_ms, name, Connect(connection, target, 9092))

    def sends(self, at_ms: float, name: str, text: str | bytes, *, connection: int = 1, api: int = PRODUCE) -> None:
        self.does(at_ms, name, Send(connection, [frame(text)], api))

    def closes(self, at_ms: float, name: str, connection: int = 1) -> None:
        self.does(at_ms, name, Close(connection))

    def exits(self, at_ms: float, name: str) -> None:
        self.does(at_ms, name, EndProcess())

    def starts(self, at_ms: float, name: str) -> None:
        self.at(at_ms, lambda: self.start(name))

    def cuts(self, at_ms: float, source: str, target: str) -> None:
        self.at(at_ms, lambda: self.network.link(source, target).cuts.append("cut"))

    def heals(self, at_ms: float) -> None:
        def heal() -> None:
            for link in self.network.links():
                link.remove("cut")
            self.fabric.move_on()

        self.at(at_ms, heal)

    def holds(self, at_ms: float, source: str, target: str, api: int | None = None, part: str | None = None) -> None:
        self.at(at_ms, lambda: self.network.holds.append(HoldRule("hold", [source], [target], api, part)))

    def releases(self, at_ms: float) -> None:
        def release() -> None:
            self.network.holds.clear()
            self.fabric.move_on()

        self.at(at_ms, release)

    def pauses(self, at_ms: float, name: str) -> None:
        self.at(at_ms, lambda: setattr(self.host(name), "paused", True))

    # ------------------------------------------------------------------------------------------------------- running

    def start(self, name: str) -> None:
        self.host(name).start(self._nursery, self.nodes[name], serves=True)

    def run(self, until_ms: float = 1000) -> None:
        trio.run(self._run, round(until_ms * MS))

    async def _run(self, until_us: int) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for name in self.nodes:
                self.start(name)
            await self.time.drive(until_us, lambda: bool(self._due), self._work)
            self.fabric.close()
            nursery.cancel_scope.cancel()

    async def _work(self) -> None:
        while self._due:
            done = self._due.popleft()()
            if done is not None:
                await done
