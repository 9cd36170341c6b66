"""The registry, a simulated ZooKeeper: a tree of znodes with versions, owners and watches, and sessions that expire.

One server applies all changes in one order. Each change is a transaction with a number (zxid), which is logged and
replayed when the server starts. An ephemeral znode is deleted with the session that created it. A watch notifies one
session once. Simplified: one server instead of an ensemble; no ACLs.
Source: ZooKeeper DataTree, SessionTrackerImpl, ExpiryQueue
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

SessionId = int
NO_SESSION: SessionId = 0
ANY_VERSION = -1
TICK_US = 2_000_000
"""tickTime, as in ZooKeeper's sample configuration. Sessions are checked once per tick."""
MIN_SESSION_TICKS, MAX_SESSION_TICKS = 2, 20
"""minSessionTimeout and maxSessionTimeout in ticks. A requested timeout is clamped to this range."""


class RegistryError(Enum):
    """The ZooKeeper errors that this registry can return. Source: KeeperException.Code"""

    NO_NODE = "NoNode"
    NODE_EXISTS = "NodeExists"
    BAD_VERSION = "BadVersion"
    SESSION_EXPIRED = "SessionExpired"


# -------------------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """The operation to create a znode.

    Attributes:
        ephemeral: True if the znode is deleted with the session.
        sequential: True to append a rising number to the name.
        note: the cause of the change, for the trace; it is not stored.
    """

    path: str
    data: str = ""
    ephemeral: bool = False
    sequential: bool = False
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetData:
    """The operation to set the data of a znode.

    Attributes:
        version: required current version of the znode, -1 for any.
        note: the cause of the change, for the trace; it is not stored.
    """

    path: str
    data: str
    version: int = ANY_VERSION
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVersion:
    """An operation in a `Multi` that makes the `Multi` fail unless the znode has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetData:
    """The operation to read a znode. With `watch`, the session is notified of the next creation, change or deletion."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GetChildren:
    """The operation to list children. With `watch`, the session is notified when a child is next created or deleted."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Multi:
    """Several changes in one transaction: either all or none are applied."""

    ops: tuple[Create | SetData | Delete | CheckVersion, ...]


Change = Create | SetData | Delete | CheckVersion
Operation = Change | GetData | GetChildren | Multi


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an operation.

    Attributes:
        version: version of the znode after the operation.
        czxid: transaction that created the znode.
        path: path of the znode, including the number of a sequential znode.
        owner: session that owns an ephemeral znode.
        children: sorted names.
    """

    error: RegistryError | None = None
    data: str = ""
    version: int = -1
    czxid: int = -1
    path: str = ""
    owner: SessionId = NO_SESSION
    children: tuple[str, ...] = ()


class WatchEvent(NamedTuple):
    """A watch that has fired: `session` is notified of `kind`, which is created, changed, deleted or children."""

    session: SessionId
    kind: str
    path: str


# ------------------------------------------------------------------------------------------------------------ the tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One change of the registry. `kind` is create, set or delete (of a znode), open or close (of a session).

    Attributes:
        timeout_us: session timeout, if the transaction opens a session.
        before: data before the change, if the transaction sets data; not logged.
        note: note of the operation; not logged.
    """

    zxid: int
    kind: str
    path: str = ""
    data: str = ""
    session: SessionId = NO_SESSION
    timeout_us: int = 0
    before: str = ""
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Znode:
    """A node of the registry's tree.

    Attributes:
        version: how often the data was set after the creation.
        czxid: transaction that created the znode.
        owner: session that owns the znode, if ephemeral.
    """

    data: str
    czxid: int
    owner: SessionId = NO_SESSION
    version: int = 0


@dataclass(slots=True)
class Session:
    client: str
    timeout_us: int
    expires_us: int


class Registry:
    """The state of the registry. Operations are applied one at a time; they add to `transactions` and `events`."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {}
        self.sessions: dict[SessionId, Session] = {}
        self.zxid = 0
        self.transactions: list[Transaction] = []
        self.events: list[WatchEvent] = []
        self._data_watches: dict[str, dict[SessionId, None]] = {}
        self._child_watches: dict[str, dict[SessionId, None]] = {}
        self._changed_at: dict[str, int] = {}
        self._children_changed_at: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------------ sessions

    def open_session(self, client: str, timeout_us: int, now_us: int) -> SessionId:
        """Open a session and return its number. Its entry in `sessions` has the granted timeout."""
        granted_us = min(max(timeout_us, MIN_SESSION_TICKS * TICK_US), MAX_SESSION_TICKS * TICK_US)
        session = self.zxid + 1
        opened = Transaction(zxid=session, kind="open", data=client, session=session, timeout_us=granted_us)
        self._commit(opened)
        self.touch(session, now_us)
        return session

    def touch(self, session: SessionId, now_us: int) -> None:
        """Extend a session after a message from its client: to now plus its timeout, rounded up to the next tick."""
        known = self.sessions[session]
        known.expires_us = ((now_us + known.timeout_us) // TICK_US + 1) * TICK_US

    def renew_watches(
        self, session: SessionId, zxid: int, data_watches: Sequence[str], child_watches: Sequence[str]
    ) -> None:
        """Renew the watches of a reconnected client. Watches on znodes that changed since `zxid` fire immediately.

        Source: DataTree.setWatches
        """
        self._forget_watches(session)
        for path in data_watches:
            if self._changed_at.get(path, 0) > zxid:
                self.events.append(WatchEvent(session, "changed", path))
            else:
                self._data_watches.setdefault(path, {})[session] = None
        for path in child_watches:
            if self._children_changed_at.get(path, 0) > zxid:
                self.events.append(WatchEvent(session, "children", path))
            else:
                self._child_watches.setdefault(path, {})[session] = None

    def _forget_watches(self, session: SessionId) -> None:
        for watches in (*self._data_watches.values(), *self._child_watches.values()):
            watches.pop(session, None)

    def close_session(self, session: SessionId) -> None:
        """Delete the ephemeral znodes of a session, then its watches and the session itself."""
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            self._commit(Transaction(zxid=self.zxid + 1, kind="delete", path=path, session=session))
        self._commit(Transaction(zxid=self.zxid + 1, kind="close", session=session))

    @property
    def next_expiry_us(self) -> int | None:
        return min((session.expires_us for session in self.sessions.values()), default=None)

    def expire(self, now_us: int) -> list[str]:
        """Close every expired session. Return the names of their clients, earliest session first."""
        expired = [(number, session) for number, session in self.sessions.items() if session.expires_us <= now_us]
        for number, _ in expired:
            self.close_session(number)
        return [session.client for _, session in expired]

    def take_transactions(self) -> list[Transaction]:
        taken, self.transactions = self.transactions, []
        return taken

    def take_events(self) -> list[WatchEvent]:
        """Return the watches that have fired for open sessions, in the order of the changes."""
        taken, self.events = self.events, []
        return [event for event in taken if event.session in self.sessions]

    def replay(self, transactions: Iterator[Transaction], now_us: int) -> None:
        """Replay the log when the server starts. Every session gets its full timeout again."""
        for transaction in transactions:
            self._commit(transaction)
        for session in self.sessions:
            self.touch(session, now_us)
        self.transactions.clear()
        self.events.clear()

    # ---------------------------------------------------------------------------------------------------- operations

    def apply(self, session: SessionId, operation: Operation) -> list[Result]:
        """Apply an operation.

        Returns:
            One result, or one per operation of a Multi. A failed Multi has a single result, with the first error.
        """
        match operation:
            case GetData():
                return [self._get(session, operation)]
            case GetChildren():
                return [self._children(session, operation)]
            case Multi():
                return self._multi(session, operation)
            case _:
                error = self._refusal(operation)
                return [Result(error=error)] if error is not None else [self._change(session, operation)]

    def _get(self, session: SessionId, operation: GetData) -> Result:
        if operation.watch:
            self._data_watches.setdefault(operation.path, {})[session] = None
        node = self.nodes.get(operation.path)
        if node is None:
            return Result(error=RegistryError.NO_NODE)
        return self._result(operation.path, node)

    def _children(self, session: SessionId, operation: GetChildren) -> Result:
        if operation.watch:
            self._child_watches.setdefault(operation.path, {})[session] = None
        return Result(children=tuple(self.children(operation.path)))

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the children of `path`. Simplified: parents need not be created first."""
        start = f"{path}/"
        return sorted({other[len(start) :].split("/", 1)[0] for other in self.nodes if other.startswith(start)})

    def _multi(self, session: SessionId, operation: Multi) -> list[Result]:
        # Simplified: all operations are checked before the first, since no operation depends on an earlier one.
        for item in operation.ops:
            error = self._refusal(item)
            if error is not None:
                return [Result(error=error, path=item.path)]
        return [self._change(session, item) for item in operation.ops]

    def _refusal(self, operation: Change) -> RegistryError | None:
        if isinstance(operation, Create):
            exists = operation.path in self.nodes and not operation.sequential
            return RegistryError.NODE_EXISTS if exists else None
        node = self.nodes.get(operation.path)
        if node is None:
            return RegistryError.NO_NODE
        return None if operation.version in (ANY_VERSION, node.version) else RegistryError.BAD_VERSION

    def _change(self, session: SessionId, operation: Change) -> Result:
        zxid = self.zxid + 1
        match operation:
            case Create():
                # Simplified: numbered by transaction; ZooKeeper counts per parent. Both numbers only rise.
                path = f"{operation.path}{zxid:010d}" if operation.sequential else operation.path
                owner = session if operation.ephemeral else NO_SESSION
                transaction = Transaction(zxid=zxid, kind="create", path=path, data=operation.data, session=owner)
                self._commit(replace(transaction, note=operation.note))
                return self._result(path, self.nodes[path])
            case SetData():
                before = self.nodes[operation.path].data
                transaction = Transaction(zxid=zxid, kind="set", path=operation.path, data=operation.data)
                self._commit(replace(transaction, before=before, note=operation.note))
                return self._result(operation.path, self.nodes[operation.path])
            case Delete():
                self._commit(Transaction(zxid=zxid, kind="delete", path=operation.path))
        return Result()

    def _result(self, path: str, node: Znode) -> Result:
        return Result(data=node.data, version=node.version, czxid=node.czxid, path=path, owner=node.owner)

    # ------------------------------------------------------------------------------------------------------- changes

    def _commit(self, transaction: Transaction) -> None:
        self.zxid = transaction.zxid
        self.transactions.append(transaction)
        path = transaction.path
        match transaction.kind:
            case "create":
                self.nodes[path] = Znode(transaction.data, transaction.zxid, transaction.session)
                self._fire("created", path)
            case "set":
                node = self.nodes[path]
                node.data = transaction.data
                node.version += 1
                self._fire("changed", path)
            case "delete":
                del self.nodes[path]
                self._fire("deleted", path)
            case "open":
                self.sessions[transaction.session] = Session(transaction.data, transaction.timeout_us, 0)
            case "close":
                del self.sessions[transaction.session]
                self._forget_watches(transaction.session)

    def _fire(self, kind: str, path: str) -> None:
        parent = path.rpartition("/")[0]
        self._changed_at[path] = self.zxid
        for session in self._data_watches.pop(path, {}):
            self.events.append(WatchEvent(session, kind, path))
        if kind != "changed":
            self._children_changed_at[parent] = self.zxid
            for session in self._child_watches.pop(parent, {}):
                self.events.append(WatchEvent(session, "children", parent))
