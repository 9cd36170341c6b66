"""A machine, simulated or live. It may have power or not, and its process may run, be paused or not exist.

The machine also provides its process with a clock, a deadline timer and a server socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import trio

from cluster.clocks import WallClock
from cluster.network.passage import ByteCounts
from cluster.network.shell import NodeShell
from cluster.network.world import Connection, Fabric, Parking, ProcessExit
from cluster.node import Action, NodeCore
from cluster.operated import ClientElsewhere, ClientOrder, NodeElsewhere
from replica.log.files.disk import Disk


class HostAlarm:
    """The next deadline of one machine, as a scheduled callback. If the deadline moves later, the callback is kept."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._process = host.process
        self._parking = Parking()
        self._due: Callable[[], None] | None = None
        self._waiting = False
        self._deadline_us: int | None = None
        self._queued_us: int | None = None

    def arm(self, at_us: int | None) -> None:
        self._deadline_us = at_us
        if at_us is not None and self._waiting and (self._queued_us is None or at_us < self._queued_us):
            self._enqueue(at_us)

    def _enqueue(self, at_us: int) -> None:
        time = self._host.fabric.time
        self._queued_us = max(at_us, time.now_us)
        due_us = self._queued_us
        time.at(due_us, partial(self._fire, due_us))

    def _fire(self, due_us: int) -> None:
        if due_us != self._queued_us or self._process is not self._host.process:
            return
        self._queued_us = None
        if self._deadline_us is None or not self._waiting:
            return
        if self._deadline_us > self._host.fabric.time.now_us:
            self._enqueue(self._deadline_us)
        elif self._host.may_ring(self._wake):
            self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._parking.gone:
            assert self._due is not None
            self._waiting = False
            self._due()
            self._wait()

    def _wait(self) -> None:
        self._waiting = True
        if self._deadline_us is not None:
            self._enqueue(self._deadline_us)

    async def ring(self, due: Callable[[], None]) -> None:
        """Call `due` at each deadline; never return."""
        # Called straight from the queue: a task that is resumed for each deadline would cost as much as the deadline.
        self._due = due
        self._wait()
        await self._host.fabric.time.park(self._parking)


class HostListener:
    """The accept queue of a machine's server socket."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._queue: deque[Connection] = deque()
        self._parking = Parking()
        self._waiting = False

    def offer(self, end: Connection) -> None:
        self._queue.append(end)
        self._host.fabric.time.at(self._host.fabric.time.now_us, self._pass)

    def _pass(self) -> None:
        if self._waiting and self._queue and self._host.may_run(self._pass):
            self._waiting = False
            self._host.fabric.time.resume(self._parking)

    async def accept(self) -> Connection:
        while not self._queue:
            self._waiting = True
            await self._host.fabric.time.park(self._parking)
        return self._queue.popleft()


@dataclass(slots=True, eq=False)
class Process:
    """One process of a node: its shell, and the cancel scope that kills it."""

    shell: NodeShell | None = None
    scope: trio.CancelScope | None = None
    finished: trio.Event | None = None


class Host:
    """A machine. It may have power or not, and its process may run, be paused or not exist.

    Attributes:
        reports_all: False if the process may end before it has reported all its events.
        tell_of_step: called after each decision of the core, before its actions are performed; None for no callback.
    """

    reports_all = True
    tell_of_step: Callable[[], None] | None = None

    def __init__(self, fabric: Fabric, name: str) -> None:
        self.fabric = fabric
        self.time = fabric.time
        self.name = name
        self.powered = True
        self.paused = False
        self.process: Process | None = None
        self.listener: HostListener | None = None
        self.bytes = ByteCounts()
        self._deferred: list[Callable[[], None]] = []
        self._first_place: Parking | None = None

    # ------------------------------------------------------------------------------------------------ for the shell

    def alarm(self) -> HostAlarm:
        return HostAlarm(self)

    def listen(self) -> HostListener:
        self.listener = HostListener(self)
        self.fabric.listening(self)
        return self.listener

    async def connect(self, host: str, port: int) -> Connection:
        """Open a connection. Wait as long as the network gives no answer.

        Raises:
            ConnectionGone: if the connection is refused.
        """
        return await self.fabric.connect(self, host, port)

    async def apart(self, job: Callable[[], None]) -> None:
        await self.fabric.apart(job)
        while self.paused:
            parking = Parking()
            self.may_run(partial(self.fabric.time.resume, parking))
            await self.fabric.time.park(parking)

    def contains(self, peer: str, failure: Exception) -> bool:
        return self.fabric.contains(self.name, peer, failure)

    def exited(self, halted: str, refused: str) -> None:
        """Record that the process ended by itself, and close its connections.

        Either `halted` or `refused` has the reason.
        """
        self._end_process()
        self.fabric.exits.append(ProcessExit(self.name, "halt" if halted else "stop", halted or refused))

    def start_soon(self, nursery: trio.Nursery, task: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start a task of this node, with a position of its own in the order of virtual time."""
        index, self._first_place = self._first_place, None
        self.fabric.time.start_soon(nursery, index or self.fabric.time.reserve(), task, *args)

    # ------------------------------------------------------------------------------------------------- life

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def shell(self) -> NodeShell:
        assert self.process is not None and self.process.shell is not None, f"{self.name} is not running"
        return self.process.shell

    def start(self, nursery: trio.Nursery, core: NodeCore, *, serves: bool) -> None:
        """Start a process on this machine, and restore power if it was lost."""
        assert self.process is None, f"{self.name} is already running"
        self.powered, self.paused = True, False
        process = self.process = Process()
        process.finished = trio.Event()
        process.scope = trio.CancelScope()
        process.shell = NodeShell(core, self, serves=serves)
        # The process starts at its own position in the queue, whenever trio runs its first task.
        self._first_place = self.fabric.time.reserve()
        nursery.start_soon(self._run, process)
        self.fabric.move_on()

    async def _run(self, process: Process) -> None:
        assert process.scope is not None and process.shell is not None and process.finished is not None
        try:
            with process.scope:
                await process.shell.run()
        finally:
            process.finished.set()

    def call(self, method: Callable[[int], list[Action]]) -> None:
        """Call a core method that takes only `now_us`, on behalf of an application or an operator."""
        self.shell.call(method)

    def stand_in(self, incarnation: int, disks: Mapping[str, Disk], clock: WallClock) -> NodeElsewhere | None:
        """Return an object that forwards calls to a server core in another process; None if the core runs here."""
        return None

    def client_stand_in(self, order: ClientOrder) -> ClientElsewhere | None:
        """Return an object that forwards calls to a client core elsewhere; None if the core runs here."""
        return None

    def halt(self) -> None:
        """Stop the process immediately, without awaiting `seize`, so that several machines stop together."""

    def strike(self) -> None:
        """Send SIGKILL to the process, without awaiting `kill`, so that several processes end together."""

    async def seize(self) -> None:
        """Wait until the process has stopped and its events are in the trace. A `kill` or `power_off` must follow."""

    async def kill(self) -> None:
        """Kill the process (SIGKILL): the kernel closes its sockets immediately, and the disk keeps the page cache."""
        await self._stop_process(self._end_process)

    async def power_off(self) -> None:
        """Cut the machine's power without notice to any peer. The disk decides which unflushed bytes survive."""
        self.powered = False
        await self._stop_process(self._vanish)

    async def _stop_process(self, end: Callable[[], None]) -> None:
        process = self.process
        end()
        if process is not None:
            assert process.scope is not None and process.finished is not None
            process.scope.cancel()
            await process.finished.wait()

    def _end_process(self) -> None:
        self._leave()
        for end in self.fabric.ends_of(self):
            end.close()

    def _vanish(self) -> None:
        self._leave()
        for end in self.fabric.ends_of(self):
            end.vanish()

    def _leave(self) -> None:
        if self.process is not None and self.process.shell is not None:
            self.process.shell.end()
        self.process = None
        if self.listener is not None:
            self.listener = None
            self.fabric.deaf(self)
        self.paused = False
        self._deferred.clear()

    # ----------------------------------------------------------------------------------------- SIGSTOP and SIGCONT

    def may_run(self, then: Callable[[], None]) -> bool:
        """Return True if the process can run now. While it is paused, return False and call `then` when it resumes."""
        if self.paused:
            self._deferred.append(then)
            return False
        return self.process is not None

    def may_ring(self, then: Callable[[], None]) -> bool:
        """Return True if a deadline may be handled now. While the process is paused, return False and keep `then`.

        When the process resumes, `then` runs before all messages that arrived during the pause, as in a JVM. After a
        SIGSTOP its epoll_wait returns as interrupted (signal(7)), and is not repeated once its timeout has passed
        (EPollSelectorImpl.doSelect). So a request that timed out meanwhile is abandoned, together with its connection,
        before its response is read (NetworkClient.poll, handleTimedOutRequests). A deposed leader therefore needs some
        more round trips to learn of its successor.
        """
        if self.paused:
            # Simplified: after a pause of the garbage collector a JVM would read the answer first.
            self._deferred.insert(0, then)
            return False
        return self.process is not None

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for then in deferred:
            self.fabric.time.at(self.fabric.time.now_us, then)
