"""The handler threads of a broker: requests in order of arrival, at most `num.io.threads` at a time.

A handler that has to wait for the disk stays taken, as a thread that is blocked in a write does; the requests behind it
wait for the next free one. A request that waits for nothing is handled in the instant it arrives.
source: KafkaRequestHandlerPool, RequestChannel
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[int], None]
"""Handles a request, or the rest of one; is told the time."""


class RequestHandlers:
    """Simplified: the queue of requests has no bound (queued.max.requests); each connection has one request in it."""

    __slots__ = ("_busy", "_rest", "_waiting", "num_io_threads")

    def __init__(self, num_io_threads: int) -> None:
        self.num_io_threads = num_io_threads
        self._busy = 0
        self._waiting: deque[Work] = deque()
        self._rest: Work | None = None

    def submit(self, work: Work, now_us: int) -> None:
        """Handle a request as soon as a handler is free."""
        self._waiting.append(work)
        self._go_on(now_us)

    def block(self, rest: Work) -> Work:
        """To be called by the work in progress: its handler stays taken until the returned function is called, which
        does the `rest`."""
        assert self._rest is None, "one work blocks once at a time"
        self._rest = rest

        def resume(now_us: int) -> None:
            self._run(rest, now_us)
            self._go_on(now_us)

        return resume

    @property
    def is_blocked(self) -> bool:
        """The work in progress has called `block`."""
        return self._rest is not None

    def _go_on(self, now_us: int) -> None:
        while self._waiting and self._busy < self.num_io_threads:
            self._busy += 1
            self._run(self._waiting.popleft(), now_us)

    def _run(self, work: Work, now_us: int) -> None:
        self._rest = None
        work(now_us)
        if self._rest is None:
            self._busy -= 1
        self._rest = None
