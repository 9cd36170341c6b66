"""Background tasks on the logs of a broker: disk failures, recovery, removal of deleted logs, log cleaner.

After a disk failure, the log directory goes offline and the controller is notified, or the broker halts.
Source: LogDirFailureChannel, ReplicaManager.handleLogDirFailure, BrokerLifecycleManager.propagateDirectoryFailure;
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
from replica.rules import KafkaRelease, Rules
from replica.trace.events import LogDirFailed, LogRecovered, Recorder

if TYPE_CHECKING:
    from cluster.broker.replicas.fetchers import ReplicaFetchers
    from cluster.broker.replicas.manager import ReplicaManager
    from cluster.broker.replicas.partition import Partition
    from replica.log.cleaner.cleanable import LogToClean

HIGH_WATERMARK_KEPT_SINCE = KafkaRelease(4, 4)
"""First release whose cleaner keeps an emptied batch at the high watermark, not at the end of the cleaned range."""


class LogDirFailures:
    """Handles disk failures, after the request in which they occurred.

    Args:
        metadata_log_dir: log directory without which a KRaft broker halts; None in the ZooKeeper era.
        propagate: reports a failed directory to the controller: (directory id, now_us).
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
            self._halt(f"log directory {name} has failed, which is also its metadata.log.dir")
        else:
            self._propagate(directory_id, now_us)


# ------------------------------------------------------------------------------------------------------- log recoveries
#
# Events about a broker's logs when they are opened: whether they were intact, and where they end.


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
# In Kafka a task of the scheduler's threads does this, separate from requests: removing a topic of thousands of
# partitions takes seconds. Here other work runs between two steps. source: LogManager.deleteLogs

AT_ONCE = 8
"""Maximum number of directories removed in one step, which takes about 5 ms."""
PAUSE_US = 1
"""Pause between two steps, in which other work runs."""


class LogDeletions:
    """Removes the files of deleted replicas some time after the deletion.

    Args:
        delay_us: returns that time. Responses may still be reading from the files.
    """

    def __init__(self, timers: Timers[Action], delay_us: Callable[[], int]) -> None:
        self._timers = timers
        self._delay_us = delay_us
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """(due time, function that removes the files) of each deleted replica, in order of deletion."""

    def add(self, remove: Callable[[], None], now_us: int) -> None:
        due_us = now_us + self._delay_us()
        self._waiting.append((due_us, remove))
        if len(self._waiting) == 1:
            self._timers.at(due_us, self._remove_due)

    def _remove_due(self, now_us: int) -> None:
        """Remove the files that are due. After a failure the remaining files are still removed later, as in Kafka."""
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
# The cleaner of a broker repeatedly cleans the dirtiest compacted log, until none is dirty enough.
#
# It also applies retention to compacted logs. Every broker cleans its replicas itself.
# source: LogCleaner.CleanerThread, LogCleanerManager
#
# Simplified: there is one thread, whose work takes no time; log.cleaner.threads and limits of bandwidth have no effect.


class LogCleaner:
    """The log cleaner of one broker.

    Args:
        remove_later: called with (partition, segments whose files to remove after file.delete.delay.ms, now_us).
    """

    def __init__(
        self,
        rules: Rules,
        config: RunningConfig,
        partitions: Mapping[TopicPartition, Partition],
        logs: BrokerLogs,
        clock: WallClock,
        remove_later: Callable[[Partition, Sequence[Segment], int], None],
    ) -> None:
        self.is_enabled = config.current.log_cleaner_enable
        self._keeps_high_watermark = rules.release >= HIGH_WATERMARK_KEPT_SINCE
        self._config = config
        self._partitions = partitions
        self._logs = logs
        self._clock = clock
        self._remove_later = remove_later
        self._uncleanable: dict[TopicPartition, None] = {}
        """Logs whose cleaning has failed; they are skipped until the broker restarts."""

    def run(self, now_us: int) -> None:
        """Clean logs until none is dirty enough. Source: CleanerThread.doWork"""
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
        """Yield the compacted logs, except uncleanable ones. Source: LogCleanerManager.grabFilthiestCompactedLog"""
        from replica.log.cleaner.cleanable import log_to_clean

        now_ms = self._clock.at(now_us) // 1000
        for partition in self._compacted():
            name = partition.topic_partition
            logs = self._logs.holder(name)
            found = log_to_clean(partition.log, logs.cleaned_to(name), partition.last_stable_offset, now_ms)
            if found.is_reset:
                logs.set_cleaned_to(name, found.first_dirty_offset)
            yield found._replace(kept_end=partition.high_watermark) if self._keeps_high_watermark else found

    def _clean(self, found: LogToClean, now_us: int) -> None:
        from replica.log.cleaner.cleaner import clean

        partition = self._partitions[found.log.topic_partition]
        partition.end_rests()
        buffer_bytes = self._config.current.log_cleaner_dedupe_buffer_size
        # The leader emits the keys too, unless it did not know yet that the topic is compacted.
        cleaned = clean(found, buffer_bytes, self._clock.at(now_us), partition.state_keys)
        if cleaned.problem is None:
            self._logs.holder(partition.topic_partition).set_cleaned_to(partition.topic_partition, cleaned.end_offset)
        else:
            self._uncleanable[partition.topic_partition] = None
        partition.state_compaction(found, cleaned)
        self._remove_later(partition, cleaned.retired, now_us)
