"""The interface of every node of the cluster: a core that turns events into actions, and a shell around it.

Brokers, controllers, producers and consumers are all cores of this shape, so one shell drives them all, in virtual time
and in wall time alike. A core never sees a socket, a clock or trio: time comes in as integer microseconds, frames come
in without their size prefix, and everything it wants done goes out as a list of actions, performed in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

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
