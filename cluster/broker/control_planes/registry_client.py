"""A broker's client of the registry (ZooKeeper): a session whose connection is reopened after it breaks.

Operations are answered in order. Like Kafka, the client resends unanswered operations over a new connection.
Source: ZooKeeper's ClientCnxn, kafka.zookeeper.ZooKeeperClient, KafkaZkClient.retryRequestsUntilConnected
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cluster.clocks import Timer
from cluster.node import ConnectionId, Outbox
from cluster.protocol.versions import ZOOKEEPER
from controller.zookeeper.registry import NO_SESSION, GetChildren, GetData, Operation, RegistryError, Result, SessionId
from controller.zookeeper.registry_messages import WATCH_XID, decode, encode, operation_fields, result_of

OnResults = Callable[[Sequence[Result], int], None]
"""Called with (results, now_us). There is one result, or one per operation of a Multi."""

RECONNECT_US = 100_000
"""Pause before reconnecting. Simplified: ZooKeeper's client waits a random time of up to a second."""


class SessionEvents(Protocol):
    """Handles the events of a session with the registry."""

    def session_began(self, now_us: int) -> None:
        """Handle the start of a session, at first or after an expired one."""

    def session_expired(self, now_us: int) -> None:
        """Handle the expiry of the session and its ephemeral nodes. Called before a new session is opened."""

    def watch_fired(self, kind: str, path: str, now_us: int) -> None: ...


@dataclass(slots=True)
class _Request:
    operation: Operation
    on_results: OnResults
    xid: int = 0


class RegistryClient:
    """A broker's client of the registry, with one session at a time.

    Args:
        timeout_us: requested session timeout (zookeeper.session.timeout.ms).
    """

    def __init__(
        self,
        *,
        outbox: Outbox,
        host: str,
        port: int,
        timeout_us: int,
        events: SessionEvents,
    ) -> None:
        self.session: SessionId = NO_SESSION
        self._outbox = outbox
        self._host = host
        self._port = port
        self._timeout_us = timeout_us
        self._events = events
        self._connection: ConnectionId | None = None
        self._is_ready = False
        self._xid = 0
        self._zxid = 0
        self._requests: deque[_Request] = deque()
        self._data_watches: dict[str, None] = {}
        self._child_watches: dict[str, None] = {}
        self._ping: Timer | None = None
        self._silence: Timer | None = None

    def start(self, now_us: int) -> None:
        self._connect(now_us)

    def execute(self, operation: Operation, on_results: OnResults) -> None:
        """Execute an operation, and pass its results to `on_results`.

        Without a connection, it is sent as soon as there is one. The result is SESSION_EXPIRED if the session expires.
        """
        request = _Request(operation, on_results)
        self._requests.append(request)
        if self._is_ready:
            self._send(request)

    def close(self) -> None:
        """Close the session, if connected. The registry then deletes its ephemeral nodes immediately."""
        if self._is_ready:
            self._transmit({"op": "close"})

    # ---------------------------------------------------------------------------------------------------- connection

    def _connect(self, now_us: int) -> None:
        self._connection = self._outbox.connect(self._host, self._port, self)
        self._expect_answer(now_us)

    def connected(self, now_us: int) -> None:
        self._transmit(
            {
                "op": "connect",
                "session": self.session,
                "timeout_us": self._timeout_us,
                "zxid": self._zxid,
                "data_watches": list(self._data_watches),
                "child_watches": list(self._child_watches),
            }
        )

    def disconnected(self, now_us: int) -> None:
        self._leave()
        self._outbox.timers.at(now_us + RECONNECT_US, self._connect)

    def _leave(self) -> None:
        if self._connection is not None:
            self._outbox.callers.pop(self._connection, None)
        self._connection, self._is_ready = None, False
        for timer in (self._ping, self._silence):
            if timer is not None:
                timer.cancel()

    def _expect_answer(self, now_us: int) -> None:
        """Restart the connection's timeout, which is two thirds of the session timeout (ClientCnxn.readTimeout)."""
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._outbox.timers.at(now_us + self._timeout_us * 2 // 3, self._give_up)

    def _give_up(self, now_us: int) -> None:
        if self._connection is not None:
            self._outbox.close(self._connection)
        self.disconnected(now_us)

    def _ping_later(self, now_us: int) -> None:
        """Schedule a ping after a third of the session timeout, which is half of the connection's timeout."""
        self._ping = self._outbox.timers.at(now_us + self._timeout_us // 3, self._send_ping)

    def _send_ping(self, now_us: int) -> None:
        self._transmit({"op": "ping"})
        self._ping_later(now_us)

    # ------------------------------------------------------------------------------------------------------ messages

    def _send(self, request: _Request) -> None:
        request.xid = self._transmit(operation_fields(request.operation))

    def _transmit(self, fields: dict[str, Any]) -> int:
        assert self._connection is not None, "the broker has no connection to ZooKeeper"
        self._xid += 1
        self._outbox.request(self._connection, encode({"xid": self._xid, **fields}), ZOOKEEPER)
        return self._xid

    def received(self, frame: bytearray, now_us: int) -> None:
        message = decode(frame)
        self._expect_answer(now_us)
        if "session" in message:
            self._session_answered(message, now_us)
            return
        self._zxid = max(self._zxid, int(message["zxid"]))
        if message["xid"] == WATCH_XID:
            self._watch_fired(message["event"], message["path"], now_us)
        elif "results" in message:
            self._answered(message, now_us)

    def _session_answered(self, message: dict[str, Any], now_us: int) -> None:
        before, self.session = self.session, int(message["session"])
        if self.session == NO_SESSION:
            self._expired(now_us)
            return
        self._timeout_us = int(message["timeout_us"])
        self._is_ready = True
        self._ping_later(now_us)
        waiting = list(self._requests)
        for request in waiting:
            self._send(request)
        if self.session != before:
            self._events.session_began(now_us)

    def _expired(self, now_us: int) -> None:
        """Fail all requests, and open a new session. Source: ZooKeeperClient.scheduleReinitialize"""
        self._data_watches.clear()
        self._child_watches.clear()
        failed, self._requests = self._requests, deque()
        for request in failed:
            request.on_results([Result(error=RegistryError.SESSION_EXPIRED)], now_us)
        self._events.session_expired(now_us)
        self.connected(now_us)

    def _answered(self, message: dict[str, Any], now_us: int) -> None:
        if not self._requests or self._requests[0].xid != message["xid"]:
            return
        request = self._requests.popleft()
        results = [result_of(fields) for fields in message["results"]]
        operation = request.operation
        if isinstance(operation, GetData) and operation.watch:
            self._data_watches[operation.path] = None
        elif isinstance(operation, GetChildren) and operation.watch:
            self._child_watches[operation.path] = None
        request.on_results(results, now_us)

    def _watch_fired(self, kind: str, path: str, now_us: int) -> None:
        (self._child_watches if kind == "children" else self._data_watches).pop(path, None)
        self._events.watch_fired(kind, path, now_us)
