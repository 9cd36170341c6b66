"""The page cache: the bytes that a power loss takes, those that a tear takes, and those that survive both."""

from __future__ import annotations

from pathlib import Path

import pytest
from replica_logs import ORDERS, LogHome, batch_of, stamped, values_of

from replica.ids import TopicPartition
from replica.log.files.disk import Disk, LostBytes, partition_of
from replica.log.log import Log


def log_of(home, *values):
    log, _ = home.open()
    for value in values:
        log.append_as_leader(batch_of(value), 0, 0)
    return log


def test_a_killed_process_loses_nothing(tmp_path):
    home = LogHome(tmp_path)
    log_of(home, b"r0", b"r1").abandon()
    log, recovery = home.open()
    assert values_of(log) == [(0, b"r0"), (1, b"r1")]
    assert (recovery.batches_checked, recovery.truncated_bytes) == (2, 0)


def test_power_loss_takes_exactly_what_was_not_flushed(tmp_path):
    home = LogHome(tmp_path)
    log = log_of(home, b"r0", b"r1")
    log.flush()
    log.append_as_leader(batch_of(b"r2"), 0, 0)
    log.append_as_leader(batch_of(b"r3"), 0, 0)
    log.abandon()
    assert home.disk.unflushed_bytes() == home.disk.unflushed_bytes(ORDERS) == 140
    assert home.disk.lose_unflushed() == [LostBytes(ORDERS, 140)]
    assert home.disk.lose_unflushed() == []
    log, recovery = home.open(recovery_point=2)
    assert values_of(log) == [(0, b"r0"), (1, b"r1")]
    assert recovery.truncated_bytes == 0  # the loss ends at a batch boundary, so nothing looks torn


def test_what_a_dead_process_wrote_is_still_unflushed_in_the_next_one(tmp_path):
    home = LogHome(tmp_path)
    log_of(home, b"r0").abandon()
    log, _ = home.open()
    log.append_as_leader(batch_of(b"r1"), 0, 0)
    log.abandon()
    assert home.disk.lose_unflushed() == [LostBytes(ORDERS, 140)]


def test_truncation_flushes_nothing(tmp_path):
    home = LogHome(tmp_path)
    log = log_of(home, b"r0")
    log.flush()
    for _ in range(3):
        log.append_as_leader(batch_of(b"rX"), 0, 0)
    log.truncate_to(3)
    log.abandon()
    assert home.disk.lose_unflushed() == [LostBytes(ORDERS, 140)]


def test_flushing_every_message_makes_power_loss_harmless(tmp_path):
    home = LogHome(tmp_path, flush_messages=1)
    log_of(home, b"r0", b"r1").abandon()
    assert home.disk.lose_unflushed() == []


def test_losses_are_told_per_partition_in_order(tmp_path):
    disk = Disk(tmp_path, sync=False)
    config = LogHome(tmp_path).config
    for name in ("b-1", "a-10", "a-9"):
        topic_partition = partition_of(Path(name))
        log, _ = Log.open(tmp_path / name, topic_partition, config, disk, clean=False)
        log.append_as_leader(batch_of(b"r"), 0, 0)
        log.abandon()
    assert [str(loss.topic_partition) for loss in disk.lose_unflushed()] == ["a-9", "a-10", "b-1"]


def test_files_found_by_a_new_disk_count_as_flushed(tmp_path):
    log_of(LogHome(tmp_path), b"r0").abandon()
    home = LogHome(tmp_path)
    home.open()[0].abandon()
    assert home.disk.lose_unflushed() == []


def test_tear_cuts_flushed_bytes_too_and_across_segments(tmp_path):
    home = LogHome(tmp_path, segment_bytes=1024)
    log = log_of(home, *[b"x" * 300] * 5)
    log.flush()
    log.close()
    (tmp_path / ".kafka_cleanshutdown").touch()
    size = len(stamped(0, 0, b"x" * 300))
    assert home.disk.tear(ORDERS, size + 1) == LostBytes(ORDERS, size + 1)
    assert [path.name for path in home.segment_files()] == [f"{0:020d}.log", f"{2:020d}.log"]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()  # else recovery is skipped
    log, recovery = home.open(recovery_point=5)
    assert log.log_end_offset == 3
    assert recovery.first_bad_offset == 3
    assert recovery.truncated_bytes == size - 1


def test_tear_of_more_than_there_is(tmp_path):
    home = LogHome(tmp_path)
    log_of(home, b"r0").abandon()
    assert home.disk.tear(ORDERS, 1000) == LostBytes(ORDERS, 70)
    assert home.disk.tear(ORDERS, 1) == LostBytes(ORDERS, 0)
    assert home.open()[0].log_end_offset == 0


@pytest.mark.parametrize("real", [True, False])
def test_a_flush_is_a_real_fsync_when_asked_for(tmp_path, monkeypatch, real):
    synced = []
    monkeypatch.setattr("os.fsync", synced.append)
    disk = Disk(tmp_path, sync=real)
    log, _ = Log.open(tmp_path / str(ORDERS), ORDERS, LogHome(tmp_path).config, disk, clean=False)
    log.append_as_follower(stamped(0, -1, b"r0"), 0)
    assert synced == []  # nothing is fsynced on the write path
    log.flush()
    assert bool(synced) is real
    before = list(synced)
    log.flush()
    assert synced == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0)),
        ("my-topic-12", ("my-topic", 12)),
        ("orders", None),
        ("orders-x", None),
        ("-3", None),
        ("orders-0.abc-delete", None),
    ],
)
def test_partition_directories(name, expected):
    assert partition_of(Path(name)) == (TopicPartition(*expected) if expected else None)
