"""DescribeLogDirs (35): the log directories of this broker, and how much is in them (KIP-113).

     1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
     2  flexible
     3  an error of the whole answer
     4  room in all and room that is left (KIP-827)

source: ReplicaManager.describeLogDirs
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from cluster.broker.apis.api import BrokerParts, Values
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import RequestHeader
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.manager import LogManager


class DescribeLogDirsHandler:
    def __init__(self, broker: BrokerParts) -> None:
        self._replicas = broker.replicas
        self._logs = broker.directories
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        wanted: dict[TopicPartition, None] | None = None
        if request.topics is not None:
            wanted = {
                TopicPartition(str(topic.topic), int(number)): None
                for topic in request.topics
                for number in topic.partitions
            }
        online = [self._directory(manager, wanted) for manager in self._logs.directories.values()]
        failed = [
            {"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": str(root)} for root in self._logs.failed_roots
        ]
        self._answer(connection, header, error_code=ErrorCode.NONE, results=[*online, *failed])

    def _directory(self, manager: LogManager, wanted: Mapping[TopicPartition, None] | None) -> Values:
        names = sorted(name for name in manager.logs if wanted is None or name in wanted)
        total_bytes, usable_bytes = manager.disk.volume_bytes()
        return {
            "error_code": ErrorCode.NONE,
            "log_dir": str(manager.root),
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": name.partition,
                            "partition_size": manager.logs[name].size_bytes,
                            "offset_lag": self._offset_lag(name, manager),
                            "is_future_key": False,
                        }
                        for name in paced(partitions)
                    ],
                }
                for topic, partitions in groupby(names, key=lambda name: name.topic)
            ],
            "total_bytes": total_bytes,
            "usable_bytes": usable_bytes,
        }

    def _offset_lag(self, name: TopicPartition, manager: LogManager) -> int:
        """How far the log is behind the high watermark; -1 for a log without a partition. source: getLogEndOffsetLag"""
        partition = self._replicas.partitions.get(name)
        if partition is None:
            return -1
        return max(0, partition.high_watermark - manager.logs[name].log_end_offset)


API = DescribeLogDirsHandler
