"""The connections that nodes and clients opened to this node, with their peers and the times of last activity.

Source: Selector.IdleExpiryManager, SocketServer, ConnectionQuotas, KafkaPrincipal
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.clocks import Timer
from cluster.config import BrokerConfig
from cluster.node import Action, ConnectionId, Outbox, Send, is_outside
from replica.causes import CloseCause, LeftOut
from replica.ids import OUTSIDE
from replica.trace.events import ConnectionClosed, EventsLeftOut, Recorder

# ---------------------------------------------------------------------------------------------------------- event limit
#
# A limit for events about outside clients' actions that write no records: a burst, then a rate.
#
# Writes are limited by the disk space that their bytes take. A request of twenty bytes, or one that reads the same
# records again, can be repeated without end, and each would be an event on disk. Omitted events are counted.

CONNECTIONS_AT_ONCE, CONNECTIONS_PER_SECOND = 10_000, 50
"""The event limits for ended connections of one client. All unidentified clients count as one."""
STATED_EVERY_US = 10_000_000
"""The interval at which events report how many of a client's events were left out."""


class Bucket:
    """A token bucket: it holds a limited number of tokens and gains a fixed number per second.

    Source: KIP-599 (TokenBucket), without negative balances
    """

    __slots__ = ("_at_once", "_left", "_per_second", "_since_us")

    def __init__(self, at_once: int, per_second: int) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._left = at_once * 1_000_000
        self._since_us = 0

    def has(self, count: int, now_us: int) -> bool:
        passed_us = max(0, now_us - self._since_us)
        self._since_us += passed_us
        self._left = min(self._at_once * 1_000_000, self._left + passed_us * self._per_second)
        return count * 1_000_000 <= self._left

    def take(self, count: int) -> None:
        self._left -= count * 1_000_000


class _Client:
    """The event limit of one client. `left_out` counts the events left out since the last report."""

    __slots__ = ("bucket", "left_out", "stated_us")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.left_out = 0
        self.stated_us = -STATED_EVERY_US


class EventLimit:
    """A limit of events per second for each client and for all clients together.

    Args:
        at_once, per_second: the limit of one client: a burst and a rate.
        clients: the limit of all clients together, as a multiple of one client's.
    """

    def __init__(self, at_once: int, per_second: int, clients: int = 4) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._all = Bucket(at_once * clients, per_second * clients)
        self._clients: dict[str, _Client] = {}

    def allows(self, client: str, now_us: int, count: int = 1) -> bool:
        """Return True if `count` events of a client may be emitted, and charge them.

        Otherwise count them as left out.
        """
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(Bucket(self._at_once, self._per_second))
        if known.bucket.has(count, now_us) and self._all.has(count, now_us):
            known.bucket.take(count)
            self._all.take(count)
            return True
        known.left_out += count
        return False

    def to_state(self, client: str, now_us: int) -> int:
        """Return the number of a client's left-out events if it is time to report them, else 0."""
        known = self._clients[client]
        if now_us - known.stated_us < STATED_EVERY_US:
            return 0
        left_out, known.left_out, known.stated_us = known.left_out, 0, now_us
        return left_out

    def may_emit(self, recorder: Recorder, node: str, client: str, now_us: int, what: LeftOut, count: int = 1) -> bool:
        """Return True if `count` events of a client may be emitted. If not, report the left-out events now and then."""
        if self.allows(client, now_us, count):
            return True
        left_out = self.to_state(client, now_us)
        if left_out:
            recorder.aside(EventsLeftOut(node=node, peer=client, left_out=left_out, cause=what))
        return False


def outsider(peer: str) -> str | None:
    """Return the name under which an outside client's events are counted; None for a node of the run.

    All clients without a name count as one.
    """
    if peer.startswith(OUTSIDE):
        return peer
    return f"{OUTSIDE}-" if ":" in peer else None


class EndsOfConnections:
    """Limits the events about ended connections of outside clients."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._limit = EventLimit(CONNECTIONS_AT_ONCE, CONNECTIONS_PER_SECOND)

    def may_emit(self, node: str, peer: str) -> bool:
        client = outsider(peer)
        return client is None or self._limit.may_emit(
            self._recorder, node, client, self._recorder.at_us, LeftOut.CONNECTIONS
        )


ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without authentication (KafkaPrincipal.ANONYMOUS)."""


class AcceptedConnections:
    """The accepted connections of one node, limited in number per address and in idle time.

    A connection is closed if no byte moved for connections.max.idle.ms, even with a request in progress. A new one is
    closed if its address already has too many.

    Simplified: Kafka checks only the longest idle connection once per poll of its selector, up to 300 ms late.

    Args:
        node: name of the node that reports closed connections.
        on_gone: called for each ended connection, no matter which end closed it.
        nodes_only: True to close connections from outside the cluster.
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
        """The listener of each connection that did not come through the first listener."""
        self._per_address: dict[str, int] = {}
        self._of_nodes: dict[ConnectionId, None] = {}
        self._principals: dict[ConnectionId, str] = {}
        self._last_active_us: dict[ConnectionId, int] = {}
        """The times of last activity by connection, longest idle first."""
        self._timer: Timer | None = None

    def reconfigure(self, config: BrokerConfig) -> None:
        """Set the limits of connections per address. Source: DynamicConnectionQuota"""
        self._max_per_address = config.max_connections_per_ip
        self._overrides = config.connections_per_ip_overrides

    def __contains__(self, connection: ConnectionId) -> bool:
        return connection in self._peers

    def __len__(self) -> int:
        return len(self._peers)

    def peer(self, connection: ConnectionId) -> str | None:
        """Return the name of the node or client at the other end; None if the connection has ended."""
        return self._peers.get(connection)

    def address(self, connection: ConnectionId) -> str:
        """Return the peer's address without the port, or its name if it is a node of the run.

        Raises:
            KeyError: if the connection has ended.
        """
        return self._addresses[connection]

    def listener(self, connection: ConnectionId) -> str:
        """Return the name of the listener that accepted the connection, "" for the first."""
        return self._listeners.get(connection, "")

    def is_of_node(self, connection: ConnectionId) -> bool:
        """Return True if the peer was known to be a node when it connected. A client.id cannot make a client a node."""
        return connection in self._of_nodes

    def principal(self, connection: ConnectionId) -> str:
        """Return the principal of a connection as `User:name`."""
        return self._principals.get(connection, ANONYMOUS)

    def authenticated(self, connection: ConnectionId, principal: str) -> None:
        """Set the principal of a connection, as `User:name`."""
        if connection in self._peers:
            self._principals[connection] = principal

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> bool:
        """Add a connection. If its address already has max.connections.per.ip, close it and return False.

        Args:
            peer: name of the node, or address and port if the peer is not identified yet.
            listener: name of the listener, as in `NodeCore.accepted`.
        """
        if self._nodes_only and is_outside(peer):
            self._state_closed(peer, CloseCause.NODES_ONLY)
            self._outbox.close(connection)
            return False
        address = peer.rpartition(":")[0] or peer
        allowed = self._overrides.get(address, self._max_per_address)
        count = self._per_address.get(address, 0)
        if count >= allowed:
            self._state_closed(peer, CloseCause.TOO_MANY, amount=count)
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
        """Set the name of a connection's peer once it is identified."""
        if connection in self._peers:
            self._peers[connection] = peer

    def active(self, connection: ConnectionId, now_us: int) -> None:
        """Record that bytes moved on a connection."""
        if self._last_active_us.pop(connection, None) is not None:
            self._last_active_us[connection] = now_us

    def answered(self, actions: list[Action], now_us: int) -> list[Action]:
        """Record activity on the connections to which `actions` send, and return `actions` unchanged."""
        last_active_us = self._last_active_us
        for action in actions:
            if type(action) is Send and last_active_us.pop(action.connection, None) is not None:
                last_active_us[action.connection] = now_us
        return actions

    def gone(self, connection: ConnectionId) -> None:
        """Remove a connection that ended."""
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

    def close(
        self, connection: ConnectionId, cause: CloseCause | None = None, message: str | None = None, **numbers: int
    ) -> None:
        """Close a connection and report it.

        Args:
            cause: cause to report in ConnectionClosed; None if another event already reports it.
        """
        peer = self._peers.get(connection)
        if peer is not None:
            self.gone(connection)
            if cause is not None:
                self._state_closed(peer, cause, message, **numbers)
            self._outbox.close(connection)

    def _state_closed(self, peer: str, cause: CloseCause, message: str | None = None, **numbers: int) -> None:
        if self._ends.may_emit(self._node, peer):
            closed = ConnectionClosed(node=self._node, peer=peer, cause=cause, message=message, **numbers)
            self._recorder.emit(closed)

    def _close_idle(self, now_us: int) -> None:
        for connection, last_active_us in list(self._last_active_us.items()):
            due_us = last_active_us + self._max_idle_us
            if now_us < due_us:
                self._timer = self._outbox.timers.at(due_us, self._close_idle)
                return
            self.close(connection, CloseCause.IDLE, limit=self._max_idle_us // 1000)
        self._timer = None
