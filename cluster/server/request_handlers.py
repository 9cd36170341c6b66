"""The request channel and the handler threads behind it: requests in order of arrival, `num.io.threads` at a time.

A handler that has to wait for the disk stays taken, as a thread that is blocked in a write does; the requests behind it
wait for the next free one, at most `queued.max.requests` of them. A request that waits for nothing is handled in the
instant it arrives. source: KafkaRequestHandlerPool, RequestChannel
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from cluster.node import Outbox
from replica.log.files.open_files import FileSlice

Work = Callable[[int], None]
"""Handles a request, or the rest of one, given the time."""


class RequestHandlers:
    """on_room: called when the full queue has room again"""

    __slots__ = ("_busy", "_current", "_on_room", "_rest", "_waiting", "num_io_threads", "queued_max_requests")

    def __init__(self, num_io_threads: int, queued_max_requests: int = 500, on_room: Work | None = None) -> None:
        self.num_io_threads = num_io_threads
        self.queued_max_requests = queued_max_requests
        self._on_room = on_room
        self._busy = 0
        self._waiting: deque[tuple[Work, Work | None]] = deque()
        self._rest: Work | None = None
        self._current: Work | None = None

    @property
    def is_full(self) -> bool:
        """The next request has to wait until there is room (ArrayBlockingQueue.put)."""
        return len(self._waiting) >= self.queued_max_requests

    def resize(self, num_io_threads: int, now_us: int) -> None:
        """Fewer: those that are busy finish first. source: KafkaRequestHandlerPool.resizeThreadPool"""
        self.num_io_threads = num_io_threads
        self._go_on(now_us)

    def submit(self, work: Work, now_us: int, done: Work | None = None) -> None:
        """Handle a request as soon as a handler is free. done: called when the handler has finished with it"""
        if self._busy < self.num_io_threads and not self._waiting:  # As good as always: a request waits for nothing.
            self._busy += 1
            self._run(work, done, now_us)
        else:
            self._waiting.append((work, done))
            self._go_on(now_us)

    def block(self, rest: Work) -> Work:
        """To be called by the work in progress: its handler stays taken until the returned function is called, which
        does the `rest`."""
        assert self._rest is None, "one work blocks once at a time"
        self._rest = rest
        done = self._current

        def resume(now_us: int) -> None:
            self._run(rest, done, now_us)
            self._go_on(now_us)

        return resume

    @property
    def is_blocked(self) -> bool:
        """The work in progress has called `block`."""
        return self._rest is not None

    def _go_on(self, now_us: int) -> None:
        while self._waiting and self._busy < self.num_io_threads:
            was_full = self.is_full
            work, done = self._waiting.popleft()
            self._busy += 1
            self._run(work, done, now_us)
            if was_full and self._on_room is not None:
                self._on_room(now_us)

    def _run(self, work: Work, done: Work | None, now_us: int) -> None:
        self._rest, self._current = None, done
        try:
            work(now_us)
        except BaseException:  # A bug in Highwater: the handler is free again, with or without an answer.
            self._rest = None
            self._busy -= 1
            raise
        if self._rest is None:
            self._busy -= 1
            if done is not None:
                done(now_us)
        self._rest = None


# ------------------------------------------------------------------------------------------------------------------ cpu
#
# How much time a broker's threads need: none, unless a scenario says otherwise.
#
# A handler stays taken while it works on a request, so requests queue behind num.io.threads busy ones. New connections
# take the network thread's time, and what is on its other connections waits meanwhile. A replica fetcher takes an
# answer
# in before its next fetch.

CONNECTION_QUEUE_SIZE = 20
"""Processor.ConnectionQueueSize: so many new connections a network thread takes before it looks at the others."""
_LENGTH, _LENGTH_END, _COUNT, _COUNT_END = 8, 12, 57, 61
"""Of a batch: length of what follows its first 12 bytes; number of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Microseconds.     request_us: of a handler, for each request of any kind
    produced_us: of a handler, for each record of a Produce request, refused or not
    fetched_us: of a handler, for each record found for a Fetch request
    replicated_us: of a replica fetcher, for each answer with records
    connection_us: of the network thread, for each new connection
    connections_per_poll: new connections that go before what is on the others; None: all there are (before KIP-402)
    """

    request_us: int = 0
    produced_us: int = 0
    fetched_us: int = 0
    replicated_us: int = 0
    connection_us: int = 0
    connections_per_poll: int | None = CONNECTION_QUEUE_SIZE


def records_produced(batch: memoryview | None) -> int:
    """Records in a batch that a client has sent; anything else has none."""
    if batch is None or len(batch) < _COUNT_END:
        return 0
    return max(0, int.from_bytes(batch[_COUNT:_COUNT_END], "big", signed=True))


def records_found(found: FileSlice | bytes | bytearray | memoryview) -> int:
    """Records in the whole batches of a segment file that answer a fetch; only their headers are read."""
    if not isinstance(found, FileSlice):
        return records_produced(memoryview(found))
    position, end, count = found.position, found.position + found.length, 0
    while position + _COUNT_END <= end:
        header = os.pread(found.fd, _COUNT_END, position)
        if len(header) < _COUNT_END:
            break
        count += int.from_bytes(header[_COUNT:_COUNT_END], "big")
        position += _LENGTH_END + int.from_bytes(header[_LENGTH:_LENGTH_END], "big")
    return count


class HandlerTime:
    """Keeps a handler taken for as long as what it did takes; its answers leave when that is over.

    Simplified: a request takes effect when its service begins. Records that are found for a fetch that waited are
    the time of the request that brought them, as in Kafka; outside of any request, of the next one.
    """

    __slots__ = ("_handlers", "_outbox", "_spent_us", "takes_any", "times")

    def __init__(self, times: CpuTimes, handlers: RequestHandlers, outbox: Outbox) -> None:
        self.times = times
        self._handlers = handlers
        self._outbox = outbox
        self._spent_us = 0
        self.takes_any = bool(times.request_us or times.produced_us or times.fetched_us)

    @property
    def spent_us(self) -> int:
        """What the work in progress takes, as far as it is done."""
        return self._spent_us

    def produced(self, batches: list[memoryview | None]) -> None:
        if self.times.produced_us:
            self._spent_us += self.times.produced_us * sum(records_produced(batch) for batch in batches)

    def found(self, found: FileSlice | bytes | bytearray | memoryview) -> None:
        if self.times.fetched_us:
            self._spent_us += self.times.fetched_us * records_found(found)

    def taken_by(self, work: Work) -> Work:
        """`work`, which then takes its time."""
        if not self.takes_any:
            return work

        def run(now_us: int) -> None:
            since = self._outbox.mark()
            self._spent_us += self.times.request_us
            work(now_us)
            if self._handlers.is_blocked or not self._spent_us:
                return
            spent_us, self._spent_us = self._spent_us, 0
            answers = self._outbox.withdraw_answers(since)
            done = self._handlers.block(lambda _: self._outbox.put_back(answers))
            self._outbox.timers.at(now_us + spent_us, lambda now_us: done(now_us))

        return run
