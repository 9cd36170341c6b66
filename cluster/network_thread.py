"""The acceptor and the one network thread of a broker whose connections cost something. source: SocketServer.scala

Whatever comes over one of its connections, and whatever is answered, waits while the thread sets up new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cluster.cpu import CpuTimes
from cluster.node import Action, ConnectionId, is_answer
from cluster.outbox import Outbox
from cluster.sampled_rate import WINDOW_US, Rate

NO_LIMIT = 2_147_483_647
"""Default of max.connection.creation.rate."""


class Acceptor:
    """max.connection.creation.rate (KIP-612): over it, one connection waits, up to a second, and all behind it too."""

    __slots__ = ("_accept", "_limit", "_outbox", "_rate", "_waiting")

    def __init__(self, limit: int, outbox: Outbox, accept: Callable[[ConnectionId, int], None]) -> None:
        self._limit = limit
        self._outbox = outbox
        self._accept = accept
        self._rate = Rate()
        self._waiting: deque[ConnectionId] = deque()

    def offer(self, connection: ConnectionId, now_us: int) -> None:
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self._take_next(now_us)

    def _take_next(self, now_us: int) -> None:
        while self._waiting:
            throttle_us = self._throttle_us(now_us)
            if throttle_us > 0:
                self._outbox.timers.at(now_us + throttle_us, self._throttled)
                return
            self._accept(self._waiting.popleft(), now_us)

    def _throttled(self, now_us: int) -> None:
        self._accept(self._waiting.popleft(), now_us)
        self._take_next(now_us)

    def _throttle_us(self, now_us: int) -> int:
        """source: ConnectionQuotas.recordAndGetThrottleTimeMs, QuotaUtils.boundedThrottleTime"""
        self._rate.record(1, now_us)
        excess = self._rate.per_second(now_us) - self._limit
        return min(WINDOW_US, round(excess / self._limit * self._rate.window_us(now_us))) if excess > 0 else 0


class NetworkThread:
    """Simplified: one thread, where Kafka has num.network.threads; only new connections take it time.

    deliver: what came over a connection that is set up
    """

    def __init__(
        self,
        times: CpuTimes,
        creation_rate: int,
        outbox: Outbox,
        deliver: Callable[[ConnectionId, bytearray, int], None],
    ) -> None:
        self._times = times
        self._outbox = outbox
        self._deliver = deliver
        self._acceptor = Acceptor(creation_rate, outbox, self._queue)
        self._new: deque[ConnectionId] = deque()
        self._being_set_up: list[ConnectionId] = []
        self._is_polling = False
        self._set_up: dict[ConnectionId, None] = {}
        self._frames: list[tuple[ConnectionId, bytearray]] = []
        self._answers: list[Action] = []
        self._ready: list[Action] = []

    def accepted(self, connection: ConnectionId, now_us: int) -> None:
        self._acceptor.offer(connection, now_us)

    def _queue(self, connection: ConnectionId, now_us: int) -> None:
        self._new.append(connection)
        if not self._is_polling:
            self._poll(now_us)

    def _poll(self, now_us: int) -> None:
        """source: Processor.run: configureNewConnections, then what is on the others"""
        limit = self._times.connections_per_poll
        count = len(self._new) if limit is None else min(limit, len(self._new))
        self._being_set_up = [self._new.popleft() for _ in range(count)]
        self._is_polling = True
        self._outbox.timers.at(now_us + count * self._times.connection_us, self._polled)

    def _polled(self, now_us: int) -> None:
        self._is_polling = False
        self._set_up.update(dict.fromkeys(self._being_set_up))
        self._ready += self._answers
        frames, self._answers, self._frames = self._frames, [], []
        for connection, frame in frames:
            self.received(connection, frame, now_us)
        if self._new:
            self._poll(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        if self._is_polling or connection not in self._set_up:
            self._frames.append((connection, frame))
        else:
            self._deliver(connection, frame, now_us)

    def gone(self, connection: ConnectionId) -> None:
        """A connection that is gone before its turn still takes its time."""
        self._set_up.pop(connection, None)

    def outgoing(self, actions: list[Action]) -> list[Action]:
        """What may leave now."""
        ready, self._ready = self._ready, []
        if not self._is_polling:
            return ready + actions
        self._answers += [action for action in actions if is_answer(action)]
        return ready + [action for action in actions if not is_answer(action)]
