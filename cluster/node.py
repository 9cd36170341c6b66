"""The interface of every node of the cluster: a core that turns events into actions, and a shell around it.

Brokers, controllers, producers and consumers are all cores with this interface, so one shell runs them all, in virtual
time and in wall time. A core never sees a socket, a clock or trio: it receives times as integer microseconds and frames
without their size prefix, and returns everything it wants done as a list of actions, which are performed in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from cluster.clocks import Timers
from replica.frozen import dataclass
from replica.log.files.open_files import FileSlice

ConnectionId = int
"""The number of a connection.

The core counts outgoing connections from 1 up; the shell counts accepted ones from -1 down.
"""
NO_CONNECTION: ConnectionId = 0
"""For requests that a broker or an operator makes without a connection."""

Segment = bytes | bytearray | memoryview | FileSlice


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection; a call of `connected` or `disconnected` follows. In virtual time `host` is a node's name."""

    connection: ConnectionId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Sent:
    """How a frame was sent: the times of its first and last byte in microseconds, and the use of sendfile."""

    began_us: int
    ended_us: int
    sendfile_calls: int
    sendfile_bytes: int


OnSent = Callable[[Sent], None]


@dataclass(frozen=True, slots=True)
class Send:
    """Send one whole frame with its size prefix; file slices leave by sendfile.

    On an accepted connection a send answers the request in progress, so the shell reads the next one afterwards.

    Attributes:
        api, part: labels by which network faults select the frame.
        cause: number of the trace event that caused the frame; None for the latest event.
        on_sent: called when the frame's last byte has left; it must not decide anything.
        stays_mute: True to read no further before a ResumeReading.
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
    """Read the next request of an accepted connection, after one without a response or a Send with `stays_mute`."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class LimitRequests:
    """Limit the size of further frames on an accepted connection."""

    connection: ConnectionId
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection. No call of `disconnected` follows."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Listen:
    """Accept connections from now on, at every port of the node. Before that, they are refused."""


@dataclass(frozen=True, slots=True)
class EndProcess:
    """End the process that performs this action.

    Attributes:
        halted: reason of a halt; empty for an orderly end.
        refused: why the application of a client must end; empty if the operator requested the end.
    """

    halted: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class WorkApart:
    """Run a long `job` outside the order of steps, then call `done`. The job must not use the state of any node."""

    job: Callable[[], None]
    done: Callable[[int], None]


Action = Connect | Send | ResumeReading | LimitRequests | Close | Listen | EndProcess | WorkApart


def is_answer(action: Action) -> bool:
    """Return True if the action goes to a connection that a peer opened to this node."""
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
    """Return True for a peer that is not a node of the cluster, as in `NodeCore.accepted`."""
    return ":" in peer


class NodeCore(Protocol):
    """The decisions of one node. Every method returns the actions to perform, in order."""

    @property
    def next_deadline_us(self) -> int | None:
        """The time at which `tick` must be called next, in microseconds; None for never."""

    @property
    def accepts(self) -> bool:
        """False while the node has max.connections. Further connections then stay in the kernel's queue."""

    @property
    def max_request_bytes(self) -> int:
        """The maximum size of a frame on an accepted connection (socket.request.max.bytes)."""

    def start(self, now_us: int) -> list[Action]: ...

    def accepted(self, connection: ConnectionId, peer: str, listener: str, now_us: int) -> list[Action]:
        """Handle a new connection.

        Args:
            peer: name of the node at the other end; address and port if it is not a node of this cluster.
            listener: name of the listener that accepted it; "" for the first one, which all nodes use.
        """

    def identified(self, connection: ConnectionId, peer: str, now_us: int) -> list[Action]:
        """Handle the name of an accepted connection's peer. It comes from the first frame, which is passed on next."""

    def connected(self, connection: ConnectionId, now_us: int) -> list[Action]: ...

    def received(self, connection: ConnectionId, frame: bytearray, now_us: int) -> list[Action]: ...

    def disconnected(self, connection: ConnectionId, reason: str, now_us: int) -> list[Action]: ...

    def tick(self, now_us: int) -> list[Action]: ...


class Caller(Protocol):
    """The part of a node that opened a connection and handles its events."""

    def connected(self, now_us: int) -> None: ...

    def received(self, frame: bytearray, now_us: int) -> None: ...

    def disconnected(self, now_us: int) -> None: ...


class Outbox:
    """The actions of one step, in order. The core takes them with `take` and returns them to its shell.

    Attributes:
        callers: the part of the node that opened each connection; clients keep track of theirs themselves.
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
        """Limit the size of further frames on an accepted connection."""
        self._actions.append(LimitRequests(connection, max_bytes))

    def close(self, connection: ConnectionId) -> None:
        self.callers.pop(connection, None)
        self._actions.append(Close(connection))

    def work_apart(self, job: Callable[[], None], done: Callable[[int], None]) -> None:
        """Run a job outside the order of steps, then call `done` with the time at which it has finished."""
        self._actions.append(WorkApart(job, done))

    def raise_soon(self, bug: Exception) -> None:
        """Raise an exception in a step of its own, so that the current step can still answer other requests."""

        def fail(now_us: int) -> None:
            raise bug

        self.timers.at(0, fail)

    def listen(self) -> None:
        self._actions.append(Listen())

    def exit(self, halted: str = "") -> None:
        """End the process. `halted` is the reason of a halt."""
        self._actions.append(EndProcess(halted))

    def mark(self) -> int:
        """Return the current position in the list, for `withdraw_answers`."""
        return len(self._actions)

    def withdraw_answers(self, since: int) -> list[Action]:
        """Remove the actions after position `since` for accepted connections, and return them."""
        new = self._actions[since:]
        self._actions[since:] = [action for action in new if not is_answer(action)]
        return [action for action in new if is_answer(action)]

    def put_back(self, actions: list[Action]) -> None:
        self._actions += actions

    def take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
