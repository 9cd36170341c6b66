"""The log of a broker that runs in a separate process, as its segment files have it: nothing is checked or cut.

A start after a crash ends the log at the first damaged batch (LogSegment.recover). A broker that runs does not look at
its records: its log goes on behind the damage, and so does what it serves (LogSegment.read goes by headers).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cluster.kafka.observe.log_files import DiskLog
from cluster.kafka.observe.log_tail import LogTail
from replica.ids import Offset
from replica.log.batches.records import BatchHeader


class RunningLog:
    """directory: of one partition, which no process writes meanwhile     log_start_offset: as its broker stated it"""

    def __init__(self, directory: Path, log_start_offset: Offset) -> None:
        self._files = DiskLog(directory)
        self._tail = LogTail()
        self._tail.look(self._files)
        self.log_start_offset = max(self._tail.start, log_start_offset)
        active = max((segment.base_offset for segment in self._files.segments()), default=0)
        self.log_end_offset = max(self._tail.end, active)

    def raw_batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        """Whole batches that hold offsets from the log's start on, with their bytes."""
        for batch in self._tail.batches:
            if batch.end_offset > self.log_start_offset:
                yield batch.header, self._files.read(batch.segment, batch.position, batch.header.size_bytes)
