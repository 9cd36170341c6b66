"""OffsetDelete (47): a group forgets its offsets of some partitions (KIP-496).

     0  the only version

source: KafkaApis.handleOffsetDeleteRequest
"""

from __future__ import annotations

from cluster.broker.apis.api import BrokerParts
from cluster.broker.apis.groups.partition_answers import error_of_each, exists
from cluster.groups.inputs import DeleteOffsets, DeleteOffsetsResult, Result
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import TopicPartition


class OffsetDeleteHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._service = broker.groups
        self._cache = broker.cache
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        names = [
            TopicPartition(str(topic.name), int(one.partition_index))
            for topic in request.topics
            for one in topic.partitions
        ]
        known = tuple(name for name in paced(names) if exists(self._cache, name))

        def answer(result: Result) -> None:
            assert isinstance(result, DeleteOffsetsResult)
            topics = error_of_each(names, result.errors) if result.error is ErrorCode.NONE else ()
            self._answer(connection, header, error_code=result.error, topics=topics)

        def make_input(number: int) -> DeleteOffsets:
            return DeleteOffsets(now_us=now_us, request=number, group_id=str(request.group_id), partitions=known)

        self._service.submit(connection, make_input, answer, now_us)


API = OffsetDeleteHandler
