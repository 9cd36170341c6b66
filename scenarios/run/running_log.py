"""The log of a broker that runs in a separate process, read from its segment files without checks or cuts.

A start after a crash ends the log at the first damaged batch (LogSegment.recover). A running broker does not check its
records, so its log continues after the damage, and it serves those records too (LogSegment.read uses headers only).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cluster.kafka.observe.log_files import DiskLog
from cluster.kafka.observe.log_tail import LogTail
from replica.ids import Offset
from replica.log.batches.records import BatchHeader


class RunningLog:
    """A reader of one partition's log while no process writes to its directory.

    Args:
        log_start_offset: the log start offset that the broker has reported.
    """

    def __init__(self, directory: Path, log_start_offset: Offset) -> None:
        self._files = DiskLog(directory)
        self._tail = LogTail()
        self._tail.look(self._files)
        self.log_start_offset = max(self._tail.start, log_start_offset)
        active = max((segment.base_offset for segment in self._files.segments()), default=0)
        self.log_end_offset = max(self._tail.end, active)

    def raw_batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the complete batches with offsets at or above the log start, with their bytes."""
        for batch in self._tail.batches:
            if batch.end_offset > self.log_start_offset:
                yield batch.header, self._files.read(batch.segment, batch.position, batch.header.size_bytes)
