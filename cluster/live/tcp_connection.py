"""One end of a TCP connection. It receives and sends frames, and never waits within a step.

Every operation is tried first, and waits only if the kernel requires it. If the socket does not take all bytes, a task
writes the rest. Network faults act on complete frames before they are written. As in a simulation, a delayed frame no
longer depends on its file: its bytes wait in a memory file, not in Python.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from cluster.live.entrance import Entrance
from cluster.live.frames import FrameTooLarge, LargeFrame, SocketFrameReader
from cluster.live.observations import ConnectionTap, Observation
from cluster.live.peers import client_name
from cluster.live.tls import how_it_ended
from cluster.live.writer import FrameWriter, copy_of
from cluster.network.passage import CLOSED, END_BYTES, RESET, Message, Passage
from cluster.network.world import ConnectionGone, Parking, TornSend
from cluster.node import OnSent, Segment, Send
from cluster.protocol.api_01_fetch import size_of
from cluster.protocol.versions import PRODUCE
from replica.causes import CloseCause, ConnectionEnd, DropCause
from replica.log.files.open_files import FileSlice
from replica.trace.events import ConnectionClosed, ConnectionLost

if TYPE_CHECKING:
    from cluster.live.fabric import TcpFabric
    from cluster.network.host import Host

TURN_US = 5_000
"""For how long frames are handled before other tasks get their turn. One read may bring thousands of frames."""
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
FROM_HERE = "closed here"


class TcpConnection(Passage[Sequence[Segment]]):
    """One end of a TCP connection.

    If the other end is in this process, the two ends share the cause of each frame.
    """

    def __init__(
        self,
        fabric: TcpFabric,
        host: Host,
        peer: str,
        sock: socket.socket,
        *,
        accepted: bool,
    ) -> None:
        super().__init__(fabric, fabric.events, host.name, peer)
        self._is_identified = True
        self._is_named = False
        self.host = host
        self.accepted = accepted
        self._told: deque[int | None] | None = None
        self._heard: deque[int | None] = deque()
        self._fabric = fabric
        self._live_time = fabric.time
        self._sock = sock
        self._frames = SocketFrameReader(sock, fabric.scratch)
        self._out = FrameWriter(sock, host.bytes, fabric.time.clock_us)
        self._writing = False
        self._under_way = 0
        self._mute = False
        self._unmute_when_sent = False
        self._parking = Parking()
        self._sock_open = True
        self._answer_due = b""
        """The bytes of the other node's answer to the proof that have not arrived yet.

        Until they have arrived, nothing is sent and no request is accepted.
        """
        self._entrance: Entrance | None = None
        """The faults on the requests of an outside client; None if the peer is a node."""
        self._tap: ConnectionTap | None = None
        """The observer of an outside client's traffic; None if the connection is not observed."""
        self._to_read: deque[Callable[[ConnectionTap], None]] = deque()
        """Observations that have not been completed. The first one may be paused."""
        self._reading = Parking()
        """Where a request waits until it has been observed."""

    # ------------------------------------------------------------------------------------- for the shell (Connection)

    async def read(self, take: Callable[[bytearray], None]) -> None:
        clock_us = self._live_time.clock_us
        ends_us = clock_us() + TURN_US
        try:
            while not self._is_over():
                if self._mute or not self._may_run(self._wake):
                    await self._live_time.park(self._parking)
                    ends_us = clock_us() + TURN_US
                    continue
                frame = self._frames.take()
                if frame is None:
                    if not await self._fill():
                        ends_us = clock_us() + TURN_US
                        continue
                    frame = self._frames.take()
                if frame is not None:
                    await self._hand_over(frame, take)
                    del frame  # The frame no longer belongs to the connection.
                if clock_us() >= ends_us:
                    await trio.lowlevel.checkpoint()
                    ends_us = clock_us() + TURN_US
        except FrameTooLarge as large:
            self.give_up(CloseCause.VIOLATION, message=str(large))
        # Begin the shell's own step, because another task may have ended the connection long ago.
        self._live_time.enter()
        raise ConnectionGone(self.gone.meaning if self.gone else FROM_HERE)

    async def _hand_over(self, frame: bytearray, take: Callable[[bytearray], None]) -> None:
        if self.accepted and isinstance(frame, LargeFrame):
            self._fabric.request_memory.hand_over(self, frame)
        if not self._is_let_in_at_once() and not await self._comes_in(frame):
            self._drop_unread()  # The request was lost with the connection on its way, and so were all later ones.
            return
        self._mute = self.accepted
        self._live_time.begin(self._heard.popleft() if self._heard else None)
        if self._entrance is not None and self._fabric.tap is not None and not await self._is_read_along(frame):
            self._drop_unread()
            return
        take(frame)
        if self.gone is not None:
            self._read_along(partial(ConnectionTap.ended, reason=self.gone.meaning))
        self._live_time.done()

    async def _is_read_along(self, request: bytearray) -> bool:
        """Wait until a request has been observed, so that its effects come later in the trace.

        Return False if this end was closed meanwhile.
        """
        self._name(request)
        self._read_along(partial(ConnectionTap.request, frame=request))
        while self._to_read:
            self._live_time.done()
            await self._live_time.park(self._reading)
        while not self._is_closed_here and not self._may_run(self._wake):
            self._live_time.done()
            await self._live_time.park(self._parking)
        return not self._is_closed_here

    def _is_let_in_at_once(self) -> bool:
        entrance = self._entrance
        return entrance is None or not self.open or (self._is_identified and entrance.is_clear(self.peer))

    async def _comes_in(self, frame: bytearray) -> bool:
        """Wait until faults let the request in and the process runs.

        Return False if the connection has ended or this end was closed. Data received before a reset counts as arrived.
        """
        entrance = self._entrance
        assert entrance is not None, "a connection between nodes of the cluster has no entrance"
        client = entrance.client(self.peer, frame, is_identified=self._is_identified)
        arrival_us = entrance.arrival_us(client, frame)
        if arrival_us > self._live_time.now_us:
            await self._live_time.sleep_until(arrival_us)
        while self.open and entrance.must_wait(client, frame):
            await self._live_time.park(self._parking)
        if not self.open:
            return False
        while not self._is_closed_here and not self._may_run(self._wake):
            await self._live_time.park(self._parking)
        return not self._is_closed_here

    @property
    def _is_closed_here(self) -> bool:
        return not self.open and self.gone is None

    def move_on(self) -> None:
        super().move_on()
        if self._entrance is not None:
            self._wake()

    def _is_over(self) -> bool:
        """Return True if no more frames will be passed on.

        Frames that arrived before the peer's end are still passed on.
        """
        return self._is_closed_here or (self.gone is not None and not self._frames.has_frame)

    async def _fill(self) -> bool:
        """Read what has arrived, or wait if there is nothing. Return True if bytes were read.

        Raises:
            FrameTooLarge: if an announced size is not allowed.
        """
        try:
            before_bytes = self._frames.large_bytes
            count = self._hear_answer() if self._answer_due else self._frames.fill()
            if self.accepted and self._frames.large_bytes:
                self._fabric.request_memory.grow(self, self._frames.large_bytes - before_bytes)
        except BlockingIOError:
            try:
                await trio.lowlevel.wait_readable(self._sock)
            except (trio.ClosedResourceError, OSError, ValueError):
                if self._sock_open:
                    raise
            return False
        except OSError as error:
            await self._ended(*how_it_ended(error))
            return False
        if count == 0:
            await self._ended(CLOSED)
        return count > 0

    async def _ended(self, how: ConnectionEnd, message: str | None = None) -> None:
        """End the connection as the kernel reports, once no network cut or power loss hides this from the machine."""
        while self.open and self._fabric.hides_end(self.host.name, self.peer):
            await self._live_time.park(self._parking)
        self._live_time.enter()
        self.end(how, message)

    # ------------------------------------------------------------------------------------------------------ the peer

    def begin_with(self, proof: bytes, answer: bytes) -> None:
        """Send this node's proof. Frames are queued until the other node's answer has arrived."""
        self._answer_due, self._writing = answer, True
        with contextlib.suppress(OSError):  # The connection has ended, which reading will report.
            self._sock.send(proof)

    def _hear_answer(self) -> int:
        """Read the answer to the proof and return the number of bytes read.

        Raises:
            OSError: if the connection failed.
        """
        data = self._sock.recv(len(self._answer_due))
        if not hmac.compare_digest(data, self._answer_due[: len(data)]):
            self.give_up(CloseCause.NO_SECRET)
            return len(data)
        self._answer_due = self._answer_due[len(data) :]
        if not self._answer_due:
            self._fabric.nursery.start_soon(self._go_on_writing)
        return len(data)

    def tells_causes(self) -> None:
        """Begin to record the cause of each frame, because the other end will be in this process."""
        self._told = deque()

    def comes_from(self, address: str, listener: str) -> None:
        """Mark the peer as an outside client, which its first frame will name.

        Args:
            address: address of the client, by which it is known until then.
            listener: name of the listener that accepted it.
        """
        self.listener = listener
        self._is_identified = False
        self._entrance = Entrance(self._fabric, self.host.name)
        self.peer = address

    def pair_with(self, near: TcpConnection) -> None:
        """Exchange the causes of frames with the other end, which this process opened."""
        assert near._told is not None, "the other end does not keep the causes of its frames"
        self._told = deque()
        self._heard, near._heard = near._told, self._told

    @property
    def is_paired(self) -> bool:
        return self._told is not None

    def allow(self, max_frame_bytes: int) -> None:
        self._frames.max_bytes = max_frame_bytes

    @property
    def is_identified(self) -> bool:
        return self._is_identified

    def identify(self, frame: bytearray) -> None:
        """Name the peer after its first request."""
        self._name(frame)
        self._is_identified = True

    def _name(self, frame: bytearray) -> None:
        if self._is_named:
            return
        self._is_named = True
        self.peer = self._fabric.outsider(client_name(frame, self.peer))
        self._link = self._network.link(self.host.name, self.peer)
        if self._fabric.tap is not None:
            observe = self._fabric.tap.open(self.peer, self.host.name)

            def tell(observation: Observation) -> None:
                observe(observation, self._live_time.now_us)

            self._tap = ConnectionTap(tell, self._fabric.tap.topic_name, self._live_time.clock_us)

    def _read_along(self, what: Callable[[ConnectionTap], None]) -> None:
        """Observe traffic, in order and in slices.

        A bug in Highwater is reported and ends the observation; the client does not notice.
        """
        if self._tap is None:
            return
        self._to_read.append(what)
        if len(self._to_read) == 1:
            self._fabric.slices.begin(self._read_on)

    def _read_on(self) -> None:
        while self._to_read:
            try:
                if self._tap is not None:
                    self._to_read[0](self._tap)
            except Exception as failure:
                self._tap = None
                self._fabric.contains(self.host.name, self.peer, failure)
            self._to_read.popleft()
        self._live_time.resume(self._reading)

    def unmute(self) -> None:
        if self.withheld is not None:
            return
        if self._out.pending:  # A response is sent before the next request is handled.
            self._unmute_when_sent = True
        elif self._mute:
            self._mute = False
            self._wake()

    def _wake(self) -> None:
        self._live_time.resume(self._parking)

    def look_again(self) -> None:
        """Check again whether this machine may see the connection's end, after network faults have changed."""
        self._wake()

    # ------------------------------------------------------------------------------------------------------- sending

    def _transmit(self, send: Send) -> None:
        cause = self._live_time.cause if send.cause is None else send.cause
        if self._told is not None:
            self._told.append(cause)
        on_its_way = self._under_way or self.stopped or self.let_through
        if not on_its_way and not self._network.holds and self._link.is_clear:
            self._put(send.segments, send.api, send.on_sent)
            return
        size_bytes = sum(map(size_of, send.segments))
        self._depart(Message(send.segments, send.api, send.part, size_bytes, on_sent=send.on_sent), cause)

    def _depart(self, message: Message[Sequence[Segment]], cause: int | None = None) -> None:
        """Send a message after the delay of its link, if there is one.

        Raises:
            TornSend: if a message that leaves immediately needs bytes its file no longer has.
        """
        now_us = self._live_time.now_us
        arrival_us = max(self._link.arrival_us(now_us, message.size_bytes), self.last_arrival_us)
        on_its_way = self._under_way or self.stopped or self.let_through
        if arrival_us <= now_us and not on_its_way and not self._must_wait(message):
            self._deliver(message)
            return
        self.last_arrival_us = arrival_us
        if message.frame is not None:
            message.frame = [_out_of_its_file(segment) for segment in message.frame]
        self._under_way += 1
        self._live_time.at(arrival_us, partial(self._arrives, message), cause)

    def _arrives(self, message: Message[Sequence[Segment]]) -> None:
        self._under_way -= 1
        self._arrive(message)

    def _deliver(self, message: Message[Sequence[Segment]]) -> None:
        if message.frame is None:
            self._close_socket()
        else:
            self._put(message.frame, message.api, message.on_sent)

    def _put(self, segments: Sequence[Segment], api: int, on_sent: OnSent | None) -> None:
        """Write a frame to the socket.

        Raises:
            TornSend: if a file ends before the bytes that the frame promised.
        """
        if not self._sock_open:
            return
        # This is checked first, because a client that has its answer may disconnect immediately.
        there = self._tap is not None and self._peer_is_there()
        tells_first = self._fabric.tells_acks_first and api == PRODUCE
        if there and tells_first:
            self._read_along(partial(ConnectionTap.response, segments=segments))
            self._fabric.finish_reading()
        if self._writing:
            self._out.add(segments, on_sent)
        else:
            self._write(segments, on_sent)
        if there and not tells_first:
            self._read_along(partial(ConnectionTap.response, segments=segments))

    def _peer_is_there(self) -> bool:
        """Return False if the peer has closed or reset the connection."""
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _write(self, segments: Sequence[Segment], on_sent: OnSent | None) -> None:
        """Write a frame, or start a task for the bytes that the socket does not take.

        Raises:
            TornSend: if a file ends before the bytes that the frame promised.
        """
        try:
            if not self._out.write(segments, on_sent):
                self._writing = True
                self._fabric.nursery.start_soon(self._go_on_writing)
            if self._out.has_news:
                self._out.tell()
        except OSError:
            # End the connection only after the current step.
            self._live_time.at(self._live_time.now_us, self._broken)

    async def _go_on_writing(self) -> None:
        try:
            done = False
            while not done and self._sock_open:
                await trio.lowlevel.wait_writable(self._sock)
                done = await self._running() and self._out.flush()
        except trio.ClosedResourceError:
            return
        except TornSend:
            self._live_time.enter()
            self._torn()
        except OSError:
            self._live_time.enter()
            self._broken()
        finally:
            self._writing = False
        if self._out.has_news:
            self._live_time.enter()
            self._out.tell()
        if self._unmute_when_sent:
            self._unmute_when_sent = False
            self.unmute()

    def _broken(self) -> None:
        """End the connection after a failed write, unless a fault hides the failure from this end."""
        if not self._fabric.hides_end(self.host.name, self.peer):
            self._drop_unread()
            self.end(RESET)

    async def _running(self) -> bool:
        """Wait while the process is stopped. Return False once the connection is closed."""
        while self.host.paused:
            parking = Parking()
            self._may_run(partial(self._live_time.resume, parking))
            await self._live_time.park(parking)
        return self._sock_open

    def _may_run(self, then: Callable[[], None]) -> bool:
        return self.host.may_run(then)

    # ------------------------------------------------------------------------------------------------------- the end

    def close(self) -> None:
        """Close the connection as the kernel does for a process: immediately, or after the sent data has arrived."""
        self._drop_unread()
        self._shut()
        self._wake()

    def _shut(self) -> None:
        if not self.open:
            return
        self._let_go()
        self._depart(Message(None, 0, CLOSED, END_BYTES))

    def _drop_unread(self) -> None:
        self._frames.clear()

    def _torn(self) -> None:
        self._drop_unread()
        self.gone = ConnectionEnd.TORN
        self._events.lost(ConnectionLost(node=self.host.name, peer=self.peer, cause=self.gone))
        self._shut()
        self._wake()

    def vanish(self) -> None:
        """Give up this end without notice to the peer, because the machine lost power.

        The socket stays until power is back.
        """
        self._lose(DropCause.POWER_LOST)
        self._wake()
        self._fabric.went_dark(self)

    def reset(self) -> None:
        """Reset the connection (RST), as a fault of the network.

        Received data can still be read: it is taken out of the kernel first, because closing the socket would lose it.
        Data that a fault still holds back is lost.

        Simplified: an unread request of a client counts as received, unless a cut or a hold is in force. A delay of its
        link is ignored, because the time of its arrival at the kernel is not known.
        """
        if self._sock_open:
            if not self._answer_due:
                self._frames.fill_up()
            if self._entrance is not None:
                self._frames.keep_while(partial(self._entrance.lets_in, self.peer))
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.end(RESET)

    def _end_known(self) -> None:
        self._close_socket()
        self._wake()

    def give_up(self, cause: CloseCause, message: str | None = None, **numbers: int) -> None:
        """Stop reading and close this connection because the peer broke a limit."""
        if self.open and self.gone is None:
            self._live_time.enter()
            self._drop_unread()
            self.gone = ConnectionEnd.GIVEN_UP
            self._lose(DropCause.CONNECTION_ENDED)
            self._events.closed(
                ConnectionClosed(node=self.host.name, peer=self.peer, cause=cause, message=message, **numbers)
            )
            self._end_known()

    def _close_socket(self) -> None:
        if self._sock_open:
            self._sock_open = False
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
            self._out.clear()
            self._fabric.request_memory.release(self)
            self._fabric.forget(self)
            reason = self.gone.meaning if self.gone else "the broker closed the connection"
            self._read_along(partial(ConnectionTap.ended, reason=reason))

    async def answer_with_reset(self) -> None:
        """Wait for data on a connection from before a power loss, and answer it with RST.

        Data that came during the power loss is lost. Differs from a real network: a kernel that got no answer would
        have sent it again.
        """
        while self._sock_open and self._frames.discard():
            with contextlib.suppress(trio.ClosedResourceError):
                await trio.lowlevel.wait_readable(self._sock)
            if self._sock_open and self.host.powered:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                break
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection without an event, at the end of the run or after a failed attempt to connect."""
        self.open = False
        self._tap = None
        self._close_socket()
        self._wake()


def _out_of_its_file(segment: Segment) -> Segment:
    """Return a copy of a file slice. The bytes in flight then stay the same if the file changes."""
    if not isinstance(segment, FileSlice) or not segment.length:
        return segment
    return copy_of(segment)
