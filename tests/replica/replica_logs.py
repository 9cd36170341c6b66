"""Short ways to make batches and logs in tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from replica.config import TopicConfig
from replica.ids import TopicPartition
from replica.log.batches.records import build_batch, stamp
from replica.log.files.disk import Disk
from replica.log.files.open_files import FileSlice
from replica.log.log import Log, Recovery

ORDERS = TopicPartition("orders", 0)


def batch_of(*values: bytes, timestamp_ms: int | list[int] = 1000, **header: Any) -> bytearray:
    """A client's batch of records without keys."""
    return build_batch([(None, value) for value in values], timestamp_ms=timestamp_ms, **header)


def stamped(base_offset: int, leader_epoch: int, *values: bytes, **header: Any) -> bytes:
    """A batch as a leader would have it in its log."""
    batch = batch_of(*values, **header)
    stamp(batch, 0, base_offset, leader_epoch)
    return bytes(batch)


class LogHome:
    """One partition's directory on one disk, to open again and again."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.disk = Disk(root, sync=False)
        self.directory = root / str(ORDERS)
        self.config = TopicConfig(**config)

    def open(
        self, *, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0, now_us: int = 0
    ) -> tuple[Log, Recovery]:
        return Log.open(
            self.directory,
            ORDERS,
            self.config,
            self.disk,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_us=now_us,
        )

    def segment_files(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.segment_files())


def content_of(found: FileSlice) -> bytes:
    return os.pread(found.fd, found.length, found.position) if found.length else b""


def values_of(log: Log) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for _, record in log.records()]
