"""How much time a broker's threads need: none, unless a scenario says otherwise.

A handler stays taken while it works on a request, so requests queue behind num.io.threads busy ones. New connections
take the network thread's time, and what is on its other connections waits meanwhile. A replica fetcher takes an answer
in before its next fetch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from cluster.outbox import Outbox
from cluster.server.request_handlers import RequestHandlers, Work
from replica.log.files.file_slice import FileSlice

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

    __slots__ = ("_handlers", "_outbox", "_spent_us", "times")

    def __init__(self, times: CpuTimes, handlers: RequestHandlers, outbox: Outbox) -> None:
        self.times = times
        self._handlers = handlers
        self._outbox = outbox
        self._spent_us = 0

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
        if not (self.times.request_us or self.times.produced_us or self.times.fetched_us):
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
