"""All log directories of one broker (`log.dirs`): which of them holds which partition, and which have failed.

A directory that refuses a read or a write goes offline with every log in it, while the process lives.
source: KIP-112; Kafka LogManager, ReplicaManager.handleLogDirFailure
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
    """One LogManager per directory that is online; to all other code they are one.

    directories: online, by name, in the order of log.dirs; a broker with one directory has one without a name
    was_clean, previous_broker_epoch: only if every directory says so (BrokerServer, CleanShutdownFileHandler)
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
        """Load what can be read; a broken disk is offline from the start.     raises: WrongLogDirectory"""
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
        """Of directories that have gone offline since the broker started."""
        return [manager.root for manager in self._failed]

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Of all directories that are online, one after the other. It is looked into often, so nothing is copied."""
        return ChainMap(*reversed([manager.logs for manager in self.directories.values()]))

    @property
    def recoveries(self) -> dict[TopicPartition, Recovery]:
        return {name: found for manager in self.directories.values() for name, found in manager.recoveries.items()}

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """As in partition.metadata of a log that is there."""
        for manager in self.directories.values():
            if topic_partition in manager.logs:
                return manager.topic_ids.get(topic_partition)
        return None

    def directory_ids(self) -> list[UUID]:
        return [manager.directory_id for manager in self.directories.values()]

    def directory_id_of(self, topic_partition: TopicPartition) -> UUID:
        return self._holder(topic_partition).directory_id

    def _holder(self, topic_partition: TopicPartition) -> LogManager:
        return next(manager for manager in self.directories.values() if topic_partition in manager.logs)

    # ------------------------------------------------------------------------------------------------------- failure

    def take_offline(self, disk: Disk) -> tuple[str, LogManager] | None:
        """A directory has failed; returns its name and what was in it, None if that was known.

        Files stay open until the end: responses that read from them may still be on their way.
        """
        for name, manager in self.directories.items():
            if manager.disk is disk:
                self._failed.append(self.directories.pop(name))
                return name, manager
        return None

    # ---------------------------------------------------------------------------------------------------- partitions

    def create(self, topic_partition: TopicPartition, config: TopicConfig, topic_id: UUID) -> Log:
        """The partition's log where it is, or a new one in the directory with the fewest (LogManager.nextLogDirs)."""
        managers = list(self.directories.values())
        holder = next((manager for manager in managers if topic_partition in manager.logs), None)
        if holder is None:
            holder = min(managers, key=lambda manager: len(manager.logs))
        return holder.create(topic_partition, config, topic_id)

    def set_config(self, topic_partition: TopicPartition, config: TopicConfig) -> None:
        self._holder(topic_partition).set_config(topic_partition, config)

    def refuse_unknown_producers(self, error: ErrorCode) -> None:
        for manager in self.directories.values():
            manager.refuse_unknown_producers(error)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """How long silent producers are known, from now on. source: DynamicProducerStateManagerConfig"""
        for manager in self.directories.values():
            manager.set_producer_id_expiration(expiration_ms)

    def delete(self, topic_partition: TopicPartition) -> Callable[[], None]:
        """Take the partition away; the returned object removes the rest of it, later."""
        manager = self._holder(topic_partition)
        return partial(manager.remove, manager.delete(topic_partition))

    def truncate_to(self, topic_partition: TopicPartition, offset: Offset) -> Offset:
        return self._holder(topic_partition).truncate_to(topic_partition, offset)

    def truncate_fully_and_start_at(self, topic_partition: TopicPartition, offset: Offset) -> None:
        self._holder(topic_partition).truncate_fully_and_start_at(topic_partition, offset)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def high_watermark_checkpoint(self, topic_partition: TopicPartition) -> Offset:
        return self._holder(topic_partition).high_watermark_checkpoint(topic_partition)

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

    def cleaned_to(self, topic_partition: TopicPartition) -> Offset | None:
        return self._holder(topic_partition).cleaned_to(topic_partition)

    def set_cleaned_to(self, topic_partition: TopicPartition, offset: Offset) -> None:
        self._holder(topic_partition).set_cleaned_to(topic_partition, offset)

    def remove_expired_producers(self, now_us: int) -> None:
        for manager in self.directories.values():
            manager.remove_expired_producers(now_us)

    # --------------------------------------------------------------------------------------------------------- close

    def close_clean(self, broker_epoch: BrokerEpoch, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """The orderly stop, of the directories that are online; a failed directory gets no marker."""
        for manager in self.directories.values():
            here = {name: offset for name, offset in high_watermarks.items() if name in manager.logs}
            manager.close_clean(broker_epoch, here)
        self._abandon_failed()

    def abandon(self) -> None:
        """The process dies: files are closed, nothing is written."""
        for manager in self.directories.values():
            manager.abandon()
        self._abandon_failed()

    def _abandon_failed(self) -> None:
        for manager in self._failed:
            manager.abandon()
        self._failed.clear()
