"""How the handlers of a broker's APIs answer: plain values in, one framed response out (if still connected)."""

from __future__ import annotations

from collections.abc import Callable

from cluster.node import ConnectionId
from cluster.outbox import Outbox
from cluster.protocol import cold
from cluster.protocol.headers import RequestHeader
from cluster.server.accepted_connections import AcceptedConnections

Handler = Callable[[ConnectionId, str, RequestHeader, bytearray, int], None]
"""Handles one request: (connection, peer, header, frame, now_us). It answers in its call or later, through a closure.

raises: PeerViolation
"""


class Responder:
    """Answers of every API but Produce, Fetch and ApiVersions, which encode their own."""

    __slots__ = ("_connections", "_outbox")

    def __init__(self, outbox: Outbox, connections: AcceptedConnections) -> None:
        self._outbox = outbox
        self._connections = connections

    def answer(self, connection: ConnectionId, header: RequestHeader, **values: object) -> None:
        """values: fields of the response, as `cold.response` takes them. Nothing, if the connection is gone."""
        if connection in self._connections:
            entity = cold.response(header.api_key, header.api_version, **values)
            frame = cold.encode_response(header.api_key, header.api_version, header.correlation_id, entity)
            self._outbox.respond(connection, (frame,), header.api_key)

    def pass_on(self, connection: ConnectionId, header: RequestHeader, frame: bytes) -> None:
        """frame: a whole response, already encoded, with its size"""
        if connection in self._connections:
            self._outbox.respond(connection, (frame,), header.api_key)
