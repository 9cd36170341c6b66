"""The interface of time and network for machines. Simulated and live runs both implement it.

`cluster.network.fabric` is virtual time over AF_UNIX socket pairs, `cluster.live` is the wall clock over TCP. Machines
(`cluster.network.host`) and shells are the same in both, so a broker cannot find out in which of them it runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from cluster.clocks import WallClock
from cluster.network.links import Network
from cluster.node import Send
from cluster.security import ListenerSecurity

if TYPE_CHECKING:
    from cluster.network.host import Host

SETTLE_S = 5.0
"""How many seconds nodes have to report that a fault is in force. After that, the run goes on without their reports."""


class ConnectionGone(Exception):
    """A connection that ended or could not be made. The text says how, for the trace."""


class TornSend(Exception):
    """A segment file ended before the bytes that its frame had promised.

    Closing the connection is the only correct reaction (KIP-74).
    """


class ProcessExit(NamedTuple):
    """A process of a node that ended by itself.

    Attributes:
        how: stop, halt, crash or died, as in NodeStopped.
        why: empty if the core asked for the stop.
    """

    node: str
    how: str
    why: str


class Connection(Protocol):
    """One end of a connection."""

    peer: str
    listener: str
    """The name of the listener that accepted the connection; empty for the first listener, which all nodes use."""

    def allow(self, max_frame_bytes: int) -> None:
        """Set the maximum size of a frame. A larger one ends the connection before it is read."""

    @property
    def is_identified(self) -> bool:
        """True once the peer is known. Until then, `peer` is an address."""

    def identify(self, frame: bytearray) -> None:
        """Name the peer after the client in its first frame."""

    async def read(self, take: Callable[[bytearray], None]) -> None:
        """Pass every whole frame, without its size prefix, to `take`.

        An accepted connection stops reading after each frame until `unmute`, because a server executes one request per
        connection at a time and lets TCP hold back the others. No frame is passed on after `close`.

        Raises:
            ConnectionGone: when the connection ends.
        """

    def unmute(self) -> None: ...

    def send(self, send: Send) -> None:
        """Queue one frame without blocking. `on_sent` is called when the kernel has taken its last byte.

        Raises:
            TornSend: if a segment file ends before the bytes that the frame promised.
        """

    def close(self) -> None: ...


# -------------------------------------------------------------------------------------- what a machine needs of its run


class Parking:
    """The point at which one task waits until it is resumed. `gone` is True after the task was cancelled."""

    __slots__ = ("gone", "task")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        self.gone = False


class Time(Protocol):
    """One queue of callbacks and of the tasks that they resume, in virtual time or by the wall clock."""

    @property
    def now_us(self) -> int:
        """Microseconds since the run began. The value is constant within a step."""

    @property
    def events(self) -> int: ...

    @property
    def stopwatch(self) -> Callable[[], int] | None:
        """A clock in microseconds since the run began, which advances within a step; None to measure no times."""

    @property
    def slicing(self) -> Callable[[], int] | None:
        """A clock by which long requests are divided into slices; None if they are not."""

    def wall_clock(self) -> WallClock:
        """Return a new wall clock for one machine, with the correct time."""

    @property
    def cause(self) -> int | None:
        """The number of the event that caused the current step, None if there is none."""

    def at(self, at_us: int, callback: Callable[[], None], cause: int | None = None) -> None: ...

    def at_by_file(self, at_us: int, callback: Callable[[], None]) -> None:
        """Schedule a callback at a time from a scenario's file.

        Runs whose nodes start slowly delay it by the time that the starts took.
        """

    def resume(self, parking: Parking) -> None: ...

    async def park(self, parking: Parking) -> None: ...

    def reserve(self) -> Parking: ...

    def start_soon(
        self, nursery: trio.Nursery, parking: Parking, task: Callable[..., Awaitable[None]], *args: object
    ) -> None: ...

    async def drive(self, until_us: int, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None: ...


class MachineConnection(Connection, Protocol):
    """A connection, with the method that only its machine calls."""

    def vanish(self) -> None:
        """Drop this end without notice to the peer, because the machine lost power."""


class Fabric(Protocol):
    """The machines of one run and the connections between them."""

    @property
    def is_live(self) -> bool:
        """True if time is the wall clock, so that a run cannot be repeated exactly."""

    @property
    def security(self) -> ListenerSecurity:
        """The security protocol that servers require of outside clients."""

    @property
    def time(self) -> Time: ...

    @property
    def network(self) -> Network: ...

    @property
    def hosts(self) -> Mapping[str, Host]: ...

    @property
    def exits(self) -> list[ProcessExit]:
        """Processes that ended by themselves and whose end the run has not handled yet."""

    @property
    def outsiders(self) -> Sequence[str]:
        """The names of the outside clients, in order of appearance. Links have these names, too."""

    def add_host(self, name: str) -> Host: ...

    def address(self, name: str, port: int) -> tuple[str, int]:
        """Return the address of a server. `port` is its port if each machine has an address of its own."""

    def open(self, nursery: trio.Nursery) -> None:
        """Prepare the fabric before any process starts.

        Args:
            nursery: nursery for tasks that belong to no process.
        """

    def close(self) -> None: ...

    def listening(self, host: Host) -> None:
        """Start to accept connections for a process, through `host.listener`."""

    def deaf(self, host: Host) -> None:
        """Stop accepting connections for a machine whose process has ended."""

    async def connect(self, source: Host, target: str, port: int) -> MachineConnection: ...

    def ends_of(self, host: Host) -> Sequence[MachineConnection]: ...

    def move_on(self) -> None:
        """Deliver messages and continue connection attempts that a network fault, now lifted, has stopped."""

    async def settle(self) -> None:
        """Wait until changed conditions of machines, disks and links are in force in every process."""

    async def stand_still(self) -> None:
        """Wait, at the end of a run, until no process works any more and all events are in the trace."""

    async def apart(self, job: Callable[[], None]) -> None:
        """Run a long job that touches no node's state. In a live run, other tasks continue meanwhile."""

    def contains(self, node: str, peer: str, failure: Exception) -> bool:
        """Return True if a bug in the handling of a request costs only its connection, False if it ends the run."""

    async def reset(self, item: str, two: str) -> int:
        """Reset (RST) every connection between two nodes, and return their number. Data in flight is lost."""
