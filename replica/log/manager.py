"""One log directory of a broker: the logs, their common checkpoints, meta.properties and the clean-shutdown file.

Source: Kafka LogManager, ReplicaManager (high watermark checkpoint), MetaPropertiesEnsemble
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import CLUSTER_ID, NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset, TopicPartition
from replica.log.files.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    as_kafka_spells,
    read_offsets,
    read_partition_metadata,
    read_properties,
    take_clean_shutdown,
    uuid_of,
    write_clean_shutdown,
    write_offsets,
    write_partition_metadata,
    write_properties,
)
from replica.log.files.disk import Disk, DiskFailed, partition_of
from replica.log.log import Log, Recovery
from replica.log.producers.producer_state import PRODUCER_ID_EXPIRATION_MS

DELETED_SUFFIX = "-delete"
_NAME_MAX = 255


def _name_of_deleted(topic_partition: TopicPartition, unique_id: UUID) -> str:
    """Return `orders-0.5ba1c6b09a3f4f6b8f4e2d4b8c1f0001-delete`, shortened to a valid file name.

    Source: logDeleteDirName
    """
    suffix = f".{unique_id.hex}{DELETED_SUFFIX}"
    return f"{str(topic_partition)[: _NAME_MAX - len(suffix)]}{suffix}"


class WrongLogDirectory(Exception):
    """The error for a log directory that belongs to another broker."""


def new_directory_id(cluster_id: str, node_id: BrokerId, directory: str = "", now_us: int = 0) -> UUID:
    """Return the id of a log directory that is formatted at `now_us`. `directory` is its name if there are several."""
    path_name = f"{cluster_id}/{node_id}/{directory}" if directory else f"{cluster_id}/{node_id}"
    return uuid5(NAMESPACE_URL, f"{path_name}@{now_us}" if now_us else path_name)


class LogManager:
    """The logs of one directory, from the start of a broker to a clean shutdown (`close_clean`) or a crash (`abandon`).

    Attributes:
        directory_id: the id in meta.properties.
        is_new: True if the directory was empty (a new disk); False at time 0, when all directories are empty.
        topic_ids: topic id of each partition, None if partition.metadata is missing.
        recoveries: result of the check of each log.
        was_clean: True if there was a clean-shutdown file; `previous_broker_epoch` is its epoch, -1 without a file.
    """

    def __init__(self, root: Path, disk: Disk, default_config: TopicConfig, producer_id_expiration_ms: int) -> None:
        """Create a manager without logs; use `LogManager.open`."""
        self.root = root
        self.disk = disk
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, UUID | None] = {}
        self.recoveries: dict[TopicPartition, Recovery] = {}
        self.directory_id = UUID(int=0)
        self.is_new = False
        self.was_clean = False
        self.previous_broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
        self._default_config = default_config
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._unknown_producer_error: ErrorCode | None = None
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self._cleaned_to: dict[TopicPartition, Offset] = {}
        self._deleted: dict[Path, Log] = {}
        self._deletions = 0
        self._now_us = 0

    @classmethod
    def open(
        cls,
        root: Path,
        disk: Disk,
        broker_id: BrokerId,
        default_config: TopicConfig,
        now_us: int = 0,
        *,
        cluster_id: str = CLUSTER_ID,
        directory: str = "",
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> LogManager:
        """Load the logs of all partitions. Without a clean-shutdown file, all logs are recovered.

        Args:
            directory: name of the directory if the broker has several.
            default_config: settings of all logs until `set_config` is called.

        Raises:
            WrongLogDirectory: if the directory belongs to another broker.
        """
        assert root == disk.root, f"{disk.root} is tracked, not {root}"
        manager = cls(root, disk, default_config, producer_id_expiration_ms)
        manager._now_us = now_us
        root.mkdir(parents=True, exist_ok=True)
        # Differs from Kafka: the directory's id is derived, not random, so that runs can be repeated exactly.
        manager.directory_id = new_directory_id(cluster_id, broker_id, directory, now_us)
        manager._check_owner(broker_id, cluster_id)
        manager.is_new = manager.is_new and now_us > 0
        broker_epoch = take_clean_shutdown(root / CLEAN_SHUTDOWN)
        manager.was_clean = broker_epoch is not None
        manager.previous_broker_epoch = NO_BROKER_EPOCH if broker_epoch is None else broker_epoch
        manager._load()
        if any(recovery.truncated_bytes for recovery in manager.recoveries.values()):
            # Differs from Kafka, which waits for the next periodic checkpoint. Until then, the old checkpoint says that
            # bytes are flushed that have just been removed.
            manager.checkpoint_recovery_points()
        return manager

    def _check_owner(self, broker_id: BrokerId, cluster_id: str) -> None:
        path = self.root / META_PROPERTIES
        found = read_properties(path)
        expected = {"version": "1", "cluster.id": cluster_id, "node.id": str(broker_id)}
        self.is_new = not found
        if not found:
            new = {**expected, "directory.id": as_kafka_spells(self.directory_id)}
            write_properties(path, new, sync=self.disk.sync)
            return
        for key, value in expected.items():
            if found.get(key) != value:
                raise WrongLogDirectory(f"{path.name}: {key} is {found.get(key)}, expected {value}")
        try:
            self.directory_id = uuid_of(found["directory.id"])
        except (KeyError, ValueError) as error:
            raise WrongLogDirectory(f"{path.name} has no valid directory.id") from error

    def _load(self) -> None:
        recovery_points = read_offsets(self.root / RECOVERY_POINTS)
        log_start_offsets = read_offsets(self.root / LOG_START_OFFSETS)
        self._high_watermarks = read_offsets(self.root / HIGH_WATERMARKS)
        self._cleaned_to = read_offsets(self.root / CLEANER_OFFSETS)
        for directory in sorted(self.root.iterdir()):
            if directory.name.endswith(DELETED_SUFFIX):
                # Simplified: the files are deleted immediately; Kafka starts their delay again.
                shutil.rmtree(directory, ignore_errors=True)
                continue
            topic_partition = partition_of(directory) if directory.is_dir() else None
            if topic_partition is None:
                continue
            self.topic_ids[topic_partition] = read_partition_metadata(directory / PARTITION_METADATA)
            self._open_log(
                topic_partition,
                self._default_config,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=log_start_offsets.get(topic_partition, 0),
            )

    def _open_log(
        self, topic_partition: TopicPartition, config: TopicConfig, *, recovery_point: Offset, log_start_offset: Offset
    ) -> Log:
        log, recovery = Log.open(
            self.directory_of(topic_partition),
            topic_partition,
            config,
            self.disk,
            clean=self.was_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_us=self._now_us,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
        )
        log.producers.unknown_error = self._unknown_producer_error
        self.logs[topic_partition] = log
        self.recoveries[topic_partition] = recovery
        return log

    def refuse_unknown_producers(self, error: ErrorCode) -> None:
        """Set ProducerStateManager.unknown_error of all current and future logs."""
        self._unknown_producer_error = error
        for log in self.logs.values():
            log.producers.unknown_error = error
            log.producers.log_begins_at(log.log_start_offset)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Set the expiration of producer ids of all current and future logs."""
        self._producer_id_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.producers.expiration_ms = expiration_ms

    def directory_of(self, topic_partition: TopicPartition) -> Path:
        return self.root / str(topic_partition)

    # -------------------------------------------------------------------------------------------------- partitions

    def create(self, topic_partition: TopicPartition, config: TopicConfig, topic_id: UUID) -> Log:
        """Return the partition's log, after creating it if necessary, and set its `config`."""
        log = self.logs.get(topic_partition)
        if log is None:
            log = self._open_log(topic_partition, config, recovery_point=0, log_start_offset=0)
        log.config = config
        if self.topic_ids.get(topic_partition) != topic_id:
            self.topic_ids[topic_partition] = topic_id
            path = log.directory / PARTITION_METADATA
            write_partition_metadata(path, topic_id, sync=self.disk.sync)
        return log

    def set_config(self, topic_partition: TopicPartition, config: TopicConfig) -> None:
        self.logs[topic_partition].config = config

    def delete(self, topic_partition: TopicPartition) -> Path:
        """Remove the partition, and return the new name of its directory. Source: LogManager.asyncDelete

        The directory exists until `remove`, because responses may still read from its files.
        """
        log = self.logs.pop(topic_partition)
        self.topic_ids.pop(topic_partition, None)
        self.recoveries.pop(topic_partition, None)
        self._high_watermarks.pop(topic_partition, None)
        if self._cleaned_to.pop(topic_partition, None) is not None:
            self._write_cleaned_to()
        self._deletions += 1
        directory = self.root / _name_of_deleted(topic_partition, uuid5(self.directory_id, str(self._deletions)))
        log.forget_files()
        log.directory.rename(directory)
        self._deleted[directory] = log
        return directory

    def remove(self, directory: Path) -> None:
        """Delete the directory that `delete` has renamed. Source: LogManager.deleteLogs"""
        log = self._deleted.pop(directory, None)
        if log is not None:
            log.abandon()
            shutil.rmtree(directory, ignore_errors=True)

    def truncate_to(self, topic_partition: TopicPartition, offset: Offset) -> Offset:
        """Truncate a log, write its new recovery point immediately, and return its new end.

        Source: LogManager.truncateTo
        """
        log_end_offset = self.logs[topic_partition].truncate_to(offset)
        self.checkpoint_recovery_points()
        self._log_was_cut(topic_partition)
        return log_end_offset

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Delete all records of a log, and write its new recovery point and start immediately."""
        self.logs[topic_partition].truncate_fully_and_start_at(offset)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self._log_was_cut(topic_partition)

    # ------------------------------------------------------------------------------------------------- checkpoints

    def high_watermark_checkpoint(self, topic_partition: TopicPartition) -> Offset:
        """Return the checkpointed high watermark, or 0 without a checkpoint, limited to [log start, log end]."""
        log = self.logs[topic_partition]
        checkpointed = self._high_watermarks.get(topic_partition, 0)
        return max(log.log_start_offset, min(checkpointed, log.log_end_offset))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Write all high watermarks to one file, as Kafka does every replica.high.watermark.checkpoint.interval.ms."""
        if not self._is_writable():
            return
        if high_watermarks == self._high_watermarks:
            return  # The file is up to date.
        self._high_watermarks = dict(high_watermarks)
        write_offsets(self.root / HIGH_WATERMARKS, self._high_watermarks, sync=self.disk.sync)

    def _is_writable(self) -> bool:
        """Return False if the disk has failed. Checkpoints are then skipped; Kafka logs the failure and continues."""
        try:
            self.disk.check_writable()
        except DiskFailed:
            return False
        return True

    def checkpoint_recovery_points(self) -> None:
        if not self._is_writable():
            return
        offsets = {topic_partition: log.recovery_point for topic_partition, log in self.logs.items()}
        write_offsets(self.root / RECOVERY_POINTS, offsets, sync=self.disk.sync)

    def checkpoint_log_start_offsets(self) -> None:
        """Write the log start of each log that does not start at its first segment, as Kafka does."""
        if not self._is_writable():
            return
        offsets = {
            topic_partition: log.log_start_offset
            for topic_partition, log in self.logs.items()
            if log.log_start_offset > log.first_segment_base
        }
        write_offsets(self.root / LOG_START_OFFSETS, offsets, sync=self.disk.sync)

    # -------------------------------------------------------------------------------------------------- compaction

    def cleaned_to(self, topic_partition: TopicPartition) -> Offset | None:
        """Return the offset up to which a log was compacted, None if it never was."""
        return self._cleaned_to.get(topic_partition)

    def set_cleaned_to(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Record the offset up to which a log was compacted. Source: LogCleanerManager.updateCheckpoints"""
        self._cleaned_to[topic_partition] = offset
        self._write_cleaned_to()

    def _write_cleaned_to(self) -> None:
        if self._is_writable():
            offsets = {name: offset for name, offset in self._cleaned_to.items() if name in self.logs}
            write_offsets(self.root / CLEANER_OFFSETS, offsets, sync=self.disk.sync)

    def _log_was_cut(self, topic_partition: TopicPartition) -> None:
        """Lower the cleaner's checkpoint after a truncation. Source: LogCleanerManager.maybeTruncateCheckpoint"""
        base_offset = self.logs[topic_partition].segments.active.base_offset
        if self._cleaned_to.get(topic_partition, 0) > base_offset:
            self.set_cleaned_to(topic_partition, base_offset)

    # --------------------------------------------------------------------------------------------- flush and close

    def remove_expired_producers(self, now_us: int) -> None:
        """Remove producers that were inactive for producer.id.expiration.ms; Kafka does so every 10 minutes."""
        for log in self.logs.values():
            log.producers.remove_expired(now_us // 1000)

    def close_clean(self, broker_epoch: BrokerEpoch, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Flush and close the logs, and write all checkpoints and, as the last step, the clean-shutdown file."""
        self.checkpoint_high_watermarks(high_watermarks)
        for log in self.logs.values():
            log.flush()
            log.close()
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        write_clean_shutdown(self.root / CLEAN_SHUTDOWN, broker_epoch, sync=self.disk.sync)
        self._close_deleted()

    def abandon(self) -> None:
        """Close the files after a crash, without writing."""
        for log in self.logs.values():
            log.abandon()
        self._close_deleted()

    def _close_deleted(self) -> None:
        for log in self._deleted.values():
            log.abandon()
        self._deleted.clear()
