"""Samples one broker's high watermarks while it runs, over a connection that bypasses the proxies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import trio

from cluster.protocol.api_01_fetch import FetchPartition, FetchRequest
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from cluster.protocol.framing import FrameReader
from replica.errors import ErrorCode, PeerViolation
from replica.ids import Offset, TopicPartition

PATIENCE_S = 2.0
"""The timeout of a response in seconds. A paused or starting broker does not respond."""
ANSWER_BYTES_MAX = 64 << 20
READ_BYTES = 64 << 10


class Sampler:
    """Samples the high watermarks of one broker.

    Args:
        known: returns the known high watermark of each replica whose role is known; empty while the broker is down.
        sampled: called with the high watermarks in each response.
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
        """Sample until cancelled."""
        while True:
            try:
                if self._known():
                    await self._on_one_connection()
            except (OSError, trio.BrokenResourceError, trio.TooSlowError, PeerViolation):
                pass  # The broker is down or paused, or about to be; the next connection will show it.
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


# ------------------------------------------------------------------------------------------------------ sampled offsets
#
# The request that samples high watermarks: a consumer's fetch without records, which any replica answers.
#
# Version 11 is the first that a follower answers (KIP-392), and the last with topics by name. It fetches from the known
# high watermark, where a consumer gets no record, and does not wait.
#
# Source: ReplicaManager.fetchMessages, Partition.fetchRecords


VERSION = 11
CLIENT_ID = "highwater-observer"


class SampledHighWatermark(NamedTuple):
    topic_partition: TopicPartition
    high_watermark: Offset


class SampledOffsets:
    """Encodes the requests that sample high watermarks from one broker, and decodes the responses.

    A partition that was out of range is next fetched from offset 0.
    """

    def __init__(self) -> None:
        self._out_of_range: dict[TopicPartition, None] = {}

    def question(self, correlation_id: int, known: Mapping[TopicPartition, Offset]) -> bytes:
        """Return a request for these replicas, by partition with their known high watermarks."""
        topics: dict[str, list[FetchPartition]] = {}
        for name, high_watermark in known.items():
            offset = 0 if name in self._out_of_range else high_watermark
            asked = FetchPartition(name.partition, fetch_offset=offset, max_bytes=1)
            topics.setdefault(name.topic, []).append(asked)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=list(topics.items()))
        return encode_fetch_request(VERSION, correlation_id, CLIENT_ID, request)

    def answered(self, frame: bytearray) -> Iterator[SampledHighWatermark]:
        """Yield the high watermarks in a response.

        Raises:
            PeerViolation: if the response is malformed.
        """
        for topic, partitions in decode_fetch_response(VERSION, frame).topics:
            for part in partitions:
                name = TopicPartition(str(topic), part.partition)
                self._out_of_range.pop(name, None)
                if part.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._out_of_range[name] = None
                elif part.error is ErrorCode.NONE and part.high_watermark >= 0:
                    yield SampledHighWatermark(name, part.high_watermark)
