"""Asks one broker for its high watermarks again and again, past every proxy, for as long as it runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import trio

from cluster.kafka.observe.sampled_offsets import SampledHighWatermark, SampledOffsets
from cluster.protocol.framing import FrameReader
from replica.errors import PeerViolation
from replica.ids import Offset, TopicPartition

PATIENCE_S = 2.0
"""For an answer; a broker that is paused, or that has just started, gives none."""
ANSWER_BYTES_MAX = 64 << 20
READ_BYTES = 64 << 10


class Sampler:
    """known: the high watermark of every replica that has said its role; none while the broker is down

    sampled: called with what one answer says
    """

    def __init__(
        self,
        address: tuple[str, int],
        interval_s: float,
        known: Callable[[], Mapping[TopicPartition, Offset]],
        sampled: Callable[[list[SampledHighWatermark]], None],
    ) -> None:
        self._address = address
        self._interval_s = interval_s
        self._known = known
        self._sampled = sampled
        self._offsets = SampledOffsets()
        self._correlation_ids = itertools.count()

    async def run(self) -> None:
        """Never ends."""
        while True:
            try:
                if self._known():
                    await self._on_one_connection()
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, PeerViolation):
                pass  # It is down, or paused, or about to be: the next connection says.
            await trio.sleep(self._interval_s)

    async def _on_one_connection(self) -> None:
        with trio.fail_after(PATIENCE_S):
            stream = await trio.open_tcp_stream(*self._address)
        async with stream:
            reader = FrameReader(ANSWER_BYTES_MAX)
            next_s = trio.current_time()
            while known := self._known():
                with trio.fail_after(PATIENCE_S):
                    await stream.send_all(self._offsets.question(next(self._correlation_ids), known))
                    frame = await self._answer(stream, reader)
                self._sampled(list(self._offsets.answered(frame)))
                next_s = max(next_s + self._interval_s, trio.current_time())
                await trio.sleep_until(next_s)

    @staticmethod
    async def _answer(stream: trio.SocketStream, reader: FrameReader) -> bytearray:
        while True:
            chunk = await stream.receive_some(READ_BYTES)
            if not chunk:
                raise trio.BrokenResourceError
            frames = reader.feed(chunk)
            if frames:
                return frames[0]
