"""DeleteRecords (21): partitions lose their records up to an offset (KIP-107).

     0  first version
     1  a throttled client is answered first and held back then (KIP-219)
     2  flexible

source: KafkaApis.handleDeleteRecordsRequest
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from cluster.broker.apis.api import BrokerParts
from cluster.broker.replicas.record_deletion import Deleted
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from replica.ids import TopicPartition


class DeleteRecordsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._deletion = broker.deletion()
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        offsets = {
            TopicPartition(str(topic.name), int(partition.partition_index)): int(partition.offset)
            for topic in request.topics
            for partition in topic.partitions
        }

        def respond(results: Mapping[TopicPartition, Deleted]) -> None:
            topics = (
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": name.partition,
                            "low_watermark": results[name].low_watermark,
                            "error_code": results[name].error,
                        }
                        for name in paced(names)
                    ],
                }
                for topic, names in groupby(sorted(results), key=lambda name: name.topic)
            )
            self._answer(connection, header, topics=topics)

        timeout_us = cold.milliseconds(request.timeout) * 1000
        self._deletion.delete(offsets, peer, timeout_us, respond, now_us)


API = DeleteRecordsHandler
