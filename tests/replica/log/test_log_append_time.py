"""A topic with message.timestamp.type=LogAppendTime: its records have the time of the leader that appended them."""

from __future__ import annotations

from typing import Any

import pytest
from replica_logs import LogHome, batch_of, content_of

from replica.config import LOG_APPEND_TIME as BY_LEADER
from replica.errors import ErrorCode, KafkaError
from replica.log.batches.records import LOG_APPEND_TIME, as_sent, check_crc, read_header, read_timestamps
from replica.log.log import Log

NOW_US = 50_000_000
CODECS = ("none", "gzip", "lz4", "snappy", "zstd")


def leader_of(home: LogHome) -> Log:
    return home.open()[0]


@pytest.mark.parametrize("codec", CODECS)
def test_the_leader_writes_its_clock_into_the_batch_and_seals_it_anew(tmp_path, codec):
    log = leader_of(LogHome(tmp_path, message_timestamp_type=BY_LEADER))
    batch = batch_of(b"r1", b"r2", b"r3", timestamp_ms=[9000, 7000, 8000], compression=codec)
    sent = read_header(batch)
    info = log.append_as_leader(batch, 4, NOW_US)
    (stored,) = log.headers()
    assert (stored.attributes, stored.max_timestamp) == (sent.attributes | LOG_APPEND_TIME, 50_000)
    assert check_crc(batch, 0, stored) and stored.crc != sent.crc
    assert [record.timestamp_ms for _, record in log.records()] == [50_000] * 3
    assert (info.log_append_time_ms, [header.crc for header in info.batches]) == (50_000, [sent.crc])
    assert as_sent(batch, stored).crc == sent.crc, "by that the trace knows it, in whatever log"


def test_a_follower_keeps_what_the_leader_has_written(tmp_path):
    config = {"message_timestamp_type": BY_LEADER}
    leader, follower = (leader_of(LogHome(tmp_path / name, **config)) for name in ("b1", "b2"))
    sent = [batch_of(b"r1", b"r2"), batch_of(b"r3", compression="gzip")]
    crcs = [read_header(batch).crc for batch in sent]
    for place, batch in enumerate(sent):
        leader.append_as_leader(batch, 0, NOW_US + place * 1_000_000)
    data = content_of(leader.read(0, 1 << 20, leader.log_end_offset))
    info = follower.append_as_follower(memoryview(data), NOW_US + 9_000_000, 0)
    assert list(follower.headers()) == list(leader.headers())
    assert [header.max_timestamp for header in follower.headers()] == [50_000, 51_000]
    assert [header.crc for header in info.batches] == crcs
    assert info.log_append_time_ms == -1


def test_what_looks_for_a_time_finds_that_of_the_leader(tmp_path):
    log = leader_of(LogHome(tmp_path, message_timestamp_type=BY_LEADER, index_interval_bytes=0))
    for place in range(3):
        log.append_as_leader(batch_of(b"a", b"b", timestamp_ms=[1000, 2000]), 0, NOW_US + place * 1_000_000)
    assert log.offset_for_timestamp(2000) == (0, 50_000)
    assert log.offset_for_timestamp(50_001) == (2, 51_000)
    assert log.offset_for_timestamp(log.max_timestamp_ms) == (4, 52_000), "the first record of the newest batch"
    assert log.offset_for_timestamp(52_001) is None
    _, first = next(iter(log.raw_batches()))
    assert read_timestamps(first) == [(0, 50_000), (1, 50_000)]


@pytest.mark.parametrize(("kind", "is_kept"), [(BY_LEADER, True), ("CreateTime", False)])
def test_retention_goes_by_it(tmp_path, kind, is_kept):
    """Records of long ago, written just now."""
    log = leader_of(LogHome(tmp_path, message_timestamp_type=kind, retention_ms=10_000))
    log.append_as_leader(batch_of(b"r1", timestamp_ms=1000), 0, NOW_US)
    log.retire_old_segments(1, NOW_US + 5_000_000)
    assert log.log_start_offset == (0 if is_kept else 1)
    log.retire_old_segments(1, NOW_US + 20_000_000)
    assert log.log_start_offset == 1


def test_no_timestamp_of_a_producer_is_too_old_or_too_new(tmp_path):
    limits = {"message_timestamp_before_max_ms": 100, "message_timestamp_after_max_ms": 100}
    log = leader_of(LogHome(tmp_path, message_timestamp_type=BY_LEADER, **limits))
    log.append_as_leader(batch_of(b"r1", timestamp_ms=[10**13]), 0, NOW_US)
    log.append_as_leader(batch_of(b"r1", timestamp_ms=[0]), 0, NOW_US)
    assert [record.timestamp_ms for _, record in log.records()] == [50_000, 50_000]


def test_a_repeated_batch_is_answered_with_the_time_of_the_first(tmp_path):
    log = leader_of(LogHome(tmp_path, message_timestamp_type=BY_LEADER))
    numbers = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch_of(b"r1", **numbers), 0, NOW_US)
    again = log.append_as_leader(batch_of(b"r1", **numbers), 0, NOW_US + 1_000_000)
    assert (again.duplicate, again.log_append_time_ms) == (True, 50_000)


def test_a_producer_may_not_claim_the_leaders_time(tmp_path):
    """Each of its records is refused."""
    log = leader_of(LogHome(tmp_path, message_timestamp_type=BY_LEADER))
    batch = batch_of(b"r1", b"r2")
    stamped = LogHome(tmp_path / "other", message_timestamp_type=BY_LEADER).open()[0]
    stamped.append_as_leader(batch, 0, NOW_US)
    with pytest.raises(KafkaError) as refusal:
        log.append_as_leader(batch, 0, NOW_US)
    assert refusal.value.code is ErrorCode.INVALID_TIMESTAMP
    record_errors: Any = refusal.value.details["record_errors"]
    assert [place for place, _ in record_errors] == [0, 1]
    assert log.log_end_offset == 0
