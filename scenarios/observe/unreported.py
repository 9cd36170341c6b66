"""Recover the events that a process could not report before it died.

A SIGKILL may come between a write to a log and the report of that write. The disk then shows what happened: records
after the last reported one were appended, and missing records were truncated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from replica.ids import TopicPartition
from replica.log.batches.records import BATCH_HEADER_BYTES, BatchHeader, as_sent, check_crc, read_header
from replica.log.files.disk import LOG_SUFFIX, Disk
from replica.trace.events import BatchAppended, LogTruncated, TraceLog
from scenarios.observe.view import ClusterView, ReplicaView


def emit_unreported(trace: TraceLog, view: ClusterView, node: str, disks: Sequence[Disk]) -> None:
    """Emit the events that a stopped process did not report, by its disks. Its reported events must be in the trace."""
    for topic_partition in sorted(view.partitions):
        replica = view.partitions[topic_partition].replicas.get(node)
        directory = next((disk.root / str(topic_partition) for disk in disks if _holds(disk, topic_partition)), None)
        if replica is not None and replica.open and replica.role is not None and directory is not None:
            _state_tail(trace, topic_partition, replica, directory)


def _holds(disk: Disk, topic_partition: TopicPartition) -> bool:
    return not disk.broken and (disk.root / str(topic_partition)).is_dir()


def _state_tail(trace: TraceLog, name: TopicPartition, replica: ReplicaView, directory: Path) -> None:
    known = replica.log_end_offset
    segments = _segments_from(directory, known)
    # An empty segment continues the log at its base offset, so a segment that was just begun shows the log's end.
    end = int(segments[0].stem) if segments else replica.log_start_offset
    for header, size_bytes in _batches(segments, known):
        end = header.last_offset + 1
        if header.base_offset >= known:
            trace.cause = None
            trace.emit(_appended(name, replica, header, size_bytes))
    if end != replica.log_end_offset:  # The view already has the event that was just emitted.
        trace.cause = None
        trace.emit(
            LogTruncated(
                replica.node,
                *name,
                leader_epoch=replica.leader_epoch,
                log_end_offset=end,
                previous_log_end_offset=known,
                high_watermark=min(end, replica.high_watermark),
                previous_high_watermark=replica.high_watermark,
            )
        )


def _appended(name: TopicPartition, replica: ReplicaView, header: BatchHeader, size_bytes: int) -> BatchAppended:
    assert replica.role is not None
    return BatchAppended(
        replica.node,
        *name,
        role=replica.role,
        leader_epoch=header.leader_epoch,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        log_end_offset=header.last_offset + 1,
        size_bytes=size_bytes,
        crc=header.crc,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _segments_from(directory: Path, offset: int) -> list[Path]:
    """Return the segment file that contains `offset` and all later segment files, in order."""
    paths = sorted(directory.glob(f"*{LOG_SUFFIX}"))
    before = sum(int(path.stem) <= offset for path in paths)
    return paths[max(0, before - 1) :]


def _batches(segments: Sequence[Path], checked_from: int) -> Iterator[tuple[BatchHeader, int]]:
    """Yield complete batches and their sizes in bytes, up to an interrupted write.

    Args:
        checked_from: batches from this offset on are read completely and their CRC is checked.
    """
    for path in segments:
        with path.open("rb") as file:
            position, end = 0, os.fstat(file.fileno()).st_size
            while position + BATCH_HEADER_BYTES <= end:
                header = read_header(os.pread(file.fileno(), BATCH_HEADER_BYTES, position))
                if position + header.size_bytes > end or header.size_bytes < BATCH_HEADER_BYTES:
                    return
                reported = header
                if header.base_offset >= checked_from:
                    batch = os.pread(file.fileno(), header.size_bytes, position)
                    if not check_crc(batch, 0, header):
                        return
                    reported = as_sent(batch, header)
                yield reported, header.size_bytes
                position += header.size_bytes
