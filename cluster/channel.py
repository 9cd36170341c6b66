"""One outgoing connection of a broker: one request in flight, an answer or a reason why there is none.

Brokers keep one channel to the controller for heartbeats, one for AlterPartition, one for the metadata log and one per
fetcher thread, each with its own connection, as Kafka does (NodeToControllerChannelManager, BrokerBlockingSender).
Simplified: no ApiVersions goes first. Followers and markers ask for none in Kafka either; the other channels do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cluster.clocks import Timer
from cluster.node import ConnectionId, Outbox

OnAnswer = Callable[[bytearray | None, str, int], None]
"""(frame or None, reason when None, now_us)"""

CONNECTION_SETUP_TIMEOUT_US = 10_000_000
"""socket.connection.setup.timeout.ms"""
RECONNECT_BACKOFF_US = 50_000
"""Of the channels to the controller (NodeToControllerChannelManager)."""


@dataclass(slots=True)
class _Request:
    api: int
    encode: Callable[[int], bytes]
    on_answer: OnAnswer
    timeout_us: int
    made_us: int
    correlation_id: int = 0


class ControllerRequests(Protocol):
    """Where a broker's requests to the controller go, one at a time."""

    @property
    def busy(self) -> bool: ...

    def request(
        self, api: int, encode: Callable[[int], bytes], on_answer: OnAnswer, timeout_us: int, now_us: int
    ) -> None: ...


class Channel:
    """A connection to one node that is opened when a request needs it and closed when one times out.

    retry_us: a request whose connection breaks is sent again over a new one until it is so old; 0: it fails at once
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
        """Send one request (`encode` is given its correlation id); `on_answer` is called exactly once."""
        assert self._request is None, "one request in flight per channel"
        self._request = _Request(api, encode, on_answer, timeout_us, now_us)
        if self._is_open:
            self._send(now_us)
        elif self._connection is None:
            self._connect(now_us)

    def _connect(self, now_us: int) -> None:
        assert self._request is not None, "a connection is opened when a request needs it"
        self._connection = self._outbox.connect(self.host, self.port, self)
        patience_us = min(CONNECTION_SETUP_TIMEOUT_US, self._request.timeout_us)
        self._arm(now_us + patience_us, "the connection was not set up in time")

    def connected(self, now_us: int) -> None:
        self._is_open = True
        if self._request is not None:
            self._send(now_us)

    def received(self, frame: bytearray, now_us: int) -> None:
        request = self._request
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if request is None or correlation_id != request.correlation_id:
            self.drop("an answer without a request", now_us)
            return
        self._finish(frame, "", now_us)

    def disconnected(self, reason: str, now_us: int) -> None:
        self._forget()
        self._broken(reason, now_us)

    def close(self) -> None:
        """Give up silently: no answer will be delivered for the request in flight."""
        self._request = None
        self._disarm()
        if self._connection is not None:
            self._outbox.close(self._connection)
        self._forget()

    def drop(self, reason: str, now_us: int) -> None:
        """Close the connection; the request in flight is tried again or hears `reason`."""
        if self._connection is not None:
            self._outbox.close(self._connection)
        self._forget()
        self._broken(reason, now_us)

    def _broken(self, reason: str, now_us: int) -> None:
        """source: NodeToControllerRequestThread.handleResponse, generateRequests"""
        request = self._request
        self._disarm()
        if request is not None and now_us + RECONNECT_BACKOFF_US < request.made_us + self._retry_us:
            self._timer = self._outbox.timers.at(now_us + RECONNECT_BACKOFF_US, self._connect)
        else:
            self._finish(None, reason, now_us)

    def _send(self, now_us: int) -> None:
        assert self._request is not None and self._connection is not None
        self._correlation_id += 1
        self._request.correlation_id = self._correlation_id
        self._outbox.request(self._connection, self._request.encode(self._correlation_id), self._request.api)
        self._arm(now_us + self._request.timeout_us, "no answer in time")

    def _arm(self, due_us: int, reason: str) -> None:
        self._disarm()
        self._timer = self._outbox.timers.at(due_us, lambda now_us: self.drop(reason, now_us))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self) -> None:
        if self._connection is not None:
            self._outbox.callers.pop(self._connection, None)
        self._connection = None
        self._is_open = False

    def _finish(self, frame: bytearray | None, reason: str, now_us: int) -> None:
        self._disarm()
        request, self._request = self._request, None
        if request is not None:
            request.on_answer(frame, reason, now_us)
