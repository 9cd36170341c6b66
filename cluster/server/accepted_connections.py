"""Connections that others opened to this node: the other end, and how long it has been silent.

source: Selector.IdleExpiryManager, SocketServer, ConnectionQuotas, KafkaPrincipal
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
# A limit for events about what clients from outside do without leaving bytes behind: a burst, then a rate.
#
# A client's writes are limited by the room their bytes take; a request of twenty bytes, or one that reads the same
# records again, can be made without end, and each would be an event on the disk. Omitted events are counted.

CONNECTIONS_AT_ONCE, CONNECTIONS_PER_SECOND = 10_000, 50
"""Ends of connections of one client; all unidentified clients count as one."""
STATED_EVERY_US = 10_000_000
"""How often it is stated of one client how much was left out."""


class Bucket:
    """So much at once, and so much more with every second. source: KIP-599 (TokenBucket), without its debts"""

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
    """left_out: since it was last stated"""

    __slots__ = ("bucket", "left_out", "stated_us")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.left_out = 0
        self.stated_us = -STATED_EVERY_US


class EventLimit:
    """at_once, per_second: of one client; all of them together have `clients` times as much"""

    def __init__(self, at_once: int, per_second: int, clients: int = 4) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._all = Bucket(at_once * clients, per_second * clients)
        self._clients: dict[str, _Client] = {}

    def allows(self, client: str, now_us: int, count: int = 1) -> bool:
        """Whether so many events may be emitted; otherwise they are counted as left out."""
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
        """How much was left out, when it is time to state that; else 0."""
        known = self._clients[client]
        if now_us - known.stated_us < STATED_EVERY_US:
            return 0
        left_out, known.left_out, known.stated_us = known.left_out, 0, now_us
        return left_out

    def may_emit(self, recorder: Recorder, node: str, client: str, now_us: int, what: LeftOut, count: int = 1) -> bool:
        """`allows`; from time to time an event says how much it did not."""
        if self.allows(client, now_us, count):
            return True
        left_out = self.to_state(client, now_us)
        if left_out:
            recorder.aside(EventsLeftOut(node=node, peer=client, left_out=left_out, cause=what))
        return False


def outsider(peer: str) -> str | None:
    """The name under which a client from outside is counted, if need be its address; None: one of our own nodes."""
    if peer.startswith(OUTSIDE):
        return peer
    return f"{OUTSIDE}-" if ":" in peer else None


class EndsOfConnections:
    """Which ends of connections from outside to this node become events."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._limit = EventLimit(CONNECTIONS_AT_ONCE, CONNECTIONS_PER_SECOND)

    def may_emit(self, node: str, peer: str) -> bool:
        client = outsider(peer)
        return client is None or self._limit.may_emit(
            self._recorder, node, client, self._recorder.at_us, LeftOut.CONNECTIONS
        )


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

    def close(
        self, connection: ConnectionId, cause: CloseCause | None = None, message: str | None = None, **numbers: int
    ) -> None:
        """As of ConnectionClosed, for the trace. cause: None if an event says it already"""
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
