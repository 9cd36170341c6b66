"""The metadata log of one controller on its disk, with its snapshots and the quorum-state file: what is written stays.

Source: KafkaMetadataLog.scala, FileQuorumStateStore.java
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from cluster.messages.quorum import SNAPSHOTS_KEPT, SnapshotFiles, encode_snapshot
from controller.image import MetadataImage
from controller.metadata import LeaderChangeMessage, MetadataRecord, decode_record, encode_record
from controller.quorum.messages import ControllerEpoch, ElectionState, OffsetAndEpoch, leader_or_none
from replica.config import TopicConfig
from replica.ids import METADATA_TOPIC, NO_BROKER, BrokerId, Offset, TopicPartition
from replica.log.batches.records import build_batch
from replica.log.files.checkpoints import write_atomically
from replica.log.files.disk import Disk
from replica.log.log import Log
from replica.log.manager import LogManager
from replica.trace import events as trace
from replica.trace.events import Recorder

if TYPE_CHECKING:
    from controller.snapshot import Snapshot

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = UUID(int=1)
"""Uuid.METADATA_TOPIC_ID"""
QUORUM_STATE = "quorum-state"
MAX_RECORDS_PER_BATCH = 10_000
"""QuorumController.MAX_RECORDS_PER_BATCH"""
MAX_BATCH_BYTES = 32 << 20
"""KafkaRaftClient.MAX_BATCH_SIZE_BYTES is 8 MiB; as JSON a record takes four times the bytes."""


class MetadataLog:
    """Implements `controller.quorum.messages.ReplicatedLog`. Every append is fsynced: a voter's word must hold."""

    def __init__(self, log_dir: Path, disk: Disk, controller_id: BrokerId, now_us: int) -> None:
        """Opens the log that an earlier process left, or a new one."""
        config = TopicConfig(max_message_bytes=MAX_BATCH_BYTES)
        self._logs = LogManager.open(log_dir, disk, controller_id, config, now_us)
        found = self._logs.logs.get(METADATA_PARTITION)
        self.log: Log = found or self._logs.create(METADATA_PARTITION, config, METADATA_TOPIC_ID)
        self._path = self.log.directory / QUORUM_STATE
        self._sync = disk.sync
        self.snapshots = SnapshotFiles(self.log.directory, sync=disk.sync)
        latest = self.snapshots.latest
        if latest is not None and latest.offset > self.log.log_end_offset:
            self._start_at(latest.offset)  # The process ended before the log was emptied.
        self._cut()

    def close_clean(self) -> None:
        self._logs.close_clean(-1, {METADATA_PARTITION: self.log.log_end_offset})

    def abandon(self) -> None:
        """The process is gone: nothing more is written."""
        self._logs.abandon()

    # ------------------------------------------------------------------------------------------------------- records

    @property
    def start_offset(self) -> Offset:
        return self.log.log_start_offset

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots.earliest

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots.latest

    @property
    def end(self) -> OffsetAndEpoch:
        latest = self.snapshots.latest
        epoch = self.log.leader_epochs.latest_epoch or (0 if latest is None else latest.epoch)
        return OffsetAndEpoch(epoch, self.end_offset)

    @property
    def end_offset(self) -> Offset:
        return self.log.log_end_offset

    def end_of_epoch(self, epoch: ControllerEpoch) -> OffsetAndEpoch:
        found, offset = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return self.end if offset < 0 else OffsetAndEpoch(found, offset)

    def epoch_at(self, offset: Offset) -> ControllerEpoch | None:
        """The epoch in which the record at `offset` was written."""
        return self.log.leader_epochs.epoch_for_offset(offset)

    def records(self, start: Offset) -> Iterator[MetadataRecord]:
        """All records in order, from offset `start` on."""
        return (decode_record(record.value) for _, record in self.log.records(start) if record.value is not None)

    def append(self, records: Sequence[MetadataRecord], epoch: ControllerEpoch, now_us: int) -> None:
        """One batch, of which all records are there or none (RaftClient.scheduleAtomicAppend), of an input with more
        than MAX_RECORDS_PER_BATCH several: a broker that fell silent is taken out of so many partitions.
        """
        for first in range(0, len(records), MAX_RECORDS_PER_BATCH):
            values = [encode_record(record) for record in records[first : first + MAX_RECORDS_PER_BATCH]]
            batch = build_batch([(None, value) for value in values], timestamp_ms=now_us // 1000)
            self.log.append_as_leader(batch, epoch, now_us)
        self.log.flush()

    def append_leader_change(self, epoch: ControllerEpoch, leader_id: BrokerId, now_us: int) -> None:
        self.append([LeaderChangeMessage(leader_id=leader_id, controller_epoch=epoch)], epoch, now_us)

    def append_fetched(self, records: bytes | memoryview, now_us: int) -> None:
        self.log.append_as_follower(records, now_us)
        self.log.flush()

    def truncate_to(self, offset: Offset) -> None:
        self._logs.truncate_to(METADATA_PARTITION, offset)

    # ----------------------------------------------------------------------------------------------------- snapshots

    def image_at(self, end_offset: Offset) -> tuple[MetadataImage, int]:
        """The image of all records below `end_offset`, and when (ms) the last of them was written."""
        snapshot = self.snapshots.load()
        image = MetadataImage() if snapshot is None else snapshot.image()
        last_timestamp_ms = 0
        for header, record in self.log.records(image.offset + 1, end_offset):
            assert record.value is not None, "a metadata record has a value"
            image.apply(decode_record(record.value), record.offset)
            last_timestamp_ms = header.max_timestamp
        return image, last_timestamp_ms

    def write_snapshot(self, snapshot: Snapshot, timestamp_ms: int) -> int:
        """Returns its size in bytes. Records before the oldest remaining snapshot are cut off the log."""
        data = encode_snapshot(snapshot, timestamp_ms)
        self.snapshots.write(snapshot.end, data)
        self.snapshots.keep_last(SNAPSHOTS_KEPT)
        self._cut()
        return len(data)

    def read_snapshot(self, end: OffsetAndEpoch) -> bytes | None:
        return self.snapshots.read(end)

    def replace_with_snapshot(self, end: OffsetAndEpoch, data: bytes) -> None:
        self.snapshots.write(end, data)
        self.snapshots.keep_last(1)
        self._start_at(end.offset)

    def _cut(self) -> None:
        """Source: KafkaMetadataLog.deleteBeforeSnapshot"""
        # Simplified: the first snapshot cuts nothing, each later one cuts the log up to the one before it, so that who
        # is a little behind need not fetch a snapshot. In Kafka it is metadata.max.retention.bytes that decides.
        if len(self.snapshots.ids) >= SNAPSHOTS_KEPT:
            assert self.snapshots.earliest is not None
            self.log.set_log_start_offset(self.snapshots.earliest.offset)
            self.log.delete_segments_below_start()
            self._logs.checkpoint_log_start_offsets()

    def _start_at(self, offset: Offset) -> None:
        self._logs.truncate_fully_and_start_at(METADATA_PARTITION, offset)

    # -------------------------------------------------------------------------------------------------- quorum-state

    def read_election(self) -> ElectionState:
        if not self._path.exists():
            return ElectionState()
        fields = json.loads(self._path.read_text())
        return ElectionState(
            int(fields["leaderEpoch"]), leader_or_none(fields["leaderId"]), leader_or_none(fields["votedId"])
        )

    def write_election(self, election: ElectionState) -> None:
        fields = {
            "leaderId": NO_BROKER if election.leader_id is None else election.leader_id,
            "leaderEpoch": election.epoch,
            "votedId": NO_BROKER if election.voted_id is None else election.voted_id,
            "data_version": 0,
        }
        write_atomically(self._path, json.dumps(fields).encode(), sync=self._sync)


# ------------------------------------------------------------------------------------------------------ snapshot writer
#
# When a controller writes a snapshot of the metadata. source: SnapshotGenerator.java
#
# Simplified: only the amount of metadata decides, not the hours (metadata.log.max.snapshot.interval.ms).
# Differs from Kafka: it is made of the last snapshot and the log when it is due; no image is kept up all the time.


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
        from controller.snapshot import snapshot_of

        size_of_file = log.write_snapshot(snapshot_of(image, end, last_timestamp_ms), last_timestamp_ms)
        self._recorder.emit(
            trace.SnapshotWritten(
                node=self._node,
                offset=high_watermark,
                controller_epoch=epoch,
                size_bytes=size_of_file,
                log_start_offset=log.log.log_start_offset,
                log_bytes=size_bytes,
                max_log_bytes=self._max_bytes,
            )
        )
