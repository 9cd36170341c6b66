"""Log directories of a broker: AlterReplicaLogDirs (34), DescribeLogDirs (35)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from cluster.broker.apis.api import ApiHandler, Serve, Values
from cluster.broker.apis.refusals import ABSENT
from cluster.protocol.versions import ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS
from cluster.server.responder import Call
from cluster.slices import paced
from replica.errors import ErrorCode
from replica.ids import TopicPartition
from replica.log.manager import LogManager


class AlterReplicaLogDirsHandler(ApiHandler):
    """AlterReplicaLogDirs (34): move replicas to other log directories of this broker (KIP-113).

    1  a throttled client gets its response before the delay (KIP-219): the oldest version that Kafka 4 accepts
    2  flexible

    Source: ReplicaManager.alterReplicaLogDirs

    Differs from Kafka: replicas cannot move. A request for another directory is refused with UNSUPPORTED_VERSION, and
    the directory of a replica that does not exist yet is ignored.
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        # If a replica occurs twice, the last directory counts.
        places = {
            TopicPartition(str(topic.name), int(number)): str(directory.path)
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        logs = self._broker.directories
        managers = {str(manager.root): manager for manager in logs.directories.values()}
        failed = frozenset(map(str, logs.failed_roots))
        topics: dict[str, list[Values]] = {}
        for name, path in paced(places.items()):
            error = ErrorCode.KAFKA_STORAGE_ERROR if path in failed else self._moved(name, managers.get(path))
            answer: Values = {"partition_index": name.partition, "error_code": error}
            topics.setdefault(name.topic, []).append(answer)
        results = [{"topic_name": topic, "partitions": answers} for topic, answers in topics.items()]
        self._answer(call, results=results)

    def _moved(self, name: TopicPartition, manager: LogManager | None) -> ErrorCode:
        """Return the error of a move to the directory of `manager`, which is None if the directory does not exist."""
        if manager is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if name not in self._broker.replicas.partitions:
            missing = self._broker.replicas.missing_partition_error(name)
            # Clients of this API expect the older error code.
            return ErrorCode.REPLICA_NOT_AVAILABLE if missing is ErrorCode.NOT_LEADER_OR_FOLLOWER else missing
        return ErrorCode.NONE if name in manager.logs else ABSENT


class DescribeLogDirsHandler(ApiHandler):
    """DescribeLogDirs (35): return this broker's log directories and their sizes (KIP-113).

         1  a throttled client gets its response before the delay (KIP-219): the oldest version that Kafka 4 accepts
         2  flexible
         3  a top-level error
         4  total and usable space (KIP-827)
         5  whether a directory is cordoned (KIP-1066): always false here

    Source: ReplicaManager.describeLogDirs
    """

    def __call__(self, call: Call) -> None:
        request = call.decoded()
        wanted: dict[TopicPartition, None] | None = None
        if request.topics is not None:
            wanted = {
                TopicPartition(str(topic.topic), int(number)): None
                for topic in request.topics
                for number in topic.partitions
            }
        logs = self._broker.directories
        online = [self._directory(manager, wanted) for manager in logs.directories.values()]
        failed = [{"error_code": ErrorCode.KAFKA_STORAGE_ERROR, "log_dir": str(root)} for root in logs.failed_roots]
        self._answer(call, error_code=ErrorCode.NONE, results=[*online, *failed])

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
        """Return the number of offsets from the log end to a higher high watermark, -1 for a log without a partition.

        Source: getLogEndOffsetLag
        """
        partition = self._broker.replicas.partitions.get(name)
        if partition is None:
            return -1
        return max(0, partition.high_watermark - manager.logs[name].log_end_offset)


APIS: Final[Mapping[int, Serve]] = {
    ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsHandler,
    DESCRIBE_LOG_DIRS: DescribeLogDirsHandler,
}
