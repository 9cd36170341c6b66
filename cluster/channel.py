"""One outgoing connection of a broker, with at most one request in flight.

Brokers keep one channel to the controller for heartbeats, one for AlterPartition, one for the metadata log, and one for
each fetcher thread. Each has its own connection, as in Kafka (NodeToControllerChannelManager, BrokerBlockingSender).

Simplified: no channel sends ApiVersions first. In Kafka only those of followers and transaction markers send none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from cluster.clocks import Timer
from cluster.node import ConnectionId, Outbox

OnAnswer = Callable[[bytearray | None, int], None]
"""Called with the response frame (None if the request failed) and the current time in microseconds."""

CONNECTION_SETUP_TIMEOUT_US = 10_000_000
"""Default of socket.connection.setup.timeout.ms."""
RECONNECT_BACKOFF_US = 50_000
"""The time before a new connection attempt of channels to the controller (NodeToControllerChannelManager)."""


@dataclass(slots=True)
class _Request:
    api: int
    encode: Callable[[int], bytes]
    on_answer: OnAnswer
    timeout_us: int
    made_us: int
    correlation_id: int = 0


class ControllerRequests(Protocol):
    """A broker's requests to the controller. They are sent one at a time."""

    @property
    def busy(self) -> bool: ...

    def request(
        self, api: int, encode: Callable[[int], bytes], on_answer: OnAnswer, timeout_us: int, now_us: int
    ) -> None: ...


class Channel:
    """A connection to one node, opened when a request needs it and closed when a request times out.

    Args:
        retry_us: age up to which a request is repeated over a new connection; 0 to let it fail immediately.
    """

    def __init__(self, outbox: Outbox, host: str, port: int, *, retry_us: int = 0) -> None:
        self.host = host
        self.port = port
        self._outbox = outbox
        self._retry_us = retry_us
        self._connection: ConnectionId | None = None
        self._is_open = False
        self._request: _Request | None = None
        self._timer: Timer | None = None
        self._correlation_id = 0

    @property
    def busy(self) -> bool:
        return self._request is not None

    def request(
        self, api: int, encode: Callable[[int], bytes], on_answer: OnAnswer, timeout_us: int, now_us: int
    ) -> None:
        """Send one request. `on_answer` is called exactly once, unless `close` is called before.

        Args:
            encode: returns the request frame for a correlation id.
        """
        assert self._request is None, "the channel already has a request in flight"
        self._request = _Request(api, encode, on_answer, timeout_us, now_us)
        if self._is_open:
            self._send(now_us)
        elif self._connection is None:
            self._connect(now_us)

    def _connect(self, now_us: int) -> None:
        assert self._request is not None, "there is no request that needs a connection"
        self._connection = self._outbox.connect(self.host, self.port, self)
        patience_us = min(CONNECTION_SETUP_TIMEOUT_US, self._request.timeout_us)
        self._arm(now_us + patience_us)

    def connected(self, now_us: int) -> None:
        self._is_open = True
        if self._request is not None:
            self._send(now_us)

    def received(self, frame: bytearray, now_us: int) -> None:
        request = self._request
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if request is None or correlation_id != request.correlation_id:
            self.drop(now_us)
            return
        self._finish(frame, now_us)

    def disconnected(self, now_us: int) -> None:
        self._forget()
        self._broken(now_us)

    def close(self) -> None:
        """Close the connection, and drop the request in flight without calling its `on_answer`."""
        self._request = None
        self._disarm()
        if self._connection is not None:
            self._outbox.close(self._connection)
        self._forget()

    def drop(self, now_us: int) -> None:
        """Close the connection. The request in flight is repeated over a new connection, or fails."""
        if self._connection is not None:
            self._outbox.close(self._connection)
        self._forget()
        self._broken(now_us)

    def _broken(self, now_us: int) -> None:
        """Repeat the request in flight, or let it fail.

        Source: NodeToControllerRequestThread.handleResponse, generateRequests
        """
        request = self._request
        self._disarm()
        if request is not None and now_us + RECONNECT_BACKOFF_US < request.made_us + self._retry_us:
            self._timer = self._outbox.timers.at(now_us + RECONNECT_BACKOFF_US, self._connect)
        else:
            self._finish(None, now_us)

    def _send(self, now_us: int) -> None:
        assert self._request is not None and self._connection is not None
        self._correlation_id += 1
        self._request.correlation_id = self._correlation_id
        self._outbox.request(self._connection, self._request.encode(self._correlation_id), self._request.api)
        self._arm(now_us + self._request.timeout_us)

    def _arm(self, due_us: int) -> None:
        self._disarm()
        self._timer = self._outbox.timers.at(due_us, self.drop)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self) -> None:
        if self._connection is not None:
            self._outbox.callers.pop(self._connection, None)
        self._connection = None
        self._is_open = False

    def _finish(self, frame: bytearray | None, now_us: int) -> None:
        self._disarm()
        request, self._request = self._request, None
        if request is not None:
            request.on_answer(frame, now_us)


@dataclass(slots=True, eq=False)
class _Queue:
    channel: Channel
    waiting: deque[Callable[[int], None]] = field(default_factory=deque)

    def send_next(self, now_us: int) -> None:
        if self.waiting and not self.channel.busy:
            self.waiting.popleft()(now_us)


class Channels:
    """A channel to each of several nodes, with requests that wait for their turn."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._queues: dict[tuple[str, int], _Queue] = {}

    def request(
        self,
        address: tuple[str, int],
        api: int,
        encode: Callable[[int], bytes],
        on_answer: OnAnswer,
        timeout_us: int,
        now_us: int,
    ) -> None:
        """Send a request to (host, port) once all earlier ones are answered. See `Channel.request`."""
        queue = self._queues.get(address)
        if queue is None:
            queue = self._queues[address] = _Queue(Channel(self._outbox, *address))

        def answered(frame: bytearray | None, answered_us: int) -> None:
            on_answer(frame, answered_us)
            queue.send_next(answered_us)

        queue.waiting.append(partial(queue.channel.request, api, encode, answered, timeout_us))
        queue.send_next(now_us)
