"""The acceptor and the network threads of a broker, which stand between new connections and the request queue.

A network thread (Kafka's Processor) does one thing at a time. While it sets up new connections, or waits for room in a
full request queue, the requests and responses on its connections wait.

Source: SocketServer
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from cluster.config import NO_LIMIT
from cluster.node import Action, ConnectionId, Outbox, ResumeReading, Send
from cluster.sampled_rate import SAMPLES, WINDOW_US, Rate
from cluster.server.request_handlers import CpuTimes, HandlerTime


class Acceptor:
    """Accepts connections: at most max.connections at a time and max.connection.creation.rate per second (KIP-612).

    A connection above the rate waits up to a second, and so do all connections behind it.

    Args:
        accept: called with each accepted connection.
        is_full: returns True if the broker has max.connections, not counting those that wait here.
        window_us: longest wait of one connection.

    Source: Acceptor, ConnectionQuotas.waitForConnectionSlot
    """

    __slots__ = ("_accept", "_is_full", "_is_throttled", "_outbox", "_rate", "_waiting", "_window_us", "limit")

    def __init__(
        self,
        limit: int,
        outbox: Outbox,
        accept: Callable[[ConnectionId, int], None],
        is_full: Callable[[], bool] = lambda: False,
        *,
        samples: int = SAMPLES,
        window_us: int = WINDOW_US,
    ) -> None:
        self.limit = limit
        self._outbox = outbox
        self._accept = accept
        self._is_full = is_full
        self._is_throttled = False
        self._rate = Rate(samples, window_us)
        self._window_us = window_us
        self._waiting: deque[ConnectionId] = deque()
        """Connections that wait to be accepted.

        A connection that its peer has closed stays here, because accept() would return it, too.
        """

    def offer(self, connection: ConnectionId, now_us: int) -> None:
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self.go_on(now_us)

    def go_on(self, now_us: int) -> None:
        """Accept waiting connections as long as max.connections and the rate allow."""
        while self._waiting and not self._is_throttled and not self._is_full():
            throttle_us = self._throttle_us(now_us)
            if throttle_us > 0:
                self._is_throttled = True
                self._outbox.timers.at(now_us + throttle_us, self._throttled)
                return
            self._take(now_us)

    def _throttled(self, now_us: int) -> None:
        self._is_throttled = False
        self._take(now_us)
        self.go_on(now_us)

    def _take(self, now_us: int) -> None:
        self._accept(self._waiting.popleft(), now_us)

    def _throttle_us(self, now_us: int) -> int:
        """Return how long the next connection must wait, in microseconds.

        Source: ConnectionQuotas.recordAndGetThrottleTimeMs, QuotaUtils.boundedThrottleTime
        """
        if self.limit == NO_LIMIT:
            return 0
        self._rate.record(1, now_us)
        excess = self._rate.per_second(now_us) - self.limit
        return min(self._window_us, round(excess / self.limit * self._rate.window_us(now_us))) if excess > 0 else 0


class NetworkThread:
    """One network thread.

    Simplified: only new connections take time, and their queue is not limited.

    Args:
        deliver: puts a request into the request queue. If that is full, returns False and later calls `unblock`.
    """

    def __init__(
        self,
        number: int,
        times: CpuTimes,
        outbox: Outbox,
        deliver: Callable[[NetworkThread, ConnectionId, bytearray, int], bool],
    ) -> None:
        self.number = number
        self._times = times
        self._outbox = outbox
        self._deliver = deliver
        self._new: deque[ConnectionId] = deque()
        self._being_set_up: list[ConnectionId] = []
        self._is_polling = False
        self._is_blocked = False
        self._is_set_up: dict[ConnectionId, bool] = {}
        self._frames: dict[ConnectionId, bytearray] = {}
        """Received requests that wait for this thread, in order of arrival, at most one for each connection."""
        self._answers: list[Action] = []
        self._ready: list[Action] = []

    def accepted(self, connection: ConnectionId, now_us: int) -> None:
        self._is_set_up[connection] = not self._times.connection_us
        if self._is_set_up[connection]:
            return
        self._new.append(connection)
        if not self._is_polling:
            self._poll(now_us)

    def _poll(self, now_us: int) -> None:
        """Set up new connections, which takes time. Source: Processor.run, configureNewConnections"""
        limit = self._times.connections_per_poll
        count = len(self._new) if limit is None else min(limit, len(self._new))
        self._being_set_up = [self._new.popleft() for _ in range(count)]
        self._is_polling = True
        self._outbox.timers.at(now_us + count * self._times.connection_us, self._polled)

    def _polled(self, now_us: int) -> None:
        self._is_polling = False
        self._is_set_up.update((item, True) for item in self._being_set_up if item in self._is_set_up)
        if not self._is_blocked:
            self._look_again(now_us)
        if self._new:
            self._poll(now_us)

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> None:
        if self._is_polling or self._is_blocked or not self._is_set_up.get(connection):
            self._frames[connection] = frame
        elif not self._deliver(self, connection, frame, now_us):
            self._frames[connection] = frame
            self._is_blocked = True

    def unblock(self, now_us: int) -> None:
        """Continue, because the request queue has room again."""
        self._is_blocked = False
        if not self._is_polling:
            self._look_again(now_us)

    def _look_again(self, now_us: int) -> None:
        self._ready += self._answers
        self._answers = []
        frames, self._frames = self._frames, {}
        for connection, frame in frames.items():
            self.received(connection, frame, now_us)

    @property
    def _is_busy(self) -> bool:
        return self._is_polling or self._is_blocked

    def gone(self, connection: ConnectionId) -> None:
        """Forget a closed connection. If the thread is setting it up, that still takes the full time."""
        self._is_set_up.pop(connection, None)
        self._frames.pop(connection, None)

    def hold(self, action: Action) -> bool:
        """Keep a response back if the thread is busy. Return True if it was kept."""
        if self._is_busy:
            self._answers.append(action)
        return self._is_busy

    def take_ready(self) -> list[Action]:
        """Return the kept responses, which can leave now."""
        ready, self._ready = self._ready, []
        return ready


# --------------------------------------------------------------------------------------------------- throttled channels
#
# Connections of throttled clients stay mute until the throttle time is over and the response has left (KIP-219).
# source: RequestChannel.startThrottling, SocketServer.tryUnmuteChannel, ThrottledChannel


class ThrottledChannels:
    """The throttled connections, with the time in microseconds until which each stays mute."""

    __slots__ = ("_outbox", "until_us")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.until_us: dict[ConnectionId, int] = {}

    def throttle(self, connection: ConnectionId, throttle_ms: int, now_us: int) -> None:
        """Throttle a connection. Call this before its response leaves."""
        self.until_us[connection] = now_us + throttle_ms * 1000

    def gone(self, connection: ConnectionId) -> None:
        self.until_us.pop(connection, None)

    def outgoing(self, actions: list[Action], now_us: int) -> list[Action]:
        """Let responses to throttled connections leave, but keep these connections mute until their time is over.

        Return the changed actions.
        """
        out: list[Action] = []
        for action in actions:
            if not isinstance(action, Send | ResumeReading):
                out.append(action)
                continue
            until_us = self.until_us.pop(action.connection, None)
            if until_us is None:
                out.append(action)
                continue
            self._outbox.timers.at(max(until_us, now_us), partial(self._unmute, action.connection))
            if isinstance(action, Send):
                out.append(replace(action, stays_mute=True))
        return out

    def _unmute(self, connection: ConnectionId, now_us: int) -> None:
        self._outbox.resume(connection)


# --------------------------------------------------------------------------------------------------------- thread times
#
# The time that a handler needs for the request in progress of each connection, for request quotas.
# source: RequestChannel.Request.requestThreadTimeNanos


@dataclass(slots=True)
class _Handled:
    """The time that a handler spends on one request.

    Attributes:
        ended_us: None while a handler is busy with the request.
        work_us: time that the scenario assigns to the work.
    """

    began_us: int
    ended_us: int | None = None
    work_us: int = 0


class ThreadTimes:
    """Measures the time that handlers spend on each request in progress.

    Args:
        clock: returns microseconds; in a live run it advances while a request is handled.
    """

    __slots__ = ("_clock", "_current", "_handled", "_handler_time")

    def __init__(self, clock: Callable[[], int], handler_time: HandlerTime) -> None:
        self._clock = clock
        self._handler_time = handler_time
        self._handled: dict[ConnectionId, _Handled] = {}
        self._current: ConnectionId | None = None

    def began(self, connection: ConnectionId) -> None:
        """Record that a handler begins the request."""
        self._handled[connection] = _Handled(self._clock())
        self._current = connection

    def worked(self, connection: ConnectionId) -> None:
        """Record that the handler's work is finished or waits for the disk. The handler may stay busy for longer."""
        self._current = None
        handled = self._handled.get(connection)
        if handled is not None:
            handled.work_us = self._handler_time.spent_us

    def ended(self, connection: ConnectionId) -> None:
        """Record that the handler is free again."""
        handled = self._handled.get(connection)
        if handled is not None:
            handled.ended_us = self._clock()

    def gone(self, connection: ConnectionId) -> None:
        self._handled.pop(connection, None)

    def of(self, connection: ConnectionId) -> int:
        """Return the time spent on a connection's current request so far, in microseconds."""
        handled = self._handled.get(connection)
        if handled is None:
            return 0
        work_us = self._handler_time.spent_us if self._current == connection else handled.work_us
        until_us = self._clock() if handled.ended_us is None else handled.ended_us
        return max(work_us, until_us - handled.began_us)
