"""The question that samples high watermarks, and its answer: a fetch of nothing, as a consumer's, that any replica
answers.

Version 11 is the first that a follower answers (KIP-392), and the last with topics by their names and no topic ids. It
asks for what lies at the high watermark that is known, where a consumer gets no record, and it does not wait.

Source: ReplicaManager.fetchMessages, Partition.fetchRecords
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cluster.protocol.api_01_fetch import FetchPartition, FetchRequest
from cluster.protocol.fetch_request_codec import encode_fetch_request
from cluster.protocol.fetch_response_codec import decode_fetch_response
from replica.errors import ErrorCode
from replica.ids import Offset, TopicPartition

VERSION = 11
CLIENT_ID = "highwater-observer"


class SampledHighWatermark(NamedTuple):
    topic_partition: TopicPartition
    high_watermark: Offset


class SampledOffsets:
    """Of one broker. Partitions that it answers with an offset out of range are asked from their start next time."""

    def __init__(self) -> None:
        self._out_of_range: dict[TopicPartition, None] = {}

    def question(self, correlation_id: int, known: Mapping[TopicPartition, Offset]) -> bytes:
        """known: high watermark of every replica that is asked for"""
        topics: dict[str, list[FetchPartition]] = {}
        for name, high_watermark in known.items():
            offset = 0 if name in self._out_of_range else high_watermark
            asked = FetchPartition(name.partition, fetch_offset=offset, max_bytes=1)
            topics.setdefault(name.topic, []).append(asked)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=list(topics.items()))
        return encode_fetch_request(VERSION, correlation_id, CLIENT_ID, request)

    def answered(self, frame: bytearray) -> Iterator[SampledHighWatermark]:
        """raises: PeerViolation"""
        for topic, partitions in decode_fetch_response(VERSION, frame).topics:
            for part in partitions:
                name = TopicPartition(str(topic), part.partition)
                self._out_of_range.pop(name, None)
                if part.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._out_of_range[name] = None
                elif part.error is ErrorCode.NONE and part.high_watermark >= 0:
                    yield SampledHighWatermark(name, part.high_watermark)
