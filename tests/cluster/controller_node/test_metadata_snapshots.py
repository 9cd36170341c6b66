"""Snapshots on disk: each loads as it was written, the log is cut behind them, and damage is refused."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from cluster.controller_node.metadata_log import MetadataLog, SnapshotWriter
from cluster.messages.quorum import SnapshotFiles, decode_snapshot, encode_snapshot, file_name
from controller.image import MetadataImage, PartitionRegistration
from controller.metadata import (
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    ReplicaDirectoryRecord,
    TopicRecord,
)
from controller.quorum.messages import OffsetAndEpoch
from controller.snapshot import snapshot_of
from replica.errors import PeerViolation
from replica.ids import TopicPartition
from replica.log.files.disk import Disk
from replica.trace.events import SnapshotWritten, TraceEvent

TOPIC = PartitionRecord(topic="t", partition=0, replicas=(1, 2, 3), in_sync_replicas=(1, 2), leader=1)


class Told:
    """A recorder that keeps events."""

    at_us = 0
    cause: int | None = None

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []

    def emit(self, event: TraceEvent, *causes: int) -> int:
        self.events.append(event)
        return len(self.events) - 1

    aside = emit


def some_records() -> list[MetadataRecord]:
    return [
        RegisterBrokerRecord(
            broker_id=1, incarnation_id="i", broker_epoch=0, host="b1", port=9092, log_dirs=("d1", "d2")
        ),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=False, in_controlled_shutdown=True),
        TopicRecord(name="gone", topic_id=UUID(int=1), config={}),
        TopicRecord(name="t", topic_id=UUID(int=2), config={"min.insync.replicas": "2"}),
        RemoveTopicRecord(name="gone", topic_id=UUID(int=1)),
        TOPIC,
        PartitionChangeRecord(topic="t", partition=0, leader=-1, in_sync_replicas=(), elr=(3,), last_known_elr=(1,)),
        PartitionChangeRecord(
            topic="t",
            partition=0,
            replicas=(1, 2, 3, 4),
            adding_replicas=(4,),
            removing_replicas=(3,),
            recovering=True,
        ),
        ReplicaDirectoryRecord(broker_id=1, topic="t", partition=0, log_dir="d2"),
        BrokerConfigRecord(broker_id=2, key="follower.replication.throttled.rate", value="1000"),
        BrokerConfigRecord(broker_id=1, key="follower.replication.throttled.rate", value="1000"),
        BrokerConfigRecord(broker_id=1, key="follower.replication.throttled.rate"),
    ]


def image_of(records: list[MetadataRecord]) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.apply(record, offset)
    return image


def test_nothing_of_an_image_is_lost() -> None:
    image = image_of(some_records())
    snapshot = snapshot_of(image, OffsetAndEpoch(3, image.offset + 1), 17)
    loaded = decode_snapshot(snapshot.end, encode_snapshot(snapshot, 17)).image()
    assert loaded.partition("t", 0) == PartitionRegistration(
        replicas=(1, 2, 3, 4),
        in_sync_replicas=(),
        leader=-1,
        leader_epoch=1,
        partition_epoch=2,
        recovering=True,
        elr=(3,),
        last_known_elr=(1,),
        adding_replicas=(4,),
        removing_replicas=(3,),
    )
    assert loaded.topics == image.topics
    assert loaded.directories == {(1, TopicPartition("t", 0)): "d2"}
    assert loaded.broker_config == image.broker_config == {2: {"follower.replication.throttled.rate": "1000"}}
    broker = loaded.brokers[1]
    assert (broker.broker_epoch, broker.fenced, broker.in_controlled_shutdown) == (0, False, True)
    assert (broker.log_dirs, broker.registration_offset) == (("d1", "d2"), image.offset)


def test_a_damaged_snapshot_is_refused() -> None:
    image = image_of(some_records())
    end = OffsetAndEpoch(1, image.offset + 1)
    data = encode_snapshot(snapshot_of(image, end, 0), 0)
    for damaged in (data[:-1], b"", data[:100] + bytes([data[100] ^ 1]) + data[101:]):
        with pytest.raises(PeerViolation):
            decode_snapshot(end, damaged)


def open_log(directory: Path) -> MetadataLog:
    return MetadataLog(directory, Disk(directory, sync=False), 1, 0)


def test_the_log_is_cut_up_to_the_snapshot_before_the_latest(tmp_path: Path) -> None:
    log, told = open_log(tmp_path), Told()
    writer = SnapshotWriter("c1", log, 300, told)
    for epoch, record in enumerate(some_records(), 1):
        log.append([record], epoch, 1000)
        writer.committed(log.end.offset)
    events = [event for event in told.events if isinstance(event, SnapshotWritten)]
    assert len(events) > 2
    starts = [event.log_start_offset for event in events]
    assert starts == [0, *(event.offset for event in events[:-1])]
    files = sorted(path.name for path in log.log.directory.glob("*.checkpoint"))
    assert files == [file_name(OffsetAndEpoch(event.controller_epoch, event.offset)) for event in events[-2:]]
    expected = image_of(some_records())
    for found in (log, reopened(log, tmp_path)):
        image, _ = found.image_at(found.end.offset)
        assert image.offset == expected.offset
        assert (image.topics, image.broker_config) == (expected.topics, expected.broker_config)
        assert found.log.log_start_offset == starts[-1]


def reopened(log: MetadataLog, directory: Path) -> MetadataLog:
    """As after a kill: only the files are left."""
    log.abandon()
    return open_log(directory)


def test_a_snapshot_beyond_the_log_wins(tmp_path: Path) -> None:
    """The process ended between writing the snapshot that it had fetched and emptying its log."""
    log = open_log(tmp_path)
    log.append([TOPIC], 1, 0)
    records = some_records()
    end = OffsetAndEpoch(4, len(records))
    log.snapshots.write(end, encode_snapshot(snapshot_of(image_of(records), end, 0), 0))
    log = reopened(log, tmp_path)
    assert log.end == end
    assert log.image_at(end.offset)[0].topics == image_of(records).topics


def test_other_files_are_no_snapshots(tmp_path: Path) -> None:
    for name in ("0000-1.checkpoint", "leader-epoch-checkpoint", file_name(OffsetAndEpoch(1, 2)) + ".part"):
        (tmp_path / name).write_bytes(b"")
    assert SnapshotFiles(tmp_path, sync=False).ids == []
