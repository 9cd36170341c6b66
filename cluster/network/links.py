"""The links between nodes and the network cards of machines.

A link has latency, loss, bandwidth, cuts and holds, separately for each direction. It determines when a message
arrives, and if it can arrive now. A message that cannot arrive waits in its connection, in order, as bytes wait in TCP.
Every link draws from its own random stream, so that a change elsewhere in the cluster never shifts its latencies.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from cluster.request_faults import RequestFaults

if TYPE_CHECKING:
    from cluster.network.world import Time

RETRANSMISSION_TIMEOUT_US = 200_000
"""The delay of one lost segment, doubled for each further loss of the same segment: Linux's minimum RTO."""


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution of one-way delays in microseconds.

    Kinds: `constant` (low), `uniform` (low to high) and `exponential` (low plus a random value with mean `high`).
    """

    kind: str
    low_us: int
    high_us: int = 0

    def draw_us(self, stream: random.Random) -> int:
        if self.kind == "uniform":
            return stream.randint(self.low_us, max(self.low_us, self.high_us))
        if self.kind == "exponential":
            return self.low_us + round(stream.expovariate(1 / self.high_us)) if self.high_us else self.low_us
        return self.low_us


@dataclass(slots=True)
class Link:
    """The link from one node to another.

    Faults set `added`, `loss`, `bytes_per_second` and `cuts`, by the fault's name.
    """

    source: str
    target: str
    stream: random.Random
    base: Latency
    added: dict[str, Latency] = field(default_factory=dict)
    loss: dict[str, float] = field(default_factory=dict)
    bytes_per_second: dict[str, int] = field(default_factory=dict)
    cuts: list[str] = field(default_factory=list)
    busy_until_us: int = 0

    @property
    def is_cut(self) -> bool:
        return bool(self.cuts)

    @property
    def is_clear(self) -> bool:
        """True if messages arrive without any delay."""
        is_disturbed = self.cuts or self.added or self.loss or self.bytes_per_second
        return not (is_disturbed or self.base.low_us or self.base.high_us)

    def arrival_us(self, now_us: int, size_bytes: int) -> int:
        """Return the arrival time of a message that leaves now.

        Where bandwidth is limited, the message occupies the link.
        """
        leaves_us = now_us
        if self.bytes_per_second:
            rate = min(self.bytes_per_second.values())
            self.busy_until_us = max(now_us, self.busy_until_us) + size_bytes * 1_000_000 // rate
            leaves_us = self.busy_until_us
        delay_us = self.base.draw_us(self.stream)
        if self.added:
            for latency in self.added.values():
                delay_us += latency.draw_us(self.stream)
        if self.loss:
            for rate_lost in self.loss.values():
                delay_us += self._retransmissions_us(rate_lost)
        return leaves_us + delay_us

    def _retransmissions_us(self, rate_lost: float) -> int:
        # Simplified: TCP never loses a message, it sends it again; a lost message costs its retransmission timeouts.
        delay_us, timeout_us = 0, RETRANSMISSION_TIMEOUT_US
        while timeout_us < 120_000_000 and self.stream.random() < rate_lost:
            delay_us += timeout_us
            timeout_us *= 2
        return delay_us

    def remove(self, fault: str) -> None:
        """Undo all effects of one fault on this link."""
        self.added.pop(fault, None)
        self.loss.pop(fault, None)
        self.bytes_per_second.pop(fault, None)
        self.cuts = [other for other in self.cuts if other != fault]


@dataclass(frozen=True, slots=True)
class HoldRule:
    """A fault that holds back messages between two sets of nodes until it is lifted.

    Attributes:
        api: API key of the messages; None for all APIs.
        part: request, response, body, or None for requests and responses. `body` holds only the file bytes of a
            response, which are then read from the file when the hold is lifted.
        count: maximum number of messages to hold, None for all; later messages pass.
        number: distinguishes holds that one step of the scenario has begun.
    """

    fault: str
    sources: Sequence[str]
    targets: Sequence[str]
    api: int | None
    part: str | None
    count: int | None = None
    number: int = 0

    def matches(self, source: str, target: str, api: int, part: str) -> bool:
        return (
            source in self.sources and target in self.targets and self.api in (None, api) and self.part in (None, part)
        )


class Network:
    """All links, by (source, target), each created on first use, and the active holds and request faults."""

    def __init__(self, seed: int, base: Latency, per_link: dict[tuple[str, str], Latency]) -> None:
        self._seed = seed
        self._base = base
        self._per_link = per_link
        self._links: dict[tuple[str, str], Link] = {}
        self.cards: dict[str, Card] = {}
        """Network cards by machine; set before the machines connect."""
        self.holds: list[HoldRule] = []
        self.request_faults = RequestFaults()
        self._kept: dict[HoldRule, int] = {}
        """For each hold with a `count`: the number of messages that it has held so far."""

    def link(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            base = self._per_link.get((source, target), self._base)
            stream = random.Random(f"{self._seed}/link/{source}->{target}")
            found = self._links[source, target] = Link(source, target, stream, base)
        return found

    def links(self) -> list[Link]:
        return list(self._links.values())

    def by_reach(self, sources: Iterable[str], targets: Sequence[str]) -> list[str]:
        """Return the sources, sorted by the number of targets from which a cut separates them, lowest first."""

        def cut_off(source: str) -> int:
            return sum(self.link(source, target).is_cut or self.link(target, source).is_cut for target in targets)

        return sorted(sources, key=cut_off)

    def body_hold_on(self, source: str, target: str, api: int) -> HoldRule | None:
        """Return the hold that stops a response between its header and its file bytes; None if there is none."""
        for hold in self.holds:
            if hold.part == "body" and hold.matches(source, target, api, "body") and self._has_room(hold):
                return hold
        return None

    def hold_on(
        self, source: str, target: str, api: int, part: str, held_by: HoldRule | None = None
    ) -> HoldRule | None:
        """Return the hold that stops a message; None if the message may pass.

        Args:
            held_by: hold that already stops the message, and continues to do so while it is active.
        """
        for hold in self.holds:
            if hold.matches(source, target, api, part) and (hold == held_by or self._has_room(hold)):
                return hold
        return None

    def keeps_another(self, hold: HoldRule) -> None:
        """Count one more message that `hold` holds back."""
        if hold.count is not None:
            self._kept = {known: kept for known, kept in self._kept.items() if known in self.holds}
            self._kept[hold] = self._kept.get(hold, 0) + 1

    def _has_room(self, hold: HoldRule) -> bool:
        return hold.count is None or self._kept.get(hold, 0) < hold.count


# ---------------------------------------------------------------------------------------------------------------- cards
#
# Network cards: all connections of a machine share one rate in each direction; a frame passes two cards.
#
# A card serves its connections in turn, each for the same number of bytes: a small frame does not wait for all of a
# large one, and many small frames get as much bandwidth as few large ones. The receiving card takes a piece in while
# the sending card still sends it (switches forward packets, not messages), so two equal cards in a row take the time of
# one. source: Linux segmentation offload, fq (deficit round robin)

TURN_BYTES = 65_536
"""The largest piece of data that Linux passes to a card at once (GSO_LEGACY_MAX_SIZE)."""


@dataclass(slots=True)
class Parcel:
    """Data that waits for its transfer by a network card.

    Attributes:
        begins, ends: called with each piece of the data when the card starts and finishes it.
    """

    left_bytes: int
    cause: int | None = None
    begins: Callable[[Piece], None] | None = None
    ends: Callable[[Piece], None] | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """The data that a card transfers at once, with the times of its first and last byte in microseconds."""

    parcel: Parcel
    size_bytes: int
    begins_us: int
    ends_us: int
    is_last: bool


@dataclass(slots=True)
class Lane:
    """One direction of a network card. It has no clock: the caller calls `advance` when `current` is finished."""

    bytes_per_second: int
    current: Piece | None = None
    _waiting: dict[object, deque[Parcel]] = field(default_factory=dict)
    """Waiting data by connection. The first connection in this mapping is served next."""
    _turn_of: object | None = None
    _left_of_turn_bytes: int = 0
    _busy_from_us: int = 0
    _carried_bytes: int = 0
    """Bytes transferred since `_busy_from_us` without a pause.

    Times are computed from this sum to limit rounding errors.
    """

    def add(self, connection: object, parcel: Parcel, now_us: int) -> bool:
        """Queue data of a connection. Return True if the lane was idle and has begun to transfer the data."""
        self._waiting.setdefault(connection, deque()).append(parcel)
        if self.current is not None:
            return False
        self._busy_from_us, self._carried_bytes = now_us, 0
        self._begin(now_us)
        return True

    def advance(self) -> None:
        """Finish the current piece, and begin the next one if data waits."""
        assert self.current is not None
        ended_us, self.current = self.current.ends_us, None
        if self._waiting:
            self._begin(ended_us)

    def takes_us(self, size_bytes: int) -> int:
        return -(-size_bytes * 1_000_000 // self.bytes_per_second)

    def _begin(self, now_us: int) -> None:
        parcels = self._whose_turn()
        parcel = parcels[0]
        size_bytes = min(parcel.left_bytes, self._left_of_turn_bytes)
        parcel.left_bytes -= size_bytes
        self._left_of_turn_bytes -= size_bytes
        if not parcel.left_bytes:
            parcels.popleft()
        if not parcels:
            del self._waiting[self._turn_of]
        self._carried_bytes += size_bytes
        ends_us = self._busy_from_us + self.takes_us(self._carried_bytes)
        self.current = Piece(parcel, size_bytes, now_us, ends_us, not parcel.left_bytes)

    def _whose_turn(self) -> deque[Parcel]:
        connection = next(iter(self._waiting))
        if connection is self._turn_of and not self._left_of_turn_bytes:
            self._waiting[connection] = self._waiting.pop(connection)  # It is served last from now on.
            connection = next(iter(self._waiting))
        if connection is not self._turn_of or not self._left_of_turn_bytes:
            self._turn_of, self._left_of_turn_bytes = connection, TURN_BYTES
        return self._waiting[connection]


class Card:
    def __init__(self, bytes_per_second: int) -> None:
        self.out = Lane(bytes_per_second)
        self.into = Lane(bytes_per_second)


class Road:
    """The path of one connection's frames: in order through the sender's card, then through the receiver's.

    Simplified: data that waits in a card leaves even if the machine loses power; connecting takes no time in cards.
    """

    def __init__(self, time: Time, source: Card | None, target: Card | None) -> None:
        self._time = time
        self._out = None if source is None else source.out
        self._into = None if target is None else target.into
        self._entered_us = 0

    def carry(self, size_bytes: int, delay_us: int, arrive: Callable[[], None], cause: int | None) -> None:
        """Transfer a frame over both cards.

        Args:
            delay_us: latency of the link between the two cards.
            arrive: called when the last byte has arrived.
        """
        left = partial(self._begin_to_receive, delay_us, arrive)
        now_us = self._time.now_us
        cause = self._time.cause if cause is None else cause
        if self._out is None:
            left(Piece(Parcel(0, cause), size_bytes, now_us, now_us, True))
        else:
            self._load(self._out, Parcel(size_bytes, cause, begins=left))

    def _begin_to_receive(self, delay_us: int, arrive: Callable[[], None], piece: Piece) -> None:
        """Begin to receive a piece when the sending card begins to send it.

        The receiving card cannot finish before the sending card, even if it is faster.
        """
        takes_us = 0 if self._into is None else self._into.takes_us(piece.size_bytes)
        enters_us = max(piece.begins_us, piece.ends_us - takes_us) + delay_us
        self._entered_us = enters_us = max(enters_us, self._entered_us)
        cause = piece.parcel.cause
        if self._into is not None:

            def passed(entered: Piece) -> None:
                if piece.is_last and entered.is_last:
                    arrive()

            entering = Parcel(piece.size_bytes, cause, ends=passed)
            self._time.at(enters_us, partial(self._load, self._into, entering), cause)
        elif piece.is_last:
            self._time.at(enters_us, arrive, cause)

    def _load(self, lane: Lane, parcel: Parcel) -> None:
        if lane.add(self, parcel, self._time.now_us):
            self._began(lane)

    def _began(self, lane: Lane) -> None:
        piece = lane.current
        if piece is not None:
            self._time.at(piece.ends_us, partial(self._through, lane, piece), piece.parcel.cause)
            if piece.parcel.begins is not None:
                piece.parcel.begins(piece)

    def _through(self, lane: Lane, piece: Piece) -> None:
        lane.advance()
        self._began(lane)
        if piece.parcel.ends is not None:
            piece.parcel.ends(piece)
