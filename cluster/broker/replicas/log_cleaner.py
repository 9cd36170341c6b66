"""The cleaner of a broker: of its compacted logs the dirtiest is cleaned, until none is dirty enough.

It also does for compacted logs what retention does for the others. Every replica is cleaned by its own broker.
source: LogCleaner.CleanerThread, LogCleanerManager

Simplified: one thread, whose work takes no time; log.cleaner.threads and the limit of its bandwidth have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cluster.broker.replicas.partition import Partition
from cluster.clocks import WallClock
from cluster.dynamic_settings import RunningConfig
from replica.ids import TopicPartition
from replica.log.broker_logs import BrokerLogs
from replica.log.segment import Segment

if TYPE_CHECKING:
    from replica.log.cleaner.cleanable import LogToClean


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
        cleaned = clean(found, self._config.current.log_cleaner_dedupe_buffer_size, self._clock.at(now_us))
        if cleaned.problem is None:
            self._logs.set_cleaned_to(partition.topic_partition, cleaned.end_offset)
        else:
            self._uncleanable[partition.topic_partition] = None
        role = "follower" if partition.leader is None else "leader"
        partition.events.compacted(role, partition.leader_epoch, found, cleaned)
        self._remove_later(partition, cleaned.retired, now_us)
