"""Long requests, done in slices between which everything else goes on.

A request may name a hundred thousand things, or be answered with as many. The code that handles it is plain and knows
nothing of this: it runs in a greenlet, and where it goes from one item to the next (`paced`, which the arrays of every
decoded request use by themselves) it may be left for later:

1. A request begins at once. Most are done within their first slice, and it makes no difference that there are slices.
2. Once it has had SLICE_US, it pauses at the next item. It goes on GAP_US later, after the sockets were looked at.
3. Of several that have paused, the one goes on that has had the fewest slices.

Only requests of clients from outside are sliced, and only where time passes during a step, which is the live mode: in
virtual time a request is done in the instant in which it begins.

A request names at most MAX_ITEMS things, all of its arrays together; a Fetch MAX_FETCHED, a Produce MAX_PRODUCED, and
what the controller decides at once, and DescribeConfigs, MAX_DECIDED. One without records has at most MAX_BYTES.
Differs from Kafka: since 4.4 it allows 1,000,000 in each array, and before any number.
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
MAX_ITEMS: Final = 100_000
MAX_FETCHED: Final = 20_000
MAX_PRODUCED: Final = 4_000
"""Partitions of a Fetch, and of a Produce: each of its batches is an event, and more where they are refused."""
MANY_PARTITIONS: Final = 500
"""So many partitions of a Produce or a Fetch are answered in slices."""
MAX_DECIDED: Final = 10_000
"""As many as an operation may write records. source: QuorumController.MAX_RECORDS_PER_USER_OP"""
MAX_BYTES: Final = 16 << 20

Header = TypeVar("Header")
Frame = TypeVar("Frame", bound=bytes | bytearray | memoryview)
T = TypeVar("T")
Work = Callable[[int], None]


class Sliced(greenlet):
    """One request in progress.

    ends_us: of its slice, by `clock`
    slices: that it has had
    items_left: that it may still name; None while it is not being read
    """

    are_any = False
    """Whether there was one in this process, and something may have to pause."""

    def __init__(self, work: Callable[[], None], clock: Callable[[], int]) -> None:
        super().__init__(work)
        Sliced.are_any = True
        self.clock = clock
        self.ends_us = 0
        self.slices = 0
        self.items_left: int | None = None

    def pause_if_due(self) -> None:
        if self.clock() >= self.ends_us:
            assert self.parent is not None, "the greenlet that has switched to it"
            self.parent.switch()


def paced(items: Iterable[T]) -> Iterable[T]:
    """The same items, with a pause before each if one is due."""
    if not Sliced.are_any:
        return items
    current = getcurrent()
    return _paced(items, current) if isinstance(current, Sliced) else items


def _paced(items: Iterable[T], current: Sliced) -> Iterator[T]:
    for item in items:
        current.pause_if_due()
        yield item


class Items(tuple[Any, ...]):
    """An array of a request; iterating over it pauses between its items."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(paced(super().__iter__()))


def array_type() -> type[tuple[Any, ...]]:
    """Of the arrays of an answer: iterating over one pauses where requests are sliced."""
    return Items if Sliced.are_any else tuple


def reads_request(
    most: int, most_bytes: int = MAX_BYTES
) -> Callable[[Callable[[Header, Frame], T]], Callable[[Header, Frame], T]]:
    """Decorator of what decodes a request: its arrays are counted, and read in slices.

    Raises:
        PeerViolation: the request names more than `most` things, or is longer than `most_bytes`.
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
                raise PeerViolation(f"a request of {len(frame):,} bytes, {most_bytes:,} are allowed in this API")
            current.items_left = most
            try:
                return decode(header, frame)
            finally:
                current.items_left = None

        return wrapped

    return decorate


def counted(count: int) -> Iterable[int]:
    """`range(count)`, for the items of an array that is read."""
    if not Sliced.are_any:
        return range(count)
    current = getcurrent()
    if not isinstance(current, Sliced) or current.items_left is None:
        return range(count)
    current.items_left -= count
    if current.items_left < 0:
        raise PeerViolation("a request names more things than one may")
    return _paced(range(count), current)


def array(items: list[Any]) -> tuple[Any, ...]:
    """What is read of an array."""
    if not Sliced.are_any:
        return tuple(items)
    current = getcurrent()
    return Items(items) if isinstance(current, Sliced) and current.items_left is not None else tuple(items)


def undivided(work: Callable[[], None]) -> None:
    """Do at once what changes a state that others see, also within a slice."""
    if Sliced.are_any and isinstance(getcurrent(), Sliced):
        greenlet(work).switch()
    else:
        work()


class Slices:
    """The long requests of one node.

    Args:
        now: the time of the step in progress, microseconds.
        clock: the same, which goes on during a step; None: it does not, and nothing is sliced.
        at: has a function called at a time, with that time.
        take_up: does a slice, given the time, as soon as a request handler is free.
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
        """Do it in this step, or its first slice. The caller always returns from here, whatever becomes of it.

        Returns:
            Whether it is done.
        """
        if self._clock is None:
            work()
            return True
        request = Sliced(work, self._clock)
        self._go_on(request, self._now())
        return bool(request.dead)

    def go_on(self, work: Callable[[], None]) -> None:
        """Go on with a request in slices, if it is not in one already."""
        if Sliced.are_any and isinstance(getcurrent(), Sliced):
            work()
        else:
            self.begin(work)

    def answer(self, partitions: int, work: Callable[[], None]) -> None:
        """Answer a Produce or a Fetch: few partitions at once, unless a slice of another request is in progress."""
        if partitions < MANY_PARTITIONS and not (Sliced.are_any and isinstance(getcurrent(), Sliced)):
            work()
        else:
            self.begin(work)

    def clear(self) -> None:
        """The node ends: nothing that has paused goes on."""
        self._paused.clear()

    def _go_on(self, request: Sliced, now_us: int) -> None:
        request.parent = getcurrent()
        request.ends_us = request.clock() + SLICE_US
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
