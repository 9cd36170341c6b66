"""Compaction: what goes and what stays, how far a round gets, and what a crash in its middle leaves."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from cleaner_home import content, home, put, reopened, roll, run
from kafka.record import MemoryRecords
from replica_logs import ORDERS, content_of

from replica.log.batches.control_records import ControlRecordType, end_transaction_marker
from replica.log.batches.records import DELETE_HORIZON, batches, build_batch, read_header, read_records, rebuild_batch
from replica.log.cleaner.cleanable import filthiest, log_to_clean
from replica.log.cleaner.cleaner import clean, group_by_size
from replica.log.files.checkpoints import CLEANER_OFFSETS, read_offsets
from replica.log.files.disk import Disk
from replica.log.log import Log
from replica.log.manager import LogManager

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT
DAY_MS = 86_400_000


def end(log: Log, producer_id: int, how: ControlRecordType) -> int:
    marker = end_transaction_marker(producer_id, 0, how, 0, timestamp_ms=1000)
    return log.append_as_leader(marker, 0, 0, from_client=False).first_offset


def markers(log: Log) -> list[int]:
    return [header.base_offset for header in log.headers() if header.is_control]


def test_of_each_key_the_last_record_stays_where_it_was(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    put(log, ("c", "1"))
    roll(log)
    cleaned = run(log)
    assert cleaned is not None
    assert cleaned.end_offset == log.segments.active.base_offset
    assert content(log) == [(1, "b", "1"), (2, "a", "2"), (3, "c", "1")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert cleaned.records_removed == 1
    assert run(log, cleaned.end_offset) is None


def test_the_active_segment_is_not_touched(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"), size=10)
    put(log, ("a", "2"), size=10)
    assert run(log) is None


def test_records_above_the_last_stable_offset_wait(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"))
    put(log, ("a", "2"), size=700)
    put(log, ("a", "3"), size=700)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    found = log_to_clean(log, None, 1, 1000)
    assert (found.upper_offset, found.dirty_bytes) == (1, log.segments.all[0].size)
    assert log_to_clean(log, None, 0, 1000).dirty_bytes == 0


def test_records_younger_than_the_lag_wait(tmp_path: Path) -> None:
    log, _ = home(tmp_path, min_compaction_lag_ms=500).open()
    put(log, ("a", "1"), at_ms=1000, size=700)
    put(log, ("a", "2"), at_ms=1400, size=700)
    roll(log, at_ms=1500)
    assert log_to_clean(log, None, 3, 1600).upper_offset == 1
    assert log_to_clean(log, None, 3, 1900).upper_offset == 2


def test_a_log_that_is_clean_enough_waits_until_it_is_overdue(tmp_path: Path) -> None:
    log, _ = home(tmp_path, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=5000).open()
    put(log, ("a", "1"), at_ms=1000)
    roll(log)
    assert filthiest([log_to_clean(log, None, 2, 6000)]) is None
    assert filthiest([log_to_clean(log, None, 2, 6001)]) is not None


def test_the_dirtiest_log_comes_first(tmp_path: Path) -> None:
    found = []
    for name, dirty_from in (("clean", 1), ("dirty", 0)):
        log, _ = home(tmp_path / name).open()
        put(log, ("a", "1"), size=700)
        put(log, ("a", "2"), size=700)
        roll(log)
        found.append(log_to_clean(log, dirty_from, 3, 1000))
    assert [one.dirty_ratio for one in found] == [0.5, 1.0]
    assert filthiest(found) is found[1]


@pytest.mark.parametrize("checkpoint", [-1, 99])
def test_a_checkpoint_that_does_not_fit_the_log_is_reset(tmp_path: Path, checkpoint: int) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"))
    found = log_to_clean(log, checkpoint, 1, 1000)
    assert (found.first_dirty_offset, found.is_reset) == (0, True)


# ---------------------------------------------------------------------------------------------------------- tombstones


def test_a_tombstone_stays_for_delete_retention_ms_from_its_first_cleaning(tmp_path: Path) -> None:
    log, _ = home(tmp_path, delete_retention_ms=1000).open()
    put(log, ("a", "1"))
    put(log, ("a", None))
    roll(log)
    run(log, at_ms=5000)
    assert content(log) == [(1, "a", None)]
    (header,) = [header for header in log.headers() if header.base_offset == 1]
    assert (header.attributes & DELETE_HORIZON, header.delete_horizon_ms) == (DELETE_HORIZON, 6000)
    (record,) = [record for _, record in log.records() if record.offset == 1]
    assert record.timestamp_ms == 1000
    roll(log)
    run(log, 2, at_ms=5999)
    assert content(log) == [(1, "a", None)]
    roll(log)
    run(log, 3, at_ms=6000)
    assert content(log) == []


def test_a_tombstone_takes_what_is_below_the_dirty_part_too(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"), size=700)
    roll(log)
    assert run(log) is not None
    put(log, ("a", None))
    roll(log)
    run(log, 1)
    assert content(log) == [(2, "a", None)]


# -------------------------------------------------------------------------------------------------------- transactions


def test_what_was_aborted_goes_and_supersedes_nothing(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "kept"))
    put(log, ("a", "aborted"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, ("b", "aborted"), producer_id=1, producer_epoch=0, base_sequence=1, transactional=True)
    end(log, 1, ABORT)
    roll(log)
    run(log)
    assert content(log) == [(0, "a", "kept")]
    # The batch with the producer's last sequence number stays, empty, and with it the marker and the index.
    assert [(h.base_offset, h.record_count, h.last_sequence) for h in log.headers() if h.producer_id == 1] == [
        (2, 0, 1),
        (3, 1, -1),
    ]
    found = log.read(1, 1 << 20, log.log_end_offset)
    assert [one.last_offset for one in log.aborted_transactions(1, found)] == [3]


def test_a_marker_goes_when_its_transaction_has_no_batch_left(tmp_path: Path) -> None:
    log, _ = home(tmp_path, delete_retention_ms=1000).open()
    for sequence, value in enumerate(("1", "2")):
        put(log, ("a", value), producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True)
        end(log, 1, COMMIT)
    roll(log)
    assert markers(log) == [1, 3]
    run(log, at_ms=5000)
    assert (content(log), markers(log)) == ([(2, "a", "2")], [1, 3])
    roll(log)
    # The round that finds no batch of it begins its delete horizon.
    run(log, 4, at_ms=6000)
    assert markers(log) == [1, 3]
    roll(log)
    run(log, 5, at_ms=6999)
    assert markers(log) == [1, 3]
    roll(log)
    run(log, 6, at_ms=7000)
    assert (content(log), markers(log)) == ([(2, "a", "2")], [3])


def test_an_open_transaction_is_not_cleaned(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"), size=700)
    put(log, ("a", "2"), size=700, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, ("a", "3"), size=700)
    roll(log)
    cleaned = run(log)
    assert cleaned is not None
    assert cleaned.end_offset == 1
    assert [offset for offset, _, _ in content(log)] == [0, 1, 2]


def test_a_producer_goes_on_where_it_was_after_its_records_are_gone(tmp_path: Path) -> None:
    where = home(tmp_path)
    log, _ = where.open()
    put(log, ("a", "1"), ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, ("a", "3"))
    roll(log)
    run(log)
    assert content(log) == [(2, "a", "3")]
    log = reopened(log, where)
    assert log.producers.producers[7].last_sequence == 1
    assert put(log, ("a", "4"), producer_id=7, producer_epoch=0, base_sequence=2) == 4


def test_a_producer_that_is_forgotten_leaves_no_empty_batch(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, ("a", "2"))
    roll(log)
    log.producers.remove_expired(1000 + DAY_MS)
    run(log)
    assert [header.base_offset for header in log.headers()] == [1, 2]


# ------------------------------------------------------------------------------------------------------------- a round


def test_a_small_map_cleans_a_part_and_the_rest_next_time(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    for number in range(8):
        put(log, (f"k{number % 4}", str(number)))
    roll(log)
    cleaned_to, rounds = 0, 0
    while (cleaned := run(log, cleaned_to, buffer_bytes=3 * 24)) is not None:
        assert cleaned.end_offset > cleaned_to
        cleaned_to, rounds = cleaned.end_offset, rounds + 1
    assert rounds > 1
    assert content(log) == [(4, "k0", "4"), (5, "k1", "5"), (6, "k2", "6"), (7, "k3", "7")]


def test_segments_are_joined_up_to_segment_bytes_and_snapshots_go_with_them(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    for number in range(8):
        put(log, ("k", str(number)))
    roll(log)
    before = [segment.base_offset for segment in log.segments]
    assert before == [0, 2, 4, 6, 8]
    for _ in range(2):
        groups = group_by_size(log.segments.all[:-1], log.config, log.segments.active.base_offset)
        run(log)
    assert [[segment.base_offset for segment in group] for group in groups] == [[0, 2, 4, 6]]
    assert [segment.base_offset for segment in log.segments] == [0, 8]
    assert set(log.producers.snapshot_offsets) <= {0, 8}


def test_a_damaged_batch_ends_the_round_and_what_stands_is_as_before(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    roll(log)
    log.disk.flip_bit(log.topic_partition, 1)
    cleaned = clean(log_to_clean(log, None, 3, 1000), 1 << 20, 0)
    assert cleaned.problem is not None
    assert (cleaned.end_offset, cleaned.retired, len(list(log.headers()))) == (0, (), 3)
    assert list(log.directory.glob("*.cleaned")) == []


# ----------------------------------------------------------------------------------------------------------- over holes


def test_reads_begin_at_the_next_record_that_is_there(tmp_path: Path) -> None:
    log, _ = home(tmp_path, segment_bytes=2048).open()
    for number in range(12):
        put(log, (f"k{number}" if number % 4 == 3 else "k", str(number)), at_ms=1000 + number)
    roll(log, at_ms=2000)
    run(log)
    left = [header.base_offset for header in log.headers()]
    assert left[:-1] == [3, 7, 10, 11]
    for offset in range(log.log_end_offset):
        found = log.read(offset, 1 << 20, log.log_end_offset)
        first = read_header(content_of(found)).base_offset
        assert first == min(one for one in left if one >= offset)
        expected = sum(header.size_bytes for header in log.headers() if header.base_offset >= first)
        assert log.bytes_available(offset, log.log_end_offset) == expected
        assert log.read(offset, 1 << 20, offset).length == 0
    for number in (3, 7, 10, 11):
        assert log.offset_for_timestamp(1000 + number) == (number, 1000 + number)
    assert log.offset_for_timestamp(1004) == (7, 1007)


def test_timestamps_are_found_in_a_batch_with_holes(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    batch = build_batch([(b"a", b"1"), (b"b", b"1"), (b"a", b"2" * 900)], timestamp_ms=[1000, 2000, 3000])
    log.append_as_leader(batch, 0, 0)
    roll(log)
    run(log)
    assert log.offset_for_timestamp(500) == (1, 2000)
    assert log.offset_for_timestamp(2500) == (2, 3000)


def test_a_follower_takes_a_compacted_log_as_it_is(tmp_path: Path) -> None:
    leader, _ = home(tmp_path / "leader").open()
    for number in range(12):
        put(leader, (f"k{number}" if number % 4 == 3 else "k", str(number)))
    roll(leader)
    run(leader)
    where = home(tmp_path / "follower")
    follower, _ = where.open()
    while follower.log_end_offset < leader.log_end_offset:
        found = leader.read(follower.log_end_offset, 1 << 20, leader.log_end_offset)
        follower.append_as_follower(content_of(found), 0)
    assert content(follower) == content(leader)
    follower = reopened(follower, where)
    assert (content(follower), follower.log_end_offset) == (content(leader), leader.log_end_offset)


def test_another_reader_reads_what_is_left(tmp_path: Path) -> None:
    """kafka-python takes the files of a compacted log apart: tombstones, holes, batches without records."""
    log, _ = home(tmp_path, segment_bytes=2048).open()
    for number in range(12):
        key, value = f"k{number % 5}", None if number % 4 == 3 else str(number)
        put(
            log,
            (key, value),
            (key, f"{number}b"),
            producer_id=number % 2,
            producer_epoch=0,
            base_sequence=number // 2 * 2,
        )
    roll(log)
    run(log)
    expected = [(record.offset, record.timestamp_ms, record.key, record.value) for _, record in log.records()]
    assert [offset for offset, _, _, _ in expected] == [15, 17, 19, 21, 23, 24]
    found = []
    for segment in log.segments:
        stored = MemoryRecords(Path(segment.path).read_bytes())
        while (batch := stored.next_batch()) is not None:
            assert batch.validate_crc()
            found += [(one.offset, one.timestamp, one.key, one.value) for one in batch]
    assert found == expected


def test_a_cut_in_a_hole_ends_the_log_there(tmp_path: Path) -> None:
    where = home(tmp_path)
    log, _ = where.open()
    for number in range(8):
        put(log, (f"k{number}" if number % 4 == 3 else "k", str(number)))
    roll(log)
    run(log)
    assert [offset for offset, _, _ in content(log)] == [3, 6, 7]
    assert log.truncate_to(5) == 5
    assert ([offset for offset, _, _ in content(log)], log.log_end_offset) == ([3], 5)
    assert put(log, ("z", "1")) == 5


# --------------------------------------------------------------------------------------------------------------- files


class Crash(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("renames", range(16))
def test_a_crash_in_a_swap_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    where = home(tmp_path)
    log, _ = where.open()
    for number in range(6):
        put(log, (f"k{number % 3}", str(number)))
    roll(log)
    last = [(3, "k0", "3"), (4, "k1", "4"), (5, "k2", "5")]
    left = renames
    rename = Path.rename

    def dying(path: Path, target: str | Path) -> Path:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying)
        with pytest.raises(Crash):
            run(log)
            raise Crash
    log = reopened(log, where)
    found = content(log)
    assert [one for one in found if one in last] == last
    assert log.log_end_offset == 7
    assert not [path for suffix in ("cleaned", "swap", "deleted") for path in log.directory.glob(f"*.{suffix}")]
    run(log)
    assert content(log) == last


def test_a_cleaned_file_that_was_not_swapped_in_is_thrown_away(tmp_path: Path) -> None:
    where = home(tmp_path)
    log, _ = where.open()
    put(log, ("a", "1"))
    log.begin_cleaned(0, 0)
    log = reopened(log, where)
    assert (content(log), list(log.directory.glob("*.cleaned"))) == ([(0, "a", "1")], [])


def test_replaced_files_stand_until_they_are_removed(tmp_path: Path) -> None:
    log, _ = home(tmp_path).open()
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    roll(log)
    reading = log.read(0, 1 << 20, 2)
    before = content_of(reading)
    cleaned = run(log)
    assert cleaned is not None
    assert content_of(reading) == before
    for segment in cleaned.retired:
        segment.remove()
    assert list(log.directory.glob("*.deleted")) == []


def test_the_checkpoint_is_kept_and_follows_a_cut(tmp_path: Path) -> None:
    where = home(tmp_path)

    def opened() -> LogManager:
        return LogManager.open(tmp_path, Disk(tmp_path, sync=False), 1, where.config)

    manager = opened()
    log = manager.create(ORDERS, where.config, UUID(int=1))
    for number in range(4):
        put(log, ("a", str(number)), size=700)
    manager.set_cleaned_to(ORDERS, 3)
    manager.abandon()
    assert read_offsets(tmp_path / CLEANER_OFFSETS) == {ORDERS: 3}
    manager = opened()
    assert manager.cleaned_to(ORDERS) == 3
    manager.truncate_to(ORDERS, 2)
    assert manager.cleaned_to(ORDERS) == 2
    manager.delete(ORDERS)
    assert read_offsets(tmp_path / CLEANER_OFFSETS) == {}
    manager.abandon()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_batch_written_anew_has_what_is_left_where_it_was(compression: str) -> None:
    batch = build_batch(
        [(b"a", b"1"), (b"b", None), (b"c", b"3")],
        base_offset=10,
        timestamp_ms=[1000, 1500, 1200],
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=20,
        compression=compression,
        headers=[(), (("name", b"r1"), ("none", None)), ()],
    )
    before, records = read_header(batch), read_records(batch)
    again = rebuild_batch(before, records[1:], 9000)
    ((_, after),) = batches(again)
    assert read_records(again) == records[1:]
    assert (after.base_offset, after.last_offset, after.leader_epoch) == (10, 12, 3)
    assert (after.producer_id, after.producer_epoch, after.base_sequence, after.last_sequence) == (7, 1, 20, 22)
    assert (after.codec, after.max_timestamp, after.delete_horizon_ms, after.record_count) == (
        compression,
        1500,
        9000,
        2,
    )
