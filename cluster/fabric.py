"""The simulated world: machines, connections between them, and real bytes through real sockets in virtual time.

Every connection is an AF_UNIX socket pair. A frame is written to it when it is sent (file slices by os.sendfile,
straight from the segment file) and drained at once into the receiving side's buffer, so socket sizes never matter; from
then on it is a message in flight that arrives when its link says so. TCP's promises hold: one connection keeps its
order, a cut delays and does not lose, a closed connection loses what was still held.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from cluster.links import Hold, Link, Network
from cluster.node import NodeCore, Segment
from cluster.shell import NodeShell
from cluster.virtual_time import Parking, VirtualTime
from cluster.world import ConnectionGone, TornSend
from replica.file_slice import FileSlice
from replica.trace import ConnectionLost, MessageHeld, MessageReleased, TraceLog

FETCH = 1
SOCKET_BUFFER_BYTES = 1 << 20


@dataclass(slots=True)
class ByteCounts:
    """What left one machine, and how."""

    sendfile: int = 0
    sendfile_calls: int = 0
    fetch_payload_through_python: int = 0
    protocol: int = 0


@dataclass(slots=True)
class Message:
    """A whole frame on its way (None: the connection's end), with the label faults choose by."""

    frame: bytearray | None
    api: int
    part: str
    size_bytes: int
    held_by: Hold | None = None


class FabricWire:
    """One end of a simulated connection. Its `inbox` is the kernel's receive buffer of its machine."""

    def __init__(self, fabric: Fabric, host: Host, peer: str, sock: socket.socket, *, accepted: bool) -> None:
        self.fabric = fabric
        self.host = host
        self.peer = peer
        self.sock = sock
        self.other: FabricWire
        self.inbox: deque[bytearray] = deque()
        self.stopped: deque[Message] = deque()  # what was sent from this end and may not arrive yet
        self.last_arrival_us = 0
        self.gone: str | None = None  # how this end learned that the connection is over
        self.open = True
        self._accepted = accepted
        self._mute = False
        self._parking = Parking()
        self._waiting = False

    # ------------------------------------------------------------------------------------------ for the shell (Wire)

    async def receive(self) -> bytearray:
        while self._mute or not self.inbox:
            if self.gone is not None and not self.inbox:
                raise ConnectionGone(self.gone)
            self._waiting = True
            await self.fabric.time.park(self._parking)
        self._mute = self._accepted
        return self.inbox.popleft()

    def unmute(self) -> None:
        if self._mute:
            self._mute = False
            if self._waiting and self.inbox:
                self.fabric.time.at(self.fabric.time.now_us, self.wake)

    def send(self, segments: Sequence[Segment], api: int, part: str, cause: int | None) -> None:
        if not self.open:
            return
        frame = self._through_the_socket(segments)
        message = Message(frame, api, part, len(frame))
        self._depart(message, cause)

    def close(self) -> None:
        """Close in order: the other side learns it after one latency. What is still held back is lost."""
        self._shut("closed by the other side")

    # ------------------------------------------------------------------------------------------------ real bytes

    def _through_the_socket(self, segments: Sequence[Segment]) -> bytearray:
        total = sum(segment.length if isinstance(segment, FileSlice) else len(segment) for segment in segments)
        frame = bytearray(total)
        view = memoryview(frame)
        filled = 0
        counts = self.host.bytes
        out, into = self.sock, self.other.sock
        for segment in segments:
            is_slice = isinstance(segment, FileSlice)
            length = segment.length if isinstance(segment, FileSlice) else len(segment)
            sent = 0
            while sent < length:
                try:
                    if isinstance(segment, FileSlice):
                        count = segment.sendfile(out.fileno(), sent)
                        counts.sendfile_calls += 1
                    else:
                        count = out.send(memoryview(segment)[sent:])
                except BlockingIOError:  # The pump: drain the other end into its user-space buffer and go on.
                    filled += into.recv_into(view[filled:])
                    continue
                if count == 0:
                    raise TornSend("a segment file ended before the bytes its frame had promised")
                sent += count
            if is_slice:
                counts.sendfile += length
            elif isinstance(segment, memoryview):  # Records that are in memory travel as memoryviews.
                counts.fetch_payload_through_python += length
            else:
                counts.protocol += length
        while filled < total:
            filled += into.recv_into(view[filled:])
        view.release()
        del frame[:4]  # the size prefix; cheap, a bytearray shrinks at its front without copying
        return frame

    # ------------------------------------------------------------------------------------------------ in flight

    def _depart(self, message: Message, cause: int | None = None) -> None:
        time = self.fabric.time
        link = self.fabric.network.link(self.host.name, self.peer)
        arrival_us = max(link.arrival_us(time.now_us, message.size_bytes), self.last_arrival_us)
        self.last_arrival_us = arrival_us
        time.at(arrival_us, partial(self._arrive, message), cause)

    def _arrive(self, message: Message) -> None:
        """The message reaches the other machine, unless it must wait on the way."""
        if not self.stopped and not self._must_wait(message):
            self._deliver(message)
        elif self.open or message.frame is None:  # Data that has to wait is lost with the connection it waits on.
            self.stopped.append(message)

    def _must_wait(self, message: Message) -> bool:
        network = self.fabric.network
        if network.link(self.host.name, self.peer).is_cut:
            return True
        if message.frame is None or not network.holds:
            return False
        hold = network.hold_on(self.host.name, self.peer, message.api, message.part)
        if hold is None:
            return False
        if message.held_by is not hold:
            message.held_by = hold
            hold.caught += 1
            self.fabric.held(self, message)
        return True

    def move_on(self) -> None:
        """After a heal or a release: let go of whatever need not wait any longer, in order."""
        while self.stopped and not self._must_wait(self.stopped[0]):
            message = self.stopped.popleft()
            if message.held_by is not None:
                self.fabric.released(self, message)
            # A callback each: every delivery may wake a task, and one callback wakes one.
            self.fabric.time.at(self.fabric.time.now_us, partial(self._deliver, message))

    def _deliver(self, message: Message) -> None:
        target = self.other
        if not target.host.powered:
            return  # a machine without power answers nothing
        if message.frame is None:
            target.end(message.part)
        elif target.open:
            target.inbox.append(message.frame)
            target.wake()
        else:  # The process this connection belonged to is gone; its machine answers with a reset.
            self._end_later("reset by the other side")

    # ------------------------------------------------------------------------------------------------- the end

    def _shut(self, reason: str) -> None:
        if not self.open:
            return
        self.open = False
        self.stopped.clear()
        self.inbox.clear()
        self._depart(Message(None, 0, reason, 40))
        self.fabric.forget(self)

    def vanish(self) -> None:
        """The machine lost power: nobody is told."""
        self.open = False
        self.stopped.clear()
        self.inbox.clear()
        self.fabric.forget(self)

    def _end_later(self, reason: str) -> None:
        """A reset comes back to this end after one latency."""
        link = self.fabric.network.link(self.peer, self.host.name)
        if not link.is_cut:
            self.fabric.time.at(self.fabric.time.now_us + link.base.low_us, partial(self.end, reason))

    def end(self, reason: str) -> None:
        """This end learns that the connection is over; what it has already received can still be read."""
        if self.open and self.gone is None:
            self.gone = reason
            self.open = False
            self.stopped.clear()
            self.fabric.lost(self, reason)
            self.wake()
            self.fabric.forget(self)

    def wake(self) -> None:
        """Let the reader look again: a frame it may read has come, or the connection is over."""
        may_read = self.gone is not None or not self._mute
        if self._waiting and may_read and self.host.may_run(self._wake_now):
            self._wake_now()

    def _wake_now(self) -> None:
        if self._waiting:
            self._waiting = False
            self.fabric.time.resume(self._parking)


class HostAlarm:
    """One machine's next deadline, as an entry of the queue; a later deadline reuses the entry that is there."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._process = host.process
        self._parking = Parking()
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
        elif self._host.may_run(self._wake):
            self._wake()

    def _wake(self) -> None:
        if self._waiting:
            self._waiting = False
            self._host.fabric.time.resume(self._parking)

    async def wait(self) -> None:
        self._waiting = True
        if self._deadline_us is not None:
            self._enqueue(self._deadline_us)
        await self._host.fabric.time.park(self._parking)


class HostListener:
    """The accept queue of a machine's server socket."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._queue: deque[FabricWire] = deque()
        self._parking = Parking()
        self._waiting = False

    def offer(self, wire: FabricWire) -> None:
        self._queue.append(wire)
        self._host.fabric.time.at(self._host.fabric.time.now_us, self._pass)

    def _pass(self) -> None:
        if self._waiting and self._queue and self._host.may_run(self._pass):
            self._waiting = False
            self._host.fabric.time.resume(self._parking)

    async def accept(self) -> FabricWire:
        while not self._queue:
            self._waiting = True
            await self._host.fabric.time.park(self._parking)
        return self._queue.popleft()


@dataclass(slots=True, eq=False)
class Process:
    """One incarnation of a node: its shell and the scope that kills it."""

    shell: NodeShell | None = None
    scope: trio.CancelScope | None = None
    finished: trio.Event | None = None


class Host:
    """One machine: powered or not, running a process or not, paused or not. Also the `World` its process sees."""

    def __init__(self, fabric: Fabric, name: str) -> None:
        self.fabric = fabric
        self.name = name
        self.powered = True
        self.paused = False
        self.process: Process | None = None
        self.listener: HostListener | None = None
        self.bytes = ByteCounts()
        self._deferred: list[Callable[[], None]] = []
        self._first_place: Parking | None = None

    # ---------------------------------------------------------------------------------------- World, for the shell

    def now_us(self) -> int:
        return self.fabric.time.now_us

    def alarm(self) -> HostAlarm:
        return HostAlarm(self)

    def listen(self) -> HostListener:
        self.listener = HostListener(self)
        return self.listener

    async def connect(self, host: str, port: int) -> FabricWire:
        return await self.fabric.connect(self, host)

    def exited(self) -> None:
        self._end_process()
        self.fabric.exits.append(self.name)

    def start_soon(self, nursery: trio.Nursery, task: Callable[..., Awaitable[None]], *args: object) -> None:
        place, self._first_place = self._first_place, None
        self.fabric.time.start_soon(nursery, place or self.fabric.time.reserve(), task, *args)

    # ------------------------------------------------------------------------------------------------- life

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def shell(self) -> NodeShell:
        assert self.process is not None and self.process.shell is not None, f"{self.name} is not running"
        return self.process.shell

    def start(self, nursery: trio.Nursery, core: NodeCore, *, serves: bool) -> None:
        """Start a process on this machine; a machine without power gets it back."""
        assert self.process is None, f"{self.name} runs already"
        self.powered, self.paused = True, False
        process = self.process = Process()
        process.finished = trio.Event()
        process.scope = trio.CancelScope()
        process.shell = NodeShell(core, self, serves=serves)
        # The process comes up at its own place in the queue, whenever trio gets round to running its first task.
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

    async def kill(self) -> None:
        """SIGKILL: the kernel closes the sockets at once; the disk keeps its page cache."""
        await self._stop_process(self._end_process)

    async def power_off(self) -> None:
        """The machine goes dark: nobody is told. (What was not flushed is the disk's business.)"""
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
        for wire in self.fabric.wires_of(self):
            wire.close()

    def _vanish(self) -> None:
        self._leave()
        for wire in self.fabric.wires_of(self):
            wire.vanish()

    def _leave(self) -> None:
        self.process = None
        self.listener = None
        self.paused = False
        self._deferred.clear()

    # ----------------------------------------------------------------------------------------- SIGSTOP and SIGCONT

    def may_run(self, then: Callable[[], None]) -> bool:
        """False while the process is stopped (or gone): `then` is kept for the moment it continues."""
        if self.paused:
            self._deferred.append(then)
            return False
        return self.process is not None

    def resume(self) -> None:
        self.paused = False
        deferred, self._deferred = self._deferred, []
        for then in deferred:
            self.fabric.time.at(self.fabric.time.now_us, then)


class Fabric:
    """All machines and connections of one simulated cluster."""

    def __init__(self, time: VirtualTime, network: Network, trace: TraceLog) -> None:
        self.time = time
        self.network = network
        self._trace = trace
        self.hosts: dict[str, Host] = {}
        self.exits: list[str] = []  # processes that ended by themselves and are not yet told of
        self._wires: dict[FabricWire, None] = {}
        self._dials: list[Dial] = []
        self.api_name: Callable[[int], str] = str

    def add_host(self, name: str) -> Host:
        assert name not in self.hosts, f"two nodes are called {name}"
        host = self.hosts[name] = Host(self, name)
        return host

    # ----------------------------------------------------------------------------------------------- connections

    async def connect(self, source: Host, target: str) -> FabricWire:
        dial = Dial(self, source, self.hosts.get(target), target)
        dial.begin()
        await self.time.park(dial.parking)
        if dial.wire is None:
            raise ConnectionGone(dial.refused or "refused")
        return dial.wire

    def join(self, source: Host, target: Host) -> tuple[FabricWire, FabricWire]:
        """A new connection: both ends of one AF_UNIX socket pair."""
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        near = FabricWire(self, source, target.name, ends[0], accepted=False)
        far = FabricWire(self, target, source.name, ends[1], accepted=True)
        near.other, far.other = far, near
        self._wires[near] = self._wires[far] = None
        return near, far

    def wires_of(self, host: Host) -> list[FabricWire]:
        return [wire for wire in self._wires if wire.host is host and wire.open]

    def forget(self, wire: FabricWire) -> None:
        """Close the sockets once neither end is in use and nothing waits on the way."""
        if not any(end.open or end.stopped for end in (wire, wire.other)):
            for end in (wire, wire.other):
                self._wires.pop(end, None)
                end.sock.close()

    def close(self) -> None:
        for wire in list(self._wires):
            wire.sock.close()
        self._wires.clear()

    # --------------------------------------------------------------------------------------------------- faults

    def move_on(self) -> None:
        """The network changed for the better: whatever need not wait any longer goes on."""
        for wire in list(self._wires):
            wire.move_on()
        for dial in list(self._dials):
            dial.move_on()

    def waiting(self, dial: Dial) -> None:
        self._dials.append(dial)

    def arrived(self, dial: Dial) -> None:
        if dial in self._dials:
            self._dials.remove(dial)

    def reset(self, one: str, two: str) -> int:
        """RST on every connection between two nodes; what was in flight or unread is lost. Returns how many."""
        wires = [wire for wire in self._wires if wire.open and {wire.host.name, wire.peer} == {one, two}]
        for wire in wires:
            wire.inbox.clear()
            # A callback each: ending a wire may wake a task.
            self.time.at(self.time.now_us, partial(wire.end, "reset by the other side"))
        return len(wires) // 2

    # ---------------------------------------------------------------------------------------------------- facts

    def held(self, wire: FabricWire, message: Message) -> None:
        api = self.api_name(message.api)
        reason = f"`{message.held_by.fault if message.held_by else ''}` holds the {api} {message.part}"
        self._trace.emit(
            MessageHeld(
                node=wire.host.name,
                peer=wire.peer,
                api=api,
                part=message.part,
                reason=f"{reason} from {wire.host.name} to {wire.peer}",
            )
        )

    def released(self, wire: FabricWire, message: Message) -> None:
        api = self.api_name(message.api)
        self._trace.emit(
            MessageReleased(
                node=wire.host.name,
                peer=wire.peer,
                api=api,
                part=message.part,
                reason=f"the {api} {message.part} from {wire.host.name} to {wire.peer} goes on",
            )
        )

    def lost(self, wire: FabricWire, reason: str) -> None:
        self._trace.emit(
            ConnectionLost(
                node=wire.host.name,
                peer=wire.peer,
                reason=f"{wire.host.name} lost its connection to {wire.peer}: {reason}",
            )
        )


class Dial:
    """One attempt to connect: the request travels, then the answer; a silent network or machine keeps it waiting."""

    def __init__(self, fabric: Fabric, source: Host, target: Host | None, name: str) -> None:
        self.parking = Parking()
        self.wire: FabricWire | None = None
        self.refused: str | None = None
        self._fabric = fabric
        self._source = source
        self._process = source.process
        self._target = target
        self._name = name

    def begin(self) -> None:
        time = self._fabric.time
        link = self._link()
        time.at(link.arrival_us(time.now_us, 60), self._arrive)

    def _link(self) -> Link:
        return self._fabric.network.link(self._source.name, self._name)

    def _arrive(self) -> None:
        if self.parking.gone:
            return
        target = self._target
        if target is None:
            self.refused = f"no such host: {self._name}"
            self._answer()
        elif self._link().is_cut or not target.powered:
            self._fabric.waiting(self)
        elif target.listener is None:
            self.refused = "refused"
            self._answer()
        else:
            self.wire, far = self._fabric.join(self._source, target)
            target.listener.offer(far)
            self._answer()

    def move_on(self) -> None:
        if self.parking.gone or (self._target is not None and self._target.powered and not self._link().is_cut):
            self._fabric.arrived(self)
            if not self.parking.gone:
                # Simplified: TCP would repeat the connection request with growing pauses; here it goes on at once.
                self.begin()

    def _answer(self) -> None:
        time = self._fabric.time
        back = self._fabric.network.link(self._name, self._source.name)
        # Simplified: an answer on a one-way cut link is not retried; the attempt times out.
        if not back.is_cut:
            time.at(back.arrival_us(time.now_us, 60), self._finish)

    def _finish(self) -> None:
        if self.parking.gone:  # Given up meanwhile.
            if self.wire is not None:
                self.wire.close()
        elif self._process is self._source.process and self._source.may_run(self._finish):
            self._fabric.time.resume(self.parking)
