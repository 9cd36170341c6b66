"""The simulated machines, and connections between them over links that a scenario can disturb."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Self

import trio

from cluster.network.host import Host
from cluster.network.links import Link, Network
from cluster.network.passage import CLOSED, END_BYTES, RESET, Message, NetworkEvents, Passage
from cluster.network.virtual_time import VirtualTime
from cluster.network.world import ConnectionGone, Parking, ProcessExit, TornSend
from cluster.node import Send, Sent
from cluster.security import OPEN
from replica.causes import ConnectionEnd, DropCause
from replica.log.files.open_files import FileSlice
from replica.trace.events import ConnectionLost, TraceLog


class SimulatedFabric:
    """All machines and connections of one simulated cluster. Implements Fabric."""

    is_live = False
    security = OPEN
    outsiders = ()

    def __init__(
        self, time: VirtualTime, network: Network, trace: TraceLog, api_name: Callable[[int], str] = str
    ) -> None:
        self.time = time
        self.network = network
        self.events = NetworkEvents(trace, api_name)
        self.hosts: dict[str, Host] = {}
        self.exits: list[ProcessExit] = []
        self._ends: dict[SimulatedConnection, None] = {}
        self._dials: list[Dial] = []

    def add_host(self, name: str) -> Host:
        assert name not in self.hosts, f"there are two nodes named {name}"
        host = self.hosts[name] = Host(self, name)
        return host

    def address(self, name: str, port: int) -> tuple[str, int]:
        return name, port

    def open(self, nursery: trio.Nursery) -> None:
        """Do nothing: simulated messages in flight are callbacks in the queue of virtual time and need no task."""

    def listening(self, host: Host) -> None:
        """Do nothing: each `Dial` looks up `host.listener` itself."""

    async def apart(self, job: Callable[[], None]) -> None:
        job()  # Takes no virtual time.

    def contains(self, node: str, peer: str, failure: Exception) -> bool:
        """Return False: a bug ends a simulated run, which can be replayed."""
        return False

    def deaf(self, host: Host) -> None:
        """Do nothing: each `Dial` checks itself if the host has a listener."""

    # ----------------------------------------------------------------------------------------------- connections

    async def connect(self, source: Host, target: str, port: int) -> SimulatedConnection:
        dial = Dial(self, source, self.hosts.get(target), target)
        dial.begin()
        await self.time.park(dial.parking)
        if dial.end is None:
            raise ConnectionGone(dial.refused or "refused")
        return dial.end

    def join(self, source: Host, target: Host) -> tuple[SimulatedConnection, SimulatedConnection]:
        near, far = SimulatedConnection.pair(self, source, target)
        self._ends[near] = self._ends[far] = None
        return near, far

    def ends_of(self, host: Host) -> list[SimulatedConnection]:
        return [end for end in self._ends if end.host is host and (end.open or end.stopped)]

    def forget(self, closed: SimulatedConnection) -> None:
        """Forget a connection and close its sockets once neither end is open and no message is in flight."""
        if not any(end.open or end.stopped for end in (closed, closed.other)):
            for end in (closed, closed.other):
                self._ends.pop(end, None)
                end.close_sockets()

    def close(self) -> None:
        for end in list(self._ends):
            end.close_sockets()
        self._ends.clear()

    # --------------------------------------------------------------------------------------------------- faults

    def move_on(self) -> None:
        """Deliver messages and continue connection attempts that a network fault, now lifted, has stopped."""
        for end in list(self._ends):
            end.move_on()
        for dial in list(self._dials):
            dial.move_on()

    def waiting(self, dial: Dial) -> None:
        self._dials.append(dial)

    def arrived(self, dial: Dial) -> None:
        if dial in self._dials:
            self._dials.remove(dial)

    async def settle(self) -> None:
        pass  # Faults are in force immediately.

    async def stand_still(self) -> None:
        pass  # Nothing happens unless virtual time is driven.

    async def reset(self, item: str, two: str) -> int:
        """Reset (RST) every open connection between two nodes, and return the number of connections.

        Data in flight is lost. Data already received can still be read, as on Linux (tcp_reset keeps the receive
        queue).
        """
        ends = [end for end in self._ends if end.open and {end.host.name, end.peer} == {item, two}]
        for end in ends:
            # One callback per end, because ending a connection may wake a task.
            self.time.at(self.time.now_us, partial(end.end, RESET))
        return len(ends) // 2


class Dial:
    """One attempt to connect: a request, then an answer. It waits while the link is cut or the target has no power."""

    def __init__(self, fabric: SimulatedFabric, source: Host, target: Host | None, name: str) -> None:
        self.parking = Parking()
        self.end: SimulatedConnection | None = None
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
            self.refused = f"there is no host {self._name}"
            self._answer()
        elif self._link().is_cut or not target.powered:
            self._fabric.waiting(self)
        elif target.listener is None:
            self.refused = "refused"
            self._answer()
        else:
            self.end, far = self._fabric.join(self._source, target)
            target.listener.offer(far)
            self._answer()

    def move_on(self) -> None:
        if self.parking.gone or (self._target is not None and self._target.powered and not self._link().is_cut):
            self._fabric.arrived(self)
            if not self.parking.gone:
                # Simplified: TCP would repeat the connection request with growing pauses; here it is repeated
                # immediately.
                self.begin()

    def _answer(self) -> None:
        time = self._fabric.time
        back = self._fabric.network.link(self._name, self._source.name)
        # Simplified: an answer on a one-way cut link is not retried; the attempt times out.
        if not back.is_cut:
            time.at(back.arrival_us(time.now_us, 60), self._finish)

    def _finish(self) -> None:
        if self.parking.gone:  # Cancelled during the wait.
            if self.end is not None:
                self.end.close()
        elif self._process is self._source.process and self._source.may_run(self._finish):
            self._fabric.time.resume(self.parking)


# ---------------------------------------------------------------------------------------------- one end of a connection
#
# One end of a simulated connection. It transfers real bytes, which are in flight for the delay of the link.
#
# When a frame is sent, its bytes are fixed; from then on it is a message in flight. Its bytes in memory are copied. A
# slice of a file is read by os.sendfile, directly from the segment, through a real socket pair that is drained
# immediately, so the sizes of socket buffers never matter.

SOCKET_BUFFER_BYTES = 1 << 20
SIZE_PREFIX_BYTES = 4


class SimulatedConnection(Passage[bytearray]):
    """One end of a simulated connection. `inbox` represents the kernel's receive buffer."""

    def __init__(self, fabric: SimulatedFabric, host: Host, peer: str, *, accepted: bool) -> None:
        super().__init__(fabric, fabric.events, host.name, peer)
        self.fabric = fabric
        self.host = host
        self.other: SimulatedConnection
        self.inbox: deque[bytearray] = deque()
        self._accepted = accepted
        self._mute = False
        self._take: Callable[[bytearray], None] | None = None
        self._parking = Parking()
        self._waiting = False
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    @classmethod
    def pair(cls, fabric: SimulatedFabric, source: Host, target: Host) -> tuple[Self, Self]:
        """Return both ends of a new connection."""
        near = cls(fabric, source, target.name, accepted=False)
        far = cls(fabric, target, source.name, accepted=True)
        near.other, far.other = far, near
        return near, far

    # ------------------------------------------------------------------------------------- for the shell (Connection)

    is_identified = True

    def allow(self, max_frame_bytes: int) -> None:
        """Do nothing: a simulated frame has no size prefix to check; the receiver checks the whole frame."""

    def identify(self, frame: bytearray) -> None:
        raise AssertionError("a simulated connection is always identified")

    async def read(self, take: Callable[[bytearray], None]) -> None:
        # Frames are taken straight from the queue of virtual time; the task is resumed only for the end.
        self._take = take
        self._take_frames()
        while self.gone is None or self.inbox:
            await self.fabric.time.park(self._parking)
        raise ConnectionGone(self.gone.meaning)

    def _take_frames(self) -> None:
        assert self._take is not None
        self._waiting = False
        while self.inbox and not self._mute and not self._parking.gone:
            self._mute = self._accepted
            self._take(self.inbox.popleft())
        self._waiting = True

    def unmute(self) -> None:
        if self._mute and self.withheld is None:
            self._mute = False
            if self._waiting and (self.inbox or self.gone is not None):
                self.fabric.time.at(self.fabric.time.now_us, self.wake)

    def _transmit(self, send: Send) -> None:
        """Send a frame in the form in which the other end receives it, without its size prefix.

        Raises:
            TornSend: if a segment file ends before the bytes that the frame promised.
        """
        counts = self.host.bytes
        calls, from_files = counts.sendfile_calls, counts.sendfile
        frame = bytearray()
        for segment in send.segments:
            if type(segment) is FileSlice:
                self._send_from_file(segment, frame)
                counts.sendfile += segment.length
                continue
            frame += segment
            if type(segment) is memoryview:  # Records that are in memory travel as memoryviews.
                counts.fetch_payload_through_python += len(segment)
            else:
                counts.protocol += len(segment)
        del frame[:SIZE_PREFIX_BYTES]  # Cheap: a bytearray shrinks at its front without copying.
        if send.on_sent is not None:
            now_us = self._time.now_us
            send.on_sent(Sent(now_us, now_us, counts.sendfile_calls - calls, counts.sendfile - from_files))
        self._depart(Message(frame, send.api, send.part, len(frame)), send.cause)

    def _may_run(self, then: Callable[[], None]) -> bool:
        return self.host.may_run(then)

    def _torn(self) -> None:
        self.gone = ConnectionEnd.TORN
        self._shut(CLOSED)
        self._events.lost(ConnectionLost(node=self.host.name, peer=self.peer, cause=self.gone))
        self.wake()

    def close(self) -> None:
        """Close the connection. The peer learns of it after one latency, and after all data sent before."""
        self._shut(CLOSED)

    def _drop_unread(self) -> None:
        self.inbox.clear()

    # ------------------------------------------------------------------------------------------------ real bytes

    def _send_from_file(self, source: FileSlice, frame: bytearray) -> None:
        """Copy a file slice into the frame by sendfile over a socket pair.

        Raises:
            TornSend: if the file ends before the bytes that the frame promised.
        """
        near, far = self._sockets or self._socket_pair()
        sent, end = 0, len(frame) + source.length
        while sent < source.length:
            try:
                count = source.sendfile(near.fileno(), sent)
            except BlockingIOError:  # The socket is full: drain its other end, then continue.
                frame += far.recv(end - len(frame))
                continue
            self.host.bytes.sendfile_calls += 1
            if count == 0:
                raise TornSend("a segment file ended before all bytes of the response were sent")
            sent += count
        while len(frame) < end:
            frame += far.recv(end - len(frame))

    def _socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Create the socket pair for sendfile, on first use: most connections never need it."""
        self._sockets = socket.socketpair()
        for end in self._sockets:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        return self._sockets

    def close_sockets(self) -> None:
        for end in self._sockets or ():
            end.close()

    # ------------------------------------------------------------------------------------------------ in flight

    def _deliver(self, message: Message[bytearray]) -> None:
        target = self.other
        if not target.host.powered:
            return  # a machine without power answers nothing
        if message.frame is None:
            target.end(ConnectionEnd(message.part))
            self.fabric.forget(self)
        elif target.open:
            target.inbox.append(message.frame)
            target.wake()
        else:  # The process this connection belonged to is gone; its machine answers with a reset.
            self._end_later(RESET)

    # ------------------------------------------------------------------------------------------------- the end

    def _shut(self, how: ConnectionEnd) -> None:
        self._drop_unread()
        if not self.open:
            return
        self._let_go()
        self._depart(Message(None, 0, how, END_BYTES))
        self.fabric.forget(self)

    def vanish(self) -> None:
        """Drop this end without notice to the peer, because the machine lost power."""
        self._lose(DropCause.POWER_LOST)
        self.inbox.clear()
        self.fabric.forget(self)

    def _end_later(self, how: ConnectionEnd) -> None:
        """End this side after one latency, as if the peer's machine had reset it; do nothing if the link is cut."""
        link = self.fabric.network.link(self.peer, self.host.name)
        if not link.is_cut:
            self.fabric.time.at(self.fabric.time.now_us + link.base.low_us, partial(self.end, how))

    def _end_known(self) -> None:
        self.wake()
        self.fabric.forget(self)

    def wake(self) -> None:
        """Resume the reader if it may read another frame or the connection has ended."""
        may_read = self.gone is not None or not self._mute
        if self._waiting and may_read and self.host.may_run(self.wake):
            self._take_frames()
            if self.gone is not None and not self.inbox:
                self._waiting = False
                self.fabric.time.resume(self._parking)
