"""How the handlers of a broker's APIs answer: plain values in, one framed response out (if still connected)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from cluster.node import ConnectionId
from cluster.outbox import Outbox
from cluster.protocol import cold
from cluster.protocol.headers import RequestHeader
from cluster.quotas.client_quotas import ClientQuotas
from cluster.server.accepted_connections import AcceptedConnections
from cluster.slices import Slices

SIZE_BYTES = 4
Handler = Callable[[ConnectionId, str, RequestHeader, bytearray, int], None]
"""Handles one request: (connection, peer, header, frame, now_us). It answers in its call or later, through a closure.

raises: PeerViolation
"""


class Responder:
    """Answers of every API but Produce, Fetch and ApiVersions, which encode their own."""

    __slots__ = ("_amends", "_connections", "_outbox", "_quotas", "slices")

    def __init__(self, outbox: Outbox, connections: AcceptedConnections, quotas: ClientQuotas, slices: Slices) -> None:
        """slices: in which long answers are made"""
        self.slices = slices
        self._outbox = outbox
        self._connections = connections
        self._quotas = quotas
        self._amends: dict[ConnectionId, Callable[[dict[str, object]], dict[str, object]]] = {}

    def principal(self, connection: ConnectionId) -> str:
        """Who asks on it, as `User:name`."""
        return self._connections.principal(connection)

    def host(self, connection: ConnectionId) -> str:
        """From where."""
        return self._connections.address(connection)

    def amend(self, connection: ConnectionId, change: Callable[[dict[str, object]], dict[str, object]]) -> None:
        """change: of the fields of the next answer on it, which is that to the request in progress"""
        self._amends[connection] = change

    def gone(self, connection: ConnectionId) -> None:
        self._amends.pop(connection, None)

    def answer(self, connection: ConnectionId, header: RequestHeader, **values: object) -> None:
        """values: fields of the response, as `cold.response` takes them. Nothing, if the connection is gone."""
        if self._connections.is_of_node(connection):
            self._answer(connection, header, values)
        else:
            self.slices.begin(partial(self._answer, connection, header, values))

    def _answer(self, connection: ConnectionId, header: RequestHeader, values: dict[str, object]) -> None:
        if connection in self._connections:
            if self._amends and connection in self._amends:
                values = self._amends.pop(connection)(values)
            if self._quotas.is_enabled:
                throttle_ms = self._quotas.answered(connection, header)
                if throttle_ms and _tells_throttle(header):
                    values = {**values, "throttle_time": throttle_ms}
            try:
                frame = cold.encode_answer(header.api_key, header.api_version, header.correlation_id, values)
            except Exception as bug:  # The client does not wait for an answer that does not come.
                self._connections.close(connection, "its answer cannot be written")
                self._outbox.raise_soon(bug)
                return
            self._outbox.respond(connection, (frame,), header.api_key)

    def pass_on(self, connection: ConnectionId, header: RequestHeader, frame: bytes) -> None:
        """frame: a whole response of the controller, already encoded, with its size"""
        if connection in self._connections:
            if self._quotas.is_enabled:
                frame = self._throttled(connection, header, frame)
            self._outbox.respond(connection, (frame,), header.api_key)

    def _throttled(self, connection: ConnectionId, header: RequestHeader, frame: bytes) -> bytes:
        """The longer wait of both counts. source: RequestHandlerHelper.sendForwardedResponse"""
        if not _tells_throttle(header):
            return frame
        key, version = header.api_key, header.api_version
        answer = cold.decode_response(key, version, bytearray(frame[SIZE_BYTES:]))
        told_ms = cold.milliseconds(answer.throttle_time)
        throttle_ms = self._quotas.answered(connection, header, told_ms)
        if throttle_ms == told_ms:
            return frame
        longer = replace(answer, throttle_time=timedelta(milliseconds=throttle_ms))
        return cold.encode_response(key, version, header.correlation_id, longer)


def _tells_throttle(header: RequestHeader) -> bool:
    """Whether the answer has a place for the time."""
    return "throttle_time" in cold.field_names(cold.response_class(header.api_key, header.api_version))
