"""Connections that others opened to this node: the other end, and how long it has been silent.

source: Selector.IdleExpiryManager, SocketServer, ConnectionQuotas, KafkaPrincipal
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.clocks import Timer
from cluster.config import BrokerConfig
from cluster.event_limit import EndsOfConnections
from cluster.node import Action, ConnectionId, Send, is_outside
from cluster.outbox import Outbox
from replica.trace.events import ConnectionClosed, Recorder

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection on which no one has authenticated. source: KafkaPrincipal.ANONYMOUS"""


class AcceptedConnections:
    """Closes those on which nothing moved for connections.max.idle.ms, a request in progress or not, and those that are
    too many from one address.

    node: who states that a connection was closed     on_gone: called for each that is over, whichever end closed it
    Simplified: Kafka looks at the one that has been silent longest once per poll of its selector, up to 300 ms late.
    """

    __slots__ = (
        "_addresses",
        "_ends",
        "_last_active_us",
        "_listeners",
        "_max_idle_us",
        "_max_per_address",
        "_node",
        "_nodes_only",
        "_of_nodes",
        "_on_gone",
        "_outbox",
        "_overrides",
        "_peers",
        "_per_address",
        "_principals",
        "_recorder",
        "_timer",
    )

    def __init__(
        self,
        node: str,
        config: BrokerConfig,
        outbox: Outbox,
        recorder: Recorder,
        on_gone: Callable[[ConnectionId], None] = lambda connection: None,
        *,
        nodes_only: bool = False,
    ) -> None:
        """nodes_only: whether connections from outside of the cluster are closed"""
        self._node = node
        self._nodes_only = nodes_only
        self._on_gone = on_gone
        self._outbox = outbox
        self._recorder = recorder
        self._ends = EndsOfConnections(recorder)
        self._max_idle_us = config.connections_max_idle_ms * 1000
        self.reconfigure(config)
        self._peers: dict[ConnectionId, str] = {}
        self._addresses: dict[ConnectionId, str] = {}
        self._listeners: dict[ConnectionId, str] = {}
        """Of those that came by another listener than the first."""
        self._per_address: dict[str, int] = {}
        self._of_nodes: dict[ConnectionId, None] = {}
        self._principals: dict[ConnectionId, str] = {}
        self._last_active_us: dict[ConnectionId, int] = {}
        """In order of last activity, the longest silent first."""
        self._timer: Timer | None = None

    def reconfigure(self, config: BrokerConfig) -> None:
        """How many may come from one address. source: DynamicConnectionQuota"""
        self._max_per_address = config.max_connections_per_ip
        self._overrides = config.connections_per_ip_overrides

    def __contains__(self, connection: ConnectionId) -> bool:
        return connection in self._peers

    def __len__(self) -> int:
        return len(self._peers)

    def peer(self, connection: ConnectionId) -> str | None:
        """The node at the other end; None when the connection is gone."""
        return self._peers.get(connection)

    def address(self, connection: ConnectionId) -> str:
        """Where it comes from, without the port; between our own nodes their name. raises: KeyError when it is gone"""
        return self._addresses[connection]

    def listener(self, connection: ConnectionId) -> str:
        """The name of the listener that it came by, "" for the first."""
        return self._listeners.get(connection, "")

    def is_of_node(self, connection: ConnectionId) -> bool:
        """Whether it was known as such when it came; what a client says of itself makes no node of it."""
        return connection in self._of_nodes

    def principal(self, connection: ConnectionId) -> str:
        """Who has authenticated on it, as `User:name`."""
        return self._principals.get(connection, ANONYMOUS)

    def authenticated(self, connection: ConnectionId, principal: str) -> None:
        """principal: `User:name`"""
        if connection in self._peers:
            self._principals[connection] = principal

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> bool:
        """False if it is closed at once: there are max.connections.per.ip from this address already.

        peer: who it is, or, while that is not known, its address and port     listener: as of `NodeCore.accepted`
        """
        if self._nodes_only and is_outside(peer):
            self._state_closed(peer, "only nodes of the cluster may connect here")
            self._outbox.close(connection)
            return False
        address = peer.rpartition(":")[0] or peer
        allowed = self._overrides.get(address, self._max_per_address)
        count = self._per_address.get(address, 0)
        if count >= allowed:
            self._state_closed(peer, f"{address} has {count} connections already, as many as it may")
            self._outbox.close(connection)
            return False
        self._per_address[address] = count + 1
        self._peers[connection] = peer
        if not is_outside(peer):
            self._of_nodes[connection] = None
        self._addresses[connection] = address
        if listener:
            self._listeners[connection] = listener
        self._last_active_us[connection] = now_us
        if self._timer is None:
            self._timer = self._outbox.timers.at(now_us + self._max_idle_us, self._close_idle)
        return True

    def identified(self, connection: ConnectionId, peer: str) -> None:
        """The other end has been identified."""
        if connection in self._peers:
            self._peers[connection] = peer

    def active(self, connection: ConnectionId, now_us: int) -> None:
        """Bytes have come in or go out."""
        if self._last_active_us.pop(connection, None) is not None:
            self._last_active_us[connection] = now_us

    def answered(self, actions: list[Action], now_us: int) -> list[Action]:
        """Notes to whom `actions` send, and returns them."""
        last_active_us = self._last_active_us
        for action in actions:
            if type(action) is Send and last_active_us.pop(action.connection, None) is not None:
                last_active_us[action.connection] = now_us
        return actions

    def gone(self, connection: ConnectionId) -> None:
        """The other end has closed it, or the network has."""
        if self._peers.pop(connection, None) is None:
            return
        del self._last_active_us[connection]
        self._of_nodes.pop(connection, None)
        self._listeners.pop(connection, None)
        self._principals.pop(connection, None)
        address = self._addresses.pop(connection)
        left = self._per_address[address] - 1
        if left:
            self._per_address[address] = left
        else:
            del self._per_address[address]
        self._on_gone(connection)

    def close(self, connection: ConnectionId, reason: str = "") -> None:
        """reason: the fault, for the trace; empty if an event says it already"""
        peer = self._peers.get(connection)
        if peer is not None:
            self.gone(connection)
            if reason:
                self._state_closed(peer, reason)
            self._outbox.close(connection)

    def _state_closed(self, peer: str, reason: str) -> None:
        if not self._ends.may_emit(self._node, peer):
            return
        text = f"{self._node} closes a connection of {peer}: {reason}"
        self._recorder.emit(ConnectionClosed(node=self._node, peer=peer, reason=text))

    def _close_idle(self, now_us: int) -> None:
        for connection, last_active_us in list(self._last_active_us.items()):
            due_us = last_active_us + self._max_idle_us
            if now_us < due_us:
                self._timer = self._outbox.timers.at(due_us, self._close_idle)
                return
            self.close(connection, f"nothing moved on it for {self._max_idle_us // 1000} ms (connections.max.idle.ms)")
        self._timer = None
