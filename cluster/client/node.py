"""The event handling that all clients share: each event is handled, then the client works until it has to wait."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cluster.client.events import CausalRecorder, ClientEvents
from cluster.client.interceptors import NO_TIME, ClientCpuTimes
from cluster.node import Action, ConnectionId, Outbox

if TYPE_CHECKING:
    from cluster.client.connections import ClientConnections
    from replica.ids import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBase:
    """The objects from which a client's parts are built.

    Attributes:
        name: client id, and the name in the trace.
        rng: this client's own random stream.
        cpu: times of its interceptors and serializers.
        discovers_versions: True to ask each broker for its versions; False to send requests in the newest versions.
    """

    name: str
    bootstrap: Sequence[tuple[str, int]]
    recorder: CausalRecorder
    rng: random.Random
    names: Names
    cpu: ClientCpuTimes = NO_TIME
    discovers_versions: bool = True
    outbox: Outbox = field(default_factory=Outbox)


class OpensConnections:
    """The methods of cluster.node.NodeCore for incoming connections, for nodes that accept none."""

    @property
    def accepts(self) -> bool:
        return False

    @property
    def max_request_bytes(self) -> int:
        return 0  # no node connects to a client

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        raise AssertionError("a client accepts no connections")

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        raise AssertionError("a client accepts no connections")


class ClientNode(OpensConnections, ABC):
    """A cluster.node.NodeCore of one client; subclasses set the attributes below and implement `_run`."""

    _events: ClientEvents
    _connections: ClientConnections
    _outbox: Outbox
    _running: bool

    @abstractmethod
    def _run(self, now_us: int) -> list[Action]:
        """Do all work that is possible without waiting."""

    @property
    def next_deadline_us(self) -> int | None:
        return self._outbox.timers.next_deadline_us

    def start(self, now_us: int) -> list[Action]:
        self._events.begin_step(from_outside=False)
        self._running = True
        return self._run(now_us)

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
        self._outbox.timers.run_due(now_us)
        return self._run(now_us)


# -------------------------------------------------------------------------------------------------------------- backoff
#
# Exponential backoff with jitter, which all retries of a Kafka client use. Source: ExponentialBackoff.java.

RETRY_EXP_BASE = 2
JITTER = 0.2
"""The factor and the jitter of all backoffs: retries, reconnects and connection set-up (CommonClientConfigs)."""


class ExponentialBackoff:
    """A delay of initial * 2^attempts, at most the maximum, with 20 % jitter."""

    __slots__ = ("_initial_us", "_max_us", "_rng")

    def __init__(self, initial_ms: int, max_ms: int, rng: random.Random) -> None:
        self._initial_us = min(initial_ms, max_ms) * 1000  # Kafka: an initial value above the maximum is the maximum
        self._max_us = max_ms * 1000
        self._rng = rng

    def after_us(self, attempts: int) -> int:
        """Return the delay in microseconds after `attempts` failed attempts."""
        if self._initial_us >= self._max_us:
            return self._initial_us
        doublings = min(attempts, 40)
        factor = 1 - JITTER + 2 * JITTER * self._rng.random()
        return min(int(self._initial_us * RETRY_EXP_BASE**doublings * factor), self._max_us)
