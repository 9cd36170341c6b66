"""An unclean start: the batches it finds, keeps and cuts off (LogLoaderTest, LogSegmentTest)."""

from __future__ import annotations

import pytest
from replica_logs import ORDERS, LogHome, batch_of, content_of, stamped, values_of

from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import batches, check_crc


@pytest.fixture
def home(tmp_path):
    return LogHome(tmp_path)


def filled(home, count=5):
    """`count` batches of one record each, closed as a crash would leave them."""
    log, _ = home.open()
    for i in range(count):
        log.append_as_leader(batch_of(b"r%d" % i, timestamp_ms=100 + i), i // 2, 0)
    log.abandon()


@pytest.mark.parametrize("cut", [1, 10, 69, 70])
def test_a_torn_last_batch_is_cut_off(home, cut):
    """kafka-fsync-torn-tail: the record is gone, and its offset is given out again."""
    filled(home)
    assert home.disk.tear(ORDERS, cut).bytes == cut
    log, recovery = home.open()
    assert log.log_end_offset == 4
    assert recovery.batches_checked == 4
    if cut < 70:  # 70 bytes are the whole last batch: nothing looks torn then
        assert recovery.truncated_bytes == 70 - cut
        assert recovery.first_bad_offset == 4
        assert recovery.reason
    assert log.leader_epochs.entries == ((0, 0), (1, 2))
    assert log.append_as_leader(batch_of(b"new"), 3, 0).first_offset == 4


@pytest.mark.parametrize(
    ("place", "byte", "reason"),
    [
        pytest.param(2 * 70 + 65, 0xFF, "the batch at offset 2 fails its CRC", id="a record"),
        pytest.param(2 * 70 + 16, 3, "the batch at offset 2 has magic 3", id="magic"),
        pytest.param(2 * 70 + 11, 0, "the batch at offset 2 claims", id="length too small"),
        pytest.param(2 * 70 + 8, 0x70, "the batch at offset 2 lacks", id="length beyond the file"),
        pytest.param(2 * 70 + 7, 1, "the batch at offset 1 is out of order", id="offset outside the CRC"),
    ],
)
def test_the_log_ends_where_the_first_bad_batch_begins(home, place, byte, reason):
    filled(home)
    (path,) = home.segment_files()
    content = bytearray(path.read_bytes())
    assert len(content) == 5 * 70
    content[place] = byte
    path.write_bytes(content)
    log, recovery = home.open()
    assert values_of(log) == [(0, b"r0"), (1, b"r1")]
    assert recovery.first_bad_offset == 2
    assert recovery.truncated_bytes == 3 * 70
    assert recovery.reason is not None
    assert recovery.reason.startswith(reason)
    assert path.stat().st_size == 2 * 70


def test_zeros_after_the_last_batch_are_cut_off(home):
    """A file system that grew the file, but lost the data."""
    filled(home)
    (path,) = home.segment_files()
    path.write_bytes(path.read_bytes() + bytes(5000))
    log, recovery = home.open()
    assert log.log_end_offset == 5
    assert recovery.truncated_bytes == 5000


def test_a_batch_larger_than_the_read_ahead_is_checked_whole(home):
    log, _ = home.open()
    for i in range(3):
        log.append_as_leader(batch_of(bytes([i]) * 1_000_000), 0, 0)
    log.append_as_follower(stamped(3, 0, b"y" * 3_000_000), 0, 0)
    log.append_as_leader(batch_of(b"last"), 0, 0)
    log.abandon()
    log, recovery = home.open()
    assert (log.log_end_offset, recovery.batches_checked, recovery.truncated_bytes) == (5, 5, 0)
    log.abandon()
    home.disk.tear(ORDERS, 1)
    log, recovery = home.open()
    assert (log.log_end_offset, recovery.batches_checked) == (4, 4)


def several_segments(home):
    """Four segments of two batches, the last one with one; flushed below offset 6 by the rolls."""
    log, _ = home.open()
    for i in range(7):
        log.append_as_leader(batch_of(b"%d" % i + b"x" * 300), 0, 0)
    log.abandon()
    return log.recovery_point


def damage(path, position=100):
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def test_segments_after_a_bad_batch_are_deleted(tmp_path):
    home = LogHome(tmp_path, segment_bytes=1024)
    several_segments(home)
    damage(home.segment_files()[1])
    log, recovery = home.open(recovery_point=0)
    assert log.log_end_offset == 2
    assert [path.name for path in home.segment_files()] == [f"{0:020d}.log", f"{2:020d}.log"]
    assert recovery.segments_scanned == 2
    assert recovery.truncated_bytes == 5 * len(stamped(0, 0, b"0" + b"x" * 300))
    assert sorted(path.name for path in home.directory.glob("*index")) == [
        f"{base:020d}{suffix}" for base in (0, 2) for suffix in (".index", ".timeindex")
    ]


def test_only_segments_from_the_recovery_point_on_are_checked(tmp_path):
    """LogLoaderTest.testRecoverOnlyLastSegment; and so damage below the recovery point goes unnoticed."""
    home = LogHome(tmp_path, segment_bytes=1024)
    recovery_point = several_segments(home)
    assert recovery_point == 6
    damage(home.segment_files()[1])
    log, recovery = home.open(recovery_point=recovery_point)
    assert log.log_end_offset == 7
    assert (recovery.segments_scanned, recovery.batches_checked) == (1, 1)


def test_an_orderly_stop_means_no_checking(home):
    filled(home)
    log, _ = home.open()
    log.flush()
    log.close()
    damage(home.segment_files()[0])
    log, recovery = home.open(clean=True)
    assert (log.log_end_offset, recovery.segments_scanned, log.recovery_point) == (5, 0, 5)


@pytest.mark.parametrize("content", [None, b"", b"123", bytes(16), b"\0\0\0\1\x7f\0\0\0"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_or_damaged_index_is_rebuilt(tmp_path, suffix, content):
    """LogLoaderTest.testIndexRebuild, LogSegmentTest.testRecoveryFixesCorruptIndex. An empty one is merely sparse."""
    home = LogHome(tmp_path, index_interval_bytes=0)
    filled(home, 10)
    log, _ = home.open()
    log.flush()
    log.close()
    path = home.directory / f"{0:020d}{suffix}"
    original = path.read_bytes()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    log, recovery = home.open(clean=True)
    assert log.log_end_offset == 10
    assert [log.offset_for_timestamp(100 + i) for i in range(10)] == [(i, 100 + i) for i in range(10)]
    log.close()
    rebuilt = path.read_bytes()
    if content != b"":
        assert recovery.segments_scanned == 1
        assert rebuilt[: len(original)] == original[: len(rebuilt)]


def test_a_log_cut_below_its_start_begins_anew(home):
    """The log-start checkpoint survived, the records did not."""
    filled(home)
    log, _ = home.open(log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert log.leader_epochs.entries == ()
    assert log.append_as_leader(batch_of(b"new"), 7, 0).first_offset == 50


def test_epochs_lost_with_their_file_come_back_from_the_batches(home):
    filled(home)
    (home.directory / "leader-epoch-checkpoint").unlink()
    log, _ = home.open()
    assert log.leader_epochs.entries == ((0, 0), (1, 2), (2, 4))


def test_an_epoch_without_a_record_is_forgotten_at_the_next_start(home):
    filled(home)
    log, _ = home.open()
    log.leader_epochs.assign(9, 5)
    log.abandon()
    log, _ = home.open()
    assert log.latest_epoch == 2


def test_leftovers_are_cleared_away(home):
    filled(home)
    for name in ("00000000000000000099.index", "00000000000000000099.timeindex", "leader-epoch-checkpoint.tmp"):
        (home.directory / name).write_bytes(b"leftover")
    home.open()
    assert not list(home.directory.glob("*99.*")) + list(home.directory.glob("*.tmp"))


def test_a_closed_log_does_not_open_its_files_again(home):
    filled(home)
    log, _ = home.open()
    found = log.read(0, 100, 5)
    log.close()
    assert found.length
    with pytest.raises(AssertionError, match="is closed"):
        log.read(0, 100, 5)
    with pytest.raises(AssertionError, match="is closed"):
        log.append_as_leader(batch_of(b"late"), 9, 0)


def test_the_index_files_have_kafkas_format(tmp_path):
    """int32 relative offset + int32 position; int64 timestamp + int32 relative offset; big-endian."""
    home = LogHome(tmp_path, index_interval_bytes=100)
    log, _ = home.open()
    log.truncate_fully_and_start_at(1000)
    for i in range(5):
        log.append_as_leader(batch_of(b"a%d" % i, b"b%d" % i, timestamp_ms=[70 + i, 60]), 0, 0)
    size = log.read(1000, 1, 1010).length
    log.flush()
    log.close()
    stem = home.directory / f"{1000:020d}"
    pairs = [(5, 2 * size), (9, 4 * size)]  # every second batch: more than 100 bytes since the entry before
    assert stem.with_suffix(".index").read_bytes() == b"".join(
        offset.to_bytes(4) + position.to_bytes(4) for offset, position in pairs
    )
    assert stem.with_suffix(".timeindex").read_bytes() == b"".join(
        timestamp.to_bytes(8) + offset.to_bytes(4) for timestamp, offset in [(72, 5), (74, 9)]
    )


def test_refusals_leave_no_trace(home):
    log, _ = home.open()
    batch = batch_of(b"r1")
    batch[-1] ^= 1
    with pytest.raises(KafkaError) as refusal:
        log.append_as_leader(batch, 3, 0)
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.latest_epoch, home.content()) == (0, None, b"")


def test_a_flipped_bit_is_in_the_file_and_only_the_crc_betrays_it(home):
    filled(home)
    log, _ = home.open()
    flipped = home.disk.flip_bit(ORDERS, 2)
    assert flipped is not None and flipped.base_offset == 2
    found = content_of(log.read(0, 1 << 20, 5))  # what sendfile would ship, through the open file
    sound = [check_crc(found, position, header) for position, header in batches(found)]
    assert sound == [True, True, False, True, True]
    log.abandon()
    log, recovery = home.open()
    assert values_of(log) == [(0, b"r0"), (1, b"r1")]
    assert recovery.first_bad_offset == 2
    assert home.disk.flip_bit(ORDERS, 2) is None  # it is not there any more
