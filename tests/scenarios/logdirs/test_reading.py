"""What is read from log directories, held against what Highwater's own log makes of the same files."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_directories import ORDERS, broker_directory, change_byte, read_all, segment_of

from replica.config import TopicConfig
from replica.log.batches.records import build_batch, stamp
from replica.log.files.disk import Disk
from replica.log.manager import LogManager
from replica.rules import PROFILES
from scenarios.cli.read.screen import reading_text
from scenarios.logdirs.comparison import samples
from scenarios.logdirs.reading import open_all, read
from scenarios.terminal.style import Style

BATCH_BYTES = 61 + 10
"""One record with a key of one byte and a value of two."""


def test_what_a_stopped_broker_has(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 4, [0, 0, 0, 2], hw=3, clean=True, segment_bytes=2 * BATCH_BYTES)
    (partition,) = read_all(directory).partitions
    (log,) = partition.replicas
    assert (partition.topic_partition, log.node, log.directory.was_clean, log.is_live) == (ORDERS, "4", True, False)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (0, 4, 3, 4)
    assert log.files.leader_epochs == ((0, 0), (2, 3))
    assert log.files.topic_id == "AAAAAAAAAAAAAAAAAAAABw"
    assert [(one.base_offset, one.end_offset, one.batches, one.size) for one in log.segments] == [
        (0, 2, 2, 2 * BATCH_BYTES),
        (2, 4, 2, 2 * BATCH_BYTES),
    ]
    assert [snapshot.offset for snapshot in log.files.snapshots] == [2, 4]
    assert log.damages == () and log.log_end_on_start == 4


def flip_in_value(path: Path) -> None:
    change_byte(path, 2 * BATCH_BYTES - 3)


def tear(path: Path) -> None:
    os.truncate(path, 3 * BATCH_BYTES - 5)


def tear_header(path: Path) -> None:
    os.truncate(path, 2 * BATCH_BYTES + 20)


def append_zeros(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(4096))


def huge_length(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[BATCH_BYTES + 8 : BATCH_BYTES + 12] = (2**31 - 1).to_bytes(4)
    path.write_bytes(content)


def old_magic(path: Path) -> None:
    """Its CRC is another one there."""
    content = bytearray(path.read_bytes())
    content[BATCH_BYTES + 16] = 1
    path.write_bytes(content)


def repeated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content + content[:BATCH_BYTES])


DAMAGE: dict[str, tuple[Callable[[Path], None], str, int, int]] = {
    "a flipped bit": (flip_in_value, "crc", BATCH_BYTES, 1),
    "half a batch": (tear, "torn", 2 * BATCH_BYTES, 2),
    "half a header": (tear_header, "torn", 2 * BATCH_BYTES, 2),
    "zeros": (append_zeros, "zeros", 3 * BATCH_BYTES, 3),
    "a huge length": (huge_length, "torn", BATCH_BYTES, 1),
    "the magic of an old format": (old_magic, "crc", BATCH_BYTES, 1),
    "offsets again": (repeated, "order", 3 * BATCH_BYTES, 3),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_a_start_would_cut_there(name: str, tmp_path: Path) -> None:
    damage, kind, position, cut_to = DAMAGE[name]
    directory = broker_directory(tmp_path, 1, [0, 0, 1])
    damage(segment_of(directory))
    (log,) = read_all(directory).partitions[0].replicas
    (found,) = log.damages
    assert (found.kind, found.position, log.log_end_on_start) == (kind, position, cut_to)
    started = LogManager.open(directory, Disk(directory, sync=False), 1, TopicConfig()).logs[ORDERS]
    assert started.log_end_offset == log.log_end_on_start
    assert started.leader_epochs.entries == log.epochs_on_start


def test_damage_below_the_recovery_point_is_found_but_no_start_looks_there(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0] * 6, segment_bytes=2 * BATCH_BYTES, recovery_point=True)
    flip_in_value(segment_of(directory))
    (log,) = read_all(directory).partitions[0].replicas
    assert [found.kind for found in log.damages] == ["crc"]
    assert log.log_end_on_start == log.log_end_offset == 6
    started = LogManager.open(directory, Disk(directory, sync=False), 1, TopicConfig()).logs[ORDERS]
    assert started.log_end_offset == 6


def test_replicas_that_part(tmp_path: Path) -> None:
    """b1 was alone with offsets 3 to 6; b2 was elected uncleanly."""
    b1 = broker_directory(tmp_path, 1, [0, 0, 0, 0, 0, 0, 0], names="rrra", hw=6)
    b2 = broker_directory(tmp_path, 2, [0, 0, 0, 2, 2], names="rrrb", hw=5)
    b3 = broker_directory(tmp_path, 3, [0, 0])
    (partition,) = read_all(b1, b2, b3).partitions
    assert (partition.leader.node, partition.is_assumed) == ("2", True)
    one, three = partition.followers
    both, alone = one.comparison.differences
    assert (both.kind, both.start, both.end, both.leader.epochs, both.replica.epochs) == (
        "different",
        3,
        5,
        (2, 2),
        (0, 0),
    )
    assert (alone.kind, alone.start, alone.end, alone.replica.records) == ("only-on-replica", 5, 7, 2)
    assert samples(both, both.replica) == [(3, "k", "a3"), (4, "k", "a4")]
    assert samples(both, both.leader) == [(3, "k", "b3"), (4, "k", "b4")]
    assert (one.returns.log_end_offset, one.cut_offsets, one.cut_below_high_watermark, one.kept_apart) == (
        3,
        4,
        3,
        None,
    )
    (missing,) = three.comparison.differences
    assert (missing.kind, missing.start, missing.end, missing.leader.records) == ("only-on-leader", 2, 5, 3)
    assert three.comparison.parts_at is None and three.cut_offsets == 0


@pytest.mark.parametrize(
    ("profile", "cut_to", "kept_apart"),
    [("kafka-0.10", 4, 2), ("kafka-0.11", 4, 2), ("kafka-2.0", 2, None), ("kafka-4.1", 2, None)],
)
def test_each_era_cuts_by_its_own_rule(profile: str, cut_to: int, kept_apart: int | None, tmp_path: Path) -> None:
    """KIP-279: two changes of leadership, and the leader has never heard of the follower's last epoch."""
    follower = broker_directory(tmp_path, 1, [0, 0, 1, 1], names="rrab", hw=4)
    leader = broker_directory(tmp_path, 2, [0, 0, 0, 0, 2], names="rrc", hw=4)
    (found,) = read_all(follower, leader, leader="2", profile=profile).partitions[0].followers
    assert (found.returns.log_end_offset, found.kept_apart) == (cut_to, kept_apart)


def test_a_broker_that_goes_on_writing(tmp_path: Path) -> None:
    """What was there at first is read; half a batch at the end is one on its way, not damage."""
    directory = broker_directory(tmp_path, 1, [0, 0, 0])
    segment = segment_of(directory)
    whole = segment.read_bytes()
    segment.write_bytes(whole[: 2 * BATCH_BYTES + 30])
    opened = open_all([directory])
    segment.write_bytes(whole)
    (log,) = read(opened, topics=(), leader=None, rules=PROFILES["kafka-4.1"]).partitions[0].replicas
    assert (log.log_end_offset, log.damages, log.is_live) == (2, (), True)
    assert log.moved == "segments grew while they were read"


def test_a_segment_that_goes_while_it_is_read(tmp_path: Path) -> None:
    directory = broker_directory(tmp_path, 1, [0] * 4, segment_bytes=2 * BATCH_BYTES)
    opened = open_all([directory])
    segment_of(directory).unlink()
    (log,) = read(opened, topics=(), leader=None, rules=PROFILES["kafka-4.1"]).partitions[0].replicas
    assert (log.batches, log.log_end_offset, log.moved) == (2, 4, "a segment was deleted while it was read")


def test_compacted_offsets_are_not_compared(tmp_path: Path) -> None:
    b1 = broker_directory(tmp_path, 1, [0, 0, 0], names="aaa")
    b2 = broker_directory(tmp_path, 2, [0, 0, 0], names="bba")
    (b1 / "cleaner-offset-checkpoint").write_text(f"0\n1\n{ORDERS.topic} 0 2\n")
    (found,) = read_all(b1, b2).partitions[0].followers
    assert (found.comparison.compared_from, found.comparison.count) == (2, 0)


def test_batches_of_other_sizes_are_compared_by_offsets(tmp_path: Path) -> None:
    """One side has two batches where the other has four; the last one is the same again."""
    b1 = broker_directory(tmp_path, 1, [0, 0, 0, 0, 3])
    b2 = broker_directory(tmp_path, 2, [0])
    last = segment_of(b1).read_bytes()[4 * BATCH_BYTES :]
    with segment_of(b2).open("ab") as file:
        batch = build_batch([(None, b"x"), (None, b"y"), (None, b"z")], timestamp_ms=1)
        stamp(batch, 0, 1, 0)
        file.write(bytes(batch) + last)
    (found,) = read_all(b1, b2).partitions[0].followers
    (difference,) = found.comparison.differences
    assert (difference.kind, difference.start, difference.end) == ("different", 1, 4)
    assert {difference.leader.records, difference.replica.records} == {3}


def test_nothing_in_the_directories_changes(tmp_path: Path) -> None:
    b1 = broker_directory(tmp_path, 1, [0, 0], clean=True)
    b2 = broker_directory(tmp_path, 2, [0, 1])
    tear(segment_of(b2))
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "b1", copy / "b1")
    shutil.copytree(tmp_path / "b2", copy / "b2")
    read_all(b1, b2)
    for path in sorted(copy.rglob("*")):
        original = tmp_path / path.relative_to(copy)
        assert original.is_dir() if path.is_dir() else original.read_bytes() == path.read_bytes()
    assert len(list(copy.rglob("*"))) == len(list(b1.rglob("*"))) + len(list(b2.rglob("*"))) + 2


# ------------------------------------------------------------------------------------------- formats from before 0.11


def old_message(offset: int, magic: int, value: bytes, attributes: int = 0) -> bytes:
    """source: LegacyRecord.java"""
    timestamp = (1_000).to_bytes(8) if magic else b""
    inside = bytes((magic, attributes)) + timestamp + (-1).to_bytes(4, signed=True) + len(value).to_bytes(4) + value
    message = zlib.crc32(inside).to_bytes(4) + inside
    return offset.to_bytes(8) + len(message).to_bytes(4) + message


def screen_of(*directories: Path) -> str:
    text = reading_text(read_all(*directories), Style(plain=True), "kafka-4.1", verbose=False)
    return " ".join(text.split())


def test_old_formats_are_named_and_are_no_damage(tmp_path: Path) -> None:
    """A log that was written across an upgrade: v0, v1, a compressed set of three, then batches."""
    directory = broker_directory(tmp_path, 1, [0, 0, 0, 0, 0, 0])
    segment = segment_of(directory)
    newer = segment.read_bytes()[5 * BATCH_BYTES :]
    inside = gzip.compress(b"".join(old_message(place, 1, b"v") for place in range(3)))
    old = [old_message(0, 0, b""), old_message(1, 1, b"value"), old_message(4, 1, inside, attributes=1)]
    segment.write_bytes(b"".join(old) + newer)
    (log,) = read_all(directory).partitions[0].replicas
    assert (log.log_end_offset, log.log_end_on_start, log.damages, log.records) == (6, 6, (), 1)
    assert (log.old_formats, log.read_from) == ({"v0": 1, "v1": 1, "v1, gzip": 1}, 5)
    said = screen_of(directory)
    assert (
        "1 message in format v0 is not read; 1 message in format v1 is not read; 1 message in format v1, gzip" in said
    )
    assert "damage" not in said

    change_byte(segment, len(old[0]) + 30)
    (log,) = read_all(directory).partitions[0].replicas
    (damage,) = log.damages
    assert (damage.kind, damage.position, log.log_end_on_start) == ("crc", len(old[0]), 1)
    segment.write_bytes(b"".join(old)[:-3])
    (log,) = read_all(directory).partitions[0].replicas
    assert [(damage.kind, damage.last_offset) for damage in log.damages] == [("torn", 4)]


def test_segments_of_old_kafkas_and_zeros_behind_the_end(tmp_path: Path) -> None:
    """Two public reports: a log of 0.8 to 0.10, and a preallocated one after kill -9."""
    directory = broker_directory(tmp_path, 1, [0])
    segment_of(directory).write_bytes(b"".join(old_message(offset, 0, b"v") for offset in range(3)))
    assert "3 messages in format v0 are not read" in screen_of(directory)
    zeros = broker_directory(tmp_path, 2, [0, 0, 0], hw=3)
    append_zeros(segment_of(zeros))
    (log,) = read_all(zeros).partitions[0].replicas
    assert (log.start.cut_bytes, log.start.lost_records, log.start.end) == (4096, 0, 3)
    assert "it cuts 4,096 bytes, so LEO is 3; no record is lost, because the bytes are zeros" in screen_of(zeros)


def test_what_a_start_would_do_and_what_is_lost_by_it(tmp_path: Path) -> None:
    clean = broker_directory(tmp_path, 1, [0, 0, 0, 0], hw=4, clean=True, segment_bytes=2 * BATCH_BYTES)
    assert "it was stopped cleanly (.kafka_cleanshutdown), so a start checks nothing; it cuts nothing" in screen_of(
        clean
    )
    flip_in_value(segment_of(clean))
    assert "it does not check 1 damaged place, and that damage stays" in screen_of(clean)
    segment_of(clean).with_suffix(".index").unlink()
    said = screen_of(clean)
    assert "a start checks only segment 0, which has no index; it cuts 71 bytes, so LEO is 4; 1 record is lost" in said
    append_zeros(segment_of(clean, 2))
    assert "the broker does not start: it cannot read the end of its log" in screen_of(clean)

    killed = broker_directory(tmp_path, 2, [0] * 6, hw=5, segment_bytes=2 * BATCH_BYTES)
    flip_in_value(segment_of(killed))
    said = screen_of(killed)
    assert "it was not stopped cleanly" in said and "a start checks from segment 0 on" in said
    assert "including 2 whole segments, so LEO is 1; 5 records are lost: offsets 1 to 5, 4 of them below HW" in said


def test_damage_and_agreement_do_not_stand_side_by_side(tmp_path: Path) -> None:
    """The headers are the same, and one of them is of another content."""
    b1, b2 = (broker_directory(tmp_path, node, [0, 0, 0], recovery_point=True) for node in (1, 2))
    assert "ok broker 2 has the same log as broker 1" in screen_of(b1, b2)
    flip_in_value(segment_of(b2))
    said = screen_of(b1, b2)
    assert "has the same" not in said and "have the same" not in said
    assert "compared only where both can be read, because broker 2 is damaged" in said
    segment_of(b1).write_bytes(old_message(0, 1, b"v"))
    assert "broker 2 is damaged and broker 1 has old formats" in screen_of(b1, b2)
