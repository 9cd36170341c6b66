"""The seam between the two worlds: the interface of time and network for a node's shell and its machine, nothing else.

`cluster.network.fabric` is virtual time over AF_UNIX socket pairs, `cluster.live` the wall clock over TCP. Machines
(`cluster.network.host`) and shells are the same in both, so a broker cannot tell in which of them it runs.
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
"""A node that has not said within this time that a fault is in force is taken to be stuck; the fault goes on."""


class ConnectionGone(Exception):
    """A connection ended or could not be made; the text says how, for the trace."""


class TornSend(Exception):
    """A segment file ended before the bytes its frame had promised: only closing the connection is honest (KIP-74)."""


class ProcessExit(NamedTuple):
    """A process of a node that ended by itself.

    how: stop, halt, crash or died, as of NodeStopped     why: empty where a step has asked for a stop
    """

    node: str
    how: str
    why: str


class Connection(Protocol):
    """One end of one connection."""

    peer: str
    listener: str
    """Of an accepted one: by which it came; "" for the first, which all nodes use."""

    def allow(self, max_frame_bytes: int) -> None:
        """A frame that is announced as larger ends the connection before it is read."""
        ...

    @property
    def is_identified(self) -> bool:
        """False until the other end is known; `peer` is an address until then."""

    def identify(self, frame: bytearray) -> None:
        """Identify the other end by its first frame."""
        ...

    async def read(self, take: Callable[[bytearray], None]) -> None:
        """Hand every whole frame, without its size prefix, to `take` as it comes. raises: ConnectionGone at the end

        On an accepted connection the connection is mute after each frame: the next one is read after `unmute` (a server
        executes one request per connection at a time, and lets TCP hold the others back). No frame is handed over once
        this end was closed.
        """
        ...

    def unmute(self) -> None: ...

    def send(self, send: Send) -> None:
        """Queue one frame; never blocks a decision. `on_sent` is called when its last byte is with the kernel.

        raises: TornSend
        """
        ...

    def close(self) -> None: ...


class Alarm(Protocol):
    """One node's next deadline."""

    def arm(self, at_us: int | None) -> None: ...

    async def ring(self, due: Callable[[], None]) -> None:
        """Call `due` each time the deadline has come; never returns."""
        ...


class OpenPort(Protocol):
    async def accept(self) -> Connection: ...


class World(Protocol):
    """Time and network of one node."""

    @property
    def time(self) -> Time: ...

    @property
    def tell_of_step(self) -> Callable[[], None] | None:
        """To be called once a step is decided, before anything that it wants is done; None: nothing is to be told."""

    def alarm(self) -> Alarm: ...

    def listen(self) -> OpenPort: ...

    async def connect(self, host: str, port: int) -> Connection:
        """raises: ConnectionGone when refused; waits for as long as the network is silent"""
        ...

    async def apart(self, job: Callable[[], None]) -> None:
        """Do something that takes long and touches nothing of any node. Live, the others go on meanwhile."""
        ...

    def contains(self, peer: str, failure: Exception) -> bool:
        """Whether a bug that met a request of `peer` is to cost that connection alone; false: everything stops."""
        ...

    def exited(self, halted: str, refused: str) -> None:
        """The process ends by itself: its connections close now, before anything else can happen.

        halted, refused: as of EndProcess
        """
        ...

    def start_soon(self, nursery: trio.Nursery, task: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task of this node at a place in the world's order."""
        ...


# ------------------------------------------------------------------------------------ what a machine needs of its world


class Parking:
    """Where one task waits until its world's time resumes it; `gone` once that task was cancelled."""

    __slots__ = ("gone", "task")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        self.gone = False


class Time(Protocol):
    """One queue of callbacks and the tasks they resume, in virtual time or by the wall clock."""

    @property
    def now_us(self) -> int:
        """Microseconds since the run began; it stands still within a step."""

    @property
    def events(self) -> int: ...

    @property
    def stopwatch(self) -> Callable[[], int] | None:
        """Microseconds since the run began, within a step as well; None: requests are not to be measured."""

    @property
    def slicing(self) -> Callable[[], int] | None:
        """As `stopwatch`, by which long requests are sliced; None: they are not."""

    def wall_clock(self) -> WallClock:
        """A new one, for one machine; it shows the right time."""

    @property
    def cause(self) -> int | None:
        """The event that what happens now follows from."""

    def at(self, at_us: int, callback: Callable[[], None], cause: int | None = None) -> None: ...

    def at_by_file(self, at_us: int, callback: Callable[[], None]) -> None:
        """At a time that a scenario's file names. In a world whose nodes take long to start it comes as much later."""

    def resume(self, parking: Parking) -> None: ...

    async def park(self, parking: Parking) -> None: ...

    def reserve(self) -> Parking: ...

    def start_soon(
        self, nursery: trio.Nursery, place: Parking, task: Callable[..., Awaitable[None]], *args: object
    ) -> None: ...

    async def drive(self, until_us: int, between: Callable[[], bool], work: Callable[[], Awaitable[None]]) -> None: ...


class MachineConnection(Connection, Protocol):
    """A connection as its machine sees it."""

    def vanish(self) -> None:
        """The machine lost power: its peers get no message."""


class Fabric(Protocol):
    """The machines of one world and the connections between them."""

    @property
    def is_live(self) -> bool:
        """By the wall clock: no run comes back."""

    @property
    def security(self) -> ListenerSecurity:
        """What its servers ask of clients from outside."""

    @property
    def time(self) -> Time: ...

    @property
    def network(self) -> Network: ...

    @property
    def hosts(self) -> Mapping[str, Host]: ...

    @property
    def exits(self) -> list[ProcessExit]:
        """Processes that ended by themselves and are not yet told of."""

    @property
    def outsiders(self) -> Sequence[str]:
        """Clients that are none of the run's own, by the names their links have; in order of appearance."""

    def add_host(self, name: str) -> Host: ...

    def address(self, name: str, port: int) -> tuple[str, int]:
        """Where the server on a machine is reached; `port`: the one it would have on a machine of its own."""

    def open(self, nursery: trio.Nursery) -> None:
        """Before any process starts. nursery: for what belongs to no process"""

    def close(self) -> None: ...

    def listening(self, host: Host) -> None:
        """A process on it accepts connections from now on, through `host.listener`."""

    def deaf(self, host: Host) -> None:
        """Its process is gone, and the server socket with it."""

    async def connect(self, source: Host, target: str, port: int) -> MachineConnection: ...

    def ends_of(self, host: Host) -> Sequence[MachineConnection]: ...

    def move_on(self) -> None:
        """The network changed for the better: messages that need not wait any longer go on."""

    async def settle(self) -> None:
        """Until what was changed about machines, disks and links is in force wherever they are."""

    async def stand_still(self) -> None:
        """The run is over: wait until no process does anything any more and all events are in the trace."""

    async def apart(self, job: Callable[[], None]) -> None:
        """As World.apart"""

    def contains(self, node: str, peer: str, failure: Exception) -> bool:
        """As World.contains, of the process on one machine."""

    async def reset(self, one: str, two: str) -> int:
        """RST on every connection between two nodes; data in flight or unread is lost. Returns how many."""
