"""What a broker itself answers to admin clients: settings, log directories, producers, and the deletion of records.

source: KafkaApis.scala, ConfigHelper.scala, ReplicaManager.describeLogDirs, .activeProducerState
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from cluster.broker.metadata.follower import MetadataCache
from cluster.broker.replicas.manager import ReplicaManager
from cluster.broker.replicas.record_deletion import Deleted, RecordDeletion
from cluster.config import BrokerConfig
from cluster.messages.admin.broker_description import OwnKey
from cluster.messages.admin.config_entries import ConfigEntry, broker_entries, default_entries, topic_entries
from cluster.messages.admin.config_requests import BROKER, BROKER_LOGGER, TOPIC, broker_of
from cluster.node import ConnectionId
from cluster.protocol import cold
from cluster.protocol.entities import Entity
from cluster.protocol.headers import RequestHeader
from cluster.protocol.versions import DELETE_RECORDS, DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS
from cluster.server.responder import Handler, Responder
from controller.topics import check_legal
from replica.errors import ErrorCode, KafkaError
from replica.ids import EVERY_BROKER, BrokerId, TopicPartition
from replica.log.broker_logs import BrokerLogs
from replica.log.manager import LogManager
from replica.rules import Rules

Values = dict[str, object]
NO_COORDINATOR = -1


class AdminApis:
    """`handlers` by API key."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        config: BrokerConfig,
        rules: Rules,
        own_keys: Sequence[OwnKey],
        cache: MetadataCache,
        replicas: ReplicaManager,
        logs: BrokerLogs,
        deletion: RecordDeletion,
        responder: Responder,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._rules = rules
        self._own_keys = own_keys
        self._cache = cache
        self._replicas = replicas
        self._logs = logs
        self._deletion = deletion
        self._answer = responder.answer
        self.handlers: Mapping[int, Handler] = {
            DESCRIBE_CONFIGS: self._describe_configs,
            DESCRIBE_LOG_DIRS: self._describe_log_dirs,
            DESCRIBE_PRODUCERS: self._describe_producers,
            DELETE_RECORDS: self._delete_records,
        }

    # ------------------------------------------------------------------------------------------------------ settings

    def _describe_configs(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        self._answer(connection, header, results=[self._described(request, one) for one in request.resources])

    def _described(self, request: Entity, resource: Entity) -> Values:
        kind, name = int(resource.resource_type), str(resource.resource_name)
        result: Values = {"resource_type": kind, "resource_name": name, "configs": ()}
        try:
            entries = self._entries(kind, name)
        except KafkaError as error:
            return {**result, "error_code": error.code, "error_message": error.message}
        wanted = resource.configuration_keys
        told = [entry for entry in entries if not wanted or entry.name in wanted]
        return {**result, "error_code": ErrorCode.NONE, "configs": [_config(request, entry) for entry in told]}

    def _entries(self, kind: int, name: str) -> Iterable[ConfigEntry]:
        """raises: KafkaError"""
        if kind == TOPIC:
            check_legal(name)
            topic = self._cache.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            return topic_entries(topic.config, self._config)
        if kind in (BROKER, BROKER_LOGGER):
            return self._broker_entries(kind, broker_of(name))
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")

    def _broker_entries(self, kind: int, broker_id: BrokerId) -> Iterable[ConfigEntry]:
        """raises: KafkaError"""
        stored = self._cache.image.broker_config
        default = stored.get(EVERY_BROKER, {})
        if broker_id == EVERY_BROKER and kind == BROKER:
            return default_entries(default)
        if broker_id != self._broker_id:
            who = f"this is broker {self._broker_id}; broker {broker_id} has to be asked itself"
            raise KafkaError(ErrorCode.INVALID_REQUEST, "no broker is named" if broker_id == EVERY_BROKER else who)
        if kind == BROKER_LOGGER:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a broker has no loggers here whose level could be set")
        return broker_entries(self._config, self._rules, self._own_keys, stored.get(broker_id, {}), default)

    # --------------------------------------------------------------------------------------------- log directories

    def _describe_log_dirs(
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
                        for name in partitions
                    ],
                }
                for topic, partitions in groupby(names, key=lambda name: name.topic)
            ],
            "total_bytes": total_bytes,
            "usable_bytes": usable_bytes,
        }

    def _offset_lag(self, name: TopicPartition, manager: LogManager) -> int:
        """How far the log is behind the high watermark; -1 of one that is no partition's. source: getLogEndOffsetLag"""
        partition = self._replicas.partitions.get(name)
        if partition is None:
            return -1
        return max(0, partition.high_watermark - manager.logs[name].log_end_offset)

    # ----------------------------------------------------------------------------------------------------- producers

    def _describe_producers(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        topics = [
            {
                "name": str(topic.name),
                "partitions": [
                    self._producers(TopicPartition(str(topic.name), int(number))) for number in topic.partition_indexes
                ],
            }
            for topic in request.topics
        ]
        self._answer(connection, header, topics=topics)

    def _producers(self, name: TopicPartition) -> Values:
        partition = self._replicas.partitions.get(name)
        if partition is None:
            try:
                check_legal(name.topic)
                error, message = self._replicas.missing_partition_error(name), None
            except KafkaError as illegal:
                error, message = illegal.code, illegal.message
            return {"partition_index": name.partition, "error_code": error, "error_message": message}
        return {
            "partition_index": name.partition,
            "error_code": ErrorCode.NONE,
            "active_producers": [
                {
                    "producer_id": producer_id,
                    "producer_epoch": entry.epoch,
                    "last_sequence": entry.last_sequence,
                    "last_timestamp": entry.last_timestamp_ms,
                    "coordinator_epoch": NO_COORDINATOR,
                    "current_txn_start_offset": -1,
                }
                for producer_id, entry in sorted(partition.log.producers.producers.items())
            ],
        }

    # ------------------------------------------------------------------------------------------------------- records

    def _delete_records(
        self, connection: ConnectionId, peer: str, header: RequestHeader, frame: bytearray, now_us: int
    ) -> None:
        request = cold.decode_request(header, frame)
        offsets = {
            TopicPartition(str(topic.name), int(partition.partition_index)): int(partition.offset)
            for topic in request.topics
            for partition in topic.partitions
        }

        def respond(results: Mapping[TopicPartition, Deleted]) -> None:
            topics = [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": name.partition,
                            "low_watermark": results[name].low_watermark,
                            "error_code": results[name].error,
                        }
                        for name in names
                    ],
                }
                for topic, names in groupby(sorted(results), key=lambda name: name.topic)
            ]
            self._answer(connection, header, topics=topics)

        timeout_us = cold.milliseconds(request.timeout) * 1000
        self._deletion.delete(offsets, peer, timeout_us, respond, now_us)


def _config(request: Entity, entry: ConfigEntry) -> Values:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [synonym._asdict() for synonym in synonyms],
        "config_type": entry.type,
        "documentation": entry.documentation if getattr(request, "include_documentation", False) else None,
    }
