"""Applies injected faults to responses: delays or drops them, or closes their connections."""

from __future__ import annotations

from functools import partial

from cluster.node import Action, ConnectionId, Outbox, ResumeReading, Send
from cluster.request_faults import RequestFault
from cluster.server.accepted_connections import AcceptedConnections
from replica.causes import CloseCause


class LateAnswers:
    """Applies injected faults to responses: each may be delayed, and its connection closed after it or in its place."""

    __slots__ = ("_connections", "_outbox", "expected")

    def __init__(self, outbox: Outbox, connections: AcceptedConnections) -> None:
        self._outbox = outbox
        self._connections = connections
        self.expected: dict[ConnectionId, RequestFault] = {}
        """The fault that applies to the next response on a connection."""

    def gone(self, connection: ConnectionId) -> None:
        self.expected.pop(connection, None)

    def outgoing(self, actions: list[Action], now_us: int) -> list[Action]:
        """Delay or drop responses as their faults require. Return the actions that can be performed now.

        A request without a response (acks=0) counts as answered when its handling ends.
        """
        out: list[Action] = []
        for action in actions:
            rule = self.expected.pop(action.connection, None) if isinstance(action, Send | ResumeReading) else None
            if rule is None:
                out.append(action)
            elif rule.delay_us:
                self._outbox.timers.at(now_us + rule.delay_us, partial(self._leave, rule, action))
            else:
                self._end(rule, action, out)
        return out

    def _leave(self, rule: RequestFault, action: Action, now_us: int) -> None:
        out: list[Action] = []
        self._end(rule, action, out)
        self._outbox.put_back(out)

    def _end(self, rule: RequestFault, action: Action, out: list[Action]) -> None:
        """Add the response to `out` unless the fault drops it. Close the connection if the fault requires that."""
        if rule.close != "instead":
            out.append(action)
        if rule.close is not None and isinstance(action, Send | ResumeReading):
            self._outbox.put_back(out)
            out.clear()
            self._connections.close(action.connection, CloseCause.FAULT)
            out += self._outbox.take()
