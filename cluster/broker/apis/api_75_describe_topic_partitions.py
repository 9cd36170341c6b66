"""DescribeTopicPartitions (75): partitions with their eligible leaders, page by page (KIP-966).

     0  the only version

source: DescribeTopicPartitionsRequestHandler
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.broker.apis.api import BrokerParts, Values
from cluster.broker.apis.cluster_view import ALL_OF_TOPIC, DescribedCluster, failed, why_missing
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from controller.image import TopicImage
from controller.topics import is_internal
from replica.errors import ErrorCode


class DescribeTopicPartitionsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._view = DescribedCluster(broker)
        self._cache = broker.cache
        self._config = broker.config
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        image = self._cache.image
        asked = [str(topic.name) for topic in request.topics]
        first, start = "", 0
        if request.cursor is not None:
            first, start = str(request.cursor.topic_name), int(request.cursor.partition_index)
        if start < 0 or (first and asked and first not in asked):
            # No field says what is wrong with a cursor, so the topics do (getErrorResponse).
            answer = [failed(ErrorCode.INVALID_REQUEST, name) for name in asked]
            self._answer(connection, header, topics=answer, next_cursor=None)
            return
        limit = max(1, min(self._config.max_request_partition_size_limit, int(request.response_partition_limit)))
        names = sorted(name for name in paced(dict.fromkeys(asked or image.topics)) if name >= first)
        topics, cursor = self._page(names, start if first else 0, first, limit)
        self._answer(connection, header, topics=topics, next_cursor=cursor)

    def _page(self, names: Sequence[str], start: int, first: str, limit: int) -> tuple[list[Values], Values | None]:
        topics: list[Values] = []
        for name in paced(names):
            topic = self._cache.image.topics.get(name)
            if limit == 0:
                return topics, {"topic_name": name, "partition_index": 0}
            if topic is None:
                topics.append(failed(why_missing(name), name))
                continue
            numbers = sorted(topic.partitions)[start if name == first else 0 :]
            topics.append(self._described(name, topic, numbers[:limit]))
            if len(numbers) > limit:
                return topics, {"topic_name": name, "partition_index": numbers[limit]}
            limit -= len(numbers)
        return topics, None

    def _described(self, name: str, topic: TopicImage, numbers: Sequence[int]) -> Values:
        partitions = []
        for number in numbers:
            registration = topic.partitions[number]
            partitions.append(
                {
                    # As Kafka, which names no error here even where there is no leader.
                    "error_code": ErrorCode.NONE,
                    "partition_index": number,
                    "leader_id": self._view.known_leader(registration),
                    "leader_epoch": registration.leader_epoch,
                    "replica_nodes": registration.replicas,
                    "isr_nodes": registration.in_sync_replicas,
                    "eligible_leader_replicas": registration.elr,
                    "last_known_elr": registration.last_known_elr,
                    "offline_replicas": self._view.offline_replicas(name, number, registration),
                }
            )
        return {
            "error_code": ErrorCode.NONE,
            "name": name,
            "topic_id": topic.topic_id,
            "is_internal": is_internal(name),
            "partitions": partitions,
            "topic_authorized_operations": ALL_OF_TOPIC,
        }


API = DescribeTopicPartitionsHandler
