"""The metadata log of one controller on its disk, with its snapshots and its quorum-state file.

All writes are durable. Source: KafkaMetadataLog.scala, FileQuorumStateStore.java
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from cluster.messages.quorum import METADATA_TOPIC_ID, SNAPSHOTS_KEPT, SnapshotFiles, encode_snapshot
from controller.image import MetadataImage
from controller.metadata import LeaderChangeMessage, MetadataRecord, VotersRecord, decode_record, encode_record
from controller.quorum.messages import ControllerEpoch, ElectionState, OffsetAndEpoch, Voter, leader_or_none
from controller.quorum.voters import VoterSet
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
QUORUM_STATE = "quorum-state"
MAX_RECORDS_PER_BATCH = 10_000
"""The maximum number of records in a batch (QuorumController.MAX_RECORDS_PER_BATCH)."""
MAX_BATCH_BYTES = 32 << 20
"""The maximum size of a batch: four times KafkaRaftClient.MAX_BATCH_SIZE_BYTES, because records are JSON here."""


class MetadataLog:
    """The metadata log of a controller (a ReplicatedLog). Every append is fsynced, because votes rely on it."""

    def __init__(self, log_dir: Path, disk: Disk, controller_id: BrokerId, now_us: int) -> None:
        """Open the log of an earlier process, or create it if there is none."""
        config = TopicConfig(max_message_bytes=MAX_BATCH_BYTES)
        self._logs = LogManager.open(log_dir, disk, controller_id, config, now_us)
        found = self._logs.logs.get(METADATA_PARTITION)
        self.log: Log = found or self._logs.create(METADATA_PARTITION, config, METADATA_TOPIC_ID)
        self.directory_id = self._logs.directory_id
        self._path = self.log.directory / QUORUM_STATE
        self._sync = disk.sync
        self.snapshots = SnapshotFiles(self.log.directory, sync=disk.sync)
        latest = self.snapshots.latest
        if latest is not None and latest.offset > self.log.log_end_offset:
            self._start_at(latest.offset)  # The process ended before the log was emptied.
        self._cut()
        self._voter_sets: list[VoterSet] = []
        """Voter sets in the latest snapshot and in the log after it, in order."""
        self._read_voters()

    def close_clean(self) -> None:
        self._logs.close_clean(-1, {METADATA_PARTITION: self.log.log_end_offset})

    def abandon(self) -> None:
        """Close all files without writing, as for a killed process."""
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
        """Return the epoch in which the record at `offset` was written; None if it is unknown."""
        return self.log.leader_epochs.epoch_for_offset(offset)

    def records(self, start: Offset) -> Iterator[MetadataRecord]:
        """Return all records from offset `start` on, in order."""
        return (decode_record(record.value) for _, record in self.log.records(start) if record.value is not None)

    def append(self, records: Sequence[MetadataRecord], epoch: ControllerEpoch, now_us: int) -> None:
        """Append records as one atomic batch, or as several batches if there are more than MAX_RECORDS_PER_BATCH.

        Only the removal of a failed broker from very many partitions has that many records.

        Source: RaftClient.scheduleAtomicAppend
        """
        self._voter_sets += _voter_sets(enumerate(records, self.end_offset))
        for first in range(0, len(records), MAX_RECORDS_PER_BATCH):
            values = [encode_record(record) for record in records[first : first + MAX_RECORDS_PER_BATCH]]
            batch = build_batch([(None, value) for value in values], timestamp_ms=now_us // 1000)
            self.log.append_as_leader(batch, epoch, now_us)
        self.log.flush()

    @property
    def voters(self) -> VoterSet | None:
        return self._voter_sets[-1] if self._voter_sets else None

    def _read_voters(self) -> None:
        """Read the voter sets from the latest snapshot and the log. Source: KRaftControlRecordStateMachine"""
        snapshot = self.snapshots.load()
        start = 0 if snapshot is None else snapshot.end.offset
        in_snapshot = [] if snapshot is None else [(start - 1, record) for record in snapshot.records]
        self._voter_sets = _voter_sets([*in_snapshot, *enumerate(self.records(start), start)])

    def append_voters(self, epoch: ControllerEpoch, voters: tuple[Voter, ...], now_us: int) -> None:
        self.append([voters_record(voters)], epoch, now_us)

    def append_leader_change(self, epoch: ControllerEpoch, leader_id: BrokerId, now_us: int) -> None:
        self.append([LeaderChangeMessage(leader_id=leader_id, controller_epoch=epoch)], epoch, now_us)

    def append_fetched(self, records: bytes | memoryview, now_us: int) -> None:
        start = self.end_offset
        self.log.append_as_follower(records, now_us)
        self.log.flush()
        if _VOTERS in bytes(records):
            self._voter_sets += _voter_sets(enumerate(self.records(start), start))

    def truncate_to(self, offset: Offset) -> None:
        self._logs.truncate_to(METADATA_PARTITION, offset)
        self._voter_sets = [voters for voters in self._voter_sets if voters.offset < offset]

    # ----------------------------------------------------------------------------------------------------- snapshots

    def image_at(self, end_offset: Offset) -> tuple[MetadataImage, int]:
        """Return the image of all records below `end_offset`, and the time of the last one in milliseconds."""
        snapshot = self.snapshots.load()
        image = MetadataImage() if snapshot is None else snapshot.image()
        last_timestamp_ms = 0
        for header, record in self.log.records(image.offset + 1, end_offset):
            assert record.value is not None, "a metadata record has no value"
            image.apply(decode_record(record.value), record.offset)
            last_timestamp_ms = header.max_timestamp
        return image, last_timestamp_ms

    def write_snapshot(self, snapshot: Snapshot, timestamp_ms: int) -> int:
        """Write a snapshot, and delete older snapshots and records. Return the snapshot's size in bytes."""
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
        self._read_voters()

    def _cut(self) -> None:
        """Delete the records before the oldest remaining snapshot. Source: KafkaMetadataLog.deleteBeforeSnapshot"""
        # Simplified: the log keeps the records since the oldest snapshot of the last SNAPSHOTS_KEPT, so that a replica
        # slightly behind need not fetch a snapshot. In Kafka metadata.max.retention.bytes decides.
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


_VOTERS = b'"type":"Voters"'


def voters_record(voters: tuple[Voter, ...]) -> VotersRecord:
    return VotersRecord(voters=tuple((voter.voter_id, str(voter.directory_id)) for voter in voters))


def _voter_sets(records: Iterable[tuple[Offset, MetadataRecord]]) -> list[VoterSet]:
    return [
        VoterSet(tuple(Voter(voter_id, UUID(directory_id)) for voter_id, directory_id in record.voters), offset)
        for offset, record in records
        if isinstance(record, VotersRecord)
    ]


# ------------------------------------------------------------------------------------------------------ snapshot writer
#
# When a controller writes a snapshot of the metadata. source: SnapshotGenerator.java
#
# Simplified: only the amount of metadata decides, not the hours (metadata.log.max.snapshot.interval.ms).
# Differs from Kafka: a snapshot is built from the last snapshot and the log when due; no current image is kept.


class SnapshotWriter:
    """Writes a metadata snapshot whenever enough records have been committed.

    Args:
        max_bytes: metadata.log.max.record.bytes.between.snapshots.
    """

    def __init__(self, node: str, log: MetadataLog, max_bytes: int, recorder: Recorder) -> None:
        self._node = node
        self._log = log
        self._max_bytes = max_bytes
        self._recorder = recorder

    def committed(self, high_watermark: Offset) -> None:
        """Write a snapshot if `max_bytes` of records were committed since the last snapshot.

        The events of these records must be in the trace already.
        """
        log = self._log
        since = log.log.log_start_offset if log.snapshots.latest is None else log.snapshots.latest.offset
        size_bytes = log.log.bytes_available(since, high_watermark)
        if size_bytes < self._max_bytes:
            return
        image, last_timestamp_ms = log.image_at(high_watermark)
        epoch = log.epoch_at(high_watermark - 1)
        assert epoch is not None, "the last committed record has no epoch"
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
