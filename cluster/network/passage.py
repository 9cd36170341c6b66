"""The path of the frames that one end of a connection sends, over a link that may delay, cut or hold them.

This code is common to simulated and live connections. They differ in how a frame in flight is stored, and in what
happens when it arrives. As in TCP, a connection keeps its order, and a cut or a hold delays data without losing it.
Data that a process has sent and a fault holds arrives even after the process ended (kill -9), in order and before the
end of the connection. Waiting data is lost when its machine loses power, or when the other side closes or resets the
connection; the trace shows this.

Simplified: data behind a cut is lost when its own side closes the connection. Linux would retransmit it for about 100
s, ever more slowly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from cluster.network.links import HoldRule, Network, Road
from cluster.network.world import Fabric, TornSend
from cluster.node import OnSent, Send
from replica.causes import ConnectionEnd, DropCause
from replica.log.files.open_files import FileSlice
from replica.trace.events import (
    ConnectionClosed,
    ConnectionLost,
    MessageDropped,
    MessageHeld,
    MessageReleased,
    TraceLog,
)

END_BYTES = 40
"""The size in bytes of a connection's end on its link: a segment without data."""

NO_EVENT = -1
"""The event number of a message that no hold has delayed."""

CLOSED, RESET = ConnectionEnd.CLOSED, ConnectionEnd.RESET
"""The ways in which a connection may end that this end has not closed itself."""

Frame = TypeVar("Frame")


@dataclass(slots=True)
class ByteCounts:
    """The numbers of bytes that left one machine, by the way they were sent."""

    sendfile: int = 0
    sendfile_calls: int = 0
    fetch_payload_through_python: int = 0
    protocol: int = 0


@dataclass(slots=True)
class Message(Generic[Frame]):
    """A whole frame in flight. Faults select it by its API and part.

    Attributes:
        frame: None for the end of the connection; `part` is then the way in which it ended.
    """

    frame: Frame | None
    api: int
    part: str
    size_bytes: int
    held_by: HoldRule | None = None
    held_event: int = NO_EVENT
    on_sent: OnSent | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """A response whose header was sent, while a hold keeps back its file bytes."""

    send: Send
    hold: HoldRule
    held_event: int


class NetworkEvents:
    """Writes the trace events of connections and of messages that faults hold back."""

    def __init__(self, trace: TraceLog, api_name: Callable[[int], str]) -> None:
        self._trace = trace
        self._api_name = api_name

    def held(self, node: str, peer: str, api_key: int, part: str, hold: HoldRule) -> int:
        """Record that a hold delays a message. Return the number of this event, to be passed to `released`."""
        api = self._api_name(api_key)
        return self._trace.emit(MessageHeld(node=node, peer=peer, api=api, part=part, fault=hold.fault))

    def released(self, node: str, peer: str, api_key: int, part: str, held_event: int) -> None:
        api = self._api_name(api_key)
        self._trace.emit(MessageReleased(node=node, peer=peer, api=api, part=part), held_event)

    def dropped(
        self, node: str, peer: str, api_key: int, part: str, cause: DropCause, end: ConnectionEnd | None = None
    ) -> None:
        api = self._api_name(api_key)
        self._trace.emit(MessageDropped(node=node, peer=peer, api=api, part=part, cause=cause, end=end))

    def lost_with_its_process(self, held: MessageHeld) -> None:
        """Record that a message held in the memory of its sender's process was lost when the process ended."""
        self._trace.emit(
            MessageDropped(node=held.node, peer=held.peer, api=held.api, part=held.part, cause=DropCause.PROCESS_GONE)
        )

    def lost(self, lost: ConnectionLost) -> None:
        self._trace.emit(lost)

    def closed(self, closed: ConnectionClosed) -> None:
        self._trace.emit(closed)


class Passage(ABC, Generic[Frame]):
    """One end of a connection: the part that concerns the network between the two machines."""

    def __init__(self, fabric: Fabric, events: NetworkEvents, node: str, peer: str) -> None:
        self.peer = peer
        self.listener = ""  # see Connection.listener
        self.stopped: deque[Message[Frame]] = deque()  # messages sent from this end that may not arrive yet
        self.withheld: Withheld | None = None
        self.let_through = 0  # released messages whose delivery is scheduled at this instant
        self.last_arrival_us = 0
        self.gone: ConnectionEnd | None = None  # how this end learned that the connection is over
        self.open = True
        self._lost_because: DropCause | None = None  # why the waiting messages will never arrive
        self._node = node
        self._time = fabric.time
        self._network: Network = fabric.network
        self._events = events
        self._link = fabric.network.link(node, peer)
        cards = fabric.network.cards
        self._road = Road(fabric.time, cards.get(node), cards.get(peer)) if cards and node != peer else None

    # ------------------------------------------------------------------------------------------- what a subclass adds

    @abstractmethod
    def _transmit(self, send: Send) -> None:
        """Send a frame over the link.

        Raises:
            TornSend: if a segment file ends before the bytes that the frame promised.
        """

    @abstractmethod
    def _deliver(self, message: Message[Frame]) -> None:
        """Hand an arrived message to the other end."""

    @abstractmethod
    def _may_run(self, then: Callable[[], None]) -> bool:
        """Return True if this end's process can run now.

        While it is paused, return False and call `then` when it resumes.
        """

    @abstractmethod
    def unmute(self) -> None: ...

    @abstractmethod
    def _drop_unread(self) -> None:
        """Drop received frames that the process has not read."""

    @abstractmethod
    def _end_known(self) -> None:
        """Wake the reader, because the connection has ended. The trace already shows this."""

    @abstractmethod
    def _torn(self) -> None:
        """Close the connection, because a file ended before the bytes that a withheld response had promised."""

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, send: Send) -> None:
        if not self.open:
            if self.gone == RESET:  # After a failed write Kafka ignores the connection: Selector, NOTIFY_ONLY.
                self._drop_unread()
            return
        if not self._network.holds or (hold := self._body_hold(send)) is None:
            self._transmit(send)
            return
        self._network.keeps_another(hold)
        held_event = self._events.held(self._node, self.peer, send.api, "body", hold)
        self.withheld = Withheld(send, hold, held_event)

    # ---------------------------------------------------------------------------------- header sent, file bytes not

    def _body_hold(self, send: Send) -> HoldRule | None:
        if not any(isinstance(segment, FileSlice) and segment.length for segment in send.segments):
            return None
        return self._network.body_hold_on(self._node, self.peer, send.api)

    def _send_withheld(self) -> None:
        """Send the withheld bytes of the file as they are now.

        The file may have been truncated and written again since the response was created (KAFKA-18723).

        Source: DefaultRecordsSend, FileRecords.writeTo
        """
        withheld, self.withheld = self.withheld, None
        if withheld is None or not self.open:
            return
        try:
            self._transmit(withheld.send)
        except TornSend:
            self._torn()
        else:
            self.unmute()

    # ------------------------------------------------------------------------------------------------ in flight

    def _depart(self, message: Message[Frame], cause: int | None = None) -> None:
        now_us = self._time.now_us
        arrival_us = self._link.arrival_us(now_us, message.size_bytes)
        if self._road is not None:
            self._road.carry(message.size_bytes, arrival_us - now_us, partial(self._arrive, message), cause)
            return
        if arrival_us < self.last_arrival_us:
            arrival_us = self.last_arrival_us
        self.last_arrival_us = arrival_us
        self._time.at(arrival_us, partial(self._arrive, message), cause)

    def _arrive(self, message: Message[Frame]) -> None:
        """Deliver a message that has reached the other machine, or queue it while a fault stops it."""
        if self.stopped or ((self._link.cuts or self._network.holds) and self._must_wait(message)):
            self.stopped.append(message)
            self._drop_lost()
        elif self.let_through:
            self._let_through(message)
        else:
            self._deliver(message)

    def _let_through(self, message: Message[Frame]) -> None:
        """Schedule the delivery of a message, after all messages released earlier."""
        self.let_through += 1
        # One callback per message, because a delivery may wake a task, and a callback wakes at most one.
        self._time.at(self._time.now_us, partial(self._deliver_in_turn, message))

    def _deliver_in_turn(self, message: Message[Frame]) -> None:
        self.let_through -= 1
        self._deliver(message)

    def _must_wait(self, message: Message[Frame]) -> bool:
        if self._link.cuts:
            return True
        if message.frame is None or not self._network.holds:
            return False
        hold = self._network.hold_on(self._node, self.peer, message.api, message.part, message.held_by)
        if hold is None:
            return False
        if message.held_by != hold:
            message.held_by = hold
            self._network.keeps_another(hold)
            message.held_event = self._events.held(self._node, self.peer, message.api, message.part, hold)
        return True

    def move_on(self) -> None:
        """Deliver, in order, the waiting messages that no cut or hold stops any more."""
        withheld = self.withheld
        if withheld is not None and withheld.hold not in self._network.holds:
            self._events.released(self._node, self.peer, withheld.send.api, "body", withheld.held_event)
            if self._may_run(self._send_withheld):
                self._time.at(self._time.now_us, self._send_withheld)
        while self.stopped and not self._must_wait(self.stopped[0]):
            message = self.stopped.popleft()
            if message.held_by is not None:
                self._events.released(self._node, self.peer, message.api, message.part, message.held_event)
            self._let_through(message)

    # ------------------------------------------------------------------------------------------------------- the end

    def end(self, how: ConnectionEnd, message: str | None = None) -> None:
        """End the connection on this side. Data that this end has already received can still be read."""
        if self.open and self.gone is None:
            self.gone = how
            self._lose(DropCause.CONNECTION_ENDED)
            self._events.lost(ConnectionLost(node=self._node, peer=self.peer, cause=how, message=message))
            self._end_known()

    def _let_go(self) -> None:
        """Stop sending. Messages that have left the process are still in flight."""
        self.open = False
        withheld, self.withheld = self.withheld, None
        if withheld is not None:
            self._events.dropped(self._node, self.peer, withheld.send.api, "body", DropCause.NOT_SENT)
        self._drop_lost()

    def _lose(self, why: DropCause) -> None:
        """Stop sending, and drop the messages that wait on the link, for this reason."""
        self._lost_because = why
        self._let_go()

    def _drop_lost(self) -> None:
        """Drop the waiting messages if they can never arrive."""
        why = self._lost_because
        if why is None and not self.open and self._link.is_cut:
            why = DropCause.CONNECTION_CLOSED
        if why is not None:
            self._drop_waiting(why)

    def _drop_waiting(self, why: DropCause) -> None:
        """Drop the waiting messages. The message of the connection's end is kept unless the connection is lost."""
        stopped, self.stopped = self.stopped, deque()
        for message in stopped:
            if message.frame is not None:
                self._events.dropped(self._node, self.peer, message.api, message.part, why, self.gone)
            elif self._lost_because is None:
                self.stopped.append(message)
