"""One end of a simulated connection: real bytes, in flight for as long as the link says.

A frame is what its receiver will read as soon as it is sent; from then on it is a message in flight. What it holds in
memory is copied. A stretch of a file leaves it by os.sendfile, straight from the segment, through a real socket pair
that is drained at once, so socket sizes never matter.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from cluster.network.passage import CLOSED, END_BYTES, RESET, Message, Passage
from cluster.network.world import ConnectionGone, Parking, TornSend
from cluster.node import OnSent, Segment, Sent
from replica.log.files.open_files import FileSlice

if TYPE_CHECKING:
    from cluster.network.fabric import SimulatedFabric
    from cluster.network.host import Host


SOCKET_BUFFER_BYTES = 1 << 20
SIZE_PREFIX_BYTES = 4


class SimulatedConnection(Passage[bytearray]):
    """One end of a simulated connection. Its `inbox` is the kernel's receive buffer of its machine."""

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
        """Both ends of a new connection."""
        near = cls(fabric, source, target.name, accepted=False)
        far = cls(fabric, target, source.name, accepted=True)
        near.other, far.other = far, near
        return near, far

    # ------------------------------------------------------------------------------------- for the shell (Connection)

    is_identified = True

    def allow(self, max_frame_bytes: int) -> None:
        """The receiver of a frame refuses what is too large; here there is no announcement to go by."""

    def identify(self, frame: bytearray) -> None:
        raise AssertionError("machines of a simulation know each other")

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
            if self._waiting and (self.inbox or self.gone is not None):
                self.fabric.time.at(self.fabric.time.now_us, self.wake)

    def _transmit(
        self, segments: Sequence[Segment], api: int, part: str, cause: int | None, on_sent: OnSent | None
    ) -> None:
        """The frame leaves as the other end receives it, without its size prefix.     raises: TornSend"""
        counts = self.host.bytes
        calls, from_files = counts.sendfile_calls, counts.sendfile
        frame = bytearray()
        for segment in segments:
            if type(segment) is FileSlice:
                self._send_from_file(segment, frame)
                counts.sendfile += segment.length
                continue
            before = len(frame)
            frame += segment
            if type(segment) is memoryview:  # Records that are in memory travel as memoryviews.
                counts.fetch_payload_through_python += len(frame) - before
            else:
                counts.protocol += len(frame) - before
        del frame[:SIZE_PREFIX_BYTES]  # Cheap: a bytearray shrinks at its front without copying.
        if on_sent is not None:
            now_us = self._time.now_us
            on_sent(Sent(now_us, now_us, counts.sendfile_calls - calls, counts.sendfile - from_files))
        self._depart(Message(frame, api, part, len(frame)), cause)

    def _may_run(self, then: Callable[[], None]) -> bool:
        return self.host.may_run(then)

    def _torn(self, reason: str) -> None:
        self.gone = reason
        self._shut(CLOSED)
        self._events.lost(self.host.name, self.peer, reason)
        self.wake()

    def close(self) -> None:
        """Close in order: the other side learns it after one latency, and after all that was sent before."""
        self._shut(CLOSED)

    def _drop_unread(self) -> None:
        self.inbox.clear()

    # ------------------------------------------------------------------------------------------------ real bytes

    def _send_from_file(self, source: FileSlice, frame: bytearray) -> None:
        """From the file into a socket by sendfile, and from its other end into the frame.     raises: TornSend"""
        near, far = self._sockets or self._socket_pair()
        sent, end = 0, len(frame) + source.length
        while sent < source.length:
            try:
                count = source.sendfile(near.fileno(), sent)
            except BlockingIOError:  # The pump: drain the other end, and go on.
                frame += far.recv(end - len(frame))
                continue
            self.host.bytes.sendfile_calls += 1
            if count == 0:
                raise TornSend("a segment file ended before the bytes its frame had promised")
            sent += count
        while len(frame) < end:
            frame += far.recv(end - len(frame))

    def _socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Made for the first stretch of a file: most ends send none."""
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
            target.end(message.part)
            self.fabric.forget(self)
        elif target.open:
            target.inbox.append(message.frame)
            target.wake()
        else:  # The process this connection belonged to is gone; its machine answers with a reset.
            self._end_later(RESET)

    # ------------------------------------------------------------------------------------------------- the end

    def _shut(self, reason: str) -> None:
        self._drop_unread()
        if not self.open:
            return
        self._let_go()
        self._depart(Message(None, 0, reason, END_BYTES))
        self.fabric.forget(self)

    def vanish(self) -> None:
        """The machine lost power: no other machine learns of it."""
        self._lose(f"{self.host.name} lost power")
        self.inbox.clear()
        self.fabric.forget(self)

    def _end_later(self, reason: str) -> None:
        """A reset comes back to this end after one latency."""
        link = self.fabric.network.link(self.peer, self.host.name)
        if not link.is_cut:
            self.fabric.time.at(self.fabric.time.now_us + link.base.low_us, partial(self.end, reason))

    def _end_known(self) -> None:
        self.wake()
        self.fabric.forget(self)

    def wake(self) -> None:
        """Let the reader look again: a frame it may read has come, or the connection is over."""
        may_read = self.gone is not None or not self._mute
        if self._waiting and may_read and self.host.may_run(self.wake):
            self._take_frames()
            if self.gone is not None and not self.inbox:
                self._waiting = False
                self.fabric.time.resume(self._parking)
