"""The log directories of this broker: AlterReplicaLogDirs (34), DescribeLogDirs (35)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from cluster.broker.apis.api import BrokerParts, Serve, Values
from cluster.broker.apis.refusals import ABSENT
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.versions import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS, RequestHeader
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.manager import LogManager


class AlterReplicaLogDirsHandler:
    """AlterReplicaLogDirs (34): replicas move to other log directories of their broker (KIP-113).

    1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
    2  flexible

    source: ReplicaManager.alterReplicaLogDirs

    Differs from Kafka: a replica stays where it is. A move to another directory is refused as UNSUPPORTED_VERSION,
    and a directory that is named for a replica before that is there is forgotten.
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._replicas = broker.replicas
        self._logs = broker.directories
        self._answer = broker.responder.answer

    def __call__(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        # A replica that is named twice goes to the last place.
        places = {
            TopicPartition(str(topic.name), int(number)): str(directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        managers = {str(manager.root): manager for manager in self._logs.directories.values()}
        failed = frozenset(map(str, self._logs.failed_roots))
        topics: dict[str, list[Values]] = {}
        for name, path in paced(places.items()):
            error = ErrorCode.KAFKA_STORAGE_ERROR if path in failed else self._moved(name, managers.get(path))
            answer: Values = {"partition_index": name.partition, "error_code": error}
            topics.setdefault(name.topic, []).append(answer)
        results = [{"topic_name": topic, "partitions": answers} for topic, answers in topics.items()]
        self._answer(connection, header, results=results)

    def _moved(self, name: TopicPartition, manager: LogManager | None) -> ErrorCode:
        """manager: of the directory that it is to go to; None: there is no such directory"""
        if manager is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if name not in self._replicas.partitions:
            missing = self._replicas.missing_partition_error(name)
            # The older word, which clients of this API know.
            return ErrorCode.REPLICA_NOT_AVAILABLE if missing is ErrorCode.NOT_LEADER_OR_FOLLOWER else missing
        return ErrorCode.NONE if name in manager.logs else ABSENT


class DescribeLogDirsHandler:
    """DescribeLogDirs (35): the log directories of this broker, and how much is in them (KIP-113).

         1  a throttled client is answered first and held back then (KIP-219): the oldest version that Kafka 4 takes
         2  flexible
         3  an error of the whole answer
         4  room in all and room that is left (KIP-827)

    source: ReplicaManager.describeLogDirs
    """

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


APIS: Final[Mapping[int, Serve]] = {
    ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsHandler,
    DESCRIBE_LOG_DIRS: DescribeLogDirsHandler,
}
