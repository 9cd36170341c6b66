"""The request queue and its handler threads: requests are handled in order of arrival, `num.io.threads` at a time.

A handler that waits for the disk stays busy, as a thread that is blocked in a write does. At most `queued.max.requests`
requests wait for a free handler. If a handler is free, a request is handled in the instant it arrives.

Source: KafkaRequestHandlerPool, RequestChannel
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from cluster.node import Outbox
from replica.log.files.open_files import FileSlice

Work = Callable[[int], None]
"""Handles a request, or the rest of one. The argument is the time in microseconds."""


class RequestHandlers:
    """The handler threads of a broker and their request queue.

    Args:
        on_room: called when a full queue has room again.
    """

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
        """True if the queue has no room, so that the next request has to wait (ArrayBlockingQueue.put)."""
        return len(self._waiting) >= self.queued_max_requests

    def resize(self, num_io_threads: int, now_us: int) -> None:
        """Change the number of handlers. A busy handler finishes its request first.

        Source: KafkaRequestHandlerPool.resizeThreadPool
        """
        self.num_io_threads = num_io_threads
        self._go_on(now_us)

    def submit(self, work: Work, now_us: int, done: Work | None = None) -> None:
        """Handle a request once a handler is free. `done` is called when the handler has finished."""
        if self._busy < self.num_io_threads and not self._waiting:  # The usual case: no request waits.
            self._busy += 1
            self._run(work, done, now_us)
        else:
            self._waiting.append((work, done))
            self._go_on(now_us)

    def block(self, rest: Work) -> Work:
        """Keep the current handler busy. Return a function that does the `rest` of its work and then frees it."""
        assert self._rest is None, "the request handler is already blocked"
        self._rest = rest
        done = self._current

        def resume(now_us: int) -> None:
            self._run(rest, done, now_us)
            self._go_on(now_us)

        return resume

    @property
    def is_blocked(self) -> bool:
        """True if the current work has called `block`."""
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
# The time that a broker's threads need: none, unless a scenario sets it.
#
# A handler is busy while it works on a request, so requests queue behind num.io.threads busy ones. New connections take
# the network thread's time, and its other connections wait meanwhile. A replica fetcher processes a response before its
# next fetch.

CONNECTION_QUEUE_SIZE = 20
"""How many new connections a network thread sets up before it serves others (Processor.ConnectionQueueSize)."""
_LENGTH, _LENGTH_END, _COUNT, _COUNT_END = 8, 12, 57, 61
"""Positions in a batch: start and end of the length (of everything after byte 12), and of the record count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """The times that a broker's threads need for their work, in microseconds.

    Attributes:
        request_us: handler time of a request of any kind.
        produced_us: handler time of each record of a Produce request, accepted or refused.
        fetched_us: handler time of each record found for a Fetch request.
        replicated_us: time of a replica fetcher for each response with records.
        connection_us: time of the network thread for each new connection.
        connections_per_poll: new connections set up before others are served; None for all (before KIP-402).
    """

    request_us: int = 0
    produced_us: int = 0
    fetched_us: int = 0
    replicated_us: int = 0
    connection_us: int = 0
    connections_per_poll: int | None = CONNECTION_QUEUE_SIZE


def records_produced(batch: memoryview | None) -> int:
    """Return the number of records in a client's batch; 0 if it is not a valid batch."""
    if batch is None or len(batch) < _COUNT_END:
        return 0
    return max(0, int.from_bytes(batch[_COUNT:_COUNT_END], "big", signed=True))


def records_found(found: FileSlice | bytes | bytearray | memoryview) -> int:
    """Return the number of records in the complete batches of a fetched slice. Only batch headers are read."""
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
    """Keeps a handler busy for the time that its work takes, and holds back the responses until then.

    Simplified: a request takes effect when its handling begins. Records found for a fetch that waited count for the
    request that completed it, as in Kafka; if no request is being handled, they count for the next one.
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
        """The simulated time that the current work has taken so far, in microseconds."""
        return self._spent_us

    def produced(self, batches: list[memoryview | None]) -> None:
        if self.times.produced_us:
            self._spent_us += self.times.produced_us * sum(records_produced(batch) for batch in batches)

    def found(self, found: FileSlice | bytes | bytearray | memoryview) -> None:
        if self.times.fetched_us:
            self._spent_us += self.times.fetched_us * records_found(found)

    def taken_by(self, work: Work) -> Work:
        """Return a function that does the work and then keeps the handler busy for the time that the work takes."""
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
