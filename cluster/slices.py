"""Divides long requests into slices, between which the node does other work.

A request may have a hundred thousand elements, or as many in its response. The code that handles it is not aware of
slices: it runs in a greenlet, which may pause between two elements (`paced`, which the arrays of every decoded request
use):

1. A request begins immediately. Most requests are finished within their first slice.
2. After SLICE_US a request pauses at its next element. It continues GAP_US later, after the sockets were polled.
3. Of several paused requests, the one with the fewest slices continues first.

Only requests of clients from outside are sliced, and only in live mode, where time passes during a step. In virtual
time a request is finished in the instant in which it begins.

Limits:

* MAX_ITEMS: elements of all arrays of a request together.
* MAX_FETCHED: partitions of a Fetch.
* MAX_PRODUCED: partitions of a Produce.
* MAX_DECIDED: elements of a DescribeConfigs, or of a request that the controller decides as a whole.
* MAX_BYTES: size of a request without records.

Differs from Kafka: since 4.4 Kafka allows 1,000,000 elements in each array, and before any number.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from greenlet import getcurrent, greenlet

from replica.errors import PeerViolation

SLICE_US: Final = 5_000
GAP_US: Final = 1_000
UNLIMITED_US: Final = 1 << 62
MAX_ITEMS: Final = 100_000
MAX_FETCHED: Final = 20_000
MAX_PRODUCED: Final = 4_000
"""The maximum number of partitions in a Produce request; each batch causes at least one event."""
MANY_PARTITIONS: Final = 500
"""A Produce or a Fetch with at least this number of partitions is answered in slices."""
MAX_DECIDED: Final = 10_000
"""The maximum number of records that an operation may write (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_BYTES: Final = 16 << 20

Header = TypeVar("Header")
Frame = TypeVar("Frame", bound=bytes | bytearray | memoryview)
T = TypeVar("T")
Work = Callable[[int], None]


class Sliced(greenlet):
    """One request that is handled in slices.

    Attributes:
        ends_us: end of the current slice, by `clock`.
        slices: number of slices so far.
        items_left: number of array items that the request may still have; None while no request is being decoded.
    """

    are_any = False
    """True once this process has sliced a request. Before that, no work has to pause."""

    def __init__(self, work: Callable[[], None], clock: Callable[[], int]) -> None:
        super().__init__(work)
        Sliced.are_any = True
        self.clock = clock
        self.ends_us = 0
        self.slices = 0
        self.items_left: int | None = None

    def pause_if_due(self) -> None:
        if self.clock() >= self.ends_us:
            assert self.parent is not None, "the greenlet has no parent"
            self.parent.switch()


def paced(items: Iterable[T]) -> Iterable[T]:
    """Return the items, with a pause before each one if a pause is due."""
    if not Sliced.are_any:
        return items
    current = getcurrent()
    return _paced(items, current) if isinstance(current, Sliced) else items


def _paced(items: Iterable[T], current: Sliced) -> Iterator[T]:
    for item in items:
        current.pause_if_due()
        yield item


class Items(tuple[Any, ...]):
    """An array of a request. An iteration over it may pause between two items, so that other requests proceed."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(paced(super().__iter__()))


def array_type() -> type[tuple[Any, ...]]:
    """Return the type for arrays of a response. If requests are sliced, an iteration over it may pause."""
    return Items if Sliced.are_any else tuple


def reads_request(
    most: int, most_bytes: int = MAX_BYTES
) -> Callable[[Callable[[Header, Frame], T]], Callable[[Header, Frame], T]]:
    """Return a decorator for request decoders, which counts array items and lets their decoding pause.

    Raises:
        PeerViolation: if the request has more than `most` items, or more than `most_bytes` bytes.
    """

    def decorate(decode: Callable[[Header, Frame], T]) -> Callable[[Header, Frame], T]:
        @functools.wraps(decode)
        def wrapped(header: Header, frame: Frame) -> T:
            if not Sliced.are_any:
                return decode(header, frame)
            current = getcurrent()
            if not isinstance(current, Sliced):
                return decode(header, frame)
            if len(frame) > most_bytes:
                raise PeerViolation(
                    f"a request has {len(frame):,} bytes; at most {most_bytes:,} are allowed in this API"
                )
            current.items_left = most
            try:
                return decode(header, frame)
            finally:
                current.items_left = None

        return wrapped

    return decorate


def counted(count: int) -> Iterable[int]:
    """Count the items of an array to be decoded. Return `range(count)`, whose iteration may pause.

    Raises:
        PeerViolation: if the request has more items than its API allows.
    """
    if not Sliced.are_any:
        return range(count)
    current = getcurrent()
    if not isinstance(current, Sliced) or current.items_left is None:
        return range(count)
    current.items_left -= count
    if current.items_left < 0:
        raise PeerViolation("a request has more array items than its API allows")
    return _paced(range(count), current)


def array(items: list[Any]) -> tuple[Any, ...]:
    """Return the decoded items of an array as a tuple whose iteration may pause."""
    if not Sliced.are_any:
        return tuple(items)
    current = getcurrent()
    return Items(items) if isinstance(current, Sliced) and current.items_left is not None else tuple(items)


def undivided(work: Callable[[], None]) -> None:
    """Do work without a pause, because it changes shared state, even within a slice."""
    if Sliced.are_any and isinstance(getcurrent(), Sliced):
        greenlet(work).switch()
    else:
        work()


class Slices:
    """The long requests of one node.

    Args:
        now: returns the time of the current step in microseconds.
        clock: returns the same time, but advances within a step; None to slice nothing.
        at: calls a function at a given time, with that time.
        take_up: calls a function that runs a slice, with the time, as soon as a request handler is free.
    """

    def __init__(
        self,
        *,
        now: Callable[[], int],
        clock: Callable[[], int] | None,
        at: Callable[[int, Work], object],
        take_up: Callable[[Work, int], None] = lambda work, now_us: work(now_us),
    ) -> None:
        self.are_on = clock is not None
        self._now = now
        self._clock = clock
        self._at = at
        self._take_up = take_up
        self._paused: list[tuple[int, int, Sliced]] = []
        self._begun = 0
        self._is_armed = False

    def begin(self, work: Callable[[], None]) -> bool:
        """Do the first slice of work now, and schedule the rest. Return True if the work is finished."""
        if self._clock is None:
            work()
            return True
        request = Sliced(work, self._clock)
        self._go_on(request, self._now())
        return bool(request.dead)

    def go_on(self, work: Callable[[], None]) -> None:
        """Continue a request's work: within the current slice if there is one, else in slices of its own."""
        if Sliced.are_any and isinstance(getcurrent(), Sliced):
            work()
        else:
            self.begin(work)

    def answer(self, partitions: int, work: Callable[[], None]) -> None:
        """Answer a Produce or a Fetch in slices.

        It is answered without a pause if it has few partitions and is in no slice.
        """
        if partitions < MANY_PARTITIONS and not (Sliced.are_any and isinstance(getcurrent(), Sliced)):
            work()
        else:
            self.begin(work)

    def finish(self) -> None:
        """Finish all paused work in this step."""
        while self._paused:
            self._go_on(heapq.heappop(self._paused)[2], self._now(), to_its_end=True)

    def clear(self) -> None:
        """Drop all paused work, because the node ends."""
        self._paused.clear()

    def _go_on(self, request: Sliced, now_us: int, *, to_its_end: bool = False) -> None:
        request.parent = getcurrent()
        request.ends_us = request.clock() + (UNLIMITED_US if to_its_end else SLICE_US)
        request.slices += 1
        request.switch()
        if not request.dead:
            self._begun += 1
            heapq.heappush(self._paused, (request.slices, self._begun, request))
            self._arm(now_us)

    def _arm(self, now_us: int) -> None:
        if self._paused and not self._is_armed:
            self._is_armed = True
            self._at(now_us + SLICE_US + GAP_US, self._due)

    def _due(self, now_us: int) -> None:
        self._is_armed = False
        if self._paused:
            request = heapq.heappop(self._paused)[2]
            self._arm(now_us)
            self._take_up(functools.partial(self._go_on, request), now_us)
