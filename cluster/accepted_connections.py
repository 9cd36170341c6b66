"""Connections that others opened to this node: who is at the other end, and how long it has been silent.

source: Selector.IdleExpiryManager, SocketServer
"""

from __future__ import annotations

from cluster.node import Action, ConnectionId, Send
from cluster.outbox import Outbox
from cluster.timers import Timer


class AcceptedConnections:
    """Closes those on which nothing moved for connections.max.idle.ms, a request in progress or not.

    Simplified: Kafka looks at the one that has been silent longest once per poll of its selector, up to 300 ms late.
    """

    __slots__ = ("_last_active_us", "_max_idle_us", "_outbox", "_peers", "_timer")

    def __init__(self, outbox: Outbox, max_idle_ms: int) -> None:
        self._outbox = outbox
        self._max_idle_us = max_idle_ms * 1000
        self._peers: dict[ConnectionId, str] = {}
        self._last_active_us: dict[ConnectionId, int] = {}
        """In order of last activity, the longest silent first."""
        self._timer: Timer | None = None

    def __contains__(self, connection: ConnectionId) -> bool:
        return connection in self._peers

    def peer(self, connection: ConnectionId) -> str | None:
        """Who is at the other end; None when the connection is gone."""
        return self._peers.get(connection)

    def accepted(self, connection: ConnectionId, peer: str, now_us: int) -> None:
        self._peers[connection] = peer
        self._last_active_us[connection] = now_us
        if self._timer is None:
            self._timer = self._outbox.timers.at(now_us + self._max_idle_us, self._close_idle)

    def active(self, connection: ConnectionId, now_us: int) -> None:
        """Bytes have come in or go out."""
        if self._last_active_us.pop(connection, None) is not None:
            self._last_active_us[connection] = now_us

    def answered(self, actions: list[Action], now_us: int) -> list[Action]:
        """Notes to whom `actions` send, and returns them."""
        for action in actions:
            if type(action) is Send:
                self.active(action.connection, now_us)
        return actions

    def gone(self, connection: ConnectionId) -> None:
        """The other end has closed it, or the network has."""
        if self._peers.pop(connection, None) is not None:
            del self._last_active_us[connection]

    def close(self, connection: ConnectionId) -> None:
        if connection in self._peers:
            self.gone(connection)
            self._outbox.close(connection)

    def _close_idle(self, now_us: int) -> None:
        for connection, last_active_us in list(self._last_active_us.items()):
            due_us = last_active_us + self._max_idle_us
            if now_us < due_us:
                self._timer = self._outbox.timers.at(due_us, self._close_idle)
                return
            self.close(connection)
        self._timer = None
