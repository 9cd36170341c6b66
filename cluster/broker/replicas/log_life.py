"""A broker with a disk that refuses: the directory goes offline and the controller is notified, or the broker halts.

source: LogDirFailureChannel, ReplicaManager.handleLogDirFailure, BrokerLifecycleManager.propagateDirectoryFailure;
KIP-112, KIP-858
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from cluster.broker.metadata.lifecycle import BrokerBase
from cluster.clocks import Timers, WallClock
from cluster.dynamic_settings import RunningConfig
from cluster.node import Action
from replica.ids import TopicPartition
from replica.log.broker_logs import BrokerLogs
from replica.log.files.disk import Disk
from replica.log.segment import Segment
from replica.trace.events import LogDirFailed, LogRecovered, Recorder

if TYPE_CHECKING:
    from cluster.broker.replicas.fetchers import ReplicaFetchers
    from cluster.broker.replicas.manager import ReplicaManager
    from cluster.broker.replicas.partition import Partition
    from replica.log.cleaner.cleanable import LogToClean


class LogDirFailures:
    """Disks report as they refuse; `handle` is called once the request that ran into it has been dealt with.

    metadata_log_dir: metadata.log.dir, the first of log.dirs, without which a broker of KRaft cannot go on
    propagate: report to the controller     halt: the process ends at once, without shutting down
    """

    def __init__(
        self,
        base: BrokerBase,
        *,
        metadata_log_dir: str | None,
        logs: BrokerLogs,
        replicas: ReplicaManager,
        fetchers: ReplicaFetchers,
        propagate: Callable[[UUID, int], None],
    ) -> None:
        self.reported: list[tuple[Disk, str]] = []
        self._node = base.node
        self._metadata_log_dir = metadata_log_dir
        self._logs = logs
        self._replicas = replicas
        self._fetchers = fetchers
        self._recorder = base.recorder
        self._propagate = propagate
        self._halt = base.outbox.exit

    def report(self, disk: Disk, why: str) -> None:
        self.reported.append((disk, why))

    def handle(self, now_us: int) -> None:
        reported, self.reported = self.reported, []
        for disk, why in reported:
            failed = self._logs.take_offline(disk)
            if failed is not None:
                name, manager = failed
                self._state(name, [str(replica) for replica in manager.logs], why)
                for replica in manager.logs:
                    self._fetchers.remove(replica)
                    self._replicas.take_offline(replica)
                self._fetchers.close_idle()
                self._go_on_without(name, manager.directory_id, now_us)

    def _state(self, name: str, replicas: list[str], why: str) -> None:
        self._recorder.emit(
            LogDirFailed(
                node=self._node,
                log_dir=name,
                replicas_offline=tuple(replicas),
                message=why,
            )
        )

    def _go_on_without(self, name: str, directory_id: UUID, now_us: int) -> None:
        if not self._logs.directories:
            self._halt("its last log directory has failed")
        elif name == self._metadata_log_dir:
            self._halt(f"{name} is its metadata.log.dir, too")
        else:
            self._propagate(directory_id, now_us)


# ------------------------------------------------------------------------------------------------------- log recoveries
#
# What the trace says of a broker's logs when they are opened: which of them were whole, and where they end.


def state_recoveries(logs: BrokerLogs, node: str, recorder: Recorder) -> None:
    for name, recovery in logs.recoveries.items():
        log = logs.logs[name]
        recorder.emit(
            LogRecovered(
                node,
                *name,
                clean=logs.was_clean,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=logs.high_watermark_checkpoint(name),
                size_bytes=recovery.truncated_bytes,
            )
        )


# -------------------------------------------------------------------------------------------------------- log deletions
#
# The files of deleted replicas are removed some time after the deletion, a few directories at a time.
#
# Kafka has a task in its scheduler's threads for it, beside those that answer requests: a topic of thousands of
# partitions takes seconds to remove. Here other work has its turn in between. source: LogManager.deleteLogs

AT_ONCE = 8
"""Directories that are removed in one step: some 5 ms."""
PAUSE_US = 1
"""Before the next ones: work due by then comes first."""


class LogDeletions:
    """delay_us(): from the deletion of a replica to the removal of its files; responses may be reading from them"""

    def __init__(self, timers: Timers[Action], delay_us: Callable[[], int]) -> None:
        self._timers = timers
        self._delay_us = delay_us
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """When it is due, and what removes it; in the order of deletion."""

    def add(self, remove: Callable[[], None], now_us: int) -> None:
        due_us = now_us + self._delay_us()
        self._waiting.append((due_us, remove))
        if len(self._waiting) == 1:
            self._timers.at(due_us, self._remove_due)

    def _remove_due(self, now_us: int) -> None:
        """If a removal fails, the next ones still have their turn: Kafka, too, always schedules its next run."""
        try:
            for _ in range(AT_ONCE):
                _, remove = self._waiting.popleft()
                remove()
                if not self._waiting or self._waiting[0][0] > now_us:
                    break
        finally:
            if self._waiting:
                self._timers.at(max(self._waiting[0][0], now_us + PAUSE_US), self._remove_due)


# ---------------------------------------------------------------------------------------------------------- log cleaner
#
# The cleaner of a broker: of its compacted logs the dirtiest is cleaned, until none is dirty enough.
#
# It also does for compacted logs what retention does for the others. Every replica is cleaned by its own broker.
# source: LogCleaner.CleanerThread, LogCleanerManager
#
# Simplified: one thread, whose work takes no time; log.cleaner.threads and the limit of its bandwidth have no effect.


class LogCleaner:
    """remove_later: is given segments whose files are to go after file.delete.delay.ms of their log"""

    def __init__(
        self,
        config: RunningConfig,
        partitions: Mapping[TopicPartition, Partition],
        logs: BrokerLogs,
        clock: WallClock,
        remove_later: Callable[[Partition, Sequence[Segment], int], None],
    ) -> None:
        self.is_enabled = config.current.log_cleaner_enable
        self._config = config
        self._partitions = partitions
        self._logs = logs
        self._clock = clock
        self._remove_later = remove_later
        self._uncleanable: dict[TopicPartition, None] = {}
        """Something was wrong with them: they are left alone until the broker starts anew."""

    def run(self, now_us: int) -> None:
        """source: CleanerThread.doWork"""
        if not self.is_enabled or not any(self._compacted()):
            return
        from replica.log.cleaner.cleanable import filthiest

        while (found := filthiest(self._candidates(now_us))) is not None:
            self._clean(found, now_us)
        for partition in list(self._compacted()):
            self._remove_later(partition, partition.expire_records(now_us), now_us)

    def _compacted(self) -> Iterator[Partition]:
        for name, partition in self._partitions.items():
            if partition.log.config.is_compacted and name not in self._uncleanable:
                yield partition

    def _candidates(self, now_us: int) -> Iterator[LogToClean]:
        """source: LogCleanerManager.grabFilthiestCompactedLog"""
        from replica.log.cleaner.cleanable import log_to_clean

        now_ms = self._clock.at(now_us) // 1000
        for partition in self._compacted():
            name = partition.topic_partition
            found = log_to_clean(partition.log, self._logs.cleaned_to(name), partition.last_stable_offset, now_ms)
            if found.is_reset:
                self._logs.set_cleaned_to(name, found.first_dirty_offset)
            yield found

    def _clean(self, found: LogToClean, now_us: int) -> None:
        from replica.log.cleaner.cleaner import clean

        partition = self._partitions[found.log.topic_partition]
        partition.end_rests()
        buffer_bytes = self._config.current.log_cleaner_dedupe_buffer_size
        # Their leader may not have known that the topic is compacted.
        cleaned = clean(found, buffer_bytes, self._clock.at(now_us), partition.events.keys_read)
        if cleaned.problem is None:
            self._logs.set_cleaned_to(partition.topic_partition, cleaned.end_offset)
        else:
            self._uncleanable[partition.topic_partition] = None
        role = "follower" if partition.leader is None else "leader"
        partition.events.compacted(role, partition.leader_epoch, found, cleaned)
        self._remove_later(partition, cleaned.retired, now_us)
