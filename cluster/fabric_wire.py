"""One end of a simulated connection: real bytes through a real socket pair, in flight for as long as the link says.

A frame is written to the socket when it is sent (file slices by os.sendfile, straight from the segment) and drained
at once into the receiving side's buffer, so socket sizes never matter; from then on it is a message in flight. TCP's
promises hold: one connection keeps its order, a cut delays and does not lose, a closed connection loses what was held.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cluster.links import Hold
from cluster.node import Segment
from cluster.virtual_time import Parking
from cluster.world import ConnectionGone, TornSend
from replica.file_slice import FileSlice

if TYPE_CHECKING:
    from cluster.fabric import Fabric
    from cluster.host import Host


AT_ONCE_BYTES = 2048
"""Less than the kernel's smallest socket buffer."""


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


@dataclass(frozen=True, slots=True)
class Withheld:
    """A response whose header is out and whose file bytes have not yet left the file."""

    segments: Sequence[Segment]
    api: int
    part: str
    cause: int | None
    hold: Hold


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
        self.withheld: Withheld | None = None
        self.last_arrival_us = 0
        self.gone: str | None = None  # how this end learned that the connection is over
        self.open = True
        self._link = fabric.network.link(host.name, peer)
        self._accepted = accepted
        self._mute = False
        self._take: Callable[[bytearray], None] | None = None
        self._parking = Parking()
        self._waiting = False

    # ------------------------------------------------------------------------------------------ for the shell (Wire)

    async def read(self, take: Callable[[bytearray], None]) -> None:
        # Frames are taken straight from the queue of virtual time; the task is resumed only for the end.
        self._take = take
        self._take_frames()
        while self.gone is None or self.inbox:
            await self.fabric.time.park(self._parking)
        raise ConnectionGone(self.gone)

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
            if self._waiting and self.inbox:
                self.fabric.time.at(self.fabric.time.now_us, self.wake)

    def send(self, segments: Sequence[Segment], api: int, part: str, cause: int | None) -> None:
        if not self.open:
            return
        hold = self._body_hold(segments, api)
        if hold is None:
            self._transmit(segments, api, part, cause)
            return
        hold.caught += 1
        self.withheld = Withheld(segments, api, part, cause, hold)
        self.fabric.held(self, Message(None, api, "body", 0, hold))

    def _transmit(self, segments: Sequence[Segment], api: int, part: str, cause: int | None) -> None:
        frame = self._through_the_socket(segments)
        message = Message(frame, api, part, len(frame))
        self._depart(message, cause)

    # ---------------------------------------------------------------------------------- header sent, file bytes not

    def _body_hold(self, segments: Sequence[Segment], api: int) -> Hold | None:
        network = self.fabric.network
        if not network.holds or not any(isinstance(segment, FileSlice) and segment.length for segment in segments):
            return None
        return network.body_hold_on(self.host.name, self.peer, api)

    def _send_withheld(self) -> None:
        """Now sendfile runs, and sends what the file holds now: it may have been truncated and written anew since the
        answer was decided (KAFKA-18723). source: DefaultRecordsSend, FileRecords.writeTo"""
        withheld, self.withheld = self.withheld, None
        if withheld is None or not self.open:
            return
        try:
            self._transmit(withheld.segments, withheld.api, withheld.part, withheld.cause)
        except TornSend as torn:
            self.gone = str(torn)
            self._shut("closed by the other side")
            self.fabric.lost(self, self.gone)
            self.wake()
        else:
            self.unmute()

    def close(self) -> None:
        """Close in order: the other side learns it after one latency. What is still held back is lost."""
        self._shut("closed by the other side")

    # ------------------------------------------------------------------------------------------------ real bytes

    def _through_the_socket(self, segments: Sequence[Segment]) -> bytearray:
        """The frame without its size prefix, as the other end received it.     raises: TornSend"""
        first = segments[0]
        if len(segments) == 1 and isinstance(first, bytes | bytearray) and len(first) <= AT_ONCE_BYTES:
            return self._at_once(first)
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
                        count = out.send(memoryview(segment)[sent:] if sent else segment)
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

    def _at_once(self, data: bytes | bytearray) -> bytearray:
        """A frame so small that an empty socket takes it whole: by far the most are."""
        self.sock.send(data)
        self.host.bytes.protocol += len(data)
        frame = bytearray(self.other.sock.recv(len(data)))
        assert len(frame) == len(data), "a small frame goes through an empty socket in one piece"
        del frame[:4]
        return frame

    # ------------------------------------------------------------------------------------------------ in flight

    def _depart(self, message: Message, cause: int | None = None) -> None:
        time = self.fabric.time
        arrival_us = max(self._link.arrival_us(time.now_us, message.size_bytes), self.last_arrival_us)
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
        if self._link.is_cut:
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
        withheld = self.withheld
        if withheld is not None and withheld.hold not in self.fabric.network.holds:
            self.fabric.released(self, Message(None, withheld.api, "body", 0, withheld.hold))
            if self.host.may_run(self._send_withheld):
                self.fabric.time.at(self.fabric.time.now_us, self._send_withheld)
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
        self.withheld = None
        self.stopped.clear()
        self.inbox.clear()
        self._depart(Message(None, 0, reason, 40))
        self.fabric.forget(self)

    def vanish(self) -> None:
        """The machine lost power: nobody is told."""
        self.open = False
        self.withheld = None
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
            self.withheld = None
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
            self._take_frames()
            if self.gone is not None and not self.inbox:
                self._waiting = False
                self.fabric.time.resume(self._parking)
