"""The path of the frames that one end of a connection sends: over a link that may delay, cut or hold it.

The same for both worlds; they differ in what a frame is on its way, and in what its arrival does. TCP's promises hold:
one connection keeps its order, and a cut or a hold delays and does not lose. Data that a process has sent and a
fault holds arrives also after the process ended (kill -9), in order and before the end of the connection. Waiting data
is lost when its machine loses power, or when the other side closes or resets the connection; the trace then says so.

Simplified: data behind a cut is lost when its own side closes the connection. Linux goes on sending it for about
100 s, ever more slowly.
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
"""Size of a connection's end on its link: a segment without data."""

NO_EVENT = -1
"""Of a message that no hold has kept."""

CLOSED, RESET = ConnectionEnd.CLOSED, ConnectionEnd.RESET
"""How a connection ends that this end has not closed."""

Frame = TypeVar("Frame")


@dataclass(slots=True)
class ByteCounts:
    """Bytes that left one machine, by the way they were sent."""

    sendfile: int = 0
    sendfile_calls: int = 0
    fetch_payload_through_python: int = 0
    protocol: int = 0


@dataclass(slots=True)
class Message(Generic[Frame]):
    """A whole frame on its way (None: the connection's end, `part` says how), with the label faults choose by."""

    frame: Frame | None
    api: int
    part: str
    size_bytes: int
    held_by: HoldRule | None = None
    held_event: int = NO_EVENT
    on_sent: OnSent | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """A response whose header is out and whose file bytes have not yet left the file."""

    send: Send
    hold: HoldRule
    held_event: int


class NetworkEvents:
    """Trace events of connections and of messages that faults hold back."""

    def __init__(self, trace: TraceLog, api_name: Callable[[int], str]) -> None:
        self._trace = trace
        self._api_name = api_name

    def held(self, node: str, peer: str, api_key: int, part: str, hold: HoldRule) -> int:
        """returns: the event, for `released`"""
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
        """Where the process itself holds its messages back."""
        self._trace.emit(
            MessageDropped(node=held.node, peer=held.peer, api=held.api, part=held.part, cause=DropCause.PROCESS_GONE)
        )

    def lost(self, lost: ConnectionLost) -> None:
        self._trace.emit(lost)

    def closed(self, closed: ConnectionClosed) -> None:
        self._trace.emit(closed)


class Passage(ABC, Generic[Frame]):
    """One end of a connection, as far as the network between the two machines is concerned."""

    def __init__(self, fabric: Fabric, events: NetworkEvents, node: str, peer: str) -> None:
        self.peer = peer
        self.listener = ""  # as of Connection
        self.stopped: deque[Message[Frame]] = deque()  # what was sent from this end and may not arrive yet
        self.withheld: Withheld | None = None
        self.let_through = 0  # messages that waited, need not any longer, and are delivered at this very moment
        self.last_arrival_us = 0
        self.gone: ConnectionEnd | None = None  # how this end learned that the connection is over
        self.open = True
        self._lost_because: DropCause | None = None  # why what may not arrive yet never will
        self._node = node
        self._time = fabric.time
        self._network: Network = fabric.network
        self._events = events
        self._link = fabric.network.link(node, peer)
        cards = fabric.network.cards
        self._road = Road(fabric.time, cards.get(node), cards.get(peer)) if cards and node != peer else None

    # ---------------------------------------------------------------------------------------------- what a world adds

    @abstractmethod
    def _transmit(self, send: Send) -> None:
        """Let a frame depart. raises: TornSend"""

    @abstractmethod
    def _deliver(self, message: Message[Frame]) -> None:
        """The message is through."""

    @abstractmethod
    def _may_run(self, then: Callable[[], None]) -> bool:
        """False while this end's process is stopped: `then` is kept for the moment it continues."""

    @abstractmethod
    def unmute(self) -> None: ...

    @abstractmethod
    def _drop_unread(self) -> None:
        """Drop received frames that were not handed over."""

    @abstractmethod
    def _end_known(self) -> None:
        """The end of the connection is known and stated: let the reader know of it."""

    @abstractmethod
    def _torn(self) -> None:
        """A file ended too early when its bytes were to leave at last: the connection is closed."""

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, send: Send) -> None:
        if not self.open:
            if self.gone == RESET:  # A failed write is the last that Kafka has to do with it: Selector, NOTIFY_ONLY.
                self._drop_unread()
            return
        if not self._network.holds or (hold := self._body_hold(send)) is None:
            self._transmit(send)
            return
        held_event = self._events.held(self._node, self.peer, send.api, "body", hold)
        self.withheld = Withheld(send, hold, held_event)

    # ---------------------------------------------------------------------------------- header sent, file bytes not

    def _body_hold(self, send: Send) -> HoldRule | None:
        if not any(isinstance(segment, FileSlice) and segment.length for segment in send.segments):
            return None
        return self._network.body_hold_on(self._node, self.peer, send.api)

    def _send_withheld(self) -> None:
        """Now sendfile runs, and sends what the file holds now: it may have been truncated and written anew since the
        answer was decided (KAFKA-18723). source: DefaultRecordsSend, FileRecords.writeTo"""
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
        """The message reaches the other machine, unless it must wait on the way."""
        if self.stopped or ((self._link.cuts or self._network.holds) and self._must_wait(message)):
            self.stopped.append(message)
            self._drop_lost()
        elif self.let_through:
            self._let_through(message)
        else:
            self._deliver(message)

    def _let_through(self, message: Message[Frame]) -> None:
        """Deliver it now, behind what was let through before."""
        self.let_through += 1
        # A callback each: every delivery may wake a task, and one callback wakes one.
        self._time.at(self._time.now_us, partial(self._deliver_in_turn, message))

    def _deliver_in_turn(self, message: Message[Frame]) -> None:
        self.let_through -= 1
        self._deliver(message)

    def _must_wait(self, message: Message[Frame]) -> bool:
        if self._link.cuts:
            return True
        if message.frame is None or not self._network.holds:
            return False
        hold = self._network.hold_on(self._node, self.peer, message.api, message.part)
        if hold is None:
            return False
        if message.held_by != hold:
            message.held_by = hold
            message.held_event = self._events.held(self._node, self.peer, message.api, message.part, hold)
        return True

    def move_on(self) -> None:
        """After a heal or a release: release the messages that need not wait any longer, in order."""
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
        """This end learns that the connection is over; data it has already received can still be read."""
        if self.open and self.gone is None:
            self.gone = how
            self._lose(DropCause.CONNECTION_ENDED)
            self._events.lost(ConnectionLost(node=self._node, peer=self.peer, cause=how, message=message))
            self._end_known()

    def _let_go(self) -> None:
        """Nothing leaves this process any more; messages that have left it are still on their way."""
        self.open = False
        withheld, self.withheld = self.withheld, None
        if withheld is not None:
            self._events.dropped(self._node, self.peer, withheld.send.api, "body", DropCause.NOT_SENT)
        self._drop_lost()

    def _lose(self, why: DropCause) -> None:
        """Nothing leaves from this end any more, and what may not arrive yet never will."""
        self._lost_because = why
        self._let_go()

    def _drop_lost(self) -> None:
        """Of what waits, that which never will arrive."""
        why = self._lost_because
        if why is None and not self.open and self._link.is_cut:
            why = DropCause.CONNECTION_CLOSED
        if why is not None:
            self._drop_waiting(why)

    def _drop_waiting(self, why: DropCause) -> None:
        """Of a connection that is lost its end, too, never arrives."""
        stopped, self.stopped = self.stopped, deque()
        for message in stopped:
            if message.frame is not None:
                self._events.dropped(self._node, self.peer, message.api, message.part, why, self.gone)
            elif self._lost_because is None:
                self.stopped.append(message)
