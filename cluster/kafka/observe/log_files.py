"""Reads the logs in a broker's directory while the broker writes them.

Two system calls suffice to find out that a log's files are unchanged.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cluster.kafka.observe.log_tail import SegmentSize
from replica.ids import METADATA_TOPIC, Offset, TopicPartition
from replica.log.files.checkpoints import HIGH_WATERMARKS, read_offsets

LISTINGS_AFTER_CHANGE = 16
"""How often a directory is listed after a change.

The timestamps of directories advance in steps of some milliseconds, so a single listing could miss a file that is
created within the same step.
"""
_SEGMENT = re.compile(r"(\d{20})\.log")
_REPLICA = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")
"""The name of a replica's directory. A deleted replica's directory has another ending."""


class Listing:
    """The names in a directory. It is listed again if they may have changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: list[str] = []
        self._state = -1
        self._left = 0

    def look(self) -> bool:
        """List the directory if its contents may have changed. Return True if it was listed.

        Raises:
            FileNotFoundError: if the directory is missing.
        """
        state = self.directory.stat().st_mtime_ns
        if state != self._state:
            self._state, self._left = state, LISTINGS_AFTER_CHANGE
        if not self._left:
            return False
        self._left -= 1
        self.names = sorted(path.name for path in self.directory.iterdir())
        return True

    def forget(self) -> None:
        self.names, self._state = [], -1


class DiskLog:
    """A log on a broker's disk. Implements LogFiles."""

    def __init__(self, directory: Path) -> None:
        self._listing = Listing(directory)
        self._paths: dict[Offset, Path] = {}

    def segments(self) -> list[SegmentSize]:
        while self._listing.directory.is_dir():
            try:
                self._list()
                stats = [(base, path.stat()) for base, path in self._paths.items()]
                return [SegmentSize(base, found.st_size, found.st_mtime_ns) for base, found in stats]
            except FileNotFoundError:
                # Retention renamed a segment between two calls; the other segments are still there.
                self._listing.forget()
        self._listing.forget()
        return []

    def _list(self) -> None:
        listing = self._listing
        if listing.look():
            found = [name for name in listing.names if _SEGMENT.fullmatch(name)]
            self._paths = {int(name[:20]): listing.directory / name for name in found}

    def read(self, base_offset: Offset, position: int, count: int) -> bytes:
        try:
            with self._paths[base_offset].open("rb", buffering=0) as file:
                return os.pread(file.fileno(), count, position)
        except FileNotFoundError:
            return b""

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments())


class BrokerDisk:
    """The replicas in a broker's directory, by partition. The broker's copy of the metadata log is left out."""

    def __init__(self, log_dir: Path) -> None:
        self._listing = Listing(log_dir)
        self._logs: dict[TopicPartition, DiskLog] = {}

    def logs(self) -> dict[TopicPartition, DiskLog]:
        listing = self._listing
        try:
            if listing.look():
                matches = [found for found in map(_REPLICA.fullmatch, listing.names) if found]
                names = [TopicPartition(match[1], int(match[2])) for match in matches if match[1] != METADATA_TOPIC]
                self._logs = {name: self._logs.get(name) or DiskLog(listing.directory / str(name)) for name in names}
        except FileNotFoundError:
            listing.forget()
            self._logs = {}
        return self._logs

    def checkpointed_high_watermark(self, topic_partition: TopicPartition) -> Offset:
        """Return a partition's high watermark in the checkpoint file, 0 if it is missing there."""
        return read_offsets(self._listing.directory / HIGH_WATERMARKS).get(topic_partition, 0)
