"""Directories that no broker would leave: bounded work, one clear error, and nothing followed out of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from broker_directories import ORDERS, broker_directory, read_all, segment_of

from scenarios.logdirs.files import SMALL_FILE_BYTES_MAX, LogDirectoryUnreadable

CHECKPOINT = "replication-offset-checkpoint"


def refused(*directories: Path) -> str:
    with pytest.raises(LogDirectoryUnreadable) as error:
        read_all(*directories)
    assert error.value.fix
    return str(error.value)


def test_what_is_no_log_directory(tmp_path: Path) -> None:
    broker_directory(tmp_path, 1, [0])
    assert "no such directory" in refused(tmp_path / "absent")
    assert "log directories in it: b1" in refused(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "it is not a log directory of a Kafka broker" in refused(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    assert "not a directory" in refused(tmp_path / "file")


def test_one_directory_named_twice(tmp_path: Path) -> None:
    b1 = broker_directory(tmp_path, 1, [0])
    assert "broker 1 already has orders-0" in refused(b1, b1)


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0, 0])
    other = broker_directory(tmp_path / "other", 2, [0])
    (directory / "linked-0").symlink_to(other / str(ORDERS))
    (directory / str(ORDERS) / f"{9:020d}.log").symlink_to(segment_of(other))
    os.mkfifo(directory / str(ORDERS) / f"{8:020d}.log")
    reading = read_all(directory)
    assert [partition.topic_partition for partition in reading.partitions] == [ORDERS]
    (log,) = reading.partitions[0].replicas
    assert (len(log.segments), log.log_end_offset, len(log.files.notes)) == (1, 2, 2)
    (directory / CHECKPOINT).unlink()
    os.mkfifo(directory / CHECKPOINT)
    assert f"{CHECKPOINT}: it is not a regular file" in refused(directory)


def test_a_checkpoint_without_end(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0])
    os.truncate(directory / CHECKPOINT, SMALL_FILE_BYTES_MAX + 1)
    assert "at most 67,108,864 are read" in refused(directory)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\0", b"0\n1\norders 0 -5\n", b"0\n9\n", b"0\n1\norders 0 " + b"9" * 5000]
)
def test_a_damaged_checkpoint_is_told_and_not_used(content: bytes, tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0], hw=1)
    (directory / CHECKPOINT).write_bytes(content)
    reading = read_all(directory)
    assert len(reading.directories[0].notes) == 1
    assert reading.partitions[0].replicas[0].high_watermark is None


def test_damaged_small_files_of_a_partition(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0, 0])
    folder = directory / str(ORDERS)
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n5 0\n3 1\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: \x1b[31m\n")
    (folder / f"{1:020d}.snapshot").write_bytes(b"\0")
    (log,) = read_all(directory).partitions[0].replicas
    assert log.files.notes == ("partition.metadata is damaged", "leader-epoch-checkpoint is damaged")
    assert [snapshot.producers for snapshot in log.files.snapshots] == [None]
    assert log.log_end_offset == 2


def test_names_that_a_terminal_would_obey(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0])
    (directory / "red\x1b[31m\u202etopic-0").mkdir()
    (directory / "meta.properties").write_text("node.id=../../etc\ncluster.id=\x1b]0;title\x07\n")
    (found,) = read_all(directory).directories
    assert found.node == "b1" and "folder's name" in found.notes[0]
    shown = " ".join((*found.left_out, str(found.cluster_id)))
    assert shown.isprintable() and "\\u202e" in shown


def test_a_batch_that_claims_all_of_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0])
    segment = segment_of(directory)
    size = 96 << 20  # sparse: no block of it is written
    content = bytearray(segment.read_bytes()[:61])
    content[8:12] = (size - 12).to_bytes(4)
    segment.write_bytes(content)
    os.truncate(segment, size)
    tracemalloc.start()
    try:
        (log,) = read_all(directory).partitions[0].replicas
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [damage.kind for damage in log.damages] == ["crc"]
    assert peak < 8 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="other systems lay the question out in another way")
def test_a_broker_that_holds_the_lock(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0])
    (directory / ".lock").write_bytes(b"")
    assert not read_all(directory).directories[0].locked
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, 2); print('held', flush=True); input()"
    command = [sys.executable, "-c", hold, str(directory / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert read_all(directory).directories[0].locked
        holder.communicate(b"\n")
    assert not read_all(directory).directories[0].locked
