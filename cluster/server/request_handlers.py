"""The request channel and the handler threads behind it: requests in order of arrival, `num.io.threads` at a time.

A handler that has to wait for the disk stays taken, as a thread that is blocked in a write does; the requests behind it
wait for the next free one, at most `queued.max.requests` of them. A request that waits for nothing is handled in the
instant it arrives. source: KafkaRequestHandlerPool, RequestChannel
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[int], None]
"""Handles a request, or the rest of one, given the time."""


def _no_request(now_us: int) -> None:
    """Called when a handler is done, if no request asked for it."""


class RequestHandlers:
    """on_room: called when the full queue has room again"""

    __slots__ = ("_busy", "_current", "_on_room", "_rest", "_waiting", "num_io_threads", "queued_max_requests")

    def __init__(self, num_io_threads: int, queued_max_requests: int = 500, on_room: Work | None = None) -> None:
        self.num_io_threads = num_io_threads
        self.queued_max_requests = queued_max_requests
        self._on_room = on_room
        self._busy = 0
        self._waiting: deque[tuple[Work, Work]] = deque()
        self._rest: Work | None = None
        self._current: Work = _no_request

    @property
    def is_full(self) -> bool:
        """The next request has to wait until there is room (ArrayBlockingQueue.put)."""
        return len(self._waiting) >= self.queued_max_requests

    def resize(self, num_io_threads: int, now_us: int) -> None:
        """Fewer: those that are busy finish first. source: KafkaRequestHandlerPool.resizeThreadPool"""
        self.num_io_threads = num_io_threads
        self._go_on(now_us)

    def submit(self, work: Work, now_us: int, done: Work = _no_request) -> None:
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

    def _run(self, work: Work, done: Work, now_us: int) -> None:
        self._rest, self._current = None, done
        try:
            work(now_us)
        except BaseException:  # A bug in Highwater: the handler is free again, with or without an answer.
            self._rest = None
            self._busy -= 1
            raise
        if not self.is_blocked:
            self._busy -= 1
            done(now_us)
        self._rest = None
