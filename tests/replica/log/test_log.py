"""One rule of the log per test: append, roll, read, truncate, flush."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import contextmanager

import pytest
from replica_logs import ORDERS, LogHome, batch_of, content_of, stamped, values_of

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import batches, build_batch, read_header


@pytest.fixture
def home(tmp_path):
    return LogHome(tmp_path)


def small(tmp_path, **config):
    """Segments so small that a few batches fill one."""
    return LogHome(tmp_path, **{"segment_bytes": 1024, "index_interval_bytes": 0, **config})


# ------------------------------------------------------------------------------------------------------------ append


def test_the_leader_stamps_offset_and_epoch_into_the_batch_it_was_given(home):
    log, _ = home.open()
    log.append_as_leader(batch_of(b"r1", b"r2"), 4, 0)
    batch = batch_of(b"r3", b"r4", b"r5")
    crc = read_header(batch).crc
    info = log.append_as_leader(memoryview(batch), 4, 0)
    assert (info.first_offset, info.last_offset, info.duplicate, info.log_end_offset) == (2, 4, False, 5)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.crc) == (2, 4, crc)
    assert info.batches == (header,)
    assert home.content().endswith(bytes(batch))
    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(4) == (4, 5)


def test_a_follower_appends_the_leaders_bytes_untouched(tmp_path):
    leader_home, follower_home = LogHome(tmp_path / "b1"), LogHome(tmp_path / "b2", segment_bytes=1024)
    leader, _ = leader_home.open()
    follower, _ = follower_home.open()
    for i in range(30):
        leader.append_as_leader(batch_of(b"r%d" % i, b"x" * i * 7), i // 10, 0)
    while follower.log_end_offset < leader.log_end_offset:
        found = leader.read(follower.log_end_offset, 700, leader.log_end_offset)
        follower.append_as_follower(memoryview(content_of(found)), 0, 2)
    assert len(follower_home.segment_files()) > len(leader_home.segment_files())
    assert follower_home.content() == leader_home.content()
    assert follower.leader_epochs.entries == leader.leader_epochs.entries == ((0, 0), (1, 20), (2, 40))


def test_batches_newer_than_the_epoch_of_the_fetch_are_dropped_with_all_that_follow(home):
    """KAFKA-18723: sendfile read the leader's file after the leader had truncated it and written anew."""
    log, _ = home.open()
    old, newer, old_again = stamped(0, 3, b"r1"), stamped(1, 5, b"r2"), stamped(2, 3, b"r3")
    info = log.append_as_follower(old + newer + old_again, 0, 3)
    assert info is not None
    assert log.log_end_offset == 1
    assert log.append_as_follower(newer, 0, 3) is None
    assert log.append_as_follower(newer, 0, None) is not None
    assert log.log_end_offset == 2


def test_a_follower_refuses_a_corrupt_batch_and_everything_fetched_with_it(home):
    log, _ = home.open()
    data = bytearray(stamped(0, 1, b"r1") + stamped(1, 1, b"r2"))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as refusal:
        log.append_as_follower(data, 0, 1)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, home.content(), log.latest_epoch) == (0, b"", None)


@pytest.mark.parametrize("data", [stamped(0, 1, b"again"), stamped(2, 1, b"a") + stamped(1, 1, b"b")])
def test_a_follower_refuses_offsets_out_of_order(home, data):
    log, _ = home.open()
    log.append_as_follower(stamped(0, 1, b"r1"), 0, 1)
    with pytest.raises(KafkaError) as refusal:
        log.append_as_follower(data, 0, 1)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert log.log_end_offset == 1


def test_a_follower_may_skip_offsets(home):
    """Compaction on the leader leaves holes."""
    log, _ = home.open()
    log.append_as_follower(stamped(0, 1, b"r1"), 0, 1)
    log.append_as_follower(stamped(7, 1, b"r8"), 0, 1)
    assert log.log_end_offset == 8
    assert content_of(log.read(3, 1000, 8)) == stamped(7, 1, b"r8")


def test_an_empty_log_takes_a_batch_that_straddles_its_start(home):
    """Partition.appendRecordsToFollowerOrFutureReplica: the leader's log starts inside its first batch."""
    log, _ = home.open()
    log.truncate_fully_and_start_at(5)
    batch = stamped(3, 2, b"r3", b"r4", b"r5", b"r6")
    info = log.append_as_follower(batch, 0, 2)
    assert info is not None
    assert (log.log_start_offset, log.log_end_offset) == (3, 7)
    assert home.content() == batch


def test_the_old_leader_epochs_entry_without_records_gives_way(home):
    """A new leader adds (epoch, LEO) before any record; the next leader takes over at the same offset."""
    log, _ = home.open()
    log.append_as_leader(batch_of(b"r1"), 1, 0)
    log.leader_epochs.assign(2, log.log_end_offset)
    log.append_as_follower(stamped(1, 3, b"r2"), 0, 3)
    assert log.leader_epochs.entries == ((1, 0), (3, 1))


@contextmanager
def files_end_at(size_bytes):
    """A file-size limit stands for a disk that fills up in the middle of a batch."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)


def test_a_full_disk_leaves_the_log_as_it_was(home):
    home.disk.sync = True
    log, _ = home.open()
    log.append_as_leader(batch_of(b"r1"), 0, 0)
    before = home.content()
    with files_end_at(len(before) + 10), pytest.raises(KafkaError) as refusal:
        log.append_as_leader(batch_of(b"r2"), 0, 0)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert home.content() == before
    assert log.log_end_offset == 1
    assert log.append_as_leader(batch_of(b"r2"), 0, 0).first_offset == 1
    assert values_of(log) == [(0, b"r1"), (1, b"r2")]


def test_a_simulated_disk_does_not_turn_the_real_disks_trouble_into_kafkas(home):
    log, _ = home.open()
    log.append_as_leader(batch_of(b"r1"), 0, 0)
    with files_end_at(len(home.content()) + 10), pytest.raises(OSError, match="space"):
        log.append_as_leader(batch_of(b"r2"), 0, 0)


# -------------------------------------------------------------------------------------------------------------- roll


def test_a_segment_never_outgrows_segment_bytes(tmp_path):
    home = small(tmp_path)
    log, _ = home.open()
    reasons = [log.append_as_leader(batch_of(b"x" * 300), 0, 0).roll_reason for _ in range(6)]
    assert reasons == [None, None, "segment.bytes", None, "segment.bytes", None]
    assert [path.name for path in home.segment_files()] == [f"{base:020d}.log" for base in (0, 2, 4)]
    assert all(path.stat().st_size <= 1024 for path in home.segment_files())
    assert [log.segment_base_of(offset) for offset in range(7)] == [0, 0, 2, 2, 4, 4, 4]


def test_a_roll_flushes_what_came_before(tmp_path):
    log, _ = small(tmp_path).open()
    for _ in range(2):
        log.append_as_leader(batch_of(b"x" * 300), 0, 0)
    assert log.recovery_point == 0
    info = log.append_as_leader(batch_of(b"x" * 300), 0, 0)
    assert log.recovery_point == info.first_offset == 2
    assert log.disk.unflushed_bytes(ORDERS) == info.size_bytes


def test_a_segment_rolls_when_its_records_span_segment_ms(home):
    log, _ = home.open()
    week = home.config.segment_ms
    assert log.append_as_leader(batch_of(b"a", timestamp_ms=1000), 0, 0).roll_reason is None
    assert log.append_as_leader(batch_of(b"b", timestamp_ms=1000 + week), 0, 0).roll_reason is None
    assert log.append_as_leader(batch_of(b"c", timestamp_ms=1001 + week), 0, 0).roll_reason == "segment.ms"
    assert log.append_as_leader(batch_of(b"d", timestamp_ms=1000), 0, 0).roll_reason is None


def test_without_timestamps_the_age_of_the_segment_counts(home):
    log, _ = home.open()
    week_us = home.config.segment_ms * 1000
    batch = batch_of(b"a", timestamp_ms=-1)
    assert log.append_as_leader(batch, 0, week_us).roll_reason is None
    assert log.append_as_leader(batch_of(b"b", timestamp_ms=-1), 0, week_us + 1000).roll_reason == "segment.ms"


@pytest.mark.parametrize(
    ("timestamps", "batches_per_segment", "reason"),
    [
        pytest.param([5] * 9, 7, "offset index is full", id="6 entries of 8 bytes, from the second batch on"),
        pytest.param(range(9), 4, "time index is full", id="4 entries of 12 bytes, the last one for the roll"),
    ],
)
def test_a_segment_rolls_when_an_index_is_full(tmp_path, timestamps, batches_per_segment, reason):
    log, _ = LogHome(tmp_path, segment_index_bytes=48, index_interval_bytes=0).open()
    reasons = [log.append_as_leader(batch_of(b"x", timestamp_ms=at), 0, 0).roll_reason for at in timestamps]
    assert reasons == [reason if i and i % batches_per_segment == 0 else None for i in range(9)]


def test_a_segment_rolls_before_offsets_outgrow_its_index(home):
    log, _ = home.open()
    log.append_as_follower(stamped(0, 0, b"a"), 0, 0)
    info = log.append_as_follower(stamped(2**31, 0, b"b"), 0, 0)
    assert info is not None
    assert info.roll_reason == "offsets no longer fit the index"
    assert home.segment_files()[-1].name == f"{2**31:020d}.log"


# -------------------------------------------------------------------------------------------------------------- read


@pytest.fixture
def five(home):
    """Five batches of two records each: offsets 0..9."""
    log, _ = home.open()
    for i in range(5):
        log.append_as_leader(batch_of(b"a%d" % i, b"b%d" % i), 0, 0)
    return log


def bases(found):
    return [header.base_offset for _, header in batches(content_of(found))]


@pytest.mark.parametrize(
    ("fetch_offset", "max_bytes", "upper", "min_one", "expected"),
    [
        pytest.param(0, 10_000, 10, True, [0, 2, 4, 6, 8], id="all"),
        pytest.param(5, 10_000, 10, True, [4, 6, 8], id="from the batch that holds the offset"),
        pytest.param(10, 10_000, 10, True, [], id="caught up"),
        pytest.param(8, 10_000, 6, True, [], id="beyond the high watermark: empty, no error"),
        pytest.param(0, 10_000, 6, True, [0, 2, 4], id="up to the high watermark"),
        pytest.param(0, 10_000, 5, True, [0, 2], id="a batch that reaches beyond the high watermark stays out"),
        pytest.param(0, 1, 10, True, [0], id="KIP-74: one batch even if it is too large"),
        pytest.param(0, 1, 10, False, [], id="not even one"),
        pytest.param(0, 2 * 79 + 70, 10, True, [0, 2], id="of the third there is a part"),
        pytest.param(4, 1, 5, True, [], id="a first batch that reaches beyond the high watermark stays out"),
    ],
)
def test_read(five, fetch_offset, max_bytes, upper, min_one, expected):
    assert bases(five.read(fetch_offset, max_bytes, upper, min_one)) == expected


@pytest.mark.parametrize(
    ("max_bytes", "min_one", "length"),
    [
        pytest.param(2 * 79 + 70, True, 2 * 79 + 70, id="cut in the third batch"),
        pytest.param(2 * 79 + 1, False, 2 * 79 + 1, id="not even its header"),
        pytest.param(76, True, 79, id="the first comes whole"),
        pytest.param(76, False, 0, id="or not at all"),
        pytest.param(5 * 79 + 1, True, 5 * 79, id="there is no more"),
    ],
)
def test_a_read_ends_at_its_limit(five, max_bytes, min_one, length):
    """A quota counts what was read, the part of a batch that the reader drops included: LogSegment.read."""
    assert five.read(0, max_bytes, 10, min_one).length == length


@pytest.mark.parametrize("offset", [-1, 2, 11])
def test_reads_outside_the_log_are_refused(five, offset):
    five.set_log_start_offset(3)
    with pytest.raises(KafkaError) as refusal:
        five.read(offset, 100, 10)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_old_records_are_found_through_the_sparse_index(home):
    """More batches than are remembered exactly, so the first ones are found by index and scan."""
    log, _ = home.open()
    for i in range(3000):
        log.append_as_leader(batch_of(b"r%d" % i), 0, 0)
    for offset in [*range(0, 3000, 97), 2999]:
        assert bases(log.read(offset, 1, 3000)) == [offset]
        assert bases(log.read(offset, 500, offset + 3))[-1] == min(offset + 2, 2999)


def test_a_slice_of_a_deleted_segment_can_still_be_sent(tmp_path):
    """Kafka delays deletion by file.delete.delay.ms: a response may be on its way."""
    log, _ = small(tmp_path).open()
    for i in range(4):
        log.append_as_leader(batch_of(b"%d" % i + b"x" * 300), 0, 0)
    found = log.read(0, 10_000, 4)
    before = content_of(found)
    log.set_log_start_offset(3)
    (retired,) = log.retire_old_segments(4, 0)
    assert len(list((tmp_path / "orders-0").glob("*.log"))) == 1
    assert content_of(found) == before != b""
    log.abandon()
    for segment in retired.segments:
        segment.remove()
    assert not list((tmp_path / "orders-0").glob("*.deleted"))
    assert content_of(found) == before
    fd = found.fd
    del found
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_time_lookup_reads_into_batches(home):
    log, _ = home.open()
    log.append_as_leader(build_batch([(None, b"a"), (None, b"b")], timestamp_ms=[10, 20]), 0, 0)
    log.append_as_leader(build_batch([(None, b"c"), (None, b"d")], timestamp_ms=[15, 30], compression="gzip"), 0, 0)
    assert [log.offset_for_timestamp(at) for at in (0, 10, 11, 20, 21, 30, 31)] == [
        (0, 10), (0, 10), (1, 20), (1, 20), (3, 30), (3, 30), None,
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- truncate


def test_truncating_at_the_end_removes_the_epoch_that_never_had_a_record(five):
    """RULES.md W6: an ex-leader that appended nothing must not claim its epoch."""
    five.leader_epochs.assign(6, five.log_end_offset)
    assert five.truncate_to(25) == 10
    assert five.leader_epochs.entries == ((0, 0),)


def test_truncating_inside_a_batch_drops_all_of_it_but_keeps_the_offset(five):
    assert five.truncate_to(5) == 5
    assert [header.base_offset for header in five.headers()] == [0, 2]
    with pytest.raises(KafkaError):
        five.append_as_follower(stamped(4, 0, b"a", b"b"), 0, 0)
    assert five.append_as_leader(batch_of(b"new"), 0, 0).first_offset == 5


def test_truncating_below_the_first_segment_starts_anew(home):
    log, _ = home.open()
    log.truncate_fully_and_start_at(100)
    log.append_as_leader(batch_of(b"a"), 0, 0)
    assert log.truncate_to(40) == 40
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (40, 40, None)
    assert [path.name for path in home.segment_files()] == [f"{40:020d}.log"]


def test_truncation_lowers_the_recovery_point_and_what_counts_as_flushed(five):
    five.flush()
    five.truncate_to(4)
    assert five.recovery_point == 4
    assert five.disk.unflushed_bytes(ORDERS) == 0
    info = five.append_as_leader(batch_of(b"new"), 0, 0)
    assert five.disk.unflushed_bytes(ORDERS) == info.size_bytes


# ------------------------------------------------------------------------------------------------------------- flush


def test_flush_messages(tmp_path):
    log, _ = LogHome(tmp_path, flush_messages=3).open()
    points = []
    for _ in range(4):
        log.append_as_leader(batch_of(b"a", b"b"), 0, 0)
        points.append(log.recovery_point)
    assert points == [0, 4, 4, 8]


def test_configuration_can_change_while_the_log_is_open(home):
    log, _ = home.open()
    log.append_as_leader(batch_of(b"a"), 0, 0)
    log.config = LogHome(home.directory, flush_messages=1, max_message_bytes=61).config
    log.append_as_follower(stamped(1, 0, b"b"), 0, 0)
    assert log.recovery_point == 2
    with pytest.raises(KafkaError) as refusal:
        log.append_as_leader(batch_of(b"c"), 0, 0)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_truncated_records_are_gone_from_the_indexes_in_memory_and_on_disk(tmp_path):
    home = LogHome(tmp_path, index_interval_bytes=0)
    log, _ = home.open()
    for i in range(6):
        log.append_as_leader(batch_of(b"r%d" % i, timestamp_ms=10 + i), 0, 0)
    log.flush()
    index_path = home.directory / f"{0:020d}.index"
    assert index_path.stat().st_size == 5 * 8
    log.truncate_to(3)
    assert index_path.stat().st_size == 2 * 8
    for i in range(3):
        log.append_as_leader(batch_of(b"longer", b"batches", timestamp_ms=20 + i), 1, 0)
    assert [log.offset_for_timestamp(at) for at in (12, 13, 21)] == [(2, 12), (3, 20), (5, 21)]
    log.flush()
    log.close()
    log, recovery = home.open(clean=True)
    assert recovery.segments_scanned == 0
    assert [bases(log.read(offset, 1, 9)) for offset in (1, 3, 4, 5, 8)] == [[1], [3], [3], [5], [7]]
    assert [log.offset_for_timestamp(at) for at in (12, 13, 21)] == [(2, 12), (3, 20), (5, 21)]
