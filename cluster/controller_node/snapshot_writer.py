"""When a controller writes a snapshot of the metadata. source: SnapshotGenerator.java

Simplified: only the amount of metadata decides, not the hours (metadata.log.max.snapshot.interval.ms).
Differs from Kafka: it is made of the last snapshot and the log when it is due; no image is kept up all the time.
"""

from __future__ import annotations

from cluster.controller_node.metadata_log import MetadataLog
from cluster.messages.metadata_snapshots import file_name
from controller.quorum.messages import OffsetAndEpoch
from controller.snapshot import snapshot_of
from replica.ids import Offset
from replica.trace import events as trace
from replica.trace.events import Recorder


class SnapshotWriter:
    """max_bytes: metadata.log.max.record.bytes.between.snapshots"""

    def __init__(self, node: str, log: MetadataLog, max_bytes: int, recorder: Recorder) -> None:
        self._node = node
        self._log = log
        self._max_bytes = max_bytes
        self._recorder = recorder

    def committed(self, high_watermark: Offset) -> None:
        """Everything below is committed, and its events are in the trace."""
        log = self._log
        since = log.log.log_start_offset if log.snapshots.latest is None else log.snapshots.latest.offset
        size_bytes = log.log.bytes_available(since, high_watermark)
        if size_bytes < self._max_bytes:
            return
        image, last_timestamp_ms = log.image_at(high_watermark)
        epoch = log.epoch_at(high_watermark - 1)
        assert epoch is not None, "every record was written in an epoch"
        end = OffsetAndEpoch(epoch, high_watermark)
        size_of_file = log.write_snapshot(snapshot_of(image, end, last_timestamp_ms), last_timestamp_ms)
        self._recorder.emit(
            trace.SnapshotWritten(
                node=self._node,
                offset=high_watermark,
                controller_epoch=epoch,
                size_bytes=size_of_file,
                log_start_offset=log.log.log_start_offset,
                reason=f"{self._node} has applied {size_bytes} bytes of metadata since the last snapshot, and"
                f" metadata.log.max.record.bytes.between.snapshots is {self._max_bytes}: it writes {file_name(end)},"
                f" and keeps its log from offset {log.log.log_start_offset} on",
            )
        )
