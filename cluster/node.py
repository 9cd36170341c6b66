"""The interface of every node of the cluster: a core that turns events into actions, and a shell around it.

Brokers, controllers, producers and consumers are all cores of this shape, so one shell drives them all, in virtual time
and in wall time alike. A core never sees a socket, a clock or trio: time comes in as integer microseconds, frames come
in without their size prefix, and everything it wants done goes out as a list of actions, performed in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from cluster.clocks import Timers
from replica.frozen import dataclass
from replica.log.files.open_files import FileSlice

ConnectionId = int
"""Outgoing connections are numbered by their core from 1 up; accepted ones by the shell from -1 down."""

Segment = bytes | bytearray | memoryview | FileSlice


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection; `connected` or `disconnected` follows. In virtual time `host` is a node's name."""

    connection: ConnectionId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Sent:
    """How a frame left: from its first byte to its last, in microseconds, and what went straight from files."""

    began_us: int
    ended_us: int
    sendfile_calls: int
    sendfile_bytes: int


OnSent = Callable[[Sent], None]


@dataclass(frozen=True, slots=True)
class Send:
    """One whole frame, size prefix included. File slices leave by sendfile. `api` and `part` label it for the fabric.

    On an accepted connection a send answers the request in progress, so the shell reads the next one after it.
    `cause` is the trace event it follows from (None: the latest). on_sent: called when its last byte has left;
    it may not decide anything     stays_mute: read no further before a ResumeReading
    """

    connection: ConnectionId
    segments: Sequence[Segment]
    api: int
    part: str = "request"
    cause: int | None = None
    on_sent: OnSent | None = None
    stays_mute: bool = False


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """Read the next request of an accepted connection: the last one has no answer (acks=0), or stayed mute after it."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class LimitRequests:
    """From now on, no frame that arrives on an accepted connection may be longer."""

    connection: ConnectionId
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection; no `disconnected` follows for it."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Listen:
    """Accept connections from now on, at every port of the node; until then they are refused."""


@dataclass(frozen=True, slots=True)
class EndProcess:
    """The process ends by itself. halted: why not in order, empty when it is     refused: in order, and why its
    application can only end; empty where its operator has asked for the end
    """

    halted: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class WorkApart:
    """Do `job`, which takes long and touches nothing of the node, where nothing waits for it; then call `done`."""

    job: Callable[[], None]
    done: Callable[[int], None]


Action = Connect | Send | ResumeReading | LimitRequests | Close | Listen | EndProcess | WorkApart


def is_answer(action: Action) -> bool:
    """It goes to a connection that a peer opened to this node."""
    match action:
        case Send():
            return action.part == "response"
        case ResumeReading():
            return True
        case Close():
            return action.connection < 0
        case _:
            return False


def is_outside(peer: str) -> bool:
    """peer: as of `NodeCore.accepted`"""
    return ":" in peer


class NodeCore(Protocol):
    """The decisions of one node. Every method returns the actions to perform, in order."""

    @property
    def next_deadline_us(self) -> int | None:
        """When `tick` wants to be called next; None: never."""

    @property
    def accepts(self) -> bool:
        """False while it has as many connections as it may: more are left to the kernel's queue (max.connections)."""

    @property
    def max_request_bytes(self) -> int:
        """Of a frame that arrives on a connection opened by a peer (socket.request.max.bytes)."""

    def start(self, now_us: int) -> list[Action]: ...

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        """peer: the node at the other end; address and port if it is not a node of this cluster
        listener: by which it came; "" for the first, which all nodes use
        """
        ...

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        """The first frame of an accepted connection, which follows, has identified the other end."""
        ...

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]: ...

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]: ...

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]: ...

    def tick(self, now_us: int) -> list[Action]: ...


class Caller(Protocol):
    """The part of a node that opened a connection and gets its events."""

    def connected(self, now_us: int) -> None: ...

    def received(self, frame: bytearray, now_us: int) -> None: ...

    def disconnected(self, reason: str, now_us: int) -> None: ...


class Outbox:
    """Collects the actions of one step in order; the core hands them to its shell with `take`.

    callers: by the connections that they opened; clients find theirs by themselves
    """

    __slots__ = ("_actions", "_connections", "callers", "timers")

    def __init__(self) -> None:
        self.timers: Timers[Action] = Timers()
        self.callers: dict[ConnectionId, Caller] = {}
        self._actions: list[Action] = []
        self._connections = count(1)

    def connect(self, host: str, port: int, caller: Caller | None = None) -> ConnectionId:
        connection = next(self._connections)
        if caller is not None:
            self.callers[connection] = caller
        self._actions.append(Connect(connection, host, port))
        return connection

    def request(self, connection: ConnectionId, frame: bytes, api: int, cause: int | None = None) -> None:
        self._actions.append(Send(connection, (frame,), api, "request", cause))

    def respond(
        self,
        connection: ConnectionId,
        segments: Sequence[Segment],
        api: int,
        cause: int | None = None,
        on_sent: OnSent | None = None,
    ) -> None:
        self._actions.append(Send(connection, segments, api, "response", cause, on_sent))

    def resume(self, connection: ConnectionId) -> None:
        self._actions.append(ResumeReading(connection))

    def limit(self, connection: ConnectionId, max_bytes: int) -> None:
        """max_bytes: of each frame that arrives on an accepted connection from now on"""
        self._actions.append(LimitRequests(connection, max_bytes))

    def close(self, connection: ConnectionId) -> None:
        self.callers.pop(connection, None)
        self._actions.append(Close(connection))

    def work_apart(self, job: Callable[[], None], done: Callable[[int], None]) -> None:
        """done: told the time once the job is done"""
        self._actions.append(WorkApart(job, done))

    def raise_soon(self, bug: Exception) -> None:
        """In a step of its own: what is in progress has others to answer, too."""

        def fail(now_us: int) -> None:
            raise bug

        self.timers.at(0, fail)

    def listen(self) -> None:
        self._actions.append(Listen())

    def exit(self, halted: str = "") -> None:
        """halted: why the process ends out of order"""
        self._actions.append(EndProcess(halted))

    def mark(self) -> int:
        """A place in the list, for `withdraw_answers`."""
        return len(self._actions)

    def withdraw_answers(self, since: int) -> list[Action]:
        """Takes back what goes to connections that others opened, as far as it came after `since`."""
        new = self._actions[since:]
        self._actions[since:] = [action for action in new if not is_answer(action)]
        return [action for action in new if is_answer(action)]

    def put_back(self, actions: list[Action]) -> None:
        self._actions += actions

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
