"""The feed of a running cluster's page: a reader that does not read costs the cluster nothing, and is dropped."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import MockClock, lockstep_stream_pair

from replica.trace.events import NodeStarted, TraceRow
from scenarios.serve.page_server import READERS_MAX, STRANGERS_MAX, TAKEN_WITHIN_S, Door, PageServer
from scenarios.view.live_tape import PART_EVENTS_MAX, LiveTape

ASKS = b"GET /secret/events HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"


class Readers(trio.abc.Listener[trio.abc.Stream]):
    """In the place of a socket: what is sent to a reader waits, without any buffer, until the reader takes it."""

    def __init__(self) -> None:
        self._come, self._next = trio.open_memory_channel[trio.abc.Stream](READERS_MAX + 1)

    async def come(self, asks: bytes = ASKS) -> trio.abc.Stream:
        reader, stream = lockstep_stream_pair()
        await self._come.send(stream)
        if asks:
            await reader.send_all(asks)
        return reader

    async def accept(self) -> trio.abc.Stream:
        return await self._next.receive()

    async def aclose(self) -> None:
        self._next.close()


@asynccontextmanager
async def served(tape: LiveTape) -> AsyncIterator[Readers]:
    readers = Readers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(PageServer(Door("secret", 1), "the page", "", tape).serve, readers)
        yield readers
        nursery.cancel_scope.cancel()


async def parts(reader: trio.abc.Stream, events: int) -> list[dict[str, Any]]:
    """Read until there are so many events."""
    found: list[dict[str, Any]] = []
    text = ""
    while sum(len(part["at"]) for part in found) < events:
        text += (await reader.receive_some()).decode()
        found = [json.loads(part) for part in re.findall(r"data: (.*)\n\n", text)]
    return found


def happen(tape: LiveTape, seqs: range) -> None:
    """As in a cluster: no step of it is a place to wait."""
    for seq in seqs:
        tape(TraceRow(seq, seq, (), NodeStarted(node="b1", role="broker", incarnation=1)))


def test_a_reader_that_stalls_gets_what_it_missed_in_bounded_parts() -> None:
    async def main() -> None:
        tape, missed = LiveTape({}), 3 * PART_EVENTS_MAX
        async with served(tape) as readers:
            stalled, quick = await readers.come(), await readers.come()
            for first in range(0, missed, 100):
                happen(tape, range(first, first + 100))
                if first % 1_000 == 0:
                    await parts(quick, 100)
            found = await parts(stalled, missed)
            assert [at for part in found for at in part["at"]] == list(range(missed))
            assert max(len(part["at"]) for part in found) == PART_EVENTS_MAX and len(found) <= 4

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_readers_that_never_read_are_dropped_and_give_their_place_to_another() -> None:
    async def main() -> None:
        tape = LiveTape({})
        async with served(tape) as readers:
            stalled = [await readers.come() for _ in range(READERS_MAX)]
            happen(tape, range(100))
            began = trio.current_time()
            (part,) = await parts(await readers.come(), 100)
            assert len(part["at"]) == 100
            assert trio.current_time() - began == TAKEN_WITHIN_S, "of the clock of this test: not before, not later"
            for reader in stalled:
                while await reader.receive_some():
                    pass

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_connections_that_ask_nothing_delay_no_page() -> None:
    """Three times as many as may wait; each would have kept a turn for five seconds."""

    async def main() -> None:
        tape = LiveTape({})
        happen(tape, range(3))
        async with served(tape) as readers:
            silent = [await readers.come(asks) for asks in [b"", b"GET /sec"] * STRANGERS_MAX]
            before = trio.current_time()
            found = await parts(await readers.come(), 3)
            assert [at for part in found for at in part["at"]] == [0, 1, 2]
            assert trio.current_time() - before < 1  # by the mock clock: nothing waited
            assert await silent[0].receive_some() == b""

    trio.run(main, clock=MockClock(autojump_threshold=0))
