"""Every client handles the shell's events alike: it passes them on, then works until it has to wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from cluster.client.connections import ClientConnections
from cluster.client.events import ClientEvents
from cluster.node import Action, ConnectionId
from cluster.timers import Timers

EventsT = TypeVar("EventsT", bound=ClientEvents)


class ClientNode(ABC, Generic[EventsT]):
    """A cluster.node.NodeCore that only opens connections; a subclass sets the four attributes and says what to do."""

    _events: EventsT
    _connections: ClientConnections
    _timers: Timers[Action]
    _running: bool

    @abstractmethod
    def _run(self, now_us: int) -> list[Action]:
        """Do all that can be done without waiting."""

    @property
    def next_deadline_us(self) -> int | None:
        return self._timers.next_deadline_us

    @property
    def accepts(self) -> bool:
        return False

    @property
    def max_request_bytes(self) -> int:
        return 0  # no node connects to a client

    def start(self, now_us: int) -> list[Action]:
        self._events.begin_step(from_outside=False)
        self._running = True
        return self._run(now_us)

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        raise AssertionError("a client accepts no connections")

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        raise AssertionError("a client accepts no connections")

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]:
        self._events.begin_step(from_outside=True)
        self._connections.connected(connection, now_us)
        return self._run(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]:
        self._events.begin_step(from_outside=True)
        self._connections.received(connection, frame, now_us)
        return self._run(now_us)

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]:
        self._events.begin_step(from_outside=True)
        self._connections.disconnected(connection, reason, now_us)
        return self._run(now_us)

    def tick(self, now_us: int) -> list[Action]:
        self._events.begin_step(from_outside=False)
        self._timers.run_due(now_us)
        return self._run(now_us)
