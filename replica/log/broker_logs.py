"""All log directories of one broker (`log.dirs`): their partitions, and the directories that have failed.

A directory whose disk fails a read or a write goes offline with all its logs, while the process continues.

Source: KIP-112; Kafka LogManager, ReplicaManager.handleLogDirFailure
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from uuid import UUID

from replica.config import TopicConfig
from replica.errors import ErrorCode
from replica.ids import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset, TopicPartition
from replica.log.files.disk import Disk
from replica.log.log import Log, Recovery
from replica.log.manager import LogManager


class BrokerLogs:
    """The log managers of all online directories, behind one interface.

    Attributes:
        directories: log managers by name, in the order of log.dirs; a broker's only directory has the empty name.
        was_clean: True if every directory was shut down cleanly.
        previous_broker_epoch: epoch at the last clean shutdown, -1 unless all directories have the same
            (CleanShutdownFileHandler).
    """

    def __init__(self, directories: dict[str, LogManager]) -> None:
        self.directories = directories
        self._failed: list[LogManager] = []
        managers = list(directories.values())
        self.was_clean = bool(managers) and all(manager.was_clean for manager in managers)
        epochs = {manager.previous_broker_epoch for manager in managers}
        self.previous_broker_epoch: BrokerEpoch = epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    @classmethod
    def open(
        cls,
        disks: Mapping[str, Disk],
        broker_id: BrokerId,
        default_config: TopicConfig,
        now_us: int,
        *,
        producer_id_expiration_ms: int,
    ) -> BrokerLogs:
        """Load all log directories except those with a broken disk, which are offline.

        Raises:
            WrongLogDirectory: if a directory belongs to another broker.
        """
        return cls(
            {
                name: LogManager.open(
                    disk.root,
                    disk,
                    broker_id,
                    default_config,
                    now_us,
                    directory=name,
                    producer_id_expiration_ms=producer_id_expiration_ms,
                )
                for name, disk in disks.items()
                if not disk.broken
            }
        )

    @property
    def failed_roots(self) -> list[Path]:
        """The directories that have gone offline since the broker started."""
        return [manager.root for manager in self._failed]

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """The logs of all online directories, as a view and not a copy, because they are read often."""
        return ChainMap(*reversed([manager.logs for manager in self.directories.values()]))

    @property
    def recoveries(self) -> dict[TopicPartition, Recovery]:
        return {name: found for manager in self.directories.values() for name, found in manager.recoveries.items()}

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """Return the topic id in the partition.metadata file of an existing log, else None."""
        for manager in self.directories.values():
            if topic_partition in manager.logs:
                return manager.topic_ids.get(topic_partition)
        return None

    def directory_ids(self) -> list[UUID]:
        return [manager.directory_id for manager in self.directories.values()]

    @property
    def is_new_disk(self) -> bool:
        """True if the broker has a single directory, which was empty when the broker started."""
        return [manager.is_new for manager in self.directories.values()] == [True]

    def directory_id_of(self, topic_partition: TopicPartition) -> UUID:
        return self.holder(topic_partition).directory_id

    def holder(self, topic_partition: TopicPartition) -> LogManager:
        """Return the log manager of the directory that has a partition's log."""
        return next(manager for manager in self.directories.values() if topic_partition in manager.logs)

    # ------------------------------------------------------------------------------------------------------- failure

    def take_offline(self, disk: Disk) -> tuple[str, LogManager] | None:
        """Take a failed directory offline. Return its name and log manager, or None if the disk is unknown.

        Files stay open until the broker stops, because pending responses may still read from them.
        """
        for name, manager in self.directories.items():
            if manager.disk is disk:
                self._failed.append(self.directories.pop(name))
                return name, manager
        return None

    # ---------------------------------------------------------------------------------------------------- partitions

    def create(self, topic_partition: TopicPartition, config: TopicConfig, topic_id: UUID) -> Log:
        """Return the partition's log. If it is new, create it in the directory with the fewest logs (nextLogDirs)."""
        managers = list(self.directories.values())
        holder = next((manager for manager in managers if topic_partition in manager.logs), None)
        if holder is None:
            holder = min(managers, key=lambda manager: len(manager.logs))
        return holder.create(topic_partition, config, topic_id)

    def refuse_unknown_producers(self, error: ErrorCode) -> None:
        for manager in self.directories.values():
            manager.refuse_unknown_producers(error)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Set the time after which inactive producers are removed. Source: DynamicProducerStateManagerConfig"""
        for manager in self.directories.values():
            manager.set_producer_id_expiration(expiration_ms)

    def delete(self, topic_partition: TopicPartition) -> Callable[[], None]:
        """Remove a partition from the broker. Return a function that deletes the files, to be called later."""
        manager = self.holder(topic_partition)
        return partial(manager.remove, manager.delete(topic_partition))

    # --------------------------------------------------------------------------------------------------- checkpoints

    def high_watermark_checkpoint(self, topic_partition: TopicPartition) -> Offset:
        return self.holder(topic_partition).high_watermark_checkpoint(topic_partition)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        for manager in list(self.directories.values()):
            here = {name: offset for name, offset in high_watermarks.items() if name in manager.logs}
            manager.checkpoint_high_watermarks(here)

    def checkpoint_recovery_points(self) -> None:
        for manager in list(self.directories.values()):
            manager.checkpoint_recovery_points()

    def checkpoint_log_start_offsets(self) -> None:
        for manager in list(self.directories.values()):
            manager.checkpoint_log_start_offsets()

    def remove_expired_producers(self, now_us: int) -> None:
        for manager in self.directories.values():
            manager.remove_expired_producers(now_us)

    # --------------------------------------------------------------------------------------------------------- close

    def close_clean(self, broker_epoch: BrokerEpoch, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Close all logs, and mark the online directories as cleanly shut down."""
        for manager in self.directories.values():
            here = {name: offset for name, offset in high_watermarks.items() if name in manager.logs}
            manager.close_clean(broker_epoch, here)
        self._abandon_failed()

    def abandon(self) -> None:
        """Close all files after the process has died, without writing anything."""
        for manager in self.directories.values():
            manager.abandon()
        self._abandon_failed()

    def _abandon_failed(self) -> None:
        for manager in self._failed:
            manager.abandon()
        self._failed.clear()
