"""One broker's log directory: its partitions' logs, the checkpoints they share, and whether the last stop was orderly.

Source: Kafka LogManager, ReplicaManager (high watermark checkpoint), MetaPropertiesEnsemble.
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
    """`orders-0.5ba1c6b09a3f4f6b8f4e2d4b8c1f0001-delete`, cut to what a file may be called. source: logDeleteDirName"""
    suffix = f".{unique_id.hex}{DELETED_SUFFIX}"
    return f"{str(topic_partition)[: _NAME_MAX - len(suffix)]}{suffix}"


class WrongLogDirectory(Exception):
    """The directory belongs to another broker."""


class LogManager:
    """Opened by a starting broker, left by `close_clean` (orderly) or `abandon` (the process died).

    directory_id: as in meta.properties
    logs: by partition          topic_ids: as in partition.metadata, None where that is missing
    recoveries: the findings of opening each log     was_clean: the clean-shutdown marker was there
    previous_broker_epoch: from that marker, -1 without
    """

    def __init__(self, root: Path, disk: Disk, default_config: TopicConfig, producer_id_expiration_ms: int) -> None:
        """An object without logs: `LogManager.open` makes it whole."""
        self.root = root
        self.disk = disk
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, UUID | None] = {}
        self.recoveries: dict[TopicPartition, Recovery] = {}
        self.directory_id = UUID(int=0)
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
        """Load every partition's log; without the clean-shutdown marker all of them are recovered.

        directory: its name among several of one broker
        default_config: for logs whose topic is not known yet; `set_config` follows when it is
        raises: WrongLogDirectory
        """
        assert root == disk.root, f"{disk.root} is tracked, not {root}"
        manager = cls(root, disk, default_config, producer_id_expiration_ms)
        manager._now_us = now_us
        root.mkdir(parents=True, exist_ok=True)
        # Differs from Kafka: the directory's id is derived, not random, so that runs can be repeated exactly.
        place = f"{cluster_id}/{broker_id}/{directory}" if directory else f"{cluster_id}/{broker_id}"
        manager.directory_id = uuid5(NAMESPACE_URL, place)
        manager._check_owner(broker_id, cluster_id)
        broker_epoch = take_clean_shutdown(root / CLEAN_SHUTDOWN)
        manager.was_clean = broker_epoch is not None
        manager.previous_broker_epoch = NO_BROKER_EPOCH if broker_epoch is None else broker_epoch
        manager._load()
        if any(recovery.truncated_bytes for recovery in manager.recoveries.values()):
            # Differs from Kafka, which waits for the next periodic checkpoint: until then the file on disk may claim
            # as flushed what was cut off just now.
            manager.checkpoint_recovery_points()
        return manager

    def _check_owner(self, broker_id: BrokerId, cluster_id: str) -> None:
        path = self.root / META_PROPERTIES
        found = read_properties(path)
        expected = {"version": "1", "cluster.id": cluster_id, "node.id": str(broker_id)}
        if not found:
            new = {**expected, "directory.id": as_kafka_spells(self.directory_id)}
            write_properties(path, new, sync=self.disk.sync)
            return
        for key, value in expected.items():
            if found.get(key) != value:
                raise WrongLogDirectory(f"{path.name}: {key} is {found.get(key)}, not {value}")

    def _load(self) -> None:
        recovery_points = read_offsets(self.root / RECOVERY_POINTS)
        log_start_offsets = read_offsets(self.root / LOG_START_OFFSETS)
        self._high_watermarks = read_offsets(self.root / HIGH_WATERMARKS)
        self._cleaned_to = read_offsets(self.root / CLEANER_OFFSETS)
        for directory in sorted(self.root.iterdir()):
            if directory.name.endswith(DELETED_SUFFIX):
                # Simplified: at once; Kafka lets its delay begin anew.
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
        """As ProducerStateManager.unknown_error says, of the logs that are there, and of those that come."""
        self._unknown_producer_error = error
        for log in self.logs.values():
            log.producers.unknown_error = error
            log.producers.log_begins_at(log.log_start_offset)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Of the logs that are there, and of those that come."""
        self._producer_id_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.producers.expiration_ms = expiration_ms

    def directory_of(self, topic_partition: TopicPartition) -> Path:
        return self.root / str(topic_partition)

    # -------------------------------------------------------------------------------------------------- partitions

    def create(self, topic_partition: TopicPartition, config: TopicConfig, topic_id: UUID) -> Log:
        """The partition's log: a new or the loaded one, with `config` from now on."""
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
        """Take the partition away. Its directory has another name from now on, which is returned, and stands until
        `remove`: responses may still be reading from its files. source: LogManager.asyncDelete
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
        """Remove what `delete` has left, for good. source: LogManager.deleteLogs"""
        log = self._deleted.pop(directory, None)
        if log is not None:
            log.abandon()
            shutil.rmtree(directory, ignore_errors=True)

    def truncate_to(self, topic_partition: TopicPartition, offset: Offset) -> Offset:
        """Truncate a log and write the lowered recovery point at once (LogManager.truncateTo). Returns its new end."""
        log_end_offset = self.logs[topic_partition].truncate_to(offset)
        self.checkpoint_recovery_points()
        self._log_was_cut(topic_partition)
        return log_end_offset

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """Empty a log and write the new recovery point and start at once."""
        self.logs[topic_partition].truncate_fully_and_start_at(offset)
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self._log_was_cut(topic_partition)

    # ------------------------------------------------------------------------------------------------- checkpoints

    def high_watermark_checkpoint(self, topic_partition: TopicPartition) -> Offset:
        """The last checkpointed high watermark (0 when there is none), clamped to [log start, log end]."""
        log = self.logs[topic_partition]
        checkpointed = self._high_watermarks.get(topic_partition, 0)
        return max(log.log_start_offset, min(checkpointed, log.log_end_offset))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Kafka does this every replica.high.watermark.checkpoint.interval.ms, for all partitions in one file."""
        if not self._is_writable():
            return
        if high_watermarks == self._high_watermarks:
            return  # The file says so already.
        self._high_watermarks = dict(high_watermarks)
        write_offsets(self.root / HIGH_WATERMARKS, self._high_watermarks, sync=self.disk.sync)

    def _is_writable(self) -> bool:
        """A checkpoint that cannot be written is skipped; the disk has reported it (Kafka logs it and goes on)."""
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
        """Only of logs that do not start at their first segment anyway, as Kafka does."""
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
        """Up to where the cleaner has been; None: it has not cleaned the log yet."""
        return self._cleaned_to.get(topic_partition)

    def set_cleaned_to(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """source: LogCleanerManager.updateCheckpoints"""
        self._cleaned_to[topic_partition] = offset
        self._write_cleaned_to()

    def _write_cleaned_to(self) -> None:
        if self._is_writable():
            offsets = {name: offset for name, offset in self._cleaned_to.items() if name in self.logs}
            write_offsets(self.root / CLEANER_OFFSETS, offsets, sync=self.disk.sync)

    def _log_was_cut(self, topic_partition: TopicPartition) -> None:
        """What is appended from now on is dirty. source: LogCleanerManager.maybeTruncateCheckpoint"""
        base_offset = self.logs[topic_partition].segments.active.base_offset
        if self._cleaned_to.get(topic_partition, 0) > base_offset:
            self.set_cleaned_to(topic_partition, base_offset)

    # --------------------------------------------------------------------------------------------- flush and close

    def flush_all(self) -> None:
        """Bring every log to the disk."""
        for log in self.logs.values():
            log.flush()

    def flush_due(self, now_us: int) -> list[TopicPartition]:
        """flush.ms: flush the logs whose last flush is that long ago; returns them."""
        return [topic_partition for topic_partition, log in self.logs.items() if log.flush_if_due(now_us)]

    def remove_expired_producers(self, now_us: int) -> None:
        """Forget idempotent producers that were silent for producer.id.expiration.ms; Kafka looks every 10 minutes."""
        for log in self.logs.values():
            log.producers.remove_expired(now_us // 1000)

    def close_clean(self, broker_epoch: BrokerEpoch, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """The orderly stop: high watermarks, flush, close, checkpoints, and the marker last of all."""
        self.checkpoint_high_watermarks(high_watermarks)
        for log in self.logs.values():
            log.flush()
            log.close()
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        write_clean_shutdown(self.root / CLEAN_SHUTDOWN, broker_epoch, sync=self.disk.sync)
        self._close_deleted()

    def abandon(self) -> None:
        """The process dies: files are closed, nothing is written."""
        for log in self.logs.values():
            log.abandon()
        self._close_deleted()

    def _close_deleted(self) -> None:
        for log in self._deleted.values():
            log.abandon()
        self._deleted.clear()
