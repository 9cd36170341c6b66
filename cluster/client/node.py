"""Every client handles the shell's events alike: it passes them on, then works until it has to wait."""

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
    """What a client's process begins with, made before its parts; each of them is built from it.

    name: client id, and the name in the trace     rng: this client's own
    cpu: what its interceptors and serializers take
    discovers_versions: asks each broker for its versions; without, its newest ones are sent to all
    """

    name: str
    bootstrap: Sequence[tuple[str, int]]
    recorder: CausalRecorder
    rng: random.Random
    names: Names
    cpu: ClientCpuTimes = NO_TIME
    discovers_versions: bool = True
    outbox: Outbox = field(default_factory=Outbox)


class ClientNode(ABC):
    """A cluster.node.NodeCore that only opens connections; a subclass sets the four attributes and says what to do."""

    _events: ClientEvents
    _connections: ClientConnections
    _outbox: Outbox
    _running: bool

    @abstractmethod
    def _run(self, now_us: int) -> list[Action]:
        """Do all that can be done without waiting."""

    @property
    def next_deadline_us(self) -> int | None:
        return self._outbox.timers.next_deadline_us

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
        self._outbox.timers.run_due(now_us)
        return self._run(now_us)


# -------------------------------------------------------------------------------------------------------------- backoff
#
# Exponential backoff with jitter, as every retry of a Kafka client uses it. Source: ExponentialBackoff.java.

RETRY_EXP_BASE = 2
JITTER = 0.2
"""CommonClientConfigs: the same factor and jitter for retries, reconnects and connection set-up."""


class ExponentialBackoff:
    """initial * 2^attempts, at most `max_ms`, spread by 20 % either way; milliseconds in, microseconds out."""

    __slots__ = ("_initial_us", "_max_us", "_rng")

    def __init__(self, initial_ms: int, max_ms: int, rng: random.Random) -> None:
        self._initial_us = min(initial_ms, max_ms) * 1000  # Kafka: an initial value above the maximum is the maximum
        self._max_us = max_ms * 1000
        self._rng = rng

    def after_us(self, attempts: int) -> int:
        """How long to wait when `attempts` earlier ones have failed, microseconds."""
        if self._initial_us >= self._max_us:
            return self._initial_us
        doublings = min(attempts, 40)
        factor = 1 - JITTER + 2 * JITTER * self._rng.random()
        return min(int(self._initial_us * RETRY_EXP_BASE**doublings * factor), self._max_us)
